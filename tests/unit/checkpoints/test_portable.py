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

from fairseq_plugins.checkpoints import CheckpointError, export, fingerprint, read_checkpoint, versions, write_masked_lm
from fairseq_plugins.checkpoints.portable import export_checkpoint, from_json, import_checkpoint, to_json
from fairseq_plugins.checkpoints.vocabulary import read_json
from tests import builders

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # hydra's own deprecations, called by fairseq

TINY = [
    f"--{side}-{name}={number}"
    for side in ("encoder", "decoder")
    for name, number in (("layers", 1), ("embed-dim", 8), ("ffn-embed-dim", 8), ("attention-heads", 1))
]
SGA = "--task sga_translation --arch sga_tiny --criterion sga_ctc"
MLM = "--task tlm_pretraining --pairs en-de --arch xlmr_mlm_tiny --criterion masked_lm --encoder-layers 2 --encoder-embed-dim 16 "
CASES = {
    "sga": f"{SGA} --prompt-length 3".split(),
    "sga_full": f"{SGA} --save-full-model --no-denoising --prompt-scale".split(),
    "xlmr_mlm": f"{MLM} --encoder-ffn-embed-dim 24 --tokens-per-sample 40".split(),
    "transformer": ["--arch", "transformer", "--share-all-embeddings", *TINY],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data-bin en-de and a masked LM with its dictionary."""
    folder = tmp_path_factory.mktemp("data")
    builders.write_pair(folder, "train", "en", "de")
    lm = builders.masked_lm()
    write_masked_lm(folder / "masked_lm", vars(lm.sizes), lm.state_dict(), dtype=torch.float32)
    return folder


def trained(path, data, case, **entries):
    """Build a model from a command line and save it as the trainer does. Returns the content of the file."""
    arguments = [str(data), "--source-lang", "en", "--target-lang", "de", *CASES[case]]
    if case.startswith("sga"):
        arguments += ["--pretrained-mlm", str(data / "masked_lm")]
    elif case == "xlmr_mlm":
        arguments = [arguments[0], *arguments[5:]]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
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
        **entries,
    }
    checkpoint_utils.torch_persistent_save(state, str(path))
    return state


def assert_bit_equal(found, expected):
    """Names, dtypes, shapes and bits."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert torch.equal(found[name].view(torch.uint8), tensor.contiguous().view(torch.uint8)), name


@pytest.mark.parametrize("case", list(CASES))
def test_round_trip_is_bit_equal_and_loads_in_fairseq(tmp_path, data, case):
    state = trained(tmp_path / "model.pt", data, case)
    config = export_checkpoint(tmp_path / "model.pt", tmp_path / "folder")
    import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    found = read_checkpoint(tmp_path / "back.pt")
    assert_bit_equal(found["model"], state["model"])
    assert config["fingerprint"] == fingerprint(state["model"])
    assert found[versions.KEY] == versions.stamp()
    assert "last_optimizer_state" not in found
    assert set(found["extra_state"]) == {"train_iterator"} and found["extra_state"]["train_iterator"]["epoch"] == 3
    assert found["optimizer_history"][-1]["num_updates"] == 7
    for section in ("model", "criterion", "generation"):
        assert found["cfg"][section] == state["cfg"][section], section
    ensemble, cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "back.pt")])
    assert_bit_equal(ensemble[0].state_dict(), state["model"])
    assert cfg.task.data == str(tmp_path / "folder")


def test_the_folder_can_be_read_without_this_package(tmp_path, data):
    state = trained(tmp_path / "model.pt", data, "sga")
    export_checkpoint(tmp_path / "model.pt", tmp_path / "folder")
    names = sorted(path.name for path in (tmp_path / "folder").iterdir())
    assert names == ["config.json", "dict.de.txt", "dict.en.txt", "model.safetensors"]
    assert len({path.stat().st_mode for path in (tmp_path / "folder").iterdir()}) == 1
    config = json.loads((tmp_path / "folder" / "config.json").read_text(encoding="utf-8"))
    assert config["cfg"]["model"]["prompt_length"] == 3
    assert config["cfg"]["task"]["_name"] == "sga_translation"
    assert not {"optimizer", "checkpoint", "common"} & set(config["cfg"])
    assert config[versions.KEY] == config["written_by"] == versions.stamp()
    assert config["training"] == {"criterion_name": "C", "optimizer_name": "O", "num_updates": 7, "epoch": 3}
    lm = builders.masked_lm()
    assert config["frozen"] == {"frozen": fingerprint(dict(lm.named_parameters()))}
    tensors = safetensors.torch.load_file(tmp_path / "folder" / "model.safetensors")
    assert_bit_equal(tensors, state["model"])


