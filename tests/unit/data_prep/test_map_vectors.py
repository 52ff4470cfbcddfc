"""Mapping files: seeds from words and dictionaries, reports, and what is refused."""

import numpy as np
import pytest

from data_prep.io import read_json
from data_prep.lexicon_files import read_candidates
from data_prep.map_vectors import MapOptions, map_files, word_pairs
from data_prep.vector_text import WordVectors, read_vectors
from tests.csr_builders import mates, two_sides, vectors, write_raw
from tests.unit.data_prep.files import refused


def run(sides, out, dictionary_output=None, **options):
    """Map two files."""
    outputs = out / "a.mapped", out / "b.mapped"
    return map_files(*sides, outputs, out / "map.json", MapOptions(**options), dictionary_output)


def test_a_rotation_is_undone_and_reported(tmp_path):
    counts = run(two_sides(tmp_path), tmp_path / "out", dictionary_output=tmp_path / "out/pairs")
    a, b = (read_vectors(tmp_path / "out" / name, "--source") for name in ("a.mapped", "b.mapped"))
    np.testing.assert_allclose(np.linalg.norm(a.vectors, axis=1), 1.0, atol=1e-5)
    nearest = [b.words[place] for place in (a.vectors @ b.vectors.T).argmax(1)]
    assert nearest == [f"b{word[1:]}" for word in a.words]
    assert read_candidates(tmp_path / "out/pairs", "--dictionary") == mates(a.words)
    report = read_json(tmp_path / "out/map.json")
    assert report["counts"] == counts
    assert (counts["words"], counts["seed_pairs"], counts["found"]["mutual"]) == ([200, 200], 400, 1.0)
    assert counts["converged"] and not counts["looks_random"]
    assert len(counts["objective"]) == counts["iterations"] == len(counts["keep"])
    assert counts["objective"][-1] == pytest.approx(1.0, abs=1e-4)
    assert (counts["keep"][0], counts["keep"][-1]) == (0.1, 1.0)
    assert [row["file"] for row in report["outputs"]] == ["a.mapped", "b.mapped", "pairs"]


def test_seeds_from_words(tmp_path):
    first = WordVectors(["the", "12", "x", "٣", "7", "half½"], np.eye(6, dtype="f4"))
    second = WordVectors(["x", "7", "half½", "12", "die", "٣"], np.eye(6, dtype="f4"))
    assert word_pairs("numerals", first, second) == ([1, 3, 4], [3, 5, 1])
    assert word_pairs("identical", first, second) == ([1, 2, 3, 4, 5], [3, 0, 5, 1, 2])
    muse = write_raw(tmp_path / "muse", "the die", "the x", "unknown x", "12 unknown")
    assert word_pairs("dictionary", first, second, muse) == ([0, 0], [4, 0])
    tsv = write_raw(tmp_path / "tsv", "the\tdie\t0.5\t1", "x\tx\t0.4\t1")
    assert word_pairs("dictionary", first, second, tsv) == ([0, 2], [4, 0])
    sides = vectors("a", 9), vectors("b", 9)
    other = write_raw(tmp_path / "other", "chien hund", "chat katze")
    refused("none of its source words is in the vectors", word_pairs, "dictionary", *sides, other)


def test_what_is_refused_leaves_everything_as_it_was(tmp_path):
    a, b, pairs = (write_raw(tmp_path / name, "never read") for name in ("a.vec", "b.vec", "pairs"))
    for names, options, words in (
        ({"report": "a.vec"}, {}, "a.vec: is the file of --source too; valid: a file of its own"),
        ({"pairs": "am"}, {}, "am: is the file of --source-output too"),
        ({}, {"seed_from": "luck"}, "--seed-from luck: valid: unsupervised, numerals, identical, dictionary"),
        ({}, {"seed_from": "dictionary", "dictionary": "none/x"}, "--dictionary none/x: no such file; valid: pairs of"),
        ({}, {"seed_words": 1}, "--seed-words 1: valid: 2 or more"),
    ):
        names = {"source": "am", "target": "bm", "report": "map.json", "pairs": "out.pairs", **names}
        source, target, report, written = (tmp_path / names[name] for name in ("source", "target", "report", "pairs"))
        refused(words, lambda: map_files(a, b, (source, target), report, MapOptions(**options), written))  # noqa: B023
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.vec", "b.vec", "pairs"]
