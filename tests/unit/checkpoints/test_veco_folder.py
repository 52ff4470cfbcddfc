"""Test a VECO's Hugging Face folder as a state for generation, and tied tensors in files."""

import json
import zipfile
from argparse import Namespace

import pytest
import safetensors.torch
import torch
from fairseq import checkpoint_utils, models
from omegaconf import OmegaConf

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import CheckpointError, average, read_checkpoint, read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.export import export_checkpoint, import_checkpoint
from fairseq_plugins.checkpoints.veco import read_veco_folder
from tests import nlu_builders, veco_builders
from tests.unit.checkpoints.builders import (
    SIZES,
    edit_checkpoint,
    edited,
    masked_lm_tensors,
    put,
    without,
)
from tests.veco_builders import CROSS, WORDS

LAYERS = SIZES["layers"]
LAST_KEY = "layer.11.cross_attention.self.key.bias"
FIRST_NORM = "roberta.encoder.layer.0.cross_attention.output.LayerNorm.gamma"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return veco_builders.write_folder(tmp_path_factory.mktemp("veco") / "folder")


@pytest.fixture(scope="module")
def veco(folder):
    return read_veco_folder(folder)


def count_bytes(state):
    """Count the bytes of a state; tensors that share memory count once."""
    storages = (tensor.untyped_storage() for tensor in state.values())
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def count_records(file):
    """Count the pieces of memory in a file."""
    return sum("/data/" in name for name in zipfile.ZipFile(file).namelist())


def assert_tied(state, layers):
    """Assert that both sides and the output share memory, but not the cross-attention."""
    pointers = {name: tensor.data_ptr() for name, tensor in state.items()}
    assert len({pointers[f"{name}.weight"] for name in WORDS}) == 1
    cross = [name for name in state if "encoder_attn" in name]
    unshared = (*cross, "decoder.version", "decoder.output_projection.weight")
    shared = [name for name in state if name.startswith("decoder.") and name not in unshared]
    assert len(shared) == 16 * layers + 4
    for name in shared:
        assert pointers[name] == pointers[name.replace("decoder.", "encoder.", 1)], name
    encoder = [name for name in state if name.startswith("encoder.")]
    assert len({pointers[name] for name in (*encoder, *cross)}) == len(encoder) + len(cross)


# ---- The folder as a state. ----


def test_every_tensor_of_the_folder_has_its_place(veco):
    state, tensors = veco_builders.folder_state(), veco.tensors
    for layer in range(LAYERS):
        for theirs, ours in CROSS.items():
            source = f"roberta.encoder.layer.{layer}.{theirs}"
            name = f"decoder.layers.{layer}.{ours}"
            assert torch.equal(tensors[name], state[source]), name
            assert veco.sources[name] == source
    for name, expected in masked_lm_tensors().items():
        for side in ("encoder", "decoder"):
            assert torch.equal(tensors[name.replace("sentence_encoder", side)], expected), name
    assert len(tensors) == 2 * (16 * LAYERS + 4) + 10 * LAYERS + 1 + 6
    assert_tied(tensors, LAYERS)
    assert veco.sizes == {size: SIZES[size] for size in SIZES if size != "epsilon"}
    assert set(veco.report.loaded) | set(veco.report.dropped) == set(state)
    assert "roberta.embeddings.token_type_embeddings.weight" in veco.report.loaded
    assert not any("cross_attention" in name for name in veco.report.dropped)


def test_the_command_writes_a_checkpoint_that_fairseq_loads(folder, veco, tmp_path):
    file, rows = tmp_path / "veco.pt", SIZES["vocab_size"]
    assert main(["import", str(folder), str(file)]) == 0
    content = checkpoint_utils.load_checkpoint_to_cpu(str(file))
    state = content["model"]
    assert content["optimizer_history"][-1]["num_updates"] == 0
    start = {"epoch": 1, "iterations_in_epoch": 0, "version": 2}
    assert content["extra_state"]["train_iterator"] == start
    assert count_bytes(state) == count_bytes(veco.tensors) + 8
    assert state["lm_head.mask_row"].shape == (rows - 1, 0)
    pointers = {tensor.data_ptr() for tensor in state.values()}
    assert count_records(file) == len(pointers) < len(state)
    options = OmegaConf.to_container(content["cfg"]["model"])
    assert options["share_all_embeddings"] and options["share_decoder_input_output_embed"]
    task = nlu_builders.task_of([f"p{number}" for number in range(rows - 4)])
    model = models.build_model(Namespace(**{**options, "_name": "transformer"}), task)
    model.load_state_dict(edited(state, without("lm_head.")), strict=True)
    layout = read_encoder(file).layout
    assert layout == read_encoder(folder).layout and not layout.scale_embedding
    assert read_masked_lm(file).fingerprint == read_masked_lm(folder).fingerprint


