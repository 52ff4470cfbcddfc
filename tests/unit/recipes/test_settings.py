"""Test the settings of a translator: two texts, a budget, perhaps a pretrained model."""

import json

import pytest

from examples.recipes.settings import check_folder, read_settings
from tests.unit.recipes.builders import assert_refused


@pytest.fixture
def options(tmp_path):
    for language, lines in (("cs", 2000), ("en", 2000), ("de", 1999), ("fr", 10)):
        (tmp_path / f"my.{language}").write_text(f"{language} text\n" * lines)
    files = {"source": f"{tmp_path}/my.cs", "target": f"{tmp_path}/my.en"}
    return {**files, "hours": 2, "seed": 1, "masked_lm": ""}


def test_sizes_follow_from_the_text(options):
    run = read_settings(options)
    assert (run.source, run.target, run.lines) == ("cs", "en", 2000)
    assert (run.masked_lm, run.tokenizer) == (None, "13a")
    assert (run.held_out, run.vocabulary) == (0.05, 1000)
    large = run._replace(lines=1_000_000, target="zh")
    assert large._replace(characters=5000).vocabulary == 10_000
    assert (large.held_out, large.vocabulary, large.tokenizer) == (0.001, 8000, "zh")


@pytest.mark.cases(
    "change words",
    ({"source": "gone.cs"}, ["SRC gone.cs", "no such file"]),
    ({"target": "{}/my.de"}, ["2,000 lines", "1,999"]),
    ({"source": "{}/my.fr", "target": "{}/my.fr"}, ["10 lines", "1,000 at least"]),
    ({"target": "{}/my.cs"}, ["languages", "cs and cs"]),
    ({"hours": 0}, ["hours", "0"]),
    ({"seed": -1}, ["seed", "-1"]),
    ({"masked_lm": "{}"}, ["MLM", "sentencepiece.bpe.model"]),
    ({"sorce": "x"}, ["sorce"]),
)
def test_bad_settings_are_refused(options, change, words, tmp_path):
    for name, value in change.items():
        options[name] = value.format(tmp_path) if isinstance(value, str) else value
    assert_refused(words, read_settings, options)


def test_a_folder_that_was_begun_with_other_settings_is_refused(options, tmp_path):
    run = read_settings(options)
    check_folder(run, tmp_path)
    (tmp_path / "settings.json").write_text(json.dumps(run.record()))
    (tmp_path / "moved.cs").write_text((tmp_path / "my.cs").read_text())
    check_folder(read_settings({**options, "source": f"{tmp_path}/moved.cs"}), tmp_path)
    (tmp_path / "my.cs").write_text("other text\n" * 2000)
    for change, word in (({}, "SRC"), ({"seed": 3}, "SEED 1")):
        changed = read_settings({**options, **change})
        assert_refused(["was begun with", word], check_folder, changed, tmp_path)


def test_hours_may_change_until_they_are_planned(options, tmp_path):
    run, longer = read_settings(options), read_settings({**options, "hours": 3})
    (tmp_path / "settings.json").write_text(json.dumps(run.record()))
    check_folder(longer, tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps({"hours": run.hours}))
    check_folder(run, tmp_path)
    assert_refused(["was begun with HOURS 2"], check_folder, longer, tmp_path)
