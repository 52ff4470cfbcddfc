"""What the user gives for a translator: two texts, a budget, perhaps a pretrained model."""

import json

import pytest

from examples.recipes.settings import check_folder, read_settings
from examples.recipes.systems import RecipeError


@pytest.fixture
def given(tmp_path):
    for language, lines in (("cs", 2000), ("en", 2000), ("de", 1999), ("fr", 10)):
        (tmp_path / f"my.{language}").write_text(f"{language} text\n" * lines)
    return {"source": f"{tmp_path}/my.cs", "target": f"{tmp_path}/my.en", "hours": 2, "seed": 1, "masked_lm": ""}


def test_what_follows_from_the_text(given):
    run = read_settings(given)
    assert (run.source, run.target, run.lines, run.masked_lm, run.tokenizer) == ("cs", "en", 2000, None, "13a")
    assert (run.held_out, run.vocabulary) == (0.05, 1000)
    large = run._replace(lines=1_000_000, target="zh")
    assert large._replace(characters=5000).vocabulary == 10_000
    assert (large.held_out, large.vocabulary, large.tokenizer) == (0.001, 8000, "zh")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": "gone.cs"}, ["SRC gone.cs", "no such file"]),
        ({"target": "{}/my.de"}, ["2,000 lines", "1,999"]),
        ({"source": "{}/my.fr", "target": "{}/my.fr"}, ["10 lines", "1,000 at least"]),
        ({"target": "{}/my.cs"}, ["languages", "cs and cs"]),
        ({"hours": 0}, ["hours", "0"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"masked_lm": "{}"}, ["MLM", "sentencepiece.bpe.model"]),
        ({"sorce": "x"}, ["sorce"]),
    ],
)
def test_refusals(given, change, words, tmp_path):
    filled = {name: value.format(tmp_path) if isinstance(value, str) else value for name, value in change.items()}
    with pytest.raises(RecipeError) as raised:
        read_settings({**given, **filled})
    assert all(word in str(raised.value) for word in words), raised.value


def test_a_folder_that_was_begun_with_other_settings_is_refused(given, tmp_path):
    run = read_settings(given)
    check_folder(run, tmp_path)
    (tmp_path / "settings.json").write_text(json.dumps(run.record()))
    (tmp_path / "moved.cs").write_text((tmp_path / "my.cs").read_text())
    check_folder(read_settings({**given, "source": f"{tmp_path}/moved.cs"}), tmp_path)
    (tmp_path / "my.cs").write_text("other text\n" * 2000)
    for change, words in (({}, "SRC"), ({"seed": 3}, "SEED 1")):
        with pytest.raises(RecipeError, match=f"was begun with .*{words}.*; valid: the same settings, or a new folder"):
            check_folder(read_settings({**given, **change}), tmp_path)


def test_other_hours_are_taken_until_they_are_divided(given, tmp_path):
    run, other = read_settings(given), read_settings({**given, "hours": 3})
    (tmp_path / "settings.json").write_text(json.dumps(run.record()))
    check_folder(other, tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps({"hours": run.hours}))
    check_folder(run, tmp_path)
    with pytest.raises(RecipeError, match="was begun with HOURS 2"):
        check_folder(other, tmp_path)
