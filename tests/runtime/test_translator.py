"""Test how lines are translated: order, batches, cuts, pairs, threads, and the command."""

import io
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairseq_plugins_runtime import ModelError, __main__, load
from fairseq_plugins_runtime.translator import batches
from tests.runtime.folders import AFFIXES, BLANK, ENGLISH, GERMAN, SYMBOLS, make_table, write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model without a denoiser."""
    return write_folder(tmp_path_factory.mktemp("plain") / "model")


@pytest.fixture(scope="module")
def denoising(tmp_path_factory):
    """A model whose denoiser moves one to two to three, and leaves four."""
    passes = make_table(one="two", two="three", three="three", four="four")
    return load(write_folder(tmp_path_factory.mktemp("denoising") / "model", passes=passes))


def make_lines(count):
    """Make lines of 0 to 6 German words, unordered by length, and their translations."""
    rows = [[(place * 7 + line) % 4 for place in range(line * 5 % 7)] for line in range(count)]
    german = [" ".join(GERMAN[number] for number in row) for row in rows]
    english = [" ".join(ENGLISH[number] for number in row) for row in rows]
    return german, english


LONG_LINE = " ".join(GERMAN * 2)


@pytest.mark.parametrize("batch_tokens", [1, 9, 40, 4000])
def test_translations_keep_the_order_and_empty_lines(folder, batch_tokens):
    german, english = make_lines(50)
    assert "" in german
    assert load(folder).translate(german, batch_tokens=batch_tokens) == english


def test_translations_have_scores_ids_and_passes(denoising):
    translations = denoising.translations(["vier eins", "", "eins", "vier"])
    assert [translation.text for translation in translations] == ["four three", "", "three", "four"]
    assert [translation.passes for translation in translations] == [3, 0, 3, 1]
    assert [translation.score for translation in translations] == [-0.5, 0.0, -0.5, -0.5]
    assert translations[0].tokens == [SYMBOLS.index("four"), SYMBOLS.index("three")]


def test_a_trace_lists_the_slots_of_each_pass(denoising):
    words = ("one", "two", "three", "three")
    expected = [["", "", "four", "", word, "", "", ""] for word in words]
    assert denoising.trace("vier eins") == expected
    assert denoising.trace("") == []


def test_long_lines_are_cut_with_a_warning(folder, caplog):
    model = load(folder)
    assert model.count_tokens(LONG_LINE) == 10
    expected = ["one", " ".join((ENGLISH * 2)[:6])]
    assert model.translate(["eins", LONG_LINE], first_line=41) == expected
    assert "longer than 6 tokens and cut: line 42" in caplog.text
    caplog.clear()
    longest = " ".join([*GERMAN, "eins", "eins"])
    assert model.count_tokens(longest) == model.limits["source_tokens"] == 8
    model.translate([longest])
    assert not caplog.text


def test_a_model_of_several_pairs_needs_to_know_which(tmp_path):
    eins, zwei = SYMBOLS.index("eins"), SYMBOLS.index("zwei")
    pairs = [
        {"source": "de", "target": "en", **AFFIXES},
        {"source": "de", "target": "fr", **AFFIXES, "source_prefix": [BLANK, eins]},
        {
            "source": "en",
            "target": "fr",
            **AFFIXES,
            "source_prefix": [zwei],
            "source_suffix": [],
        },
    ]
    model = load(write_folder(tmp_path / "model", pairs=pairs))
    assert model.pairs == [("de", "en"), ("de", "fr"), ("en", "fr")]
    assert model.translate(["drei"], "de", "en") == ["three"]
    assert model.translate(["drei"], target="en") == ["three"]
    assert model.translate(["drei"], "de", "fr") == ["one three"]
    assert model.translate(["drei"], source="en") == ["two three"]
    assert model.count_tokens("drei", "en") == 2
    for languages in (
        {},
        {"source": "de"},
        {"target": "fr"},
        {"source": "fr"},
        {"source": "en", "target": "de"},
    ):
        with pytest.raises(ModelError, match="valid: de-en, de-fr, en-fr"):
            model.translate(["drei"], **languages)


def test_several_threads_may_translate_at_once(denoising):
    german, _ = make_lines(60)
    expected = denoising.translate(german)
    with ThreadPoolExecutor(8) as pool:
        futures = [
            pool.submit(denoising.translate, german[start:], batch_tokens=20) for start in range(8)
        ]
        for start, future in enumerate(futures):
            assert future.result() == expected[start:]


def test_batches_hold_lines_of_similar_length_and_no_empty_ones():
    lengths = [3, 0, 9, 2, 3, 1, 0, 30]
    assert list(batches(lengths, 9)) == [[5, 3, 0], [4], [2], [7]]


# ---- The command. ----


@pytest.fixture
def translate_files(folder, tmp_path):
    """Run the command from in.txt to out.txt with some options."""

    def run(*options):
        paths = ["--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.txt")]
        return __main__.main(["translate", str(folder), *paths, *options])

    return run


def test_the_command_writes_a_line_for_each_line(translate_files, tmp_path, caplog):
    german, english = make_lines(30)
    (tmp_path / "in.txt").write_text("\n".join([*german, LONG_LINE, ""]), encoding="utf-8")
    assert translate_files("--buffer-size", "7") == 0
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert lines[:-1] == english and len(lines) == 31
    assert "cut: line 31" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


@pytest.mark.cases(
    "data options message",
    (b"eins\n\xff\n", [], "line 2 is not UTF-8"),
    (b"eins\n", ["--source-lang", "fr"], "pair fr-any"),
    (b"eins\n", ["--threads", "0"], "--threads: '0'"),
    (b"eins\n", ["--batch-tokens", "x"], "--batch-tokens: 'x'"),
    (None, [], "in.txt: no such file"),
)
def test_bad_input_leaves_the_output_unchanged(
    translate_files, tmp_path, capsys, data, options, message
):
    (tmp_path / "out.txt").write_text("before")
    if data is not None:
        (tmp_path / "in.txt").write_bytes(data)
    with pytest.raises(SystemExit) as error:
        translate_files(*options)
    assert error.value.code == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "out.txt").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1 + (data is not None)


def test_an_output_that_is_no_file_is_refused(folder, tmp_path, capsys):
    for path in (tmp_path, tmp_path / "nowhere" / "out.txt"):
        with pytest.raises(SystemExit):
            __main__.main(["translate", str(folder), "--output", str(path)])
        assert f"--output {path}" in capsys.readouterr().err


def test_standard_input_and_output_are_utf8(folder, monkeypatch):
    stdin, stdout = io.BytesIO("eins\r\n\nDŽ zwei".encode()), io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin, "ascii"))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stdout, "ascii"))
    assert __main__.main(["translate", str(folder)]) == 0
    sys.stdout.flush()
    assert stdout.getvalue() == b"one\n\ntwo\n"


def test_a_command_is_needed(capsys):
    assert __main__.main([]) == 2
    assert __main__.main(["--help"]) == 0
    assert capsys.readouterr().err.count("translate|serve MODEL") == 2
