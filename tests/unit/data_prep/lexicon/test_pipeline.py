"""The whole way from texts to lexicons: what is made, skipped, made again, and what an error leaves."""

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

OPTIONS = "--dim 12 --window 3 --negative 3 --epochs 2 --min-count 2 --top 4 --patience 2 --threads 1 --iterations"
STEPS = ["words.en", "words.de", "vectors.en", "vectors.de", "map", "lexicon"]


@pytest.fixture(scope="module")
def texts(path):
    examples = list(generate(3, {"train": 60}))
    for language in ("en", "de"):
        write_raw(path / f"toy.{language}", *(example.texts[language] for example in examples))
    return path


def lexicons(out):
    return [sha256(out / name) for name in ("en-de.tsv", "de-en.tsv")]


def run(texts, out, *more):
    line = f"--source {texts}/toy.en --target {texts}/toy.de --out {out} {OPTIONS} 30"
    lexicon.main([*line.split(), *more])


def state(out):
    return {str(path): (sha256(path), path.stat().st_mtime_ns) for path in sorted(out.rglob("*")) if path.is_file()}


def skipped(text):
    return [line.split(": ")[1] for line in text.splitlines() if line.endswith("unchanged, skipped")]


def test_all_steps_and_what_is_skipped(texts, tmp_path, capsys):
    out = tmp_path / "out"
    run(texts, out)
    assert skipped(capsys.readouterr().err) == []
    forward, back = (read_candidates(out / name, "--lexicon") for name in ("en-de.tsv", "de-en.tsv"))
    assert all(len(candidates) == 4 for candidates in (*forward.values(), *back.values()))
    assert {word for found in forward.values() for word in found} <= set(back)
    manifest = read_json(out / "en-de/manifest.json")
    assert manifest["counts"]["map"]["words"] == [len(forward), len(back)]
    before = state(out)

    run(texts, out)
    assert skipped(capsys.readouterr().err) == STEPS
    after, manifest = state(out), str(out / "en-de/manifest.json")
    assert after.pop(manifest)[0] == before.pop(manifest)[0]
    assert after == before

    run(texts, out, "--top", "2")
    assert skipped(capsys.readouterr().err) == STEPS[:-1]
    assert all(len(found) == 2 for found in read_candidates(out / "de-en.tsv", "--lexicon").values())
    run(texts, out, "--keep", "0.5")
    assert "map" not in skipped(capsys.readouterr().err)
    (out / "en-de/vectors/de.vec").write_text("changed\n", encoding="utf-8")
    run(texts, out)
    assert skipped(capsys.readouterr().err)[:3] == ["words.en", "words.de", "vectors.en"]
    after = state(out)
    assert [digest for digest, _ in after.values()] == [digest for digest, _ in (after | before).values()]


def test_a_kill_or_an_error_leaves_the_lexicons_until_both_are_new(texts, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    manifest = out / "en-de/manifest.json"
    run(texts, out)
    before = [*lexicons(out), sha256(manifest)]
    for name in (".en-fr.tsv.tmp-00000001", ".en-de.tsv.tmp-00000001", "en-de/mapped/.en.vec.tmp-00000001"):
        write_raw(out / name, "half; the first of another pair at work")
    assert_refused("come 1000 times or more", run, texts, out, "--min-count", "1000")
    assert [path.name for path in out.rglob("*.tmp-*")] == [".en-fr.tsv.tmp-00000001"]
    with monkeypatch.context() as patch:
        patch.setattr(map_vectors, "map_files", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(texts, out, "--keep", "0.5")
    assert lexicons(out) == before[:2]
    assert not manifest.exists()
    run(texts, out)
    assert [*lexicons(out), sha256(manifest)] == before
    with monkeypatch.context() as patch:
        patch.setattr(induce_lexicon, "write_manifest", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(texts, out, "--top", "2")
    assert not set(lexicons(out)) & set(before)
    assert not manifest.exists() and not (out / "en-de/lexicon.json").exists()
    capsys.readouterr()
    run(texts, out)
    assert skipped(capsys.readouterr().err) == STEPS[:-1]
    assert [*lexicons(out), sha256(manifest)] == before


def test_what_is_wrong_is_said_before_the_first_step(texts, tmp_path, capsys):
    out = tmp_path / "out"
    for name in ("en-de.tsv", "de-en.tsv", "en-de/manifest.json"):
        write_raw(out / name, "a\tb", "c\td")
    one = write_raw(tmp_path / "one", "a b")
    before, seed = state(out), ["--seed-from", "dictionary", "--dictionary"]
    for more, words in [
        (["--keep", "2"], "--keep 2.0: valid: above 0, at most 1"),
        ([*seed, str(one)], "one: holds one source word"),
        ([*seed, f"{out}/de-en.tsv"], "de-en.tsv: is the file of --dictionary too"),
        (["--target", "none.de"], "--target none.de: no such file; valid: a text file"),
        (["--source", "a.en", "--target", "b.en"], "--source-lang en, --target-lang en: valid: two different codes"),
    ]:
        assert_refused(words, run, texts, out, *more)
    assert state(out) == before
    assert "lexicon: words" not in capsys.readouterr().err


def test_one_run_at_a_time(texts, tmp_path):
    out, both = tmp_path / "out", [texts / "toy.en", texts / "toy.de"]
    with lexicon.Pipeline(out, ("de", "en"), both[::-1]).locked():
        half = write_raw(out / ".en-de.tsv.tmp-00000001", "half")
        assert_refused("out (en-de): another run is at work there (process ", run, texts, out)
        with lexicon.Pipeline(out, ("en", "fr"), both).locked():
            assert half.exists()
