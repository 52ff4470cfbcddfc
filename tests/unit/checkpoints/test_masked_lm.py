"""Test reading masked LMs: every layout gives the same tensors, every wrong file a clear error."""

import re

import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError, fingerprint, read_masked_lm
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

TENSORS = masked_lm_tensors()
WORDS = "sentence_encoder.embed_tokens.weight"
POSITIONS = "sentence_encoder.embed_positions.weight"


def old_norm_names(tensors):
    state = {}
    for name, tensor in huggingface_state(tensors).items():
        name = re.sub(r"(?i)(layer_?norm)\.weight$", r"\1.gamma", name)
        state[re.sub(r"(?i)(layer_?norm)\.bias$", r"\1.beta", name)] = tensor
    return state


def infoxlm(state):
    """Return the layout of InfoXLM's training files, with a momentum copy of the model."""
    fast = {f"model_fast.{name}": tensor for name, tensor in old_state(state).items()}
    slow = {f"model_slow.{name}": tensor + 1 for name, tensor in old_state(state).items()}
    queue = {"queue": torch.zeros(2, 8), "queue_ptr": torch.zeros(1), "enqueue_cnt": torch.zeros(1)}
    return {**fast, **slow, **queue}


def with_classification_head(state):
    head = {"classification_heads.nli.dense.weight": torch.zeros(8, 8)}
    head["encoder.sentence_encoder.embed_positions._float_tensor"] = torch.zeros(1)
    return {**state, **head}


def with_tied_copies(tensors):
    state = huggingface_state(tensors)
    copies = {"lm_head.decoder.weight": tensors[WORDS]}
    return {**state, **copies, "lm_head.decoder.bias": tensors["lm_head.bias"]}


def with_copies_alone(tensors):
    state = with_tied_copies(tensors)
    del state["roberta.embeddings.word_embeddings.weight"], state["lm_head.bias"]
    return state


def with_buffers_and_pooler(tensors):
    state = huggingface_state(tensors)
    state["roberta.embeddings.position_ids"] = torch.arange(12)[None]
    state["roberta.pooler.dense.weight"] = torch.zeros(8, 8)
    return state


FAIRSEQ_LAYOUTS = {
    "current": lambda state: state,
    "old": old_state,
    "old_without_output": lambda state: edited(old_state(state), without("lm_head.weight")),
    "no_prefix": lambda state: {name.replace("encoder.", "", 1): state[name] for name in state},
    "infoxlm_training": infoxlm,
    "float64": lambda state: {name: tensor.double() for name, tensor in state.items()},
    "classification_head": with_classification_head,
}
HUGGINGFACE_LAYOUTS = {
    "current": huggingface_state,
    "no_prefix": lambda tensors: huggingface_state(tensors, prefix=""),
    "old_norm_names": old_norm_names,
    "tied_copies": with_tied_copies,
    "only_the_copies": with_copies_alone,
    "buffers_and_pooler": with_buffers_and_pooler,
}


def assert_read(path, state):
    """Assert that the tensors are read, and every tensor of the file is reported once."""
    actual = read_masked_lm(path)
    assert actual.sizes == SIZES
    assert_same(actual.tensors, TENSORS)
    assert actual.fingerprint == fingerprint(TENSORS)
    assert sorted(actual.report.loaded + actual.report.dropped) == sorted(state)
    assert set(actual.report.reasons) == set(actual.report.dropped)
    assert not actual.checkpoint.tensors, "a second copy would stay in memory"


@pytest.mark.parametrize("layout", FAIRSEQ_LAYOUTS)
def test_every_layout_of_fairseq_is_read(tmp_path, layout):
    """Current files have their options under cfg. A folder of a release holds model.pt."""
    state = FAIRSEQ_LAYOUTS[layout](current_state(TENSORS))
    write_fairseq(tmp_path / "model.pt", state, as_cfg=layout == "current")
    assert_read(tmp_path / "model.pt", state)
    assert_read(tmp_path, state)


@pytest.mark.parametrize("layout", HUGGINGFACE_LAYOUTS)
def test_every_layout_of_hugging_face_is_read(tmp_path, layout):
    state = HUGGINGFACE_LAYOUTS[layout](TENSORS)
    for file, is_pickled in (("pytorch_model.bin", True), ("model.safetensors", False)):
        folder = write_huggingface(tmp_path / file, state, is_pickled)
        assert_read(folder, state)
        assert_read(folder / file, state)


@pytest.mark.cases("entries row", (17, 22), (18, 22), (19, None))
def test_the_last_row_is_the_masks_unless_the_dictionary_names_it(tmp_path, entries, row):
    (tmp_path / "dict.txt").write_text("".join(f"p{number} 1\n" for number in range(entries)))
    path = write_fairseq(tmp_path / "model.pt", current_state(TENSORS))
    assert read_masked_lm(path).mask_row == row


