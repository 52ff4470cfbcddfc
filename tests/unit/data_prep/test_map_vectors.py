"""Mapping files: seeds from words and dictionaries, reports, and what is refused."""

import numpy as np
import pytest

from data_prep import map_vectors
from data_prep.io import read_json
from data_prep.lexicon_files import read_candidates
from data_prep.map_vectors import MapOptions, map_files, word_pairs
from data_prep.vector_text import WordVectors, read_vectors, write_vectors
from tests.csr_builders import mates, two_sides, vectors, write_raw
from tests.unit.data_prep.files import killed, refused


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
    alien = second._replace(words=["u", "v", "w", "12", "y", "z"])
    for kind in ("numerals", "identical"):
        refused(f"--seed-from {kind}: 1 pairs have vectors on both sides; valid: 2 or", word_pairs, kind, first, alien)
    sides = vectors("a", 9), vectors("b", 9)
    other = write_raw(tmp_path / "other", "chien hund", "chat katze")
    refused("none of its source words is in the vectors", word_pairs, "dictionary", *sides, other)


def test_what_is_refused_leaves_everything_as_it_was(tmp_path):
    a, b, pairs = (write_raw(tmp_path / name, "never read") for name in ("a.vec", "b.vec", "pairs"))
    dictionary = {"seed_from": "dictionary", "dictionary": pairs}
    for names, options, words in (
        ({"report": "a.vec"}, {}, "a.vec: is the file of --source too; valid: a file of its own"),
        ({"report": "pairs"}, dictionary, "pairs: is the file of --dictionary too"),
        ({"pairs": "am"}, {}, "am: is the file of --source-output too"),
        ({"target": "am"}, {}, "am: is the file of --source-output too"),
        ({"report": "."}, {}, ": a folder; valid: a file name"),
        ({}, {"seed_from": "luck"}, "--seed-from luck: valid: unsupervised, numerals, identical, dictionary"),
        ({}, {"seed_from": "dictionary"}, "--seed-from dictionary, --dictionary is missing: valid: a file with"),
        ({}, {"dictionary": "x"}, "--seed-from unsupervised, --dictionary x: valid: a file with dictionary, and only"),
        ({}, {"seed_from": "dictionary", "dictionary": "none/x"}, "--dictionary none/x: no such file; valid: pairs of"),
        ({}, {"max_words": 0}, "--max-words 0: valid: 2 or more"),
        ({}, {"seed_words": 1}, "--seed-words 1: valid: 2 or more"),
        ({}, {"device": "nowhere"}, "; valid here: cpu"),
    ):
        names = {"source": "am", "target": "bm", "report": "map.json", "pairs": "out.pairs", **names}
        source, target, report, written = (tmp_path / names[name] for name in ("source", "target", "report", "pairs"))
        refused(words, lambda: map_files(a, b, (source, target), report, MapOptions(**options), written))  # noqa: B023
    first, second = vectors("a", 9), vectors("b", 9)
    write_vectors([a, b], "--output", [first, second._replace(vectors=second.vectors[:, :4])])
    refused(["b.vec: 4 dimensions, but --source ", "a.vec has 10; valid: equal ones"], run, (a, b), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.vec", "b.vec", "pairs"]


def test_the_command_line(tmp_path, capsys, monkeypatch):
    source, target = two_sides(tmp_path)
    outputs = {"source-output": "am", "target-output": "bm", "report": "map.json"}
    line = ["--source", str(source), "--target", str(target), "--orthogonal"]
    line += [word for option, name in outputs.items() for word in (f"--{option}", str(tmp_path / name))]
    map_vectors.main([*line, *"--keep 0.5 --seed 7 --threads 1 --cutoff 90 --patience 3".split()])
    report = read_json(tmp_path / "map.json")
    options = {"reweight": False, "keep": 0.5, "seed": 7, "words": 90, "patience": 3}
    assert options.items() <= report["options"].items()
    assert report["counts"]["pairs"] == 180
    refused("--threads 0: valid: 1 or more", map_vectors.main, [*line, "--threads", "0"])
    pairs = write_raw(tmp_path / "pairs", *(f"a{i} b{i}" for i in range(30)))
    monkeypatch.setattr(map_vectors, "write_manifest", killed)
    before = (tmp_path / "am").read_bytes()
    with pytest.raises(KeyboardInterrupt):
        map_vectors.main([*line, "--seed-from", "dictionary", "--dictionary", str(pairs), "--iterations", "1"])
    assert "--iterations 1: ended before it converged" in capsys.readouterr().err
    assert (tmp_path / "am").read_bytes() != before
    assert not (tmp_path / "map.json").exists(), "no report of before stands beside new vectors"
