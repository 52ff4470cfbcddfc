"""Test the way from texts to lexicons: steps that are skipped, kills, errors, locks."""

import pytest

from data_prep.files import sha256
from data_prep.io import read_json
from data_prep.lexicon import induce as induce_lexicon
from data_prep.lexicon import mapping as map_vectors
from data_prep.lexicon import pipeline as lexicon
from data_prep.lexicon.files import read_candidates
from data_prep.toy.corpus import generate
from tests.csr_builders import write_raw
from tests.unit.data_prep.files import assert_refused, interrupt

OPTIONS = (
    "--dim 12 --window 3 --negative 3 --epochs 2 --min-count 2 --top 4 --patience 2 --threads 1"
    " --iterations 30"
)
STEPS = ["words.en", "words.de", "vectors.en", "vectors.de", "map", "lexicon"]


@pytest.fixture(scope="module")
def texts(path):
    examples = list(generate(3, {"train": 60}))
    for language in ("en", "de"):
        write_raw(path / f"toy.{language}", *(example.texts[language] for example in examples))
    return path


def run(texts, out, *more):
    files = f"--source {texts}/toy.en --target {texts}/toy.de --out {out}"
    lexicon.main([*files.split(), *OPTIONS.split(), *more])


def read_state(out):
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return {str(path): (sha256(path), path.stat().st_mtime_ns) for path in files}


def hash_lexicons(out):
    return [sha256(out / name) for name in ("en-de.tsv", "de-en.tsv")]


def skipped_steps(capsys):
    lines = capsys.readouterr().err.splitlines()
    return [line.split(": ")[1] for line in lines if line.endswith("unchanged, skipped")]


def test_unchanged_steps_are_skipped(texts, tmp_path, capsys):
    out = tmp_path / "out"
    manifest = out / "en-de/manifest.json"
    run(texts, out)
    assert skipped_steps(capsys) == []
    forward, back = (
        read_candidates(out / name, "--lexicon") for name in ("en-de.tsv", "de-en.tsv")
    )
    assert {len(candidates) for candidates in (*forward.values(), *back.values())} == {4}
    assert {word for candidates in forward.values() for word in candidates} <= set(back)
    assert read_json(manifest)["counts"]["map"]["words"] == [len(forward), len(back)]
    before = read_state(out)

    run(texts, out)
    assert skipped_steps(capsys) == STEPS
    after = read_state(out)
    assert after.pop(str(manifest))[0] == before.pop(str(manifest))[0]
    assert after == before

    run(texts, out, "--top", "2")
    assert skipped_steps(capsys) == STEPS[:-1]
    back = read_candidates(out / "de-en.tsv", "--lexicon")
    assert {len(candidates) for candidates in back.values()} == {2}
    run(texts, out, "--keep", "0.5")
    assert "map" not in skipped_steps(capsys)
    (out / "en-de/vectors/de.vec").write_text("changed\n", encoding="utf-8")
    run(texts, out)
    assert skipped_steps(capsys)[:3] == ["words.en", "words.de", "vectors.en"]
    after = read_state(out)
    assert {name: after[name][0] for name in before} == {name: before[name][0] for name in before}


def test_the_lexicons_survive_a_kill_or_an_error_until_both_are_new(
    texts, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "out"
    manifest = out / "en-de/manifest.json"
    run(texts, out)
    before = [*hash_lexicons(out), sha256(manifest)]
    other_pair = ".en-fr.tsv.tmp-00000001"
    for name in (
        other_pair,
        ".en-de.tsv.tmp-00000001",
        "en-de/mapped/.en.vec.tmp-00000001",
    ):
        write_raw(out / name, "half")
    assert_refused("come 1000 times or more", run, texts, out, "--min-count", "1000")
    assert [path.name for path in out.rglob("*.tmp-*")] == [other_pair]
    with monkeypatch.context() as patch:
        patch.setattr(map_vectors, "map_files", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(texts, out, "--keep", "0.5")
    assert hash_lexicons(out) == before[:2]
    assert not manifest.exists()
    run(texts, out)
    assert [*hash_lexicons(out), sha256(manifest)] == before
    with monkeypatch.context() as patch:
        patch.setattr(induce_lexicon, "write_manifest", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(texts, out, "--top", "2")
    assert not set(hash_lexicons(out)) & set(before)
    assert not manifest.exists() and not (out / "en-de/lexicon.json").exists()
    capsys.readouterr()
    run(texts, out)
    assert skipped_steps(capsys) == STEPS[:-1]
    assert [*hash_lexicons(out), sha256(manifest)] == before


def test_bad_options_are_refused_before_the_first_step(texts, tmp_path, capsys):
    out = tmp_path / "out"
    for name in ("en-de.tsv", "de-en.tsv", "en-de/manifest.json"):
        write_raw(out / name, "a\tb", "c\td")
    one_pair = write_raw(tmp_path / "one", "a b")
    before, dictionary = read_state(out), ["--seed-from", "dictionary", "--dictionary"]
    for options, message in (
        (["--keep", "2"], "--keep 2.0: valid: above 0, at most 1"),
        ([*dictionary, str(one_pair)], "one: holds one source word"),
        ([*dictionary, f"{out}/de-en.tsv"], "de-en.tsv: is the file of --dictionary too"),
        (["--target", "none.de"], "--target none.de: no such file"),
        (["--source", "a.en", "--target", "b.en"], "--source-lang en, --target-lang en"),
    ):
        assert_refused(message, run, texts, out, *options)
    assert read_state(out) == before
    assert "lexicon: words" not in capsys.readouterr().err


def test_a_second_run_of_a_pair_is_refused(texts, tmp_path):
    out, files = tmp_path / "out", [texts / "toy.en", texts / "toy.de"]
    with lexicon.Pipeline(out, ("de", "en"), files[::-1]).locked():
        partial = write_raw(out / ".en-de.tsv.tmp-00000001", "half")
        message = "out (en-de): another run is at work there (process "
        assert_refused(message, run, texts, out)
        with lexicon.Pipeline(out, ("en", "fr"), files).locked():
            assert partial.exists()
