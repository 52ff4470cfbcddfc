"""Test export and import: bit-equal models, ties, refused folders, the commands."""

import argparse
import json

import pytest
import safetensors.torch
import torch
from fairseq import checkpoint_utils, options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import (
    CheckpointError,
    fingerprint,
    metadata,
    read_checkpoint,
    write_masked_lm,
)
from fairseq_plugins.checkpoints.export import (
    export_checkpoint,
    from_json,
    import_checkpoint,
    to_json,
)
from fairseq_plugins.checkpoints.masked_lm import read_masked_lm
from tests import builders

EXPORT = ("export", "--format", "safetensors")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # hydra's own, called by fairseq

TINY = "layers=1 embed-dim=8 ffn-embed-dim=8 attention-heads=1".split()
SIDES = " ".join(f"--{side}-{size}" for side in ("encoder", "decoder") for size in TINY)
CASES = {
    "sga": "--task sga_translation --arch sga_tiny --criterion sga_ctc --prompt-length 3 "
    "--pretrained-mlm {0}/masked_lm",
    "transformer": f"--arch transformer --share-all-embeddings {SIDES}",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Write a data-bin and a masked LM with its dictionary."""
    folder = tmp_path_factory.mktemp("data")
    builders.write_pair(folder, "train", "en", "de")
    lm = builders.masked_lm()
    write_masked_lm(folder / "masked_lm", vars(lm.sizes), lm.state_dict(), dtype=torch.float32)
    return folder


def write_trained(path, data, case):
    """Build a model from a command line, save it as the trainer does, and return the content."""
    line = f"{data} --source-lang en --target-lang de {CASES[case].format(data)}"
    args = options.parse_args_and_arch(options.get_training_parser(), line.split())
    cfg = convert_namespace_to_omegaconf(args)
    history = {"criterion_name": "C", "optimizer_name": "O", "num_updates": 7}
    train_iterator = {"epoch": 3, "iterations_in_epoch": 0}
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": tasks.setup_task(cfg.task).build_model(cfg.model).state_dict(),
        "optimizer_history": [{**history, "lr_scheduler_state": {"best": 1.0}}],
        "extra_state": {"train_iterator": train_iterator, "ema": {"w": torch.ones(1)}},
        "last_optimizer_state": {"state": {0: {"exp_avg": torch.ones(3)}}},
    }
    checkpoint_utils.torch_persistent_save(state, str(path))
    return state


def write(path, model, **entries):
    """Write the smallest checkpoint that can be exported."""
    torch.save({"model": model, "cfg": {"model": {}}, **entries}, path)
    return path


def assert_bit_equal(actual, expected):
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (actual[name].dtype, actual[name].shape) == (tensor.dtype, tensor.shape), name
        bits = tensor.contiguous().view(torch.uint8)
        assert torch.equal(actual[name].view(torch.uint8), bits), name


def load_in_fairseq(path):
    """Return the state and the configuration of the model that fairseq loads."""
    ensemble, cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    return ensemble[0].state_dict(), cfg


@pytest.mark.parametrize("case", CASES)
def test_a_round_trip_is_bit_equal_and_loads_in_fairseq(tmp_path, data, case):
    state = write_trained(tmp_path / "model.pt", data, case)
    export_checkpoint(tmp_path / "model.pt", tmp_path / "folder")
    files = {file.name: file for file in (tmp_path / "folder").iterdir()}
    assert set(files) == {"config.json", "dict.de.txt", "dict.en.txt", "model.safetensors"}
    assert len({file.stat().st_mode for file in files.values()}) == 1
    config = json.loads(files["config.json"].read_text(encoding="utf-8"))
    training = {"criterion_name": "C", "optimizer_name": "O", "num_updates": 7, "epoch": 3}
    assert config["fingerprint"] == fingerprint(state["model"])
    assert config["training"] == training
    assert config[metadata.VERSIONS] == config["written_by"] == metadata.stamp()
    assert not {"optimizer", "checkpoint", "common"} & set(config["cfg"])
    if case == "sga":  # without tied tensors, every tensor is in the file
        tensors = safetensors.torch.load_file(files["model.safetensors"])
        assert_bit_equal(tensors, state["model"])
    import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    actual = read_checkpoint(tmp_path / "back.pt")
    assert_bit_equal(actual["model"], state["model"])
    assert actual[metadata.VERSIONS] == metadata.stamp() and "last_optimizer_state" not in actual
    assert set(actual["extra_state"]) == {"train_iterator"}
    assert actual["extra_state"]["train_iterator"]["epoch"] == 3
    assert actual["optimizer_history"][-1]["num_updates"] == 7
    for section in ("model", "criterion", "generation"):
        assert actual["cfg"][section] == state["cfg"][section], section
    loaded, cfg = load_in_fairseq(tmp_path / "back.pt")
    assert_bit_equal(loaded, state["model"])
    assert cfg.task.data == str(tmp_path / "folder")


def test_half_precision_loads_in_fairseq_and_refuses_infinite_numbers(tmp_path, data):
    state = write_trained(tmp_path / "model.pt", data, "transformer")
    main([*EXPORT, str(tmp_path / "model.pt"), str(tmp_path / "folder"), "--half"])
    import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    rounded = {
        name: tensor.half().float() if tensor.is_floating_point() else tensor
        for name, tensor in state["model"].items()
    }
    assert_bit_equal(load_in_fairseq(tmp_path / "back.pt")[0], rounded)
    large = write(tmp_path / "large.pt", {"w": torch.tensor([1e5]), "n": torch.tensor([7])})
    with pytest.raises(CheckpointError, match=r"--half cannot hold w, .*1e\+05"):
        export_checkpoint(large, tmp_path / "other", dictionaries=False, half=True)


def test_views_empty_tensors_and_every_dtype_come_back(tmp_path):
    memory = torch.randn(4, 3)
    model = {"all": memory, "first": memory[0], "transposed": memory.t()}
    model.update(part=memory[1:3], twin=memory[1:3], empty=torch.zeros(0), empty_2=torch.zeros(0))
    model.update(scalar=torch.tensor(3), nan=torch.tensor([float("nan")]))
    floats, integers = ("float64", "float16", "bfloat16"), ("int64", "int32", "uint8", "bool")
    for dtype in (*floats, *integers):
        model[dtype] = torch.tensor([0, 1, 1]).to(getattr(torch, dtype))
    file = write(tmp_path / "model.pt", model)
    assert export_checkpoint(file, tmp_path / "x", dictionaries=False)["tied"] == {"twin": "part"}
    import_checkpoint(tmp_path / "x", tmp_path / "back.pt")
    actual = read_checkpoint(tmp_path / "back.pt")["model"]
    assert actual.keys() == model.keys()
    for name, tensor in model.items():
        assert actual[name].dtype == tensor.dtype, name
        torch.testing.assert_close(actual[name], tensor, rtol=0, atol=0, equal_nan=True)


def test_plain_values_come_back_from_json():
    namespace = argparse.Namespace(x=True, y=("z",))
    value = {"a/b": (1, [2.5, None]), "~": namespace, "i": -float("inf"), "e": {}}
    types = {}
    text = json.dumps(to_json(value, types), allow_nan=False)
    assert from_json(json.loads(text), types) == value
    with pytest.raises(CheckpointError, match="type 'set'.*namespace, tuple, float"):
        from_json([1], {"": "set"})


# ---- Folders and checkpoints that are refused. ----


def replace(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def edit_config(edit):
    def write_config(folder):
        config = json.loads((folder / "config.json").read_text())
        edit(config)
        (folder / "config.json").write_text(json.dumps(config))

    return write_config


OTHER_TENSORS = safetensors.torch.save({"w": torch.zeros(2)})
CHANGED = {
    "tensors": (replace("model.safetensors", OTHER_TENSORS), "fingerprint .* config.json"),
    "no tensors": (lambda f: (f / "model.safetensors").unlink(), "expected a folder with"),
    "foreign": (replace("config.json", b'{"model_type": "bert"}'), "not written by this package"),
    "newer": (edit_config(lambda c: c["fairseq_plugins"].update(format=99)), "format 99 "),
    "layout": (edit_config(lambda c: c.update(layout=2)), "expected layout 1"),
    "incomplete": (edit_config(lambda c: c.pop("types")), "lacks types"),
    "tie": (edit_config(lambda c: c["tied"].update(x="nowhere")), "lacks nowhere"),
    "dictionary": (replace("dict.en.txt", b"a 1\n"), r"dict\.en\.txt: is missing or not"),
    "no dictionary": (lambda f: (f / "dict.de.txt").unlink(), r"dict\.de\.txt: is missing or not"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_changed_folder_is_refused_and_nothing_is_written(tmp_path, data, case):
    cfg = {"model": {}, "task": {"data": f"{data}:others"}}
    export_checkpoint(write(tmp_path / "m.pt", {"w": torch.ones(2)}, cfg=cfg), tmp_path / "folder")
    change, message = CHANGED[case]
    change(tmp_path / "folder")
    with pytest.raises(CheckpointError, match=message):
        import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    assert not (tmp_path / "back.pt").exists()


@pytest.mark.parametrize("depth", [600, 100_000])
def test_deeply_nested_json_is_refused(tmp_path, depth):
    """Python's reader fails at about 1,000 levels, the package's recursion earlier."""
    model = write(tmp_path / "model.pt", {"w": torch.ones(2)}, task_state={"x": "nested"})
    export_checkpoint(model, tmp_path / "folder", dictionaries=False)
    file = tmp_path / "folder" / "config.json"
    file.write_text(file.read_text().replace('"nested"', "[" * depth + "]" * depth))
    with pytest.raises(CheckpointError, match=r"config\.json.*(no readable JSON|nested deeper)"):
        import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    assert not (tmp_path / "back.pt").exists()
    with pytest.raises(CheckpointError, match=r"config\.json: (is no readable JSON|.*model_type)"):
        read_masked_lm(tmp_path / "folder")


@pytest.mark.cases(
    "entries message",
    ({}, r"no dict\*\.txt in .*absent or .*--data, or --no-dictionaries"),
    ({"cfg": None}, "neither 'cfg' nor 'args'"),
    ({"task_state": {"seen": {1: 2}}}, r"model\.pt: /task_state/seen: dict"),
)
def test_a_checkpoint_that_cannot_be_exported_is_refused(tmp_path, entries, message):
    cfg = {"model": {}, "task": {"data": str(tmp_path / "absent")}}
    file = write(tmp_path / "model.pt", {"w": torch.ones(2)}, **{"cfg": cfg, **entries})
    with pytest.raises(CheckpointError, match=message):
        export_checkpoint(file, tmp_path / "folder", dictionaries=not entries)
    assert not list(tmp_path.glob("folder/*"))


# ---- The commands. ----


def refusal(capsys, *words):
    """Run a command that refuses; return its message."""
    with pytest.raises(SystemExit) as exit_info:
        main([str(word) for word in words])
    assert exit_info.value.code == 2
    return capsys.readouterr().err


def test_an_export_replaces_no_files(tmp_path, data, capsys):
    file = write(tmp_path / "model.pt", {"a": torch.ones(2)})
    folder, bare = tmp_path / "folder", tmp_path / "new" / "bare"
    folder.mkdir()
    (folder / "notes").write_text("unrelated")
    assert main([*EXPORT, str(file), str(folder), "--data", str(data)]) == 0
    assert (folder / "dict.en.txt").read_bytes() == (data / "dict.en.txt").read_bytes()
    assert main([*EXPORT, str(file), str(bare), "--no-dictionaries"]) == 0
    assert len(list(bare.iterdir())) == 2
    for name in ("config.json", "model.safetensors", "dict.de.txt"):
        target = tmp_path / name
        target.mkdir()
        (target / name).write_text("present")
        message = refusal(capsys, *EXPORT, file, target, "--no-dictionaries")
        assert f"{target}: has {name} already" in message
        assert [path.read_text() for path in target.iterdir()] == ["present"]
    assert "absent.pt: no such file" in refusal(capsys, *EXPORT, tmp_path / "absent.pt", tmp_path)


def test_an_import_replaces_no_other_checkpoint(tmp_path, capsys):
    """Importing the same folder again is accepted: recipes do it at each start."""
    folders, back = (tmp_path / "1", tmp_path / "2"), tmp_path / "back.pt"
    for number, folder in enumerate(folders):
        file = write(tmp_path / "model.pt", {"a": torch.full((2,), float(number))})
        assert main([*EXPORT, str(file), str(folder), "--no-dictionaries"]) == 0
    assert main(["import", str(folders[0]), str(back)]) == 0
    before = back.stat().st_mtime_ns, back.read_bytes()
    assert main(["import", str(folders[0]), str(back)]) == 0
    assert "back.pt: is there already" in refusal(capsys, "import", folders[1], back)
    assert (back.stat().st_mtime_ns, back.read_bytes()) == before
