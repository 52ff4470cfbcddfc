"""Options that a checkpoint brings: literals and local paths, whatever reads them."""

import argparse
import ast
import sys
from pathlib import Path

import fairseq
import pytest
import torch
from fairseq import checkpoint_utils, utils
from fairseq.models.fconv import FConvModel

from fairseq_plugins.checkpoints import CheckpointError, read_checkpoint
from fairseq_plugins.checkpoints.metadata import EVALUATED, STOCK_ADDRESSES, literal

CODE = "[__import__('os').getpid()]"
ADDRESS = "https://example.org/codes"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[(512, 3)] * 2 + [(1024, 3)]", [(512, 3), (512, 3), (1024, 3)]),
        ("2*[1]", [1, 1]),
        ("(0.9, 0.98)", (0.9, 0.98)),
        ("1e-4,-2", (1e-4, -2)),
        ("{'name': 'linformer', 'k': None}", {"name": "linformer", "k": None}),
        (" True", True),
        ("('a', b'b', {1})", ("a", b"b", {1})),
    ],
)
def test_literals(text, value):
    assert literal(text) == value


NO_LITERALS = """
    x; ().__class__; f'{1}'; lambda: 1; [i for i in (1,)]; (1)[0]; [*(1, 2)]; {**{}}; 1 if 1 else 2; 9**9**9; [0] * 10**9;
    [[0] * 1000] * 1000; 'a' * 10**9; 1e308 * 10; 2**64 * 2**64; -'a'; 1/0; [1] * -1 * 10**6; a=1
""".split(";")
LONG = ["[" * 3000, "-" * 9000 + "1", "1," * 9000, "[" * 300 + "]" * 300]


@pytest.mark.parametrize("text", [CODE, *NO_LITERALS, *LONG, "", "1; 2", "\0"])
def test_everything_else_is_refused(text):
    with pytest.raises(ValueError, match="literal|characters"):
        literal(text)


def _evaluated_in_fairseq():
    """Each text that fairseq passes to eval, directly or by eval_str_list and the like: module, last name of the expression."""
    root = Path(fairseq.__file__).parent
    for file in sorted(root.rglob("*.py")):
        module = ".".join(("fairseq", *file.relative_to(root).with_suffix("").parts))
        text = file.read_text(encoding="utf-8")
        if module.startswith(("fairseq.examples", "fairseq.model_parallel.megatron")) or "eval" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and node.args:
                direct = isinstance(node.func, ast.Name) and node.func.id == "eval"
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if direct or name in ("eval_bool", "eval_str_list", "eval_str_dict"):
                    yield module if direct else "", getattr(node.args[0], "attr", ast.unparse(node.args[0]))


def test_every_place_where_fairseq_evaluates_is_covered():
    actual = list(_evaluated_in_fairseq())
    assert len(actual) > 30
    passed_on = {"x", "uf", "line.strip()"}  # parameters of the functions themselves, and lines of a data file
    passed_on.add("mask_compute_kwargs['conv_feature_layers']")  # 0.12.2: the option of this name
    assert {name for _, name in actual} - passed_on <= EVALUATED
    for module in {
        module for module, _ in actual if module
    }:  # and whatever way a text takes, it meets no eval of Python's
        assert vars(sys.modules[module])["eval"] is not eval


def test_fairseq_itself_evaluates_no_code(tmp_path):
    """The second barrier by itself: what reaches fairseq's eval without having been looked at in a file."""
    touch = f"__import__('pathlib').Path({str(tmp_path / 'ran')!r}).touch()"
    for function in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool):
        with pytest.raises(ValueError, match="is no literal"):
            function(touch)
    args = argparse.Namespace(encoder_embed_path=None, decoder_embed_path=None, encoder_layers=touch, dropout=0.0)
    args.encoder_embed_dim, args.max_source_positions = 4, 8
    task = argparse.Namespace(source_dictionary=fairseq.data.Dictionary(), target_dictionary=None)
    with pytest.raises(ValueError, match="is no literal"):
        FConvModel.build_model(args, task)
    assert not (tmp_path / "ran").exists()
    assert utils.eval_str_list("[1]*2", int) == [1, 1]
    assert (utils.eval_bool("True"), utils.eval_bool(True, default=False), utils.eval_bool("0")) == (True, False, False)


def _state(owner, **more):
    history = [{"optimizer_name": "x", "lr_scheduler_state": {}, "num_updates": 1}]
    return {"model": {}, "optimizer_history": history, "extra_state": {"train_iterator": {"epoch": 1}}, **owner, **more}


FETCHED = ("bpe_codes", "sentencepiece_model", "gpt2_vocab_bpe", "bpe_merges", "bpe_vocab_file")
BAD = [
    *((name, CODE) for name in sorted(EVALUATED)),
    *((name, ADDRESS) for name in FETCHED),
    *(("sentencepiece_model", value) for value in ("S3://bucket/x", " ht\ntp://x/y", "${model.data}")),
    *(("adaptive_softmax_cutoff", value) for value in ("${model.data}", ["1", CODE], CODE.encode())),
]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(("name", "value"), BAD)
def test_code_and_addresses_are_refused_by_name(tmp_path, name, value, zipped):
    options = argparse.Namespace(**{name: value, "data": ADDRESS})
    owners = ({"args": options}, {"cfg": {"model": options}}, {"cfg": {"model": {"encoder": vars(options)}}})
    for owner in owners[: 3 if zipped else 1]:
        torch.save(_state(owner), tmp_path / "model.pt", _use_new_zipfile_serialization=zipped)
        fairseq_reads = (checkpoint_utils.load_checkpoint_to_cpu, checkpoint_utils.load_ema_from_checkpoint)
        for read in (read_checkpoint, *fairseq_reads):
            with pytest.raises(CheckpointError, match=rf"model\.pt.*stored option (args|cfg)\..*{name}"):
                read(str(tmp_path / "model.pt"))


def test_what_runs_store_is_read(tmp_path):
    """Layer lists, truth values as text, fairseq's own addresses, addresses that nothing fetches, text that looks like code."""
    model = argparse.Namespace(encoder_layers="[(512, 3)] * 4", decoder_attention="True", save_dir="exp(1)")
    model.adaptive_softmax_cutoff = "10,20"
    bpe = {"_name": "gpt2", "gpt2_encoder_json": STOCK_ADDRESSES[0], "gpt2_vocab_bpe": STOCK_ADDRESSES[1]}
    bpe["bpe_codes"] = "/a/codes"
    distributed = {"distributed_init_method": "tcp://localhost:1", "pipeline_balance": None}
    cfg = {"model": model, "bpe": bpe, "distributed_training": distributed, "optimizer": {"adam_betas": "(0.9, 0.98)"}}
    cfg["common"] = {"wandb_project": "f(x)", "tensorboard_logdir": "s3://bucket/logs"}
    torch.save(_state({"cfg": cfg}), tmp_path / "model.pt")
    assert read_checkpoint(tmp_path / "model.pt")["cfg"]["bpe"] == bpe
    assert checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "model.pt"))["cfg"].model == model


def test_what_the_user_types_is_the_users_own(tmp_path):
    cfg = {"bpe": {"_name": "subword_nmt", "bpe_codes": "codes"}, "model": {"_name": "x"}}
    torch.save(_state({"cfg": cfg}), tmp_path / "model.pt")
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "model.pt"), arg_overrides={"bpe_codes": ADDRESS})
    assert state["cfg"].bpe.bpe_codes == ADDRESS
