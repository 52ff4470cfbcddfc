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


@pytest.mark.parametrize("line", ["我喜欢苹果。", "私は学生です", "ฉันชอบกินข้าว"])
def test_a_script_without_spaces_needs_a_segmenter(tmp_path, line):
    words = ["script without spaces", "--segmenter is not given; valid: character, spaces"]
    refused(words, run, tmp_path, "ok " * 2, line)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_the_whole_text_is_looked_at(tmp_path):
    english = [f"sentence number {number} of this text" for number in range(1200)]
    words = "400 of 1,600 lines read (25%) are of a script without spaces"
    refused(words, run, tmp_path, *english, *["他说天气很好。"] * 400)
    without_letters = ["1 2 3 ..."] * 50  # are not counted
    refused("1 of 9 lines read (11%)", run, tmp_path, *english[:8], "他说天气很好。", *without_letters)
    quoted = [*english[:28], "他说天气很好。", "“天气很好”"]
    assert run(tmp_path, *quoted)[28:] == ["他说天气很好", "天气很好"]


def test_segmenters(tmp_path, monkeypatch):
    line = "我喜欢 Apple-Saft。"
    assert run(tmp_path, line, segmenter="character") == ["我 喜 欢 apple saft"]
    assert run(tmp_path, "我 喜欢 苹果 。", segmenter="spaces") == ["我 喜欢 苹果"]
    write_raw(
        tmp_path / "mine_of_this_test.py",
        "def cut(text):",
        "    return [text[:1], text[1:3], text[3:], '。']",
        "bad = 3",
    )
    write_raw(tmp_path / "wrong_of_this_test.py", "def cut(text):", "    return [3]")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run(tmp_path, "我喜欢苹果", segmenter="mine_of_this_test:cut") == ["我 喜欢 苹果"]
    for name, message in [
        ("mine_of_this_test:bad", "mine_of_this_test has no function bad"),
        ("mine_of_this_test:none", "has no function none"),
        ("no_such_module_here:cut", "No module named"),
        ("jieba", "--segmenter jieba: valid: character, spaces"),
        ("wrong_of_this_test:cut", "gives int; valid: a function that gives strings"),
    ]:
        refused(message, run, tmp_path, "我喜欢苹果", segmenter=name)
    sys.modules.pop("mine_of_this_test", None)


def test_what_tells_whether_a_segmenter_is_the_same(tmp_path, monkeypatch):
    for name in (None, "character", "spaces"):
        assert words.shown(name, True) == {"segmenter": name, "cased": True}
    monkeypatch.syspath_prepend(str(tmp_path))
    cut, other = tmp_path / "cut_of_this_test.py", tmp_path / "api_of_this_test.py"
    write_raw(cut, "def cut(text):", "    return list(text)")
    write_raw(other, "from cut_of_this_test import cut")
    found = words.shown("api_of_this_test:cut", False)
    assert [row["sha256"] for row in found["segmenter_code"]] == [sha256(other), sha256(cut)]
    assert [row["file"] for row in words.shown("cut_of_this_test:cut", False)["segmenter_code"]] == [cut.name]
    write_raw(cut, "def cut(text):", "    return [text]")
    assert words.shown("api_of_this_test:cut", False) != found
    assert words.shown("regex:findall", False)["segmenter_version"] == metadata.version("regex")
    assert words.shown("sys:intern", False) == {
        "segmenter": "sys:intern", "cased": False, "segmenter_code": [], "segmenter_version": None
    }  # fmt: skip
    write_raw(tmp_path / "in", "ab")
    words.write_words([tmp_path / "in"], [tmp_path / "out"], "cut_of_this_test:cut")
    assert read_json(tmp_path / "out.json")["options"]["segmenter_code"][0]["sha256"] == sha256(cut)
    for name in ("cut_of_this_test", "api_of_this_test"):
        sys.modules.pop(name, None)


def test_every_file_has_its_own_place_and_no_manifest_is_stale(tmp_path, monkeypatch):
    text = write_raw(tmp_path / "a.json", "a b")
    for output, message in [
        ("a", "a.json: is the file of --inputs too; valid: a file of its own"),
        ("sub/../a.json", "a.json: is the file of --inputs too"),
        (".", ": a folder; valid: a file name"),
    ]:
        refused(message, words.write_words, [text], [tmp_path / output])
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    words.write_words([text], [tmp_path / "out"])
    before = sha256(tmp_path / "out.json")
    (tmp_path / "bad").write_bytes(b"a\n\xff\n")
    refused("bad, line 2: not UTF-8", words.write_words, [tmp_path / "bad"], [tmp_path / "out"])
    refused("holds no word", words.write_words, [write_raw(tmp_path / "none", "...", "!")], [tmp_path / "out"])
    assert sha256(tmp_path / "out.json") == before
    monkeypatch.setattr(words, "write_manifest", killed)
    with pytest.raises(KeyboardInterrupt):
        words.write_words([write_raw(tmp_path / "b", "c d")], [tmp_path / "out"])
    assert lines(tmp_path / "out") == ["c d"]
    assert not (tmp_path / "out.json").exists()
