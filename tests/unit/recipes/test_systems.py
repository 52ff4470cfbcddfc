"""Recipes of systems: every one is a command that fairseq takes, and what a file may not hold is named."""

import shlex

import fairseq
import pytest
import yaml

import fairseq_plugins  # noqa: F401  (registers the tasks and architectures)
from examples.recipes.systems import FOLDER, RecipeError, command, list_names, read_system

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
}
VALUES.update(start="start", lexicon="lexicon", sentencepiece="model", mixed="de")


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_are_those_of_fairseq(name):
    from fairseq import options

    if fairseq.__version__ == "0.12.2" and name == "mbart_denoising":
        pytest.skip(
            "fairseq 0.12.2: --task multilingual_denoising and --arch mbart_base both add --max-source-positions"
        )
    system = read_system(name)
    line = command("fairseq-train bin", system.train, VALUES).replace("\\\n", " ")
    args = options.parse_args_and_arch(options.get_training_parser(), shlex.split(line)[1:])
    assert (args.task, args.arch, args.max_update) == (system.train["task"], system.train["arch"], 100)
    if system.translate:
        line = command("fairseq-generate bin --path model.pt", system.translate, VALUES).replace("\\\n", " ")
        assert options.parse_args_and_arch(options.get_generation_parser(), shlex.split(line)[1:]).batch_size == 64
    if system.starts_from:
        assert system.starts_from in NAMES and "$start" in system.train.values()


@pytest.fixture
def folder(tmp_path):
    for name in ("common", "at"):
        (tmp_path / f"{name}.yaml").write_text((FOLDER / f"{name}.yaml").read_text())
    return tmp_path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"average": 0}, ["at.yaml", "average", "0", "minimum of 1"]),
        ({"trian": {}}, ["at.yaml", "'trian' was unexpected"]),
        ({"like": "at"}, ["at.yaml", "like: at", "circle"]),
        ({"like": "nat"}, ["system nat", "valid: at"]),
        ({"title": None}, ["at.yaml", "title", "string"]),
        ({"train": {"lr": [0.1]}}, ["at.yaml", "train.lr", "[0.1]"]),
        ({"train": {"--lr": 0.1}}, ["at.yaml", "train", "--lr"]),
        ({"variants": {"nat": {"train": {}}}}, ["at.yaml", "variants.nat", "'title' is a required property"]),
        ({"variants": {"nat": {"title": "x", "trian": {}}}}, ["at.yaml", "variants.nat", "'trian' was unexpected"]),
    ],
)
def test_what_a_recipe_may_not_hold(folder, change, words):
    path = folder / "at.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}))
    with pytest.raises(RecipeError) as raised:
        read_system("nat" if "variants" in change else "at", folder)
    assert all(word in str(raised.value) for word in words), raised.value


def test_an_unknown_system_and_a_file_that_is_no_yaml(folder):
    with pytest.raises(RecipeError, match="system nat: no such file or variant in .*; valid: at, from_xlmr$"):
        read_system("nat", folder)
    (folder / "at.yaml").write_text("train: [")
    with pytest.raises(RecipeError, match=r"at\.yaml: cannot be read"):
        read_system("at", folder)


def test_a_variant_has_a_name_of_its_own(folder):
    assert read_system("from_xlmr", folder).train["arch"] == "transformer_from_xlmr_tiny"
    (folder / "from_xlmr.yaml").write_text((folder / "at.yaml").read_text())
    with pytest.raises(RecipeError, match="from_xlmr: named twice"):
        list_names(folder)


def test_a_system_adds_to_the_common_options_and_takes_some_away(folder):
    path = folder / "at.yaml"
    content = yaml.safe_load(path.read_text())
    content["train"].update({"log-interval": 7, "clip-norm": None})
    path.write_text(yaml.safe_dump(content))
    system = read_system("at", folder)
    line = command("fairseq-train", system.train, VALUES).replace("\\\n", " ")
    words = shlex.split(line)
    assert words[words.index("--log-interval") + 1] == "7" and "--clip-norm" not in words and "--optimizer" in words
    assert [system.warmup_updates(updates) for updates in (2, 1000, 100_000)] == [1, 250, 1000]


def test_values_are_quoted_for_bash_and_names_must_be_known():
    value = """{"a": "it's $source"}"""
    assert shlex.split(command("x", {"y": value, "z": True, "no": False}, {"source": "de"})) == [
        *("x", "--y", """{"a": "it's de"}""", "--z")
    ]
    with pytest.raises(RecipeError, match=r"--y \$start: 'start' has no value; valid: \$source"):
        command("x", {"y": "$start"}, {"source": "de"})
