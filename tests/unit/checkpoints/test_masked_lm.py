"""read_masked_lm: every layout gives the same tensors, sizes and fingerprint; every wrong file a clear error."""

import re
from importlib import import_module
from pathlib import Path

import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError, encoders, fingerprint, masked_lm, read_masked_lm
from fairseq_plugins.checkpoints.opening import KINDS
from tests.tree import closure
from tests.unit.checkpoints.builders import (
    SIZES,
    assert_same,
    current_state,
    edited,
    huggingface_state,
    masked_lm_tensors,
    old_state,
    put,
    without,
    write_fairseq,
    write_huggingface,
)

ROOT = Path(__file__).parents[3]
TENSORS = masked_lm_tensors()
WORDS = "sentence_encoder.embed_tokens.weight"
POSITIONS = "sentence_encoder.embed_positions.weight"


def _old_norm_names(state):
    old = {re.sub(r"(?i)(layer_?norm)\.weight$", r"\1.gamma", name): tensor for name, tensor in state.items()}
    return {re.sub(r"(?i)(layer_?norm)\.bias$", r"\1.beta", name): tensor for name, tensor in old.items()}


def _infoxlm(state):
    fast = {f"model_fast.{name}": tensor for name, tensor in state.items()}
    slow = {f"model_slow.{name}": tensor + 1 for name, tensor in state.items()}
    return {**fast, **slow, "queue": torch.zeros(2, 8), "queue_ptr": torch.zeros(1), "enqueue_cnt": torch.zeros(1)}


FAIRSEQ_LAYOUTS = {
    "current": lambda state: state,
    "old": old_state,
    "old_without_output": lambda state: edited(old_state(state), lambda s: s.pop("decoder.lm_head.weight")),
    "no_prefix": lambda state: {name.replace("encoder.", "", 1): tensor for name, tensor in state.items()},
    "infoxlm_training": lambda state: _infoxlm(old_state(state)),
    "float64": lambda state: {name: tensor.double() for name, tensor in state.items()},
    "classification_head": lambda state: {
        **state,
        "classification_heads.nli.dense.weight": torch.zeros(8, 8),
        "encoder.sentence_encoder.embed_positions._float_tensor": torch.zeros(1),
    },
}
HUGGINGFACE_LAYOUTS = {
    "current": huggingface_state,
    "no_prefix": lambda tensors: huggingface_state(tensors, prefix=""),
    "old_norm_names": lambda tensors: _old_norm_names(huggingface_state(tensors)),
    "tied_copies": lambda tensors: {
        **huggingface_state(tensors),
        "lm_head.decoder.weight": tensors[WORDS],
        "lm_head.decoder.bias": tensors["lm_head.bias"],
    },
    "only_the_copies": lambda tensors: edited(
        {**huggingface_state(tensors), "lm_head.decoder.weight": tensors[WORDS]},
        lambda s: (
            s.update({"lm_head.decoder.bias": s.pop("lm_head.bias")})
            or s.pop("roberta.embeddings.word_embeddings.weight")
        ),
    ),
    "buffers_and_pooler": lambda tensors: {
        **huggingface_state(tensors),
        "roberta.embeddings.position_ids": torch.arange(12)[None],
        "roberta.pooler.dense.weight": torch.zeros(8, 8),
    },
}


def _check(path, source):
    actual = read_masked_lm(path)
    assert actual.sizes == SIZES
    assert_same(actual.tensors, TENSORS)
    assert actual.fingerprint == fingerprint(TENSORS)
    assert sorted(actual.report.loaded + actual.report.dropped) == sorted(source)  # every tensor of the file, once
    assert set(actual.report.reasons) == set(actual.report.dropped)