def test_the_token_type_is_added_to_the_positions(tmp_path):
    """A token type of zeros changes no bit, also not the sign of a zero."""
    state, token_type = huggingface_state(TENSORS), torch.randn(1, 8)
    state["roberta.embeddings.token_type_embeddings.weight"] = token_type
    actual = read_masked_lm(write_huggingface(tmp_path / "random", state))
    assert_same(actual.tensors, {**TENSORS, POSITIONS: TENSORS[POSITIONS] + token_type})
    positions = TENSORS[POSITIONS].clone()
    positions[3, 4] = -0.0
    tensors = {**TENSORS, POSITIONS: positions}
    zero = read_masked_lm(write_huggingface(tmp_path / "zero", huggingface_state(tensors)))
    assert zero.fingerprint == fingerprint(tensors)


def test_heads_are_read_or_given(tmp_path):
    state = current_state(TENSORS)
    path = write_fairseq(tmp_path / "model.pt", state)
    assert read_masked_lm(path, heads=4).sizes["heads"] == 2
    write_fairseq(path, state, encoder_attention_heads=None)
    assert read_masked_lm(path, heads=4).sizes["heads"] == 4
    with pytest.raises(CheckpointError, match=r"model\.pt: .*attention heads.*heads="):
        read_masked_lm(path)
    with pytest.raises(CheckpointError, match="heads = 3, expected a divisor of the width 8"):
        read_masked_lm(path, heads=3)


PREFIX = "encoder.sentence_encoder."
FC1 = f"{PREFIX}layers.7.fc1.weight"


@pytest.mark.cases(
    "edit message",
    (put(f"{PREFIX}layer_norm.weight", 8), "is a pre-norm model"),
    (put("decoder.layers.0.encoder_attn.q_proj.weight", 8, 8), "is an encoder-decoder"),
    (put("encoder.lm_head.weight", 23, 8), "expected them to be tied"),
    (put("encoder.lm_head.bias.old", 2), r"encoder\.lm_head\.bias\.old \(2,\)"),
    (without(".layers.5."), r"layers \[.*4, 6.*\] are not 0 to 10"),
    (put(FC1, 13, 8), r"layers\.7\.fc1\.weight \(13, 8\) instead of \(12, 8\)"),
    (lambda s: s.update({FC1: s[FC1].to(torch.int8)}), f"not floating-point: {FC1}"),
    (without("embed_positions"), "embed_positions.weight"),
    (lambda s: s.update({"encoder.lm_head.bias": [1.0]}), "of type list, expected a tensor"),
)
def test_wrong_tensors_of_fairseq_are_refused(tmp_path, edit, message):
    file = write_fairseq(tmp_path / "model.pt", edited(current_state(TENSORS), edit))
    with pytest.raises(CheckpointError, match=rf"model\.pt: .*{message}"):
        read_masked_lm(file)


@pytest.mark.cases(
    "edit message",
    (put("roberta.embeddings.token_type_embeddings.weight", 2, 8), r"\(2, 8\), expected \(1, 8\)"),
    (put("lm_head.decoder.bias", 23), "expected them to be tied"),
)
def test_wrong_tensors_of_hugging_face_are_refused(tmp_path, edit, message):
    folder = write_huggingface(tmp_path / "hf", edited(huggingface_state(TENSORS), edit))
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: .*{message}"):
        read_masked_lm(folder)


def test_wrong_options_are_refused(tmp_path):
    for write, state, options, message in (
        (write_fairseq, current_state, {"encoder_layers": 6}, "layers = 6, its tensors 12"),
        (write_fairseq, current_state, {"encoder_normalize_before": True}, "_before = True"),
        (write_huggingface, huggingface_state, {"hidden_act": "gelu_new"}, "hidden_act = 'gelu_n"),
        (write_huggingface, huggingface_state, {"layer_norm_eps": 2}, "layer_norm_eps = 2, exp"),
        (write_fairseq, current_state, {"layer_norm_epsilon": 0}, "layer_norm_epsilon = 0, exp"),
        (write_huggingface, huggingface_state, {"is_decoder": True}, "is_decoder = True"),
        (write_huggingface, huggingface_state, {"pad_token_id": "one"}, "pad_token_id = 'one'"),
        (write_huggingface, huggingface_state, {"num_attention_heads": None}, "no num_att.*heads="),
    ):
        path = write(tmp_path / write.__name__, state(TENSORS), **options)
        with pytest.raises(CheckpointError, match=rf"{path}.*{message}"):
            read_masked_lm(path)


def test_wrong_folders_are_refused(tmp_path):
    def assert_refused(path, message):
        with pytest.raises(CheckpointError, match=message):
            read_masked_lm(path)

    assert_refused(tmp_path, "has no weights; expected one of model.safetensors, pytorch_model.bin")
    assert_refused(tmp_path / "absent.pt", r"absent\.pt: no such file")
    torch.save({"weights": {}}, tmp_path / "deltalm.pt")
    assert_refused(tmp_path / "deltalm.pt", "is a DeltaLM file")
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    assert_refused(tmp_path, "split over several files")
    folder = write_huggingface(tmp_path / "hf", huggingface_state(TENSORS))
    torch.save({"weights": {}}, folder / "model.pt")
    assert_refused(folder, r"model\.safetensors and model\.pt; name the file")
    (folder / "model.pt").unlink()
    (folder / "config.json").write_text("{")
    assert_refused(folder, r"config\.json: is no readable JSON")
    (folder / "config.json").write_text("[]")
    assert_refused(folder, r"config\.json: .*found list")
    (folder / "config.json").unlink()
    assert_refused(folder, r"has no config\.json")
