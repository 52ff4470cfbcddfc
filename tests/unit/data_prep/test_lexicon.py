"""The whole way from texts to lexicons: what is made, skipped, made again, and what an error leaves."""

import errno
import fcntl
import os
from typing import Any, List

import pytest

from data_prep import induce_lexicon, lexicon, map_vectors
from data_prep.io import InputError, read_json, sha256
from data_prep.lexicon_files import read_candidates
from data_prep.toy.corpus import generate
from tests.csr_builders import write_raw

OPTIONS = (
    "--dim 12 --window 3 --negative 3 --epochs 2 --min-count 2 --top 4 --patience 2 --iterations 30 --threads 1".split()
)
STEPS = ["words.en", "words.de", "vectors.en", "vectors.de", "map", "lexicon"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A folder with a toy corpus."""
    folder = tmp_path_factory.mktemp("texts")
    examples = list(generate(3, {"train": 60}))
    for language in ("en", "de"):
        write_raw(folder / f"toy.{language}", *(example.texts[language] for example in examples))
    return folder


def run(texts, out, *more):
    """The verb, on small vectors."""
    lexicon.main(["--source", f"{texts}/toy.en", "--target", f"{texts}/toy.de", "--out", str(out), *OPTIONS, *more])


def state(out):
    """Hash and time of every file."""
    return {str(path): (sha256(path), path.stat().st_mtime_ns) for path in sorted(out.rglob("*")) if path.is_file()}


def skipped(text):
    """The steps that were skipped."""
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
    named = {row["file"]: row["sha256"] for row in manifest["outputs"]}
    assert named["en-de.tsv"] == sha256(out / "en-de.tsv")
    assert [row["file"] for row in manifest["inputs"]] == ["toy.en", "toy.de"]
    before = state(out)

    run(texts, out)
    assert skipped(capsys.readouterr().err) == STEPS
    after = state(out)
    manifest_path = str(out / "en-de/manifest.json")
    assert after.pop(manifest_path)[0] == before.pop(manifest_path)[0]
    assert after == before

    run(texts, out, "--top", "2")
    assert skipped(capsys.readouterr().err) == STEPS[:-1]
    assert all(len(found) == 2 for found in read_candidates(out / "de-en.tsv", "--lexicon").values())
    (out / "en-de/vectors/de.vec").write_text("changed\n", encoding="utf-8")
    run(texts, out)
    assert skipped(capsys.readouterr().err) == ["words.en", "words.de", "vectors.en", "map"]
    assert {name: digest for name, (digest, _) in state(out).items() if "manifest" not in name} == {
        name: digest for name, (digest, _) in before.items()
    }


@pytest.mark.parametrize(
    "change",
    [{"seed_from": "identical"}, {"dictionary": "b"}, {"seed_words": 9}, {"learning": {"seed": 9}}, {"max_words": 9}],
)
def test_what_shapes_the_maps_is_what_their_step_compares(tmp_path, monkeypatch, change):
    """Otherwise a run with another option or dictionary would skip the step."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name} {name}\n", encoding="utf-8")
    seen: List[Any] = []
    monkeypatch.setattr(
        lexicon.Pipeline, "run", lambda self, name, inputs, options, *rest: seen.append((inputs, options))
    )
    pipeline = lexicon.Pipeline(tmp_path, ("en", "de"), (tmp_path / "a", tmp_path / "b"))
    options = {"seed_from": "dictionary", "dictionary": "a", "learning": {"seed": 1}}
    for more in ({}, change):
        settings = {**options, **more}
        wanted = settings["seed_from"] == "dictionary"
        settings["dictionary"] = tmp_path / settings["dictionary"] if wanted else None
        lexicon._map_and_induce(pipeline, map_vectors.MapOptions(**settings), induce_lexicon.LexiconOptions())
    (first, _, second, _) = seen
    assert first != second


def lexicons(out):
    """Hashes of both lexicons."""
    return [sha256(out / name) for name in ("en-de.tsv", "de-en.tsv")]


def described(manifest):
    """The hashes of both lexicons that a manifest names."""
    named = {row["file"]: row["sha256"] for row in read_json(manifest)["outputs"]}
    return [named["en-de.tsv"], named["de-en.tsv"]]


