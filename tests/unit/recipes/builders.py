"""Write a study, read its commands, and assert that a file is refused."""

import shlex

import pytest
import yaml

from examples.recipes.systems import RecipeError

BEAM = {"beam": {"title": "beam 5"}}
METRICS = {"de-en": "accuracy", "en-de": "accuracy"}
TWO_STAGES = {
    "system": "sga",
    "start": "model",
    "before": [{"system": "at", "data": "other", "limits": {"updates": 40}}],
    "limits": {"minutes": 9},
    "train": {"lr-scheduler": "inverse_sqrt", "total-num-update": None, "warmup-updates": 7},
    "outputs": {0: {"title": "one pass", "options": {"iter-decode-max-iter": 0}}},
    "grid": [{"lr": 0.1, "no-denoising": True}, {"lr": 2}],
}
ONE_STAGE = {"system": "at", "outputs": BEAM, "grid": [{"lr": 1}, {"lr": 2}]}


def write_study(folder, **changes):
    """Write probe.yaml: two arms, of which the second has two stages and a pretrained model."""
    content = {
        "title": "Probe",
        "set": "own",
        "directions": ["en-de", "de-en"],
        "seeds": [1, 2],
        "budget": {"tune": {"minutes": 3}, "final": {"minutes": 6, "interval": 50}},
        "assets": {"model": {"system": "masked_lm", "limits": {"updates": 200}}},
        "arms": {"A + b": ONE_STAGE, "two": TWO_STAGES},
        "claims": [{"better": ["A + b", "beam"], "worse": ["two", 0]}],
        **changes,
    }
    path = folder / "probe.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def split_command(command):
    return shlex.split(command.replace("\\\n", " "))


def options_of(command):
    """Return the option names of a command with the word after each."""
    words = split_command(command)
    pairs = zip(words, [*words[1:], ""])
    return {word: following for word, following in pairs if word.startswith("--")}


def assert_refused(words, call, *arguments):
    """Assert that the call raises a RecipeError whose text contains these words."""
    with pytest.raises(RecipeError) as error:
        call(*arguments)
    assert all(word in str(error.value) for word in words), error.value
