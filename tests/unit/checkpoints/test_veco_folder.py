"""A VECO's Hugging Face folder as a state for generation, and what averaging and exporting do with tensors of several names."""

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
from tests.unit.checkpoints import builders as masked_lms
from tests.unit.checkpoints.builders import put, without
from tests.veco_builders import CROSS, WORDS

LAYERS = masked_lms.SIZES["layers"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of 12 layers, with a head."""
    return veco_builders.write_folder(tmp_path_factory.mktemp("veco") / "folder")


@pytest.fixture(scope="module")
def actual(folder):
    return read_veco_folder(folder)


def bytes_of(state):
    """Of different memory."""
    return sum(
        {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in state.values()}.values()
    )


def stored(file):
    """How many pieces of memory a file holds."""
    return sum("/data/" in name for name in zipfile.ZipFile(file).namelist())


def assert_tied(state, layers, head=True):
    """Every layer, the embeddings and the output projections, and nothing else."""
    words = {state[f"{name}.weight"].data_ptr() for name in WORDS if head or name != "lm_head"}
    assert len(words) == 1
    names = [name for name in state if name.startswith("decoder.") and "encoder_attn" not in name]
    same = [name for name in names if not name.endswith(("version", "output_projection.weight"))]
    assert len(same) == 16 * layers + 4
    assert all(state[name].data_ptr() == state[name.replace("decoder.", "encoder.", 1)].data_ptr() for name in same)
    apart = [
        tensor.data_ptr() for name, tensor in state.items() if "encoder_attn" in name or name.startswith("encoder.")
    ]
    assert len(set(apart)) == len(apart)


# ---- The folder as a state. ----


def test_every_name_of_the_folder_has_its_place(actual):
    state = veco_builders.folder_state()
    tensors = masked_lms.masked_lm_tensors()
    for layer in range(LAYERS):
        for theirs, ours in CROSS.items():
            expected = state[f"roberta.encoder.layer.{layer}.{theirs}"]
            assert torch.equal(actual.tensors[f"decoder.layers.{layer}.{ours}"], expected), ours
            assert actual.sources[f"decoder.layers.{layer}.{ours}"] == f"roberta.encoder.layer.{layer}.{theirs}"
    for name, expected in tensors.items():
        places = {name.replace("sentence_encoder", side) for side in ("encoder", "decoder")}
        assert all(torch.equal(actual.tensors[place], expected) for place in places), name
    assert len(actual.tensors) == 2 * (16 * LAYERS + 4) + 10 * LAYERS + 1 + 6
    assert_tied(actual.tensors, LAYERS)
    assert actual.sizes == masked_lms.SIZES
    token_types = "roberta.embeddings.token_type_embeddings.weight"
    assert set(actual.report.loaded) | set(actual.report.dropped) == set(state) and token_types in actual.report.loaded
    assert not any("cross_attention" in name for name in actual.report.dropped)


def test_the_command_writes_a_checkpoint_that_fairseq_loads(folder, actual, tmp_path):
    file = tmp_path / "veco.pt"
    assert main(["import", str(folder), str(file)]) == 0
    content = checkpoint_utils.load_checkpoint_to_cpu(str(file))
    state = content["model"]
    assert content["optimizer_history"][-1]["num_updates"] == 0
    assert content["extra_state"]["train_iterator"] == {"epoch": 1, "iterations_in_epoch": 0, "version": 2}
    assert bytes_of(state) == bytes_of(actual.tensors) + 8
    assert state["lm_head.mask_row"].shape == (masked_lms.SIZES["vocab_size"] - 1, 0)
    assert stored(file) == len({tensor.data_ptr() for tensor in state.values()}) < len(state)
    options = OmegaConf.to_container(content["cfg"]["model"])
    task = nlu_builders.task_of([f"p{number}" for number in range(masked_lms.SIZES["vocab_size"] - 4)])
    model = models.build_model(Namespace(**{**options, "_name": "transformer"}), task)
    without_head = {name: tensor for name, tensor in state.items() if not name.startswith("lm_head.")}
    left = model.load_state_dict(without_head, strict=True)
    assert not left.missing_keys and not left.unexpected_keys
    layout = read_encoder(file).layout
    assert layout == read_encoder(folder).layout and not layout.scale_embedding
    assert read_masked_lm(file).fingerprint == read_masked_lm(folder).fingerprint
    assert options["share_all_embeddings"] and options["share_decoder_input_output_embed"]


@pytest.mark.parametrize(
    ("edit", "config", "message"),
    [
        (without("cross_attention"), {}, "has no cross_attention.* tensors"),
        (
            without("layer.11.cross_attention.self.key.bias"),
            {},
            r"missing .* decoder\.layers\.11\.encoder_attn\.k_proj",
        ),
        (without("lm_head.bias"), {}, r"missing tensors: lm_head\.bias"),
        (
            put("roberta.encoder.layer.0.cross_attention.output.LayerNorm.gamma", 3),
            {},
            r"layer_norm\.weight \(3,\) instead",
        ),
        (without("nothing"), {"num_attention_heads": None}, "number of attention heads"),
    ],
)
def test_what_is_no_whole_veco_is_refused(tmp_path, capsys, edit, config, message):
    state = veco_builders.folder_state()
    edit(state)
    path = veco_builders.write_folder(tmp_path / "x", state, **config)
    with pytest.raises(CheckpointError, match=message):
        read_veco_folder(path)
    with pytest.raises(SystemExit):
        main(["import", str(path), str(tmp_path / "y.pt")])
    assert not (tmp_path / "y.pt").exists() and "checkpoint" in capsys.readouterr().err


# ---- Averages. ----


def pretrained(path, seed):
    """A checkpoint of the pre-training with other weights. Returns its state."""
    model = veco_builders.stock(scaled=False)
    nlu_builders.randomise(model, seed)
    veco_builders.pretrained(path, model)
    return veco_builders.pretrained_state(model)


def test_an_average_stays_tied(tmp_path):
    states = [pretrained(tmp_path / f"{seed}.pt", seed) for seed in (1, 2, 3)]
    files = [tmp_path / f"{seed}.pt" for seed in (1, 2, 3)]
    average.write_average(files, tmp_path / "average.pt")
    actual = read_checkpoint(tmp_path / "average.pt")["model"]
    assert list(actual) == list(states[0])
    for name, tensor in actual.items():
        expected = torch.stack([state[name].double() for state in states]).mean(0).float()
        assert torch.equal(tensor, expected), name
    assert_tied(actual, nlu_builders.LAYERS)
    assert stored(tmp_path / "average.pt") == stored(files[0])
    assert bytes_of(actual) == bytes_of(states[0])
    assert read_encoder(tmp_path / "average.pt").layout == read_encoder(files[0]).layout


@pytest.mark.parametrize("place", [0, 1])
def test_what_is_not_tied_everywhere_is_averaged_apart(tmp_path, place):
    states = [pretrained(tmp_path / f"{seed}.pt", seed) for seed in (1, 2)]
    content = torch.load(tmp_path / f"{place + 1}.pt", weights_only=False)
    name, other = "decoder.layers.1.fc1.weight", "encoder.layers.1.fc1.weight"
    states[place][name] = content["model"][name] = content["model"][name] + 1
    torch.save(content, tmp_path / f"{place + 1}.pt")
    actual = average.average_checkpoints([tmp_path / "1.pt", tmp_path / "2.pt"])["model"]
    for tied in (name, other):
        expected = (states[0][tied].double() + states[1][tied].double()) / 2
        assert torch.equal(actual[tied], expected.float()), tied
    assert not torch.equal(actual[name], actual[other])


# ---- Export. ----


@pytest.mark.parametrize("half", [False, True])
def test_an_export_stores_once_what_is_tied(tmp_path, half):
    state = pretrained(tmp_path / "1.pt", 1)
    config = export_checkpoint(tmp_path / "1.pt", tmp_path / "out", dictionaries=False, half=half)
    kept = safetensors.torch.load_file(tmp_path / "out" / "model.safetensors")
    assert len(kept) + len(config["tied"]) == len(state)
    assert len(kept) == len({tensor.data_ptr() for tensor in state.values()})
    assert sum(tensor.numel() for tensor in kept.values()) * 4 == bytes_of(state)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["cfg"]["model"]["_name"] == "veco_tiny"
    import_checkpoint(tmp_path / "out", tmp_path / "back.pt")
    back = read_checkpoint(tmp_path / "back.pt")["model"]
    assert set(back) == set(state)
    for name, tensor in state.items():
        assert torch.equal(back[name], tensor.half() if half else tensor), name
    assert_tied(back, nlu_builders.LAYERS)
    assert read_masked_lm(tmp_path / "back.pt").sizes == read_masked_lm(tmp_path / "1.pt").sizes