def test_tied_tensors_are_stored_once_and_tied_again(tmp_path, data):
    trained(tmp_path / "model.pt", data, "transformer")
    config = export_checkpoint(tmp_path / "model.pt", tmp_path / "folder")
    words = "encoder.embed_tokens.weight"
    assert config["tied"] == {"decoder.embed_tokens.weight": words, "decoder.output_projection.weight": words}
    import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    model = read_checkpoint(tmp_path / "back.pt")["model"]
    assert len({model[name].data_ptr() for name in (words, *config["tied"])}) == 1


def test_half_the_size(tmp_path, data):
    """float16 with the ties kept, loaded back by fairseq as float32; nothing becomes infinite in silence."""
    state = trained(tmp_path / "model.pt", data, "transformer")
    export.main([str(tmp_path / "model.pt"), str(tmp_path / "folder"), "--half"])
    stored = safetensors.torch.load_file(tmp_path / "folder" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values() if tensor.is_floating_point()} == {torch.float16}
    config = json.loads((tmp_path / "folder" / "config.json").read_text(encoding="utf-8"))
    assert len(config["tied"]) == 2
    import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    ensemble, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "back.pt")])
    rounded = {
        name: tensor.half().float() if tensor.is_floating_point() else tensor for name, tensor in state["model"].items()
    }
    assert_bit_equal(ensemble[0].state_dict(), rounded)
    torch.save(
        {"model": {"w": torch.tensor([1e5]), "n": torch.tensor([7])}, "cfg": {"model": {}}}, tmp_path / "large.pt"
    )
    with pytest.raises(CheckpointError, match=r"--half cannot hold w, whose largest value is 1e\+05"):
        export_checkpoint(tmp_path / "large.pt", tmp_path / "other", dictionaries=False, half=True)


def test_tensors_of_any_layout(tmp_path):
    """Views of one memory, transposed ones, empty ones, every dtype."""
    memory = torch.randn(4, 3)
    model = {"whole": memory, "first": memory[0], "transposed": memory.t(), "part": memory[1:3], "twin": memory[1:3]}
    model.update(empty=torch.zeros(0), other=torch.zeros(0), scalar=torch.tensor(3), nan=torch.tensor([float("nan")]))
    dtypes = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
    model.update({str(dtype): torch.tensor([0, 1, 1]).to(dtype) for dtype in dtypes})
    torch.save({"model": model, "cfg": {"model": {}}, "args": None}, tmp_path / "model.pt")
    config = export_checkpoint(tmp_path / "model.pt", tmp_path / "folder", dictionaries=False)
    assert config["tied"] == {"twin": "part"}
    import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    found = read_checkpoint(tmp_path / "back.pt")["model"]
    assert found.keys() == model.keys()
    for name, tensor in model.items():
        assert found[name].dtype == tensor.dtype, name
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0, equal_nan=True)


def test_options_of_an_old_run(tmp_path):
    """Files older than fairseq 0.10 hold one argparse.Namespace."""
    args = argparse.Namespace(arch="transformer", lr=[0.1], data="a:b", betas=(0.9, 0.98), patience=float("inf"))
    torch.save({"model": {"w": torch.ones(2)}, "args": args}, tmp_path / "model.pt")
    export_checkpoint(tmp_path / "model.pt", tmp_path / "folder", dictionaries=False)
    import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    assert read_checkpoint(tmp_path / "back.pt")["args"] == args


