"""Write manifest.json of a data-bin folder (counts, hashes, versions), or check a manifest."""

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from .. import cli, layout
from ..files import sha256, write_json
from ..io import InputError, PathLike, count_lines, read_json
from ..options import adder
from ..steps import FORMAT, describe_files, read_versions
from .binarize import count_index, count_pieces

MAX_LISTED = 5  # files that differ, in a message


# ---- Write. ----


def collect_manifest(
    data: Path, pairs: List[layout.Pair], splits: List[str], per_pair: bool = False
) -> Dict[str, Any]:
    """Return the manifest of a data-bin folder.

    Args:
        data: folder that preprocess.sh has filled.
        pairs: its language pairs.
        splits: its splits.
        per_pair: every pair has sentences of its own.

    Raises:
        InputError: the record of a step is missing, or the model or codes are not those that the
            pieces were made with.
    """
    steps = data / layout.STEPS_FOLDER
    text, pieces, binary = {}, {}, {}
    segmenters: Set[Tuple[str, str]] = set()  # kind and hash
    for name in layout.text_names(pairs, splits, per_pair):
        record = _read_record(layout.apply_record(steps, name))
        inputs = record["inputs"]
        text[name] = {"sha256": inputs["text"], "lines": record["counts"]["lines"]}
        pieces[name] = {**record["outputs"][0], **record["counts"]}
        segmenters.update((kind, inputs[kind]) for kind in layout.SEGMENTER_FILES if kind in inputs)
    for pair in pairs:
        record = _read_record(layout.pair_record(steps, pair))
        binary["-".join(pair)] = {"counts": record["counts"], "files": record["outputs"]}
    kind = "codes" if any(name == "codes" for name, _ in segmenters) else "model"
    segmenter = describe_files([data / layout.SEGMENTER_FILES[kind]])[0]
    if segmenters != {(kind, segmenter["sha256"])}:
        problem = f"the pieces were not all made with its {layout.SEGMENTER_FILES[kind]}"
        raise InputError(f"--data {data}: {problem}; run preprocess.sh again")
    return {
        "format": FORMAT,
        "verb": "preprocess",
        "pairs": ["-".join(pair) for pair in pairs],
        "splits": splits,
        kind: segmenter,
        "dict": describe_files([data / "dict.txt"])[0],
        "text": text,
        "pieces": pieces,
        "data": binary,
        "versions": read_versions(),
    }


def _read_record(path: Path) -> Dict[str, Any]:
    record = read_json(path)
    if record is None or record.get("format") != FORMAT:
        valid = "a folder that data_prep/preprocess.sh has filled"
        raise InputError(f"--data: no usable record {path}; valid: {valid}")
    return record


# ---- Check. ----


class _Entry(NamedTuple):
    """A file of a manifest, with what the manifest says, and how to count the file again."""

    file: Path
    expected: Mapping[str, Any]
    recount: Optional[Callable[[Path], Dict[str, int]]] = None


def check_manifest(path: PathLike, text: Optional[PathLike] = None) -> int:
    """Compare files with their manifest: hashes, sizes, and counts of pieces and binary files.

    Args:
        path: a manifest, or a folder: its manifest.json, else every manifest in it.
        text: folder of the raw text of preprocess.sh, to check that too.

    Returns:
        Number of files that were compared; all are as the manifest says.

    Raises:
        InputError: no manifest, a damaged one, or files that differ: names the first of them with
            expected and actual values.
    """
    compared, problems = 0, []
    for manifest in _list_manifests(Path(path)):
        for entry in _list_entries(manifest, _read_manifest(manifest), text):
            compared += 1
            problem = _compare(entry)
            if problem:
                problems.append(problem)
            verdict = "differs" if problem else "as it should be"
            cli.say(f"manifest: {entry.file}: {verdict}")
    if problems:
        listed = "; ".join(problems[:MAX_LISTED])
        more = len(problems) - MAX_LISTED
        listed += f"; and {more} more" if more > 0 else ""
        raise InputError(f"--check {path}: {len(problems)} of {compared} files differ: {listed}")
    cli.say(f"manifest: {path}: {compared} files are as the manifest says")
    return compared


def _list_manifests(path: Path) -> List[Path]:
    valid = "valid: a manifest, or a folder with manifests"
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"--check {path}: no such file or folder; {valid}")
    if (path / layout.MANIFEST).is_file():
        return [path / layout.MANIFEST]
    manifests = [file for file in sorted(path.glob("*.json")) if _is_manifest(read_json(file))]
    if not manifests:
        raise InputError(
            f"--check {path}: holds no manifest (preprocess.sh writes {layout.MANIFEST} last: "
            f"without it the folder is not complete); {valid}"
        )
    return manifests


