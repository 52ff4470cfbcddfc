"""Export and import: bit-equal for our models and for stock ones, tied tensors stay tied, and what is refused."""

import argparse
import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from fairseq import checkpoint_utils, options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import CheckpointError, fingerprint, metadata, read_checkpoint, write_masked_lm
from fairseq_plugins.checkpoints.export import export_checkpoint, from_json, import_checkpoint, to_json
from fairseq_plugins.checkpoints.masked_lm import read_masked_lm
from tests import builders

EXPORT = ("export", "--format", "safetensors")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # hydra's own deprecations, called by fairseq

TINY = "layers=1 embed-dim=8 ffn-embed-dim=8 attention-heads=1".split()
CASES = {
    "sga": "--task sga_translation --arch sga_tiny --criterion sga_ctc --prompt-length 3 --pretrained-mlm {0}/masked_lm",
    "transformer": "--arch transformer --share-all-embeddings "
    + " ".join(f"--{side}-{size}" for side in ("encoder", "decoder") for size in TINY),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data-bin en-de and a masked LM with its dictionary."""
    folder = tmp_path_factory.mktemp("data")
    builders.write_pair(folder, "train", "en", "de")
    lm = builders.masked_lm()
    write_masked_lm(folder / "masked_lm", vars(lm.sizes), lm.state_dict(), dtype=torch.float32)
    return folder


def trained(path, data, case):
    """Build a model from a command line and save it as the trainer does. Returns the content of the file."""
    line = f"{data} --source-lang en --target-lang de {CASES[case].format(data)}"
    args = options.parse_args_and_arch(options.get_training_parser(), line.split())
    cfg = convert_namespace_to_omegaconf(args)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    history = {"criterion_name": "C", "optimizer_name": "O", "lr_scheduler_state": {"best": 1.0}, "num_updates": 7}
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
        "criterion": None,
        "optimizer_history": [history],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 3, "iterations_in_epoch": 0}, "ema": {"w": torch.ones(1)}},
        "last_optimizer_state": {"state": {0: {"exp_avg": torch.ones(3)}}},
    }
    checkpoint_utils.torch_persistent_save(state, str(path))
    return state


def saved(path, model, **entries):
    """The least that can be exported."""
    torch.save({"model": model, "cfg": {"model": {}}, **entries}, path)
    return path


def assert_bit_equal(actual, expected):
    """Names, dtypes, shapes and bits."""
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (actual[name].dtype, actual[name].shape) == (tensor.dtype, tensor.shape), name
        assert torch.equal(actual[name].view(torch.uint8), tensor.contiguous().view(torch.uint8)), name


def through(folder, model, **entries):
    """Export and import; the content of config.json and of the checkpoint that is made."""
    config = export_checkpoint(saved(folder / "model.pt", model, **entries), folder / "folder", dictionaries=False)
    import_checkpoint(folder / "folder", folder / "back.pt")
    return config, read_checkpoint(folder / "back.pt")


@pytest.mark.parametrize("case", list(CASES))
def test_round_trip_is_bit_equal_and_loads_in_fairseq(tmp_path, data, case):
    state = trained(tmp_path / "model.pt", data, case)
    export_checkpoint(tmp_path / "model.pt", tmp_path / "folder")
    files = sorted((tmp_path / "folder").iterdir())
    assert [file.name for file in files] == ["config.json", "dict.de.txt", "dict.en.txt", "model.safetensors"]
    assert len({file.stat().st_mode for file in files}) == 1
    config = json.loads(files[0].read_text(encoding="utf-8"))
    assert config["fingerprint"] == fingerprint(state["model"])
    assert config["training"] == {"criterion_name": "C", "optimizer_name": "O", "num_updates": 7, "epoch": 3}
    assert config[metadata.VERSIONS] == config["written_by"] == metadata.stamp()
    assert not {"optimizer", "checkpoint", "common"} & set(config["cfg"])
    if case == "sga":  # what other programs read
        assert_bit_equal(safetensors.torch.load_file(files[-1]), state["model"])
    import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    actual = read_checkpoint(tmp_path / "back.pt")
    assert_bit_equal(actual["model"], state["model"])
    assert actual[metadata.VERSIONS] == metadata.stamp() and "last_optimizer_state" not in actual
    assert set(actual["extra_state"]) == {"train_iterator"} and actual["extra_state"]["train_iterator"]["epoch"] == 3
    assert actual["optimizer_history"][-1]["num_updates"] == 7
    for section in ("model", "criterion", "generation"):
        assert actual["cfg"][section] == state["cfg"][section], section
    ensemble, cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "back.pt")])
    assert_bit_equal(ensemble[0].state_dict(), state["model"])
    assert cfg.task.data == str(tmp_path / "folder")


def test_half_the_size(tmp_path, data):
    """float16 with the ties kept, loaded back by fairseq as float32; nothing becomes infinite in silence."""
    state = trained(tmp_path / "model.pt", data, "transformer")
    main([*EXPORT, str(tmp_path / "model.pt"), str(tmp_path / "folder"), "--half"])
    stored = safetensors.torch.load_file(tmp_path / "folder" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values() if tensor.is_floating_point()} == {torch.float16}
    tied = json.loads((tmp_path / "folder" / "config.json").read_text(encoding="utf-8"))["tied"]
    words = "encoder.embed_tokens.weight"
    assert tied == {"decoder.embed_tokens.weight": words, "decoder.output_projection.weight": words}
    import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    model = read_checkpoint(tmp_path / "back.pt")["model"]
    assert len({model[name].data_ptr() for name in (words, *tied)}) == 1
    ensemble, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "back.pt")])
    rounded = {
        name: tensor.half().float() if tensor.is_floating_point() else tensor for name, tensor in state["model"].items()
    }
    assert_bit_equal(ensemble[0].state_dict(), rounded)
    large = saved(tmp_path / "large.pt", {"w": torch.tensor([1e5]), "n": torch.tensor([7])})
    with pytest.raises(CheckpointError, match=r"--half cannot hold w, whose largest value is 1e\+05"):
        export_checkpoint(large, tmp_path / "other", dictionaries=False, half=True)


def test_tensors_of_any_layout(tmp_path):
    """Views of one memory, transposed ones, empty ones, every dtype."""
    memory = torch.randn(4, 3)
    model = {"whole": memory, "first": memory[0], "transposed": memory.t(), "part": memory[1:3], "twin": memory[1:3]}
    model.update(empty=torch.zeros(0), other=torch.zeros(0), scalar=torch.tensor(3), nan=torch.tensor([float("nan")]))
    dtypes = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
    model.update({str(dtype): torch.tensor([0, 1, 1]).to(dtype) for dtype in dtypes})
    config, state = through(tmp_path, model)
    assert config["tied"] == {"twin": "part"}
    actual = state["model"]
    assert actual.keys() == model.keys()
    for name, tensor in model.items():
        assert actual[name].dtype == tensor.dtype, name
        torch.testing.assert_close(actual[name], tensor, rtol=0, atol=0, equal_nan=True)


def test_plain_values_come_back_the_same():
    value = {"a/b": (1, [2.5, None]), "~": argparse.Namespace(x=True, y=("z",)), "i": -float("inf"), "e": {}}
    types = {}
    text = json.dumps(to_json(value, types), allow_nan=False)
    assert from_json(json.loads(text), types) == value
    for function, wrong, message in (
        (to_json, ({"a": [Path("x")]}, {}), "/a/0: .*Path cannot"),
        (to_json, ({1: 2}, {}), "/: dict cannot"),
        (from_json, ([1], {"": "set"}), "type 'set' is unknown; valid: namespace, tuple, float"),
    ):
        with pytest.raises(CheckpointError, match=message):
            function(*wrong)


def rewritten(name, change):
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def edited(change):
    """config.json with an entry changed."""

    def write(content):
        config = json.loads(content)
        change(config)
        return json.dumps(config).encode()

    return rewritten("config.json", write)


OTHER = safetensors.torch.save({"w": torch.zeros(2)})
BAD = {
    "other tensors": (rewritten("model.safetensors", lambda old: OTHER), "tensors have the fingerprint .* config.json"),
    "truncated": (rewritten("model.safetensors", lambda old: old[:-3]), r"model\.safetensors: truncated, damaged"),
    "no tensors": (lambda f: (f / "model.safetensors").unlink(), "expected a folder with config.json and model.safe"),
    "no JSON": (rewritten("config.json", lambda old: b"{"), r"config\.json: is no readable JSON"),
    "foreign": (rewritten("config.json", lambda old: b'{"model_type": "bert"}'), "was not written by this package"),
    "newer": (edited(lambda c: c["fairseq_plugins"].update(format=99)), "format 99 .*reads formats 1 to"),
    "layout": (edited(lambda c: c.update(layout=2)), "expected layout 1"),
    "lacks": (edited(lambda c: c.pop("types")), "lacks types"),
    "tie": (edited(lambda c: c["tied"].update(x="nowhere")), r"lacks nowhere, to which config\.json ties"),
    "dictionary": (rewritten("dict.en.txt", lambda old: b"a 1\n"), r"dict\.en\.txt: is missing or not the dict"),
    "no dictionary": (lambda f: (f / "dict.de.txt").unlink(), r"dict\.de\.txt: is missing or not the dictionary"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_a_changed_folder_is_refused_and_nothing_is_written(tmp_path, data, case):
    file = saved(tmp_path / "m.pt", {"w": torch.ones(2)}, cfg={"model": {}, "task": {"data": f"{data}:others"}})
    export_checkpoint(file, tmp_path / "folder")
    change, message = BAD[case]
    change(tmp_path / "folder")
    with pytest.raises(CheckpointError, match=message):
        import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    assert not (tmp_path / "back.pt").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, r"no dict\*\.txt in .*gone or .*--data, or --no-dictionaries"),
        ({"cfg": None}, "neither 'cfg' nor 'args'"),
        ({"task_state": {"seen": {1: 2}}}, r"model\.pt: /task_state/seen: dict cannot be written as JSON"),
    ],
)
def test_what_cannot_be_exported(tmp_path, wrong, message):
    cfg = {"model": {}, "task": {"data": str(tmp_path / "gone")}}
    file = saved(tmp_path / "model.pt", **{"model": {"w": torch.ones(2)}, "cfg": cfg, **wrong})
    with pytest.raises(CheckpointError, match=message):
        export_checkpoint(file, tmp_path / "folder", dictionaries=not wrong)
    assert not (tmp_path / "folder").exists() or not any((tmp_path / "folder").iterdir())


@pytest.fixture
def exported(tmp_path):
    return through(tmp_path, {"w": torch.ones(2)})[0]


@pytest.mark.parametrize("depth", [300, 100_000])
def test_deeply_nested_json_is_refused_by_name(tmp_path, exported, depth):
    """Python's reader gives up at about a thousand levels, what goes through the values earlier."""
    file = tmp_path / "folder" / "config.json"
    nested = "[" * depth + "]" * depth
    file.write_text(json.dumps({**exported, "task_state": {"x": 0}}).replace('{"x": 0}', f'{{"x": {nested}}}'))
    with pytest.raises(CheckpointError, match=r"config\.json.*(no readable JSON|nested deeper)"):
        import_checkpoint(tmp_path / "folder", tmp_path / "made.pt")
    assert not (tmp_path / "made.pt").exists()
    with pytest.raises(CheckpointError, match=r"config\.json: (is no readable JSON|.*model_type)"):
        read_masked_lm(tmp_path / "folder")


# ---- The command. ----


def refused(capsys, *line):
    """What the command says where it does nothing."""
    with pytest.raises(SystemExit) as stopped:
        main([*([] if line[0] == "import" else EXPORT), *map(str, line)])
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_the_command_replaces_no_folder(tmp_path, data, capsys):
    """One with a model or dictionaries is refused, and stays as it is; what else is in a folder is no matter."""
    file, folder = str(saved(tmp_path / "model.pt", {"a": torch.ones(2)})), tmp_path / "folder"
    folder.mkdir()
    (folder / "notes").write_text("kept")
    assert main([*EXPORT, file, str(folder), "--data", str(data)]) == 0
    assert (folder / "dict.en.txt").read_bytes() == (data / "dict.en.txt").read_bytes()
    assert main([*EXPORT, file, str(tmp_path / "new" / "bare"), "--no-dictionaries"]) == 0
    assert len(list((tmp_path / "new" / "bare").iterdir())) == 2
    for name in ("config.json", "model.safetensors", "dict.de.txt"):
        other = tmp_path / name
        other.mkdir()
        (other / name).write_text("of somebody")
        assert f"{other}: has {name} already" in refused(capsys, file, other, "--no-dictionaries")
        assert [file.read_text() for file in other.iterdir()] == ["of somebody"]
    assert "absent.pt: no such file" in refused(capsys, tmp_path / "absent.pt", tmp_path / "other")


def test_the_command_replaces_no_checkpoint(tmp_path, capsys):
    """The same again is no matter: recipes run it at each start."""
    folder, back = tmp_path / "folder", tmp_path / "back.pt"
    for value in (1.0, 2.0):
        file = saved(tmp_path / "model.pt", {"a": torch.full((2,), value)})
        assert main([*EXPORT, str(file), f"{folder}{value}", "--no-dictionaries"]) == 0
    assert main(["import", f"{folder}1.0", str(back)]) == 0
    before = back.stat().st_mtime_ns, back.read_bytes()
    assert main(["import", f"{folder}1.0", str(back)]) == 0
    assert "back.pt: is there already" in refused(capsys, "import", f"{folder}2.0", back)
    assert (back.stat().st_mtime_ns, back.read_bytes()) == before
    assert "expected a folder with config.json" in refused(capsys, "import", tmp_path, tmp_path / "new.pt")