def test_plain_values_come_back_the_same():
    value = {"a/b": (1, [2.5, None]), "~": argparse.Namespace(x=True, y=("z",)), "i": -float("inf"), "e": {}}
    types = {}
    text = json.dumps(to_json(value, types), allow_nan=False)
    assert from_json(json.loads(text), types) == value
    with pytest.raises(CheckpointError, match="/a/0: Path cannot|/a/0: PosixPath cannot"):
        to_json({"a": [Path("x")]}, {})
    with pytest.raises(CheckpointError, match="/: dict cannot"):
        to_json({1: 2}, {})
    with pytest.raises(CheckpointError, match="type 'set' is unknown; valid: namespace, tuple, float"):
        from_json([1], {"": "set"})


def edit(folder, change):
    """Change config.json."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    change(config)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


BAD = {
    "other_tensors": (
        lambda f: safetensors.torch.save_file({"w": torch.zeros(2)}, f / "model.safetensors"),
        "its tensors have the fingerprint .* config.json describes",
    ),
    "truncated": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-3]),
        r"model\.safetensors: truncated, damaged",
    ),
    "no_tensors": (lambda f: (f / "model.safetensors").unlink(), "expected a folder with config.json and model.safe"),
    "no_json": (lambda f: (f / "config.json").write_text("{"), r"config\.json: is no JSON"),
    "foreign": (lambda f: (f / "config.json").write_text('{"model_type": "bert"}'), "was not written by this package"),
    "newer": (lambda f: edit(f, lambda c: c["fairseq_plugins"].update(format=99)), "format 99 .*reads formats 1 to"),
    "layout": (lambda f: edit(f, lambda c: c.update(layout=2)), "expected layout 1"),
    "lacks": (lambda f: edit(f, lambda c: c.pop("types")), "lacks types"),
    "tie": (lambda f: edit(f, lambda c: c["tied"].update(x="nowhere")), r"lacks nowhere, to which config\.json ties"),
    "dictionary": (lambda f: (f / "dict.en.txt").write_text("a 1\n"), r"dict\.en\.txt: is missing or not the dict"),
    "no_dictionary": (lambda f: (f / "dict.de.txt").unlink(), r"dict\.de\.txt: is missing or not the dictionary"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_a_changed_folder_is_refused_and_nothing_is_written(tmp_path, data, case):
    torch.save({"model": {"w": torch.ones(2)}, "cfg": {"model": {}, "task": {"data": str(data)}}}, tmp_path / "m.pt")
    export_checkpoint(tmp_path / "m.pt", tmp_path / "folder")
    change, message = BAD[case]
    change(tmp_path / "folder")
    with pytest.raises(CheckpointError, match=message):
        import_checkpoint(tmp_path / "folder", tmp_path / "back.pt")
    assert not (tmp_path / "back.pt").exists()


def test_what_cannot_be_exported(tmp_path, capsys):
    file, folder = tmp_path / "model.pt", tmp_path / "folder"
    good = {"model": {"w": torch.ones(2)}, "cfg": {"model": {}, "task": {"data": str(tmp_path / "gone")}}}
    torch.save(good, file)
    with pytest.raises(CheckpointError, match=r"no dict\*\.txt in .*gone or .*--data, or --no-dictionaries"):
        export_checkpoint(file, folder)
    for wrong, message in (
        ({**good, "model": {"w": 3}}, "expected an entry 'model' with tensors"),
        ({"model": good["model"]}, "neither 'cfg' nor 'args'"),
        ({**good, "task_state": {"seen": {1: 2}}}, r"model\.pt: /task_state/seen: dict cannot be written as JSON"),
        ({**good, "model": {"w": torch.ones(2, dtype=torch.complex128)}}, "cannot be written as safetensors"),
    ):
        torch.save(wrong, file)
        with pytest.raises(CheckpointError, match=message):
            export_checkpoint(file, folder, dictionaries=False)
    assert not folder.exists() or list(folder.iterdir()) == []
    with pytest.raises(SystemExit) as stopped:
        export.main(["import", str(tmp_path), str(file)])
    assert stopped.value.code == 2
    assert "expected a folder with config.json" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        export.main([str(tmp_path / "absent.pt"), str(folder)])
    assert "absent.pt: no such file" in capsys.readouterr().err


def test_dictionaries_may_lie_elsewhere(tmp_path, data):
    torch.save({"model": {"w": torch.ones(2)}, "cfg": {"model": {}}}, tmp_path / "model.pt")
    assert export.main([str(tmp_path / "model.pt"), str(tmp_path / "folder"), "--data", str(data)]) == 0
    assert (tmp_path / "folder" / "dict.en.txt").read_bytes() == (data / "dict.en.txt").read_bytes()
    assert export.main([str(tmp_path / "model.pt"), str(tmp_path / "new" / "bare"), "--no-dictionaries"]) == 0
    assert len(list((tmp_path / "new" / "bare").iterdir())) == 2


@pytest.fixture
def exported(tmp_path):
    torch.save({"model": {"w": torch.ones(2)}, "cfg": {"model": {}}}, tmp_path / "model.pt")
    return export_checkpoint(tmp_path / "model.pt", tmp_path / "folder", dictionaries=False)


@pytest.mark.parametrize("depth", [300, 100_000])
def test_deeply_nested_json_is_refused_by_name(tmp_path, exported, depth):
    """Python's reader gives up at about a thousand levels, what goes through the values earlier."""
    file = tmp_path / "folder" / "config.json"
    nested = "[" * depth + "]" * depth
    file.write_text(json.dumps({**exported, "task_state": {"x": 0}}).replace('{"x": 0}', f'{{"x": {nested}}}'))
    with pytest.raises(CheckpointError, match=r"config\.json.*(no JSON|nested deeper)"):
        import_checkpoint(tmp_path / "folder", tmp_path / "made.pt")
    assert not (tmp_path / "made.pt").exists()
    if depth > 1000:
        with pytest.raises(CheckpointError, match=r"config\.json: is no readable JSON"):
            read_json(file, "a model")