@pytest.mark.parametrize("as_cfg", [False, True])
@pytest.mark.parametrize("layout", list(FAIRSEQ_LAYOUTS))
def test_fairseq_layouts(tmp_path, layout, as_cfg):
    state = FAIRSEQ_LAYOUTS[layout](current_state(TENSORS))
    file = write_fairseq(tmp_path / "model.pt", state, as_cfg)
    _check(file, state)
    assert read_masked_lm(tmp_path).sizes == SIZES  # the folder of a release: model.pt, dict.txt


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("layout", list(HUGGINGFACE_LAYOUTS))
def test_huggingface_layouts(tmp_path, layout, pickled):
    state = HUGGINGFACE_LAYOUTS[layout](TENSORS)
    folder = write_huggingface(tmp_path / "hf", state, pickled)
    _check(folder, state)
    _check(folder / ("pytorch_model.bin" if pickled else "model.safetensors"), state)


@pytest.mark.cases("named row", (17, 22), (18, 22), (19, None))
def test_the_last_row_is_that_of_mask_unless_something_else_is(tmp_path, named, row):
    """By a dict.txt of so many entries, special ones not counted."""
    (tmp_path / "dict.txt").write_text("".join(f"p{number} 1\n" for number in range(named)))
    assert read_masked_lm(write_fairseq(tmp_path / "model.pt", current_state(TENSORS))).mask_row == row


def test_half_precision_becomes_float32_and_is_not_kept(tmp_path):
    half = {name: tensor.half() for name, tensor in current_state(TENSORS).items()}
    actual = read_masked_lm(write_fairseq(tmp_path / "model.pt", half))
    assert not actual.checkpoint.tensors and set(actual.checkpoint.entries) == {"args"}
    assert_same(actual.tensors, {name: tensor.half().float() for name, tensor in TENSORS.items()})


def test_token_type_is_added_to_the_positions(tmp_path):
    state = huggingface_state(TENSORS)
    state["roberta.embeddings.token_type_embeddings.weight"] = torch.randn(1, 8)
    actual = read_masked_lm(write_huggingface(tmp_path / "hf", state))
    expected = TENSORS[POSITIONS] + state["roberta.embeddings.token_type_embeddings.weight"]
    assert_same(actual.tensors, {**TENSORS, POSITIONS: expected})


def test_a_zero_token_type_changes_no_bit(tmp_path):
    positions = TENSORS[POSITIONS].clone()
    positions[3, 4] = -0.0
    tensors = {**TENSORS, POSITIONS: positions}
    actual = read_masked_lm(write_huggingface(tmp_path / "hf", huggingface_state(tensors)))
    assert actual.fingerprint == fingerprint(tensors)


def test_heads(tmp_path):
    silent = write_fairseq(tmp_path / "silent.pt", current_state(TENSORS), encoder_attention_heads=None)
    with pytest.raises(CheckpointError, match=r"silent\.pt: does not tell the number of attention heads.*give heads="):
        read_masked_lm(silent)
    assert read_masked_lm(silent, heads=4).sizes["heads"] == 4
    with pytest.raises(CheckpointError, match="heads = 3, expected a divisor of the width 8"):
        read_masked_lm(silent, heads=3)
    telling = write_fairseq(tmp_path / "telling.pt", current_state(TENSORS))
    assert read_masked_lm(telling, heads=4).sizes["heads"] == 2


PRE, LAYERS = "encoder.sentence_encoder.", "encoder.sentence_encoder.layers."


