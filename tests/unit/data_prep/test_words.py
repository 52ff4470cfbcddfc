"""Words of any script, segmenters, and what is refused."""

import sys
from pathlib import Path
from typing import Any

import pytest

from data_prep import words
from data_prep.io import InputError, read_json, sha256
from tests.lexicon_raw import write


def run(tmp_path: Path, *lines: str, **options: Any) -> "list[str]":
    """The words of lines."""
    write(tmp_path / "in", *lines)
    words.write_words([tmp_path / "in"], [tmp_path / "out"], **options)
    return (tmp_path / "out").read_text(encoding="utf-8").split("\n")[:-1]


def test_words_are_runs_of_letters_marks_and_digits(tmp_path: Path) -> None:
    lines = ["The dog's well-known: 42 µm!", "", "Éte\u0301 ÄÖ", "में हूँ", "…"]
    assert run(tmp_path, *lines) == ["the dog s well known 42 µm", "", "été äö", "में हूँ", ""]
    assert run(tmp_path, "The DOG", cased=True) == ["The DOG"]


def test_counts_and_manifest(tmp_path: Path) -> None:
    write(tmp_path / "in", "a b a", "", "c")
    counts = words.write_words([tmp_path / "in"], [tmp_path / "out"])[str(tmp_path / "out")]
    assert counts == {"lines": 3, "words": 4, "distinct": 3}
    manifest = read_json(tmp_path / "out.json")
    assert manifest["counts"] == counts
    assert manifest["outputs"][0]["sha256"] == sha256(tmp_path / "out")


@pytest.mark.parametrize("line", ["我喜欢苹果。", "私は学生です", "ฉันชอบกินข้าว"])
def test_a_script_without_spaces_needs_a_segmenter(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match="script without spaces.*--segmenter is not given; valid: character, spaces"):
        run(tmp_path, "ok " * 2, line)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_a_few_such_letters_need_none(tmp_path: Path) -> None:
    assert run(tmp_path, "the sign 中 means middle") == ["the sign 中 means middle"]
    assert words.spaceless_share(["中a"]) == 0.5
    assert words.spaceless_share(["1 2"]) == 0.0


def test_segmenters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "我喜欢 Apple-Saft。"
    assert run(tmp_path, line, segmenter="character") == ["我 喜 欢 apple saft"]
    assert run(tmp_path, "我 喜欢 苹果 。", segmenter="spaces") == ["我 喜欢 苹果"]
    write(
        tmp_path / "mine_of_this_test.py",
        "def cut(text):",
        "    return [text[:1], text[1:3], text[3:], '。']",
        "bad = 3",
    )
    write(tmp_path / "wrong_of_this_test.py", "def cut(text):", "    return [3]")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run(tmp_path, "我喜欢苹果", segmenter="mine_of_this_test:cut") == ["我 喜欢 苹果"]
    for name, message in [
        ("mine_of_this_test:bad", "mine_of_this_test has no function bad"),
        ("mine_of_this_test:none", "has no function none"),
        ("no_such_module_here:cut", "No module named"),
        ("jieba", "--segmenter jieba: valid: character, spaces"),
        ("wrong_of_this_test:cut", "gives int; valid: a function that gives strings"),
    ]:
        with pytest.raises(InputError, match=message):
            run(tmp_path, "我喜欢苹果", segmenter=name)
    sys.modules.pop("mine_of_this_test", None)


def test_bad_text_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    with pytest.raises(InputError, match="--inputs .*latin, line 1: not UTF-8"):
        words.write_words([tmp_path / "latin"], [tmp_path / "out"])
    with pytest.raises(InputError, match="holds no word"):
        run(tmp_path, "...", "!")
    assert not (tmp_path / "out").exists()
