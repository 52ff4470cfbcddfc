"""Test options that a checkpoint brings: literals and local paths, whatever reads them."""

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


@pytest.mark.cases(
    "text value",
    ("[(512, 3)] * 2 + [(1024, 3)]", [(512, 3), (512, 3), (1024, 3)]),
    ("2*[1]", [1, 1]),
    ("(0.9, 0.98)", (0.9, 0.98)),
    ("1e-4,-2", (1e-4, -2)),
    ("{'name': 'linformer', 'k': None}", {"name": "linformer", "k": None}),
    (" True", True),
    ("('a', b'b', {1})", ("a", b"b", {1})),
)
def test_literals_have_their_values(text, value):
    assert literal(text) == value


CALCULATIONS = """
    x; ().__class__; f'{1}'; lambda: 1; [i for i in (1,)]; (1)[0]; [*(1, 2)]; {**{}}; 1 if 1 else 2;
    9**9**9; [0] * 10**9; [[0] * 1000] * 1000; 'a' * 10**9; 1e308 * 10; 2**64 * 2**64; -'a'; 1/0;
    [1] * -1 * 10**6; a=1
""".split(";")
LONG = ["[" * 3000, "-" * 9000 + "1", "1," * 9000, "[" * 300 + "]" * 300]


@pytest.mark.parametrize("text", [CODE, *CALCULATIONS, *LONG, "", "1; 2", "\0"])
def test_other_expressions_are_refused(text):
    with pytest.raises(ValueError, match="literal|characters"):
        literal(text)


def evaluated_in_fairseq():
    """Yield each text that fairseq passes to eval: module, and last name of the expression.

    The module is empty where a function such as eval_str_list stands between.
    """
    evaluating = ("eval_bool", "eval_str_list", "eval_str_dict")
    root = Path(fairseq.__file__).parent
    for file in sorted(root.rglob("*.py")):
        module = ".".join(("fairseq", *file.relative_to(root).with_suffix("").parts))
        text = file.read_text(encoding="utf-8")
        foreign = module.startswith(("fairseq.examples", "fairseq.model_parallel.megatron"))
        if foreign or "eval" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and node.args:
                is_direct = isinstance(node.func, ast.Name) and node.func.id == "eval"
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if is_direct or name in evaluating:
                    argument = getattr(node.args[0], "attr", ast.unparse(node.args[0]))
                    yield module if is_direct else "", argument


def test_every_option_that_fairseq_evaluates_is_checked():
    actual = list(evaluated_in_fairseq())
    assert len(actual) > 30
    # Parameters of the functions themselves, lines of a data file, and an option in a dictionary.
    arguments = {"x", "uf", "line.strip()", "mask_compute_kwargs['conv_feature_layers']"}
    assert {name for _, name in actual} - arguments <= EVALUATED
    for module in {module for module, _ in actual if module}:
        assert vars(sys.modules[module])["eval"] is not eval


def test_fairseq_itself_evaluates_no_code(tmp_path):
    """Test the second barrier: options that reach fairseq's eval without a file."""
    code = f"__import__('pathlib').Path({str(tmp_path / 'ran')!r}).touch()"
    for function in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool):
        with pytest.raises(ValueError, match="is no literal"):
            function(code)
    args = argparse.Namespace(encoder_embed_path=None, decoder_embed_path=None, dropout=0.0)
    vars(args).update(encoder_layers=code, encoder_embed_dim=4, max_source_positions=8)
    symbols = fairseq.data.Dictionary()
    task = argparse.Namespace(source_dictionary=symbols, target_dictionary=None)
    with pytest.raises(ValueError, match="is no literal"):
        FConvModel.build_model(args, task)
    assert not (tmp_path / "ran").exists()
    assert utils.eval_str_list("[1]*2", int) == [1, 1]
    assert [utils.eval_bool(value) for value in ("True", True, "0")] == [True, False, False]


def checkpoint(**entries):
    history = [{"optimizer_name": "x", "lr_scheduler_state": {}, "num_updates": 1}]
    extra = {"train_iterator": {"epoch": 1}}
    return {"model": {}, "optimizer_history": history, "extra_state": extra, **entries}


FETCHED = "bpe_codes sentencepiece_model gpt2_vocab_bpe bpe_merges bpe_vocab_file".split()
REFUSED = [
    *((name, CODE) for name in sorted(EVALUATED)),
    *((name, ADDRESS) for name in FETCHED),
    *(("sentencepiece_model", value) for value in ("S3://b/x", " ht\ntp://x/y", "${model.data}")),
    *(("adaptive_softmax_cutoff", value) for value in ("${x.data}", ["1", CODE], CODE.encode())),
]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_code_and_addresses_in_options_are_refused(tmp_path, name, value):
    """Find options in a namespace and in nested dictionaries, in both formats of torch.save."""
    path, options = str(tmp_path / "model.pt"), argparse.Namespace(**{name: value, "data": ADDRESS})
    stock = (checkpoint_utils.load_checkpoint_to_cpu, checkpoint_utils.load_ema_from_checkpoint)
    legacy = checkpoint(args=options)
    cfgs = ({"model": options}, {"model": {"encoder": vars(options)}})
    for content in (legacy, *(checkpoint(cfg=cfg) for cfg in cfgs)):
        torch.save(content, path, _use_new_zipfile_serialization=content is not legacy)
        for reader in (read_checkpoint, *stock):
            with pytest.raises(CheckpointError, match=rf"model\.pt.*option (args|cfg)\..*{name}"):
                reader(path)


def test_options_that_runs_store_are_accepted(tmp_path):
    """Accept lists of layers, fairseq's own addresses, and addresses that nothing fetches."""
    path = str(tmp_path / "model.pt")
    model = argparse.Namespace(encoder_layers="[(512, 3)] * 4", decoder_attention="True")
    vars(model).update(save_dir="exp(1)", adaptive_softmax_cutoff="10,20")
    bpe = {"_name": "gpt2", "gpt2_encoder_json": STOCK_ADDRESSES[0], "bpe_codes": "/a/codes"}
    bpe["gpt2_vocab_bpe"] = STOCK_ADDRESSES[1]
    cfg = {
        "model": model,
        "bpe": bpe,
        "distributed_training": {"distributed_init_method": "tcp://localhost:1"},
        "optimizer": {"adam_betas": "(0.9, 0.98)", "pipeline_balance": None},
        "common": {"wandb_project": "f(x)", "tensorboard_logdir": "s3://bucket/logs"},
    }
    torch.save(checkpoint(cfg=cfg), path)
    assert read_checkpoint(path)["cfg"]["bpe"] == bpe
    assert checkpoint_utils.load_checkpoint_to_cpu(path)["cfg"].model == model


def test_an_address_that_the_user_types_is_accepted(tmp_path):
    cfg = {"bpe": {"_name": "subword_nmt", "bpe_codes": "codes"}, "model": {"_name": "x"}}
    torch.save(checkpoint(cfg=cfg), tmp_path / "model.pt")
    overrides = {"bpe_codes": ADDRESS}
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "model.pt"), overrides)
    assert state["cfg"].bpe.bpe_codes == ADDRESS