@pytest.mark.cases(
    "edit config message",
    (without("cross_attention"), {}, "has no cross_attention"),
    (without(LAST_KEY), {}, r"missing .* decoder\.layers\.11\.encoder_attn\.k_proj"),
    (without("lm_head.bias"), {}, r"missing tensors: lm_head\.bias"),
    (put(FIRST_NORM, 3), {}, r"layer_norm\.weight \(3,\) instead"),
    (without("nothing"), {"num_attention_heads": None}, "number of attention heads"),
)
def test_an_incomplete_veco_is_refused(tmp_path, capsys, edit, config, message):
    state = edited(veco_builders.folder_state(), edit)
    path = veco_builders.write_folder(tmp_path / "x", state, **config)
    with pytest.raises(CheckpointError, match=message):
        read_veco_folder(path)
    with pytest.raises(SystemExit):
        main(["import", str(path), str(tmp_path / "y.pt")])
    assert "checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "y.pt").exists()


# ---- Averages and exports of tied tensors. ----


def write_pretrained(path, seed):
    """Write a checkpoint of the pre-training with random weights; return its state."""
    model = veco_builders.stock(scaled=False)
    nlu_builders.randomise(model, seed)
    veco_builders.pretrained(path, model)
    return veco_builders.pretrained_state(model)


def test_an_average_stays_tied(tmp_path):
    files, output = [tmp_path / f"{seed}.pt" for seed in (1, 2, 3)], tmp_path / "average.pt"
    states = [write_pretrained(file, seed) for seed, file in enumerate(files)]
    average.write_average(files, output)
    actual = read_checkpoint(output)["model"]
    assert list(actual) == list(states[0])
    for name, tensor in actual.items():
        expected = torch.stack([state[name].double() for state in states]).mean(0).float()
        assert torch.equal(tensor, expected), name
    assert_tied(actual, nlu_builders.LAYERS)
    assert count_records(output) == count_records(files[0])
    assert count_bytes(actual) == count_bytes(states[0])
    assert read_encoder(output).layout == read_encoder(files[0]).layout


@pytest.mark.parametrize("place", [0, 1])
def test_tensors_that_are_not_tied_in_every_file_are_averaged_separately(tmp_path, place):
    files = [tmp_path / "0.pt", tmp_path / "1.pt"]
    states = [write_pretrained(file, seed) for seed, file in enumerate(files)]
    decoder, encoder = "decoder.layers.1.fc1.weight", "encoder.layers.1.fc1.weight"
    change = {decoder: states[place][decoder] + 1}
    states[place].update(change)
    edit_checkpoint(files[place], lambda content: content["model"].update(change))
    actual = average.average_checkpoints(files)["model"]
    for name in (decoder, encoder):
        expected = (states[0][name].double() + states[1][name].double()) / 2
        assert torch.equal(actual[name], expected.float()), name
    assert not torch.equal(actual[decoder], actual[encoder])


@pytest.mark.parametrize("half", [False, True])
def test_an_export_stores_tied_tensors_once(tmp_path, half):
    state = write_pretrained(tmp_path / "1.pt", 1)
    export_checkpoint(tmp_path / "1.pt", tmp_path / "out", dictionaries=False, half=half)
    tensors = safetensors.torch.load_file(tmp_path / "out" / "model.safetensors")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert len(tensors) + len(config["tied"]) == len(state)
    assert len(tensors) == len({tensor.data_ptr() for tensor in state.values()})
    assert sum(tensor.numel() for tensor in tensors.values()) * 4 == count_bytes(state)
    assert config["cfg"]["model"]["_name"] == "veco_tiny"
    floats = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    assert floats == {torch.float16 if half else torch.float32}
    import_checkpoint(tmp_path / "out", tmp_path / "back.pt")
    back = read_checkpoint(tmp_path / "back.pt")["model"]
    assert set(back) == set(state)
    for name, tensor in state.items():
        assert torch.equal(back[name], tensor.half() if half else tensor), name
    assert_tied(back, nlu_builders.LAYERS)
    assert read_masked_lm(tmp_path / "back.pt").sizes == read_masked_lm(tmp_path / "1.pt").sizes
