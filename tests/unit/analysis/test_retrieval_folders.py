"""Test retrieval over a folder: pairs in both layouts, submission files, what is refused."""

import pytest

from fairseq_plugins.analysis import retrieval_predictions
from fairseq_plugins.commands import retrieval as options
from fairseq_plugins.ops.neighbours import best_matches
from tests.unit.analysis.commands import read_refusal, run, write_lines
from tests.unit.analysis.test_retrieval import (
    COMMON,
    layer_means,
    make_rows,
    model,  # noqa: F401  (fixture)
    translate,
    write_rows,
)

LAYER = ["--layer", "1"]


def english_order(lines):
    """Return the numbers of the lines in XTREME's order."""
    return [number for _, number in sorted(zip(lines, range(len(lines))), key=lambda item: item[0])]


@pytest.fixture
def tatoeba(tmp_path):
    """Write de and fr of LASER, and a language that XTREME leaves out."""
    folder = tmp_path / "tatoeba"
    folder.mkdir()
    for code, seed in (("deu", 1), ("fra", 2), ("bel", 3)):
        source = make_rows(seed)
        write_rows(folder / f"tatoeba.{code}-eng.{code}", source)
        write_rows(folder / f"tatoeba.{code}-eng.eng", translate(source))
    return folder


def test_all_pairs_of_a_folder_equal_those_named_one_by_one(model, tatoeba, tmp_path, capsys):  # noqa: F811
    common = ["tatoeba", model, *COMMON, *LAYER, "--directions", "both"]
    named = []
    for language, code in (("de", "deu"), ("fr", "fra")):
        files = [tatoeba / f"tatoeba.{code}-eng.{end}" for end in (code, "eng")]
        named += ["--pair", f"{language}-en", *files]
    expected = run("retrieval", tmp_path / "a.json", *common, *named)
    capsys.readouterr()
    content = run("retrieval", tmp_path / "b.json", *common, "--folder", tatoeba)
    assert content["rows"] == expected["rows"] and content["found"] == expected["found"]
    out = capsys.readouterr().out
    assert ", cosine, both directions; 2 of XTREME's 36 pairs, without af, ar, " in out
    assert len(content["absent"]) == 34 and len(options.TATOEBA) == 36
    everything = run(
        "retrieval", tmp_path / "c.json", *common, "--folder", tatoeba, "--languages", "all"
    )
    assert [row["pair"] for row in everything["rows"]] == ["de-en", "fr-en", "bel-en"]
    backward = run("retrieval", tmp_path / "d.json", *common[:-1], "backward", "--folder", tatoeba)
    assert [row["backward"] for row in backward["rows"]] == [
        row["backward"] for row in expected["rows"]
    ]
    assert (
        "forward" not in backward["rows"][0]
        and "second → first language" in capsys.readouterr().out
    )


def test_predictions_of_tatoeba_are_equal_in_both_layouts(model, tatoeba, tmp_path):  # noqa: F811
    """XTREME sorts the English lines; its labels are the lines' numbers before that."""
    common = ["retrieval", "tatoeba", model, *COMMON, *LAYER, "--languages", "de"]
    assert main(common, "--folder", tatoeba, "--predictions", tmp_path / "aligned") == 0
    sorted_folder = tmp_path / "xtreme"
    sorted_folder.mkdir()
    german = (tatoeba / "tatoeba.deu-eng.deu").read_text()
    english = (tatoeba / "tatoeba.deu-eng.eng").read_text().splitlines()
    (sorted_folder / "de-en.de").write_text(german)
    write_lines(sorted_folder / "de-en.en", *sorted(english))
    assert main(common, "--folder", sorted_folder, "--predictions", tmp_path / "sorted") == 0
    predictions = (tmp_path / "aligned/tatoeba/test-de.tsv").read_text().splitlines()
    assert predictions == (tmp_path / "sorted/tatoeba/test-de.tsv").read_text().splitlines()
    vectors = (layer_means(model, rows, 1) for rows in (make_rows(1), translate(make_rows(1))))
    partners = best_matches(*vectors, "cosine").backward.tolist()
    order = english_order(english)
    assert predictions == [str(partners[number]) for number in order]
    hits = sum(prediction == str(label) for prediction, label in zip(predictions, order))
    content = run(
        "retrieval",
        tmp_path / "x.json",
        *common[1:],
        "--folder",
        tatoeba,
        "--directions",
        "backward",
    )
    assert content["rows"][0]["backward"] == pytest.approx(hits / len(order)), "XTREME's accuracy"


