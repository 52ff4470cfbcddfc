"""Words of any script, segmenters, and what is refused."""

import sys
from importlib import metadata

import pytest

from data_prep import words
from data_prep.io import read_json, sha256
from tests.csr_builders import write_raw
from tests.unit.data_prep.files import killed, lines, refused


def run(tmp_path, *text, **options):
    """The words of lines."""
    words.write_words([write_raw(tmp_path / "in", *text)], [tmp_path / "out"], **options)
    return lines(tmp_path / "out")


def test_words_are_runs_of_letters_marks_and_digits(tmp_path):
    text = ["The dog's well-known: 42 µm!", "", "Éte\u0301 ÄÖ", "में हूँ", "…"]
    assert run(tmp_path, *text) == ["the dog s well known 42 µm", "", "été äö", "में हूँ", ""]
    assert run(tmp_path, "The DOG", cased=True) == ["The DOG"]


def test_a_script_without_spaces_needs_a_segmenter(tmp_path):
    for line in ("我喜欢苹果。", "私は学生です", "ฉันชอบกินข้าว"):
        refused(["script without spaces", "--segmenter is not given; valid: "], run, tmp_path, "ok " * 2, line)
    english = [f"sentence number {number} of this text" for number in range(1200)]
    words = "400 of 1,600 lines read (25%) are of a script without spaces"
    refused(words, run, tmp_path, *english, *["他说天气很好。"] * 400)
    without_letters = ["1 2 3 ..."] * 50  # are not counted
    refused("1 of 9 lines read (11%)", run, tmp_path, *english[:8], "他说天气很好。", *without_letters)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
    quoted = [*english[:28], "他说天气很好。", "“天气很好”"]
    assert run(tmp_path, *quoted)[28:] == ["他说天气很好", "天气很好"]


def test_segmenters(tmp_path, monkeypatch):
    assert run(tmp_path, "我喜欢 Apple-Saft。", segmenter="character") == ["我 喜 欢 apple saft"]
    assert run(tmp_path, "我 喜欢 苹果 。", segmenter="spaces") == ["我 喜欢 苹果"]
    cut = "return [text[:1], text[1:3], text[3:], '。']"
    write_raw(tmp_path / "mine_of_this_test.py", f"def cut(text): {cut}", "def wrong(text): return [3]", "bad = 3")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run(tmp_path, "我喜欢苹果", segmenter="mine_of_this_test:cut") == ["我 喜欢 苹果"]
    for name, message in [
        ("mine_of_this_test:bad", "mine_of_this_test has no function bad"),
        ("mine_of_this_test:none", "has no function none"),
        ("mine_of_this_test:wrong", "gives int; valid: a function that gives strings"),
        ("no_such_module_here:cut", "No module named"),
        ("jieba", "--segmenter jieba: valid: character, spaces"),
    ]:
        refused(message, run, tmp_path, "我喜欢苹果", segmenter=name)
    sys.modules.pop("mine_of_this_test", None)


def test_what_tells_whether_a_segmenter_is_the_same(tmp_path, monkeypatch):
    assert words.shown("spaces", True) == {"segmenter": "spaces", "cased": True}
    monkeypatch.syspath_prepend(str(tmp_path))
    cut = write_raw(tmp_path / "cut_of_this_test.py", "def cut(text):", "    return list(text)")
    other = write_raw(tmp_path / "api_of_this_test.py", "from cut_of_this_test import cut")
    words.write_words([write_raw(tmp_path / "in", "ab")], [tmp_path / "out"], "api_of_this_test:cut")
    found = read_json(tmp_path / "out.json")["options"]
    assert [row["sha256"] for row in found["segmenter_code"]] == [sha256(other), sha256(cut)]
    write_raw(cut, "def cut(text):", "    return [text]")
    assert words.shown("api_of_this_test:cut", False)["segmenter_code"] != found["segmenter_code"]
    assert words.shown("regex:findall", False)["segmenter_version"] == metadata.version("regex")
    for name in ("cut_of_this_test", "api_of_this_test"):
        sys.modules.pop(name, None)


def test_no_input_is_overwritten_and_no_manifest_is_stale(tmp_path, monkeypatch):
    text = write_raw(tmp_path / "a.json", "a b")
    for output in ("a", "sub/../a.json"):
        refused("a.json: is the file of --inputs too", words.write_words, [text], [tmp_path / output])
    words.write_words([text], [tmp_path / "out"])
    before = sha256(tmp_path / "out.json")
    refused("holds no word", words.write_words, [write_raw(tmp_path / "none", "...", "!")], [tmp_path / "out"])
    assert sha256(tmp_path / "out.json") == before
    monkeypatch.setattr(words, "write_manifest", killed)
    with pytest.raises(KeyboardInterrupt):
        words.write_words([write_raw(tmp_path / "b", "c d")], [tmp_path / "out"])
    assert lines(tmp_path / "out") == ["c d"]
    assert not (tmp_path / "out.json").exists()