def _is_manifest(content: Optional[Mapping[str, Any]]) -> bool:
    return content is not None and "verb" in content and ("outputs" in content or "data" in content)


def _read_manifest(path: Path) -> Dict[str, Any]:
    content = read_json(path)
    if content is None or not _is_manifest(content):
        raise InputError(f"--check {path}: not a manifest of data_prep, or a damaged one")
    if content.get("format") != FORMAT:
        valid = f"valid: {FORMAT}, as this version writes it"
        raise InputError(f"--check {path}: format {content.get('format')!r}; {valid}")
    return content


def _list_entries(
    manifest: Path, content: Dict[str, Any], text: Optional[PathLike]
) -> Iterator[_Entry]:
    folder = manifest.parent
    try:
        if content["verb"] != "preprocess":
            for expected in content["outputs"]:
                count = _count_lines if "lines" in expected else None
                yield _Entry(folder / expected["file"], expected, count)
            return
        for kind in (*layout.SEGMENTER_FILES, "dict"):
            if kind in content:
                yield _Entry(folder / content[kind]["file"], content[kind])
        for name, expected in content["pieces"].items():
            yield _Entry(folder / "pieces" / name, expected, _count_pieces)
        for pair, data in content["data"].items():
            for expected in data["files"]:
                yield _binary_entry(folder, pair, data["counts"], expected)
        if text is not None:
            for name, expected in content["text"].items():
                yield _Entry(Path(text) / name, expected)
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"a damaged manifest ({type(error).__name__}: {error})"
        raise InputError(f"--check {manifest}: {reason}") from None


def _binary_entry(
    folder: Path, pair: str, counts: Mapping[str, Any], expected: Mapping[str, Any]
) -> _Entry:
    """Return the entry of a file of a pair; an index, SPLIT.SRC-TGT.LANG.idx, is counted again."""
    file = folder / expected["file"]
    if file.suffix != ".idx":
        return _Entry(file, expected)
    split, lang = file.name[: -len(".idx")].split(f".{pair}.")
    return _Entry(file, {**expected, **counts[f"{split}.{lang}"]}, _count_index)


def _count_lines(file: Path) -> Dict[str, int]:
    return {"lines": count_lines(file, "--check")}


def _count_pieces(file: Path) -> Dict[str, int]:
    lines, pieces = count_pieces(file)
    return {"lines": lines, "pieces": pieces}


def _count_index(file: Path) -> Dict[str, int]:
    sentences, tokens = count_index(file)
    return {"lines": sentences, "tokens": tokens}


def _compare(entry: _Entry) -> Optional[str]:
    """Return how a file differs from its manifest, or None."""
    file, expected = entry.file, entry.expected
    if not file.is_file():
        return f"{file}: missing, expected sha256 {expected['sha256']}"
    actual: Dict[str, Any] = {"sha256": sha256(file)}
    if "bytes" in expected:
        actual["bytes"] = file.stat().st_size
    if entry.recount is not None:
        try:
            actual.update(entry.recount(file))
        except InputError as error:
            return f"{file}: cannot be read ({error})"
    problems = [
        f"{key} {expected.get(key)} expected, {number} found"
        for key, number in actual.items()
        if expected.get(key) != number
    ]
    return f"{file}: {', '.join(problems)}" if problems else None


# ---- The verb. ----


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("manifest", __doc__)
    add = adder(parser)
    add("--data", "DIR", "write: folder that preprocess.sh has filled")
    layout.add_pair_options(parser, required=False)
    add("--check", "PATH", "check: a manifest, or a folder with manifests")
    add("--text", "DIR", "check: also the raw text of preprocess.sh")
    args = parser.parse_args(argv)
    if (args.check is None) == (args.data is None):
        valid = "valid: one of them, --data to write a manifest, --check to check one"
        raise InputError(f"--data or --check: {valid}")
    if args.check is not None:
        check_manifest(args.check, args.text)
        return
    if args.pairs is None:
        raise InputError("--pairs: missing; valid: the language pairs of --data, as en-de,en-fr")
    target = Path(args.data) / layout.MANIFEST
    pairs, splits = layout.parse_pairs(args.pairs), layout.parse_splits(args.splits)
    write_json(target, collect_manifest(Path(args.data), pairs, splits, args.per_pair))
    cli.say(f"manifest: {target}")
