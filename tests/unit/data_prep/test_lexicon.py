"""The whole way from texts to lexicons: what is made, skipped, made again, and what an error leaves."""

from pathlib import Path
from typing import Any, Dict, List

import pytest

from data_prep import lexicon
from data_prep.io import InputError, read_json, sha256
from data_prep.lexicon_files import read_candidates
from data_prep.toy.corpus import generate
from tests.lexicon_raw import write

OPTIONS = (
    "--dim 12 --window 3 --negative 3 --epochs 2 --min-count 2 --top 4 --patience 2 --iterations 30 --threads 1".split()
)
STEPS = ["words.en", "words.de", "vectors.en", "vectors.de", "map", "lexicon"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a toy corpus."""
    folder = tmp_path_factory.mktemp("texts")
    examples = list(generate(3, {"train": 60}))
    for language in ("en", "de"):
        write(folder / f"toy.{language}", *(example.texts[language] for example in examples))
    return folder


def run(texts: Path, out: Path, *more: str) -> None:
    """The verb, on small vectors."""
    lexicon.main(["--source", f"{texts}/toy.en", "--target", f"{texts}/toy.de", "--out", str(out), *OPTIONS, *more])


def state(out: Path) -> Dict[str, Any]:
    """Hash and time of every file."""
    return {str(path): (sha256(path), path.stat().st_mtime_ns) for path in sorted(out.rglob("*")) if path.is_file()}


def skipped(text: str) -> List[str]:
    """The steps that were skipped."""
    return [line.split(": ")[1] for line in text.splitlines() if line.endswith("unchanged, skipped")]


def test_all_steps_and_what_is_skipped(texts: Path, tmp_path: Path, capsys: Any) -> None:
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


def test_the_same_command_gives_the_same_lexicons(texts: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(texts, tmp_path / name, "--seed", "3")
    run(texts, tmp_path / "other", "--seed", "4")
    first, again, other = (sha256(tmp_path / name / "en-de.tsv") for name in ("one", "two", "other"))
    assert first == again != other
    assert read_json(tmp_path / "one/en-de/map.json")["options"]["seed"] == 3


def test_an_error_leaves_whole_files_and_no_lexicon(texts: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    run(texts, out)
    capsys.readouterr()
    (out / ".en-de.tsv.tmp-1").write_text("half", encoding="utf-8")
    (out / "en-de/mapped/.en.vec.tmp-1").write_text("half", encoding="utf-8")
    with pytest.raises(InputError, match="come 1000 times or more"):
        run(texts, out, "--min-count", "1000")
    left = sorted(
        path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file() and ".steps" not in path.parts
    )
    assert not any(".tmp-" in name for name in left)
    assert not any(name.endswith((".tsv", "manifest.json")) for name in left)
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


def test_segmenters_are_those_of_their_side(texts: Path, tmp_path: Path) -> None:
    lines = [f"我{'喜欢'[number % 2]}苹果{number % 3}" for number in range(40)]
    source = write(tmp_path / "text.zh", *lines)
    arguments = ["--source", str(source), "--target", f"{texts}/toy.de", "--out", str(tmp_path / "out"), *OPTIONS]
    with pytest.raises(InputError, match="--segmenter is not given"):
        lexicon.main(arguments)
    lexicon.main(
        [
            *arguments,
            "--segmenter",
            "no_such_module:f",
            "--source-segmenter",
            "character",
            "--target-segmenter",
            "spaces",
        ]
    )
    texts_of = read_json(tmp_path / "out/zh-de/manifest.json")["options"]
    assert texts_of["segmenters"] == ["character", "spaces"]
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
def test_languages_that_cannot_be(options: Dict[str, str], message: str) -> None:
    arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    args = lexicon.build_parser().parse_args([*arguments, "--out", "out"])
    with pytest.raises(InputError, match=message):
        lexicon.languages(args)
    args.source_lang, args.target_lang = "en", "de"
    assert lexicon.languages(args) == ["en", "de"]
