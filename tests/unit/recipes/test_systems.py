"""Test that recipes of systems are commands of fairseq, and that bad files are refused."""

import fairseq
import pytest
import yaml
from fairseq import options

import fairseq_plugins  # noqa: F401  (registers the tasks and architectures)
from examples.recipes.systems import FOLDER, RecipeError, command, list_names, read_system
from tests.unit.recipes.builders import assert_refused, options_of, split_command

NAMES = list_names(FOLDER)
VALUES = {
    "root": ".",
    "source": "de",
    "target": "en",
    "seed": 1,
    "updates": 100,
    "warmup": 5,
    "interval": 10,
    "languages": "de,en",
    "pairs": "de-en",
    "start": "start",
    "lexicon": "lexicon",
    "sentencepiece": "model",
    "mixed": "de",
}


@pytest.mark.parametrize("name", NAMES)
def test_fairseq_takes_the_commands(name):
    if fairseq.__version__ == "0.12.2" and name == "mbart_denoising":
        pytest.skip("fairseq 0.12.2: its denoising task and mbart_base add the same option")
    system = read_system(name)
    words = split_command(command("fairseq-train bin", system.train, VALUES))
    args = options.parse_args_and_arch(options.get_training_parser(), words[1:])
    assert (args.task, args.arch) == (system.train["task"], system.train["arch"])
    assert args.max_update == 100
    if system.translate:
        program = "fairseq-generate bin --path model.pt"
        words = split_command(command(program, system.translate, VALUES))
        args = options.parse_args_and_arch(options.get_generation_parser(), words[1:])
        assert args.batch_size == 64
    if system.starts_from:
        assert system.starts_from in NAMES and "$start" in system.train.values()


@pytest.fixture
def folder(tmp_path):
    for name in ("common", "at"):
        (tmp_path / f"{name}.yaml").write_text((FOLDER / f"{name}.yaml").read_text())
    return tmp_path


def change_system(folder, change):
    path = folder / "at.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}))


@pytest.mark.cases(
    "change words",
    ({"average": 0}, ["at.yaml", "average", "0"]),
    ({"trian": {}}, ["at.yaml", "'trian'"]),
    ({"like": "at"}, ["at.yaml", "like: at", "circle"]),
    ({"like": "nat"}, ["system nat", "valid: at"]),
    ({"title": None}, ["at.yaml", "title", "string"]),
    ({"train": {"lr": [0.1]}}, ["at.yaml", "train.lr", "[0.1]"]),
    ({"train": {"--lr": 0.1}}, ["at.yaml", "train", "--lr"]),
    ({"variants": {"nat": {"train": {}}}}, ["at.yaml", "variants.nat", "'title'"]),
    ({"variants": {"nat": {"title": "x", "trian": {}}}}, ["at.yaml", "variants.nat", "'trian'"]),
)
def test_bad_recipes_are_refused(folder, change, words):
    change_system(folder, change)
    assert_refused(words, read_system, "nat" if "variants" in change else "at", folder)


def test_an_unknown_system_and_a_damaged_file_are_refused(folder):
    with pytest.raises(RecipeError, match="system nat: .*; valid: at, from_xlmr$"):
        read_system("nat", folder)
    (folder / "at.yaml").write_text("train: [")
    with pytest.raises(RecipeError, match=r"at\.yaml: cannot be read"):
        read_system("at", folder)


def test_a_variant_has_a_unique_name(folder):
    assert read_system("from_xlmr", folder).train["arch"] == "transformer_from_xlmr_tiny"
    (folder / "from_xlmr.yaml").write_text((folder / "at.yaml").read_text())
    assert_refused(["from_xlmr: named twice"], list_names, folder)


def test_a_system_adds_common_options_and_removes_some(folder):
    train = yaml.safe_load((folder / "at.yaml").read_text())["train"]
    change_system(folder, {"train": {**train, "log-interval": 7, "clip-norm": None}})
    system = read_system("at", folder)
    words = options_of(command("fairseq-train", system.train, VALUES))
    assert words["--log-interval"] == "7"
    assert "--clip-norm" not in words and "--optimizer" in words
    assert [system.warmup_updates(updates) for updates in (2, 1000, 100_000)] == [1, 250, 1000]


def test_values_are_quoted_for_bash_and_names_must_be_known():
    text = """{"a": "it's $source"}"""
    words = split_command(command("x", {"y": text, "z": True, "no": False}, {"source": "de"}))
    assert words == ["x", "--y", """{"a": "it's de"}""", "--z"]
    message = r"--y \$start: 'start' has no value; valid: \$source"
    with pytest.raises(RecipeError, match=message):
        command("x", {"y": "$start"}, {"source": "de"})
