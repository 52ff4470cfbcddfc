"""Are the files still what a manifest says? Hashes and sizes, and for pieces and binary files the counts."""

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from . import cli
from .binarize import count_index, count_pieces
from .files import sha256
from .io import InputError, PathLike, read_json
from .steps import FORMAT

MOST_SHOWN = 5
MANIFEST = "manifest.json"
Entry = Tuple[Path, Mapping[str, Any], Optional[Callable[[Path], Dict[str, int]]]]


def check_manifest(path: PathLike, text: Optional[PathLike] = None) -> int:
    """Compare files with their manifest.

    Args:
        path: a manifest, or a folder: its ``manifest.json``, else every manifest that lies in it.
        text: folder of the raw text that ``preprocess.sh`` was given, to check that too.

    Returns:
        Number of files that were compared; all are as the manifest says.

    Raises:
        InputError: no manifest, a damaged one, or files that differ: names the first of them with what was expected and
            what was found.
    """
    compared, problems = 0, []
    for manifest in _manifests(Path(path)):
        content = _read(manifest)
        for file, expected, count in _entries(manifest, content, text):
            compared += 1
            problem = _difference(file, expected, count)
            if problem:
                problems.append(problem)
            cli.say(f"manifest: {file}: {'differs' if problem else 'as it should be'}")
    if problems:
        shown = "; ".join(problems[:MOST_SHOWN])
        more = f"; and {len(problems) - MOST_SHOWN} more" if len(problems) > MOST_SHOWN else ""
        raise InputError(f"--check {path}: {len(problems)} of {compared} files differ: {shown}{more}")
    cli.say(f"manifest: {path}: {compared} files are as the manifest says")
    return compared


def _manifests(path: Path) -> List[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"--check {path}: no such file or folder; valid: a manifest, or a folder with manifests")
    if (path / MANIFEST).is_file():
        return [path / MANIFEST]
    found = [file for file in sorted(path.glob("*.json")) if _is_manifest(read_json(file))]
    if not found:
        raise InputError(
            f"--check {path}: holds no manifest (preprocess.sh writes {MANIFEST} last: without it the folder is not "
            "complete); valid: a manifest, or a folder with manifests"
        )
    return found


def _is_manifest(content: Optional[Mapping[str, Any]]) -> bool:
    return content is not None and "verb" in content and ("outputs" in content or "data" in content)


def _read(path: Path) -> Dict[str, Any]:
    content = read_json(path)
    if content is None or not _is_manifest(content):
        raise InputError(f"--check {path}: not a manifest of data_prep, or a damaged one")
    if content.get("format") != FORMAT:
        raise InputError(
            f"--check {path}: format {content.get('format')!r}; valid: {FORMAT}, as this version writes it"
        )
    return content


def _entries(manifest: Path, content: Dict[str, Any], text: Optional[PathLike]) -> Iterator[Entry]:
    """Every file that a manifest speaks of, with what it says and how to count the file again."""
    folder = manifest.parent
    try:
        if content["verb"] != "preprocess":
            for expected in content["outputs"]:
                yield folder / expected["file"], expected, _lines if "lines" in expected else None
            return
        for kind in ("model", "codes", "dict"):
            if kind in content:
                yield folder / content[kind]["file"], content[kind], None
        for name, expected in content["pieces"].items():
            yield folder / "pieces" / name, expected, _lines_and_pieces
        for pair, data in content["data"].items():
            for expected in data["files"]:
                yield _binary(folder, pair, data["counts"], expected)
        if text is not None:
            for name, expected in content["text"].items():
                yield Path(text) / name, expected, None
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"--check {manifest}: a damaged manifest ({type(error).__name__}: {error})") from None


def _binary(folder: Path, pair: str, counts: Mapping[str, Any], expected: Mapping[str, Any]) -> Entry:
    """A file of a pair; an index, SPLIT.SRC-TGT.LANG.idx, is counted again."""
    file = folder / expected["file"]
    if file.suffix != ".idx":
        return file, expected, None
    split, lang = file.name[: -len(".idx")].split(f".{pair}.")
    return file, {**expected, **counts[f"{split}.{lang}"]}, _sentences_and_tokens


def _lines(file: Path) -> Dict[str, int]:
    with open(file, "rb") as stream:
        return {"lines": sum(1 for _ in stream)}


def _lines_and_pieces(file: Path) -> Dict[str, int]:
    lines, pieces = count_pieces(file)
    return {"lines": lines, "pieces": pieces}


def _sentences_and_tokens(file: Path) -> Dict[str, int]:
    sentences, tokens = count_index(file)
    return {"lines": sentences, "tokens": tokens}


def _difference(
    file: Path, expected: Mapping[str, Any], count: Optional[Callable[[Path], Dict[str, int]]]
) -> Optional[str]:
    if not file.is_file():
        return f"{file}: missing, expected sha256 {expected['sha256']}"
    found: Dict[str, Any] = {"sha256": sha256(file)}
    if "bytes" in expected:
        found["bytes"] = file.stat().st_size
    if count is not None:
        try:
            found.update(count(file))
        except InputError as error:
            return f"{file}: cannot be read ({error})"
    wrong = [
        f"{key} {expected.get(key)} expected, {value} found"
        for key, value in found.items()
        if expected.get(key) != value
    ]
    return f"{file}: {', '.join(wrong)}" if wrong else None