def killed(*_):
    """Stands for a step that is interrupted."""
    raise KeyboardInterrupt


def test_an_error_leaves_whole_files_and_the_lexicons_of_before(texts, tmp_path, capsys):
    out = tmp_path / "out"
    run(texts, out)
    before = lexicons(out)
    capsys.readouterr()
    (out / ".en-fr.tsv.tmp-1").write_text("of another pair at work", encoding="utf-8")
    (out / ".en-de.tsv.tmp-1").write_text("half", encoding="utf-8")
    (out / "en-de/mapped/.en.vec.tmp-1").write_text("half", encoding="utf-8")
    with pytest.raises(InputError, match="come 1000 times or more"):
        run(texts, out, "--min-count", "1000")
    left = sorted(
        path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file() and ".steps" not in path.parts
    )
    assert [name for name in left if ".tmp-" in name] == [".en-fr.tsv.tmp-1"]
    assert not any(name.endswith(("manifest.json", ".lock")) for name in left)
    assert lexicons(out) == before
    assert skipped(capsys.readouterr().err) == ["words.en", "words.de"]
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "toy.en").write_bytes((texts / "toy.en").read_bytes())
    (bad / "toy.de").write_bytes(b"gut\n\xe4rger\n")
    with pytest.raises(InputError, match="toy.de, line 2: not UTF-8"):
        run(bad, tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").rglob("*") if path.is_file()) == [
        "en.txt",
        "en.txt.json",
        "words.en.json",
    ]