def main(line, *more):
    from fairseq_plugins.__main__ import main as command

    return command([str(word) for word in [*line, *more]])


def test_the_order_of_english_lines_is_xtremes():
    """Equal lines stay in their order; white space at the ends does not count."""
    english = ["b", " a", "c", "a "]
    lines = retrieval_predictions.tatoeba_lines([7, 8, 9, 6], english, is_sorted=False)
    assert lines == ["8", "6", "7", "9"]
    assert retrieval_predictions.tatoeba_lines([7, 8], ["b", "a"], is_sorted=True) == ["7", "8"]


@pytest.fixture
def bucc(tmp_path):
    """Write de and fr of BUCC like XTREME's script, without the gold of the test sets."""
    folder = tmp_path / "bucc2018"
    folder.mkdir()
    for seed, language in enumerate(("de", "fr")):
        for split in ("dev", "test"):
            source = make_rows(seed + 3)
            write_rows(folder / f"{language}-en.{split}.{language}", source, language)
            write_rows(folder / f"{language}-en.{split}.en", translate(source), "en")
        gold = [f"{language}-{number}\ten-{number}" for number in range(20)]
        write_lines(folder / f"{language}-en.dev.gold", *gold)
    return folder


def test_bucc_without_gold_writes_predictions(model, bucc, tmp_path, capsys):  # noqa: F811
    line = ["bucc", model, *COMMON, *LAYER, "--folder", bucc]
    refusal = read_refusal(capsys, "retrieval", *line)
    assert "pair de-en: has no gold, nothing can be scored; valid: --predictions DIR" in refusal
    content = run("retrieval", tmp_path / "x.json", *line, "--predictions", tmp_path / "out")
    assert [set(row) for row in content["rows"]] == [{"pair", "layer", "threshold", "dev_f1"}] * 2
    assert content["absent"] == ["ru", "zh"]
    assert (
        "pairs mined in both directions; 2 of XTREME's 4 pairs, without ru, zh"
        in capsys.readouterr().out
    )
    written = (tmp_path / "out/bucc2018/test-de.tsv").read_text().splitlines()
    gold = {f"de-{number}\ten-{number}" for number in range(20)}
    # The test set is the dev set here: F1 of XTREME's formula is that of the dev set.
    hits = len(gold & set(written))
    f1 = 2 * hits / (len(written) + len(gold))
    assert f1 == pytest.approx(content["rows"][0]["dev_f1"]) and hits
    for language in ("de", "fr"):
        gold_file = (bucc / f"{language}-en.dev.gold").read_text()
        (bucc / f"{language}-en.test.gold").write_text(gold_file)
    content = run("retrieval", tmp_path / "x.json", *line)
    assert content["rows"][0]["f1"] == pytest.approx(f1)


def test_folders_that_cannot_be_scored_are_refused(model, tatoeba, bucc, tmp_path, capsys):  # noqa: F811
    (tmp_path / "empty").mkdir()
    (bucc / "de-en.dev.gold").unlink()
    tatoeba_line = ["tatoeba", model, *COMMON]
    for line, message in (
        ([*tatoeba_line], "--pair: missing; valid: a pair, or --folder"),
        (
            [*tatoeba_line, "--folder", tmp_path / "empty"],
            "empty: no pair with English; valid: files tatoeba.",
        ),
        (
            [*tatoeba_line, "--folder", tatoeba, "--languages", "de,kk"],
            "--languages de,kk: kk is not in",
        ),
        ([*tatoeba_line, "--languages", "de"], "--languages de: valid: with --folder"),
        (
            [*tatoeba_line, "--folder", tatoeba, "--predictions", tmp_path / "p"],
            "of which layer? valid: --layer N",
        ),
        (["bucc", model, *COMMON, "--folder", bucc], "de-en.dev.gold: no such file"),
        (["bucc", model, *COMMON], "--dev: missing"),
    ):
        assert message in read_refusal(capsys, "retrieval", *line), line
    assert not (tmp_path / "p").exists()
