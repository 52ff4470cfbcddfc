"""Lexicons of mapped vectors: CSLS, ranks, both directions, forms, and vectors that are not mapped."""

import numpy as np
import pytest

from data_prep import induce_lexicon, lexicon_checks
from data_prep.induce_lexicon import LexiconOptions, induce
from data_prep.io import InputError, read_json
from data_prep.vector_text import WordVectors, read_vectors, write_vectors
from tests.csr_builders import two_sides, vectors, write_raw
from tests.reference import lexicon_loops as loops


def mapped(folder):
    """Two sides in one space: noisy copies."""
    first = vectors("a", 40)
    noise = np.random.default_rng(4).normal(size=(30, 10)).astype("f4")
    second = WordVectors([f"b{number}" for number in range(30)], first.vectors[:30] + 0.2 * noise)
    write_vectors([folder / "a", folder / "b"], "--output", [first, second])
    return folder / "a", folder / "b"


def rows(path):
    """Cells of a TSV."""
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("block", [7, 4096])
def test_the_lexicon_is_csls_by_rank_in_both_directions(tmp_path, block):
    sides = mapped(tmp_path)
    outputs = tmp_path / "a-b.tsv", tmp_path / "b-a.tsv"
    counts = induce(*sides, outputs, tmp_path / "m", LexiconOptions(top=3, neighbours=4, block=block))
    x, y = (read_vectors(path, "--source").vectors.astype("f8") for path in sides)
    scores = loops.csls(x, y, 4)
    for path, letters, table in ((outputs[0], "ab", scores), (outputs[1], "ba", list(zip(*scores)))):
        expected = [
            [f"{letters[0]}{i}", f"{letters[1]}{j}", pytest.approx(row[j], abs=1e-5), rank]
            for i, row in enumerate(table)
            for rank, j in enumerate(loops.by_rank(row)[:3], start=1)
        ]
        assert [[*cells[:2], float(cells[2]), int(cells[3])] for cells in rows(path)] == expected
    assert counts["words"] == [40, 30]
    assert counts["candidates"] == 3
    assert not counts["looks_random"]
    assert read_json(tmp_path / "m")["counts"] == counts


def test_the_command_line_and_muses_form(tmp_path, capsys):
    first, second = mapped(tmp_path)
    blank = WordVectors(["New York", *(f"a{i}" for i in range(1, 40))], vectors("a", 40).vectors)
    write_vectors([tmp_path / "blank"], "--output", [blank])
    line = ["--source", str(tmp_path / "blank"), "--target", str(second), "--output", str(tmp_path / "l")]
    induce_lexicon.main([*line, *"--form muse --top 2 --max-words 20".split()])
    found = [text.split(" ") for text in (tmp_path / "l").read_text(encoding="utf-8").splitlines()]
    assert len(found) == 19 * 2
    assert found[0][0] == found[1][0] == "a1"
    assert found[0][1] == "b1"
    assert "2 pairs left out: a word with a blank" in capsys.readouterr().err
    assert read_json(tmp_path / "l.json")["options"] == {"form": "muse", "max_words": 20, "neighbours": 10, "top": 2}


def test_vectors_that_are_not_mapped_are_refused(tmp_path):
    message = (
        "--source .* and --target .*: mutual neighbours 0.* after a random rotation.*; valid: vectors in one space"
    )
    with pytest.raises(InputError, match=message):
        induce(*two_sides(tmp_path), [tmp_path / "l"], tmp_path / "m", LexiconOptions())
    assert not (tmp_path / "l").exists() and not (tmp_path / "m").exists()


def test_a_map_that_found_little_is_a_warning(tmp_path, capsys, monkeypatch):
    """A learned map of unrelated sides raises the objective."""
    monkeypatch.setitem(lexicon_checks.LEAST_RATIO, "objective", 0.5)
    counts = induce(*two_sides(tmp_path), [tmp_path / "l"], tmp_path / "m", LexiconOptions())
    assert counts["looks_random"]
    said = capsys.readouterr().err
    assert "induce_lexicon: warning: mutual neighbours 0." in said
    assert "induce_lexicon: not checked: identical words: both sides have 0 among" in said
    assert len(counts["not_checked"]) == 1
    assert "(are both files mapped into one space?)" in said


@pytest.mark.parametrize("option", ["top", "neighbours", "block"])
def test_options_out_of_range(option):
    with pytest.raises(InputError, match=f"--{option} 0: valid: 1 or more"):
        LexiconOptions(**{option: 0})
    with pytest.raises(InputError, match="--max-words 1: valid: 2 or more"):
        LexiconOptions(max_words=1)


def test_every_file_has_its_own_place(tmp_path):
    first, second = mapped(tmp_path)
    before = first.read_bytes()
    for outputs, manifest, message in [
        (["l"], "a", "manifest .*a: is the file of --source too; valid: a file of its own"),
        (["l", "l.json"], "l.json", "manifest .*l.json: is the file of --reverse too"),
        (["l", "l"], "m", "--reverse .*l: is the file of --output too"),
        (["."], "m", "--output .*: a folder"),
    ]:
        with pytest.raises(InputError, match=message):
            induce(first, second, [tmp_path / name for name in outputs], tmp_path / manifest, LexiconOptions())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert first.read_bytes() == before


def test_no_manifest_of_before_stands_beside_new_lexicons(tmp_path, monkeypatch):
    sides = mapped(tmp_path)
    (tmp_path / "m").write_text("{}\n", encoding="utf-8")

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(induce_lexicon, "write_manifest", killed)
    with pytest.raises(KeyboardInterrupt):
        induce(*sides, [tmp_path / "l"], tmp_path / "m", LexiconOptions(top=2))
    assert len(rows(tmp_path / "l")) == 80
    assert not (tmp_path / "m").exists()


def test_a_failure_leaves_the_old_lexicons(tmp_path):
    first, second = mapped(tmp_path)
    (tmp_path / "l").write_text("old\n", encoding="utf-8")
    lines = second.read_text(encoding="utf-8").splitlines()
    write_raw(tmp_path / "bad", *lines[:8], f"{lines[8].rpartition(' ')[0]} nan", *lines[9:])
    with pytest.raises(InputError, match="line 9: the vector of 'b7' holds NaN"):
        induce(first, tmp_path / "bad", [tmp_path / "l"], tmp_path / "m", LexiconOptions())
    with pytest.raises(InputError, match="--reverse .*a: is the file of --source too"):
        induce(first, second, [tmp_path / "l", first], tmp_path / "m", LexiconOptions())
    assert (tmp_path / "l").read_text(encoding="utf-8") == "old\n"
    assert not (tmp_path / "m").exists()