@pytest.mark.parametrize("entry", ["tied", "types", "training", "task_state", "dictionaries"])
def test_a_folder_of_other_types_is_refused_by_name(tmp_path, exported, entry):
    for wrong in (["x"], {"x": 1}) if entry in ("tied", "types", "dictionaries") else (["x"],):
        (tmp_path / "folder" / "config.json").write_text(json.dumps({**exported, entry: wrong}))
        with pytest.raises(CheckpointError, match=rf"config\.json.*{entry}"):
            import_checkpoint(tmp_path / "folder", tmp_path / "made.pt")


# ---- The command replaces nothing. ----


def test_the_command_replaces_no_folder(tmp_path, capsys):
    """One with a model or dictionaries is refused, and stays as it is; what else is in a folder is no matter."""
    torch.save({"model": {"a": torch.ones(2)}, "cfg": {"model": {}}}, tmp_path / "model.pt")
    line = [str(tmp_path / "model.pt"), "--no-dictionaries"]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "notes").write_text("kept")
    assert export.main([line[0], str(folder), line[1]]) == 0
    for name in ("config.json", "model.safetensors", "dict.de.txt"):
        other = tmp_path / name
        other.mkdir()
        (other / name).write_text("of somebody")
        with pytest.raises(SystemExit) as stopped:
            export.main([line[0], str(other), line[1]])
        assert stopped.value.code == 2
        assert f"{other}: has {name} already" in capsys.readouterr().err
        assert [file.name for file in other.iterdir()] == [name] and (other / name).read_text() == "of somebody"


def test_the_command_replaces_no_checkpoint(tmp_path, capsys):
    """The same again is no matter: recipes run it at each start."""
    folder, back = tmp_path / "folder", tmp_path / "back.pt"
    for value in (1.0, 2.0):
        torch.save({"model": {"a": torch.full((2,), value)}, "cfg": {"model": {}}}, tmp_path / "model.pt")
        assert export.main([str(tmp_path / "model.pt"), f"{folder}{value}", "--no-dictionaries"]) == 0
    assert export.main(["import", f"{folder}1.0", str(back)]) == 0
    before = back.stat().st_mtime_ns, back.read_bytes()
    assert export.main(["import", f"{folder}1.0", str(back)]) == 0
    with pytest.raises(SystemExit) as stopped:
        export.main(["import", f"{folder}2.0", str(back)])
    assert stopped.value.code == 2 and "back.pt: is there already" in capsys.readouterr().err
    assert (back.stat().st_mtime_ns, back.read_bytes()) == before
