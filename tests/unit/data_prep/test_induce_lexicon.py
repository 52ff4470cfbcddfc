"""Lexicons of mapped vectors: CSLS, ranks, both directions, forms, and vectors that are not mapped."""

import numpy as np
import pytest

from data_prep import induce_lexicon
from data_prep.induce_lexicon import LexiconOptions, induce
from data_prep.io import read_json
from data_prep.vector_text import WordVectors, read_vectors, write_vectors
from tests.csr_builders import two_sides, vectors, write_raw
from tests.reference import lexicon_loops as loops
from tests.unit.data_prep.files import killed, lines, refused


def mapped(folder):
    """Two sides in one space: noisy copies; the first word of the first one has a blank."""
    first = vectors("a", 40)
    noise = np.random.default_rng(4).normal(size=(30, 10)).astype("f4")
    second = WordVectors([f"b{number}" for number in range(30)], first.vectors[:30] + 0.2 * noise)
    write_vectors([folder / "a", folder / "b"], "--output", [first._replace(words=["a 0", *first.words[1:]]), second])
    return folder / "a", folder / "b"


@pytest.mark.parametrize("block", [7, 4096])
def test_the_lexicon_is_csls_by_rank_in_both_directions(tmp_path, block):
    sides = mapped(tmp_path)
    outputs = tmp_path / "a-b.tsv", tmp_path / "b-a.tsv"
    counts = induce(*sides, outputs, tmp_path / "m", LexiconOptions(top=3, neighbours=4, block=block))
    both = [read_vectors(path, "--source") for path in sides]
    scores = loops.csls(*(side.vectors.astype("f8") for side in both), 4)
    for path, (ours, theirs), table in ((outputs[0], both, scores), (outputs[1], both[::-1], list(zip(*scores)))):
        expected = [
            [ours.words[i], theirs.words[j], pytest.approx(row[j], abs=1e-5), rank]
            for i, row in enumerate(table)
            for rank, j in enumerate(loops.by_rank(row)[:3], start=1)
        ]
        found = [line.split("\t") for line in lines(path)]
        assert [[*cells[:2], float(cells[2]), int(cells[3])] for cells in found] == expected
    assert (counts["words"], counts["candidates"], counts["looks_random"]) == ([40, 30], 3, False)
    assert read_json(tmp_path / "m")["counts"] == counts


def test_the_command_line_and_muses_form(tmp_path, capsys):
    first, second = mapped(tmp_path)
    line = ["--source", str(first), "--target", str(second), "--output", str(tmp_path / "l")]
    induce_lexicon.main([*line, *"--form muse --top 2 --max-words 20".split()])
    found = [text.split(" ") for text in lines(tmp_path / "l")]
    assert len(found) == 19 * 2 and found[0] == ["a1", "b1"] and found[1][0] == "a1"
    assert "2 pairs left out: a word with a blank" in capsys.readouterr().err
    assert read_json(tmp_path / "l.json")["options"] == {"form": "muse", "max_words": 20, "neighbours": 10, "top": 2}


def test_what_is_refused_leaves_everything_as_it_was(tmp_path):
    first, second = mapped(tmp_path)
    rows = lines(second)
    write_raw(tmp_path / "bad", *rows[:8], f"{rows[8].rpartition(' ')[0]} nan", *rows[9:])
    write_vectors([tmp_path / "c", tmp_path / "short"], "--output", [vectors("c", 9), vectors("d", 9)])
    write_raw(tmp_path / "l", "old")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    unmapped = two_sides(tmp_path / "turned")
    for source, target, outputs, manifest, words in (
        (*unmapped, ["l"], "m", [": mutual neighbours 0", " after a random rotation", "; valid: vectors in one space"]),
        (first, tmp_path / "bad", ["l"], "m", "line 9: the vector of 'b7' holds NaN"),
        (first, second, ["l"], "a", "a: is the file of --source too; valid: a file of its own"),
        (first, second, ["l", "l.json"], "l.json", "l.json: is the file of --reverse too"),
        (first, second, ["l", "l"], "m", "l: is the file of --output too"),
        (first, second, ["."], "m", ": a folder"),
    ):
        outputs = [tmp_path / name for name in outputs]
        refused(words, induce, source, target, outputs, tmp_path / manifest, LexiconOptions())
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    for option in ("top", "neighbours", "block"):
        refused(f"--{option} 0: valid: 1 or more", LexiconOptions, **{option: 0})
    refused("--max-words 1: valid: 2 or more", LexiconOptions, max_words=1)


def test_no_manifest_of_before_stands_beside_new_lexicons(tmp_path, monkeypatch):
    sides = mapped(tmp_path)
    write_raw(tmp_path / "m", "{}")
    monkeypatch.setattr(induce_lexicon, "write_manifest", killed)
    with pytest.raises(KeyboardInterrupt):
        induce(*sides, [tmp_path / "l"], tmp_path / "m", LexiconOptions(top=2))
    assert len(lines(tmp_path / "l")) == 80
    assert not (tmp_path / "m").exists()
