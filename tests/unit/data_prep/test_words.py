"""Words of any script, segmenters, and what is refused."""

import sys

from data_prep import words
from data_prep.io import sha256
from tests.csr_builders import write_raw
from tests.unit.data_prep.files import lines, refused


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
    english = [f"sentence number {number} of this text" for number in range(28)]
    without_letters = ["1 2 3 ..."] * 50  # are not counted
    refused("1 of 9 lines read (11%)", run, tmp_path, *english[:8], "他说天气很好。", *without_letters)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
    quoted = [*english, "他说天气很好。", "“天气很好”"]
    assert run(tmp_path, *quoted)[28:] == ["他说天气很好", "天气很好"]


def test_segmenters(tmp_path, monkeypatch):
    assert run(tmp_path, "我喜欢 Apple-Saft。", segmenter="character") == ["我 喜 欢 apple saft"]
    assert run(tmp_path, "我 喜欢 苹果 。", segmenter="spaces") == ["我 喜欢 苹果"]
    cut = "return [text[:1], text[1:3], text[3:], '。']"
    write_raw(tmp_path / "mine_of_this_test.py", f"def cut(text): {cut}", "def wrong(text): return [3]")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run(tmp_path, "我喜欢苹果", segmenter="mine_of_this_test:cut") == ["我 喜欢 苹果"]
    for name, message in [
        ("mine_of_this_test:wrong", "gives int; valid: a function that gives strings"),
        ("jieba", "--segmenter jieba: valid: character, spaces"),
    ]:
        refused(message, run, tmp_path, "我喜欢苹果", segmenter=name)
    sys.modules.pop("mine_of_this_test", None)


def test_a_changed_segmenter_is_told_and_no_input_overwritten(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    cut = write_raw(tmp_path / "cut_of_this_test.py", "def cut(text):", "    return list(text)")
    found = words.shown("cut_of_this_test:cut", False)["segmenter_code"]
    assert [row["sha256"] for row in found] == [sha256(cut)]
    write_raw(cut, "def cut(text):", "    return [text]")
    assert words.shown("cut_of_this_test:cut", False)["segmenter_code"] != found
    sys.modules.pop("cut_of_this_test", None)
    text = write_raw(tmp_path / "a.json", "a b")
    refused("a.json: is the file of --inputs too", words.write_words, [text], [tmp_path / "a"])