def test_a_kill_leaves_the_lexicons_until_both_are_new(texts, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    manifest = out / "en-de/manifest.json"
    run(texts, out)
    before = [*lexicons(out), sha256(manifest)]
    with monkeypatch.context() as patch:
        patch.setattr(map_vectors, "map_files", killed)
        with pytest.raises(KeyboardInterrupt):
            run(texts, out, "--keep", "0.5")
    assert lexicons(out) == before[:2]
    assert not manifest.exists()
    capsys.readouterr()
    run(texts, out)
    assert skipped(capsys.readouterr().err) == [step for step in STEPS if step != "map"]
    assert [*lexicons(out), sha256(manifest)] == before
    with monkeypatch.context() as patch:
        patch.setattr(induce_lexicon, "write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            run(texts, out, "--top", "2")
    assert not set(lexicons(out)) & set(before)
    assert not manifest.exists() and not (out / "en-de/lexicon.json").exists()
    capsys.readouterr()
    run(texts, out)
    assert skipped(capsys.readouterr().err) == STEPS[:-1]
    assert [*lexicons(out), sha256(manifest)] == before


def test_the_other_direction_leaves_no_manifest_that_is_wrong(texts, tmp_path, capsys):
    out = tmp_path / "out"
    there, back = out / "en-de/manifest.json", out / "de-en/manifest.json"
    run(texts, out)
    first = lexicons(out)
    lexicon.main(["--source", f"{texts}/toy.de", "--target", f"{texts}/toy.en", "--out", str(out), *OPTIONS])
    assert lexicons(out) != first
    assert described(back) == lexicons(out)
    assert not there.exists()
    capsys.readouterr()
    run(texts, out)
    assert skipped(capsys.readouterr().err) == STEPS[:-1]
    assert described(there) == lexicons(out) == first
    assert not back.exists()


def test_what_is_wrong_is_said_before_the_first_step(texts, tmp_path, capsys):
    out = tmp_path / "out"
    for name in ("en-de.tsv", "de-en.tsv", "en-de/manifest.json"):
        write_raw(out / name, "a\tb", "c\td")
    one, latin = write_raw(tmp_path / "one", "a b"), tmp_path / "latin"
    latin.write_bytes(b"a b\n\xff b\n")
    before, seed = state(out), ["--seed-from", "dictionary"]
    for more, message in [
        (["--keep", "2"], "--keep 2.0: valid: above 0, at most 1"),
        (["--keep-factor", "1"], "--keep-factor 1.0: valid: above 1"),
        (["--cutoff", "1"], "--cutoff 1: valid: 2 or more"),
        (["--patience", "0"], "--patience 0: valid: 1 or more"),
        (["--threshold", "nan"], "--threshold nan: valid: 0 or more"),
        (["--iterations", "-1"], "--iterations -1: valid: 0 or more"),
        (["--neighbours", "0"], "--neighbours 0: valid: 1 or more"),
        (["--device", "nowhere"], "--device nowhere: .*; valid here: cpu"),
        (seed, "--seed-from dictionary, --dictionary is missing: valid: a file"),
        (["--dictionary", str(one)], "--seed-from unsupervised, --dictionary .*one: valid: a file with dictionary"),
        ([*seed, "--dictionary", "none/x"], "--dictionary none/x: no such file; valid: pairs of words"),
        ([*seed, "--dictionary", str(tmp_path)], "--dictionary .*: no such file; valid: pairs of words"),
        ([*seed, "--dictionary", str(one)], "--dictionary: .*one: holds one source word"),
        ([*seed, "--dictionary", str(latin)], "--dictionary: .*latin, line 2: byte 0xff is not UTF-8"),
        ([*seed, "--dictionary", f"{out}/de-en.tsv"], "--out .*de-en.tsv: is the file of --dictionary too"),
        (["--target-segmenter", "no_such_module:f"], "--segmenter no_such_module:f: No module named"),
        (["--target", "none.de"], "--target none.de: no such file; valid: a text file"),
        (["--out", str(one)], "--out .*one: a file; valid: a folder"),
    ]:
        with pytest.raises(InputError, match=message):
            run(texts, out, *more)
    assert state(out) == before
    assert "lexicon: words" not in capsys.readouterr().err


def test_one_run_at_a_time(texts, tmp_path, capsys, monkeypatch):
    out, both = tmp_path / "out", [texts / "toy.en", texts / "toy.de"]
    with lexicon.Pipeline(out, ("de", "en"), both[::-1]).locked():
        half = write_raw(out / ".en-de.tsv.tmp-1", "half")
        with pytest.raises(
            InputError,
            match=rf"--out .*out \(en-de\): another run is at work there \(process {os.getpid()} on .*; valid: another",
        ):
            run(texts, out)
        assert half.exists()
        with lexicon.Pipeline(out, ("en", "fr"), both).locked():
            pass
    assert [path.name for path in out.iterdir()] == [half.name]
    with lexicon.Pipeline(out, ("en", "de"), both).locked():
        assert capsys.readouterr().err == ""

    def unknown(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    with lexicon.Pipeline(out, ("en", "de"), both).locked():
        assert "No locks available; nothing keeps another run out" in capsys.readouterr().err


def test_segmenters_are_those_of_their_side(texts, tmp_path):
    source = write_raw(tmp_path / "text.zh", *(f"我{'喜欢'[number % 2]}苹果{number % 3}" for number in range(40)))
    arguments = ["--source", str(source), "--target", f"{texts}/toy.de", "--out", str(tmp_path / "out"), *OPTIONS]
    with pytest.raises(InputError, match="--segmenter is not given"):
        lexicon.main(arguments)
    each = "--segmenter no_such_module:f --source-segmenter character --target-segmenter spaces".split()
    lexicon.main([*arguments, *each])
    assert read_json(tmp_path / "out/zh-de/manifest.json")["options"]["segmenters"] == ["character", "spaces"]
    lexicon.main([*arguments, "--segmenter", "character"])
    assert "我" in read_candidates(tmp_path / "out/zh-de.tsv", "--lexicon")
    assert len(next(iter(read_candidates(tmp_path / "out/de-zh.tsv", "--lexicon").values()))[0]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "a.en", "target": "b.en"}, "--source-lang en, --target-lang en: valid: two different codes"),
        ({"source": "a", "target": "b.en"}, "--source-lang: missing, and --source a has no ending"),
        ({"source": "a.en", "target": "b", "target_lang": "x/y"}, "--target-lang x/y: valid: two different codes"),
    ],
)
def test_languages_that_cannot_be(options, message):
    arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    args = lexicon.build_parser().parse_args([*arguments, "--out", "out"])
    with pytest.raises(InputError, match=message):
        lexicon.languages(args)
    args.source_lang, args.target_lang = "en", "de"
    assert lexicon.languages(args) == ["en", "de"]
