"""Lines in, lines out: their order, their batches, what is cut, which pair; and the command."""

import io
import sys
import threading

import pytest

from fairseq_plugins_runtime import ModelError, __main__, load
from fairseq_plugins_runtime.translator import batches
from tests.runtime.folders import BLANK, EOS, SYMBOLS, table, write_folder

GERMAN, ENGLISH = ("eins", "zwei", "drei", "vier"), ("one", "two", "three", "four")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Its denoiser moves one to two to three, and leaves four."""
    return write_folder(
        tmp_path_factory.mktemp("model") / "model", passes=table(one="two", two="three", three="three", four="four")
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Without a denoiser."""
    return write_folder(tmp_path_factory.mktemp("model") / "model")


def lines(count):
    """Lines of 0 to 6 words, in no order, and what comes of them."""
    numbers = [[(place * 7 + line) % 4 for place in range(line * 5 % 7)] for line in range(count)]
    return tuple([" ".join(words[number] for number in row) for row in numbers] for words in (GERMAN, ENGLISH))


@pytest.mark.parametrize("batch_tokens", [1, 9, 40, 4000])
def test_order_and_empty_lines(plain, batch_tokens):
    german, english = lines(50)
    assert "" in german
    assert load(plain).translate(german, batch_tokens=batch_tokens) == english


def test_translations_have_scores_ids_and_passes(folder):
    found = load(folder).translations(["vier eins", "", "eins", "vier"])
    assert [one.text for one in found] == ["four three", "", "three", "four"]
    assert [one.passes for one in found] == [3, 0, 3, 1]
    assert [one.score for one in found] == [-0.5, 0.0, -0.5, -0.5]
    assert found[0].tokens == [SYMBOLS.index("four"), SYMBOLS.index("three")]


def test_trace(folder):
    model = load(folder)
    assert model.trace("vier eins") == [
        ["", "", "four", "", word, "", "", ""] for word in ("one", "two", "three", "three")
    ]
    assert model.trace("") == []


def test_what_is_too_long_is_cut_and_named(plain, caplog):
    model = load(plain)
    line = " ".join(GERMAN * 2)
    assert model.count_tokens(line) == 10
    assert model.limits["source_tokens"] == 8
    assert model.translate(["eins", line], first_line=41) == ["one", " ".join((ENGLISH * 2)[:6])]
    assert "longer than 6 tokens and cut: line 42" in caplog.text
    caplog.clear()
    assert model.count_tokens(" ".join(GERMAN)) == 6
    model.translate([" ".join(GERMAN)])
    assert not caplog.text


def test_pairs(tmp_path):
    around = {"source_prefix": [BLANK], "source_suffix": [EOS], "target_prefix": []}
    one, other = SYMBOLS.index("eins"), SYMBOLS.index("zwei")
    pairs = [
        {"source": "de", "target": "en", **around},
        {"source": "de", "target": "fr", **around, "source_prefix": [BLANK, one]},
        {"source": "en", "target": "fr", **around, "source_prefix": [other], "source_suffix": []},
    ]
    model = load(write_folder(tmp_path / "model", pairs=pairs))
    assert model.pairs == [("de", "en"), ("de", "fr"), ("en", "fr")]
    assert model.translate(["drei"], "de", "en") == model.translate(["drei"], target="en") == ["three"]
    assert model.translate(["drei"], "de", "fr") == ["one three"]
    assert model.translate(["drei"], source="en") == ["two three"]
    assert model.count_tokens("drei", "en") == 2
    for asked in ({}, {"source": "de"}, {"target": "fr"}, {"source": "fr"}, {"source": "en", "target": "de"}):
        with pytest.raises(ModelError, match="valid: de-en, de-fr, en-fr"):
            model.translate(["drei"], **asked)


def test_several_threads_at_once(folder):
    model, (german, _) = load(folder), lines(60)
    expected, found = model.translate(german), {}

    def work(number):
        found[number] = model.translate(german[number:], batch_tokens=20)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: expected[number:] for number in range(8)}


def test_batches():
    lengths = [3, 0, 9, 2, 3, 1, 0, 30]
    found = list(batches(lengths, 9))
    assert sorted(number for batch in found for number in batch) == [0, 2, 3, 4, 5, 7]
    assert found == [[5, 3, 0], [4], [2], [7]]


# ---- The command. ----


def test_a_line_in_a_line_out(plain, tmp_path):
    german, english = lines(30)
    (tmp_path / "in.txt").write_text("\n".join(german) + "\n", encoding="utf-8")
    output = tmp_path / "out.txt"
    command = [
        "translate",
        str(plain),
        "--input",
        str(tmp_path / "in.txt"),
        "--output",
        str(output),
        "--buffer-size",
        "7",
    ]
    assert __main__.main(command) == 0
    assert output.read_text(encoding="utf-8") == "\n".join(english) + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_lines_are_counted_over_buffers(plain, tmp_path, caplog):
    (tmp_path / "in.txt").write_text("eins\n" * 4 + " ".join(GERMAN * 2) + "\n", encoding="utf-8")
    command = ["translate", str(plain), "--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.txt")]
    assert __main__.main([*command, "--buffer-size", "2"]) == 0
    assert "cut: line 5" in caplog.text


@pytest.mark.cases(
    "data options named",
    (b"eins\n\xff\n", [], "line 2 is not UTF-8"),
    (b"eins\n", ["--source-lang", "fr"], "pair fr-any: the model has none such; valid: de-en"),
    (b"eins\n", ["--threads", "0"], "--threads: '0'; valid: an integer, at least 1"),
    (b"eins\n", ["--batch-tokens", "x"], "--batch-tokens: 'x'"),
    (None, [], "in.txt: no such file"),
)
def test_bad_input_leaves_the_output_as_it_was(plain, tmp_path, capsys, data, options, named):
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    output.write_text("before")
    if data is not None:
        source.write_bytes(data)
    with pytest.raises(SystemExit) as caught:
        __main__.main(["translate", str(plain), "--input", str(source), "--output", str(output), *options])
    assert caught.value.code == 2
    assert named in capsys.readouterr().err
    assert output.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1 + (data is not None)


def test_an_output_that_is_no_file(plain, tmp_path, capsys):
    for path in (tmp_path, tmp_path / "nowhere" / "out.txt"):
        with pytest.raises(SystemExit):
            __main__.main(["translate", str(plain), "--output", str(path)])
        assert f"--output {path}: expected a file name" in capsys.readouterr().err


def test_standard_input_and_output(plain, monkeypatch):
    read, written = io.BytesIO("eins\r\n\nDŽ zwei".encode()), io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(read, "ascii"))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    assert __main__.main(["translate", str(plain)]) == 0
    sys.stdout.flush()
    assert written.getvalue() == b"one\n\ntwo\n"


def test_a_command_is_needed(capsys):
    assert __main__.main([]) == 2
    assert __main__.main(["--help"]) == 0
    assert capsys.readouterr().err.count("translate|serve MODEL") == 2