def nothing(state):
    """No edit."""


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (put(PRE + "layer_norm.weight", 8), {}, "is a pre-norm model"),
        (nothing, {"encoder_normalize_before": True}, "encoder_normalize_before = True, expected False"),
        (put("decoder.layers.0.encoder_attn.q_proj.weight", 8, 8), {}, "is an encoder-decoder or language model"),
        (put("encoder.lm_head.weight", 23, 8), {}, "expected them to be tied"),
        (put("adapter.weight", 3), {}, r"unknown tensors adapter\.weight \(3,\)"),
        (put("encoder.lm_head.bias.old", 2), {}, r"unknown tensors encoder\.lm_head\.bias\.old \(2,\)"),
        (without(".layers.5."), {}, r"sentence_encoder layers \[.*4, 6.*\] are not 0 to 10"),
        (
            put(LAYERS + "7.fc1.weight", 13, 8),
            {},
            r"wrong shapes: .*layers\.7\.fc1\.weight \(13, 8\) instead of \(12, 8\)",
        ),
        (put(LAYERS + "0.self_attn.in_proj_bias", 10), {}, r"shape \(10,\); its rows must be a multiple of 3"),
        (
            lambda s: s.update({LAYERS + "0.fc1.weight": torch.ones(12, 8, dtype=torch.int8)}),
            {},
            r"not floating-point: encoder\.sentence_encoder\.layers\.0\.fc1\.weight",
        ),
        (without("embed_positions"), {}, "has no matrix for .*embed_positions.weight"),
        (nothing, {"encoder_layers": 6}, "options say layers = 6, its tensors 12"),
        (lambda s: s.update({"encoder.lm_head.bias": [1.0]}), {}, "is of type list, expected a tensor"),
    ],
)
def test_wrong_fairseq_files(tmp_path, change, options, message):
    file = write_fairseq(tmp_path / "model.pt", edited(current_state(TENSORS), change), **options)
    with pytest.raises(CheckpointError, match=rf"model\.pt: .*{message}"):
        read_masked_lm(file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "gelu_new"}, "hidden_act = 'gelu_new', expected 'gelu'"),
        ({"layer_norm_eps": None}, r"layer_norm_eps = 1e-12 \(the default when the entry is missing\)"),
        ({"is_decoder": True}, "is_decoder = True, expected false"),
        ({"pad_token_id": "one"}, "pad_token_id = 'one', expected 1"),
        ({"num_attention_heads": None}, r"no num_attention_heads.*give heads="),
    ],
)
def test_wrong_configurations(tmp_path, changes, message):
    folder = write_huggingface(tmp_path / "hf", huggingface_state(TENSORS), **changes)
    with pytest.raises(CheckpointError, match=rf"checkpoint .*hf.*{message}"):
        read_masked_lm(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("roberta.embeddings.token_type_embeddings.weight", 2, 8), r"has shape \(2, 8\), expected one row"),
        (put("lm_head.decoder.bias", 23), "expected them to be tied"),
        (put("roberta.adapter.bias", 3), r"unknown tensors roberta\.adapter"),
    ],
)
def test_wrong_huggingface_tensors(tmp_path, change, message):
    folder = write_huggingface(tmp_path / "hf", edited(huggingface_state(TENSORS), change))
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: .*{message}"):
        read_masked_lm(folder)


def test_wrong_folders_and_files(tmp_path):
    def refused(path, message):
        with pytest.raises(CheckpointError, match=message):
            read_masked_lm(path)

    refused(tmp_path, "has no weights; expected one of model.safetensors, pytorch_model.bin, model.pt")
    refused(tmp_path / "absent.pt", r"absent\.pt: no such file")
    torch.save({"weights": {}}, tmp_path / "deltalm.pt")
    refused(tmp_path / "deltalm.pt", "is a DeltaLM file.*expected a masked LM")
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    refused(tmp_path, "split over several files")
    folder = write_huggingface(tmp_path / "hf", huggingface_state(TENSORS))
    (folder / "model.pt").write_bytes((tmp_path / "deltalm.pt").read_bytes())
    refused(folder, r"holds model\.safetensors and model\.pt; name the file")
    (folder / "model.pt").unlink()
    for text, message in (("{", r"config\.json: is no readable JSON"), ("[]", "expected a JSON object, found list")):
        (folder / "config.json").write_text(text)
        refused(folder, message)
    (folder / "config.json").unlink()
    refused(folder, r"has no config\.json")


def test_a_reader_of_masked_lms_imports_no_other_family():
    files = closure(ROOT, "fairseq_plugins/checkpoints/masked_lm.py")
    names = {Path(file).stem for file in files}
    assert "pretrained" in names and not names & {"bart", "veco", "gpt", "encoders", "tokenizers", "fitting"}


@pytest.mark.parametrize("table", [masked_lm.CONVERTERS, encoders.CONVERTERS])
def test_every_named_converter_is_there(table):
    for kind, target in table.items():
        module, function = target.split(":")
        assert kind in KINDS and callable(getattr(import_module(module, masked_lm.__package__), function))
