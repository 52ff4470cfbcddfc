"""Pieces to a data-bin folder: runs fairseq-preprocess for each language pair and checks what it wrote."""

import argparse
import array
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from .. import cli
from ..files import locked, sha256, write_bytes
from ..io import InputError, PathLike, check_same_counts, read_json, read_lines
from ..layout import PARTS, Pair, data_names, pair_record, parse_pairs, parse_splits, text_name
from ..parallel import for_each
from ..progress import heartbeat
from ..steps import Step
from ..text.check import DEFAULT_SPLITS
from .models import read_dictionary

# Head of an .idx file of fairseq's MMapIndexedDataset: magic, format version, code of the number type, sequences.
INDEX_MAGIC = b"MMIDIDX\x00\x00"
INDEX_HEAD = struct.Struct("<QBQ")
LOG_TAIL_LINES = 15
STEPS_FOLDER = ".steps"


def count_pieces(path: PathLike) -> Tuple[int, int]:
    """Return the lines and the pieces of a file of pieces."""
    lines = pieces = 0
    for line in read_lines(path, "--pieces"):
        lines += 1
        pieces += len(line.split())
    return lines, pieces


def count_index(path: PathLike) -> Tuple[int, int]:
    """Return the sequences and the tokens that a data-bin ``.idx`` file lists.

    Raises:
        InputError: no such file, or another format.
    """
    content = Path(path).read_bytes() if Path(path).is_file() else b""
    if not content.startswith(INDEX_MAGIC) or len(content) < len(INDEX_MAGIC) + INDEX_HEAD.size:
        raise InputError(f"{path}: not an index of fairseq's mmap format")
    _, _, sequences = INDEX_HEAD.unpack_from(content, len(INDEX_MAGIC))
    start = len(INDEX_MAGIC) + INDEX_HEAD.size
    sizes = array.array("i")
    sizes.frombytes(content[start : start + sequences * sizes.itemsize])
    if sys.byteorder == "big":
        sizes.byteswap()
    return sequences, sum(sizes)


def binarize_pair(
    pieces: Path, pair: Pair, splits: List[str], dictionary: Path, output: Path, workers: int, per_pair: bool = False
) -> Dict:
    """Make the binary files of one language pair, unless they are there and made from the same pieces.

    Args:
        pieces: folder with files SPLIT.LANG of pieces.
        pair: source and target language.
        splits: names of the splits.
        dictionary: dict.txt for both sides.
        output: data-bin folder.
        workers: processes of fairseq-preprocess; the result does not depend on it.
        per_pair: the pieces are in a folder SRC-TGT of their own.

    Returns:
        SPLIT.LANG to {lines, tokens}, tokens with the end of sentence.

    Raises:
        InputError: bad input, unequal line counts, fairseq-preprocess failed or lost something.
    """
    label = f"binarize {pair[0]}-{pair[1]}"
    sources = {f"{s}.{lang}": pieces / text_name(pair, s, lang, per_pair) for s in splits for lang in pair}
    expected = {name: count_pieces(path) for name, path in sources.items()}
    for split in splits:
        check_same_counts("--pieces", {f"{split}.{lang}": expected[f"{split}.{lang}"][0] for lang in pair})
    names = data_names(pair, splits)
    record = pair_record(output / STEPS_FOLDER, pair)
    step = Step(record, {**sources, "dict": dictionary}, {"splits": splits}, [output / name for name in names])
    done = step.recall()
    if done is not None:
        cli.say(f"{label}: unchanged, skipped")
        return done
    step.begin()
    for left_over in output.glob(f".tmp-{pair[0]}-{pair[1]}-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".tmp-{pair[0]}-{pair[1]}-", dir=output) as folder:
        made = Path(folder) / "made"
        _run_fairseq(sources, pair, splits, dictionary, made, workers, label)
        _use_split_names(made, pair, splits)
        for name, (lines, tokens) in expected.items():
            split, lang = name.split(".", 1)
            found = count_index(made / f"{split}.{pair[0]}-{pair[1]}.{lang}.idx")
            if found != (lines, tokens + lines):
                raise InputError(
                    f"{label}: fairseq-preprocess wrote {found[0]} sentences and {found[1]} tokens of {name}, "
                    f"which has {lines} lines and {tokens} pieces (+ 1 a line); please report this"
                )
        for name in names:
            os.replace(made / name, output / name)
    counts = {name: {"lines": lines, "tokens": tokens + lines} for name, (lines, tokens) in expected.items()}
    step.finish(counts)
    cli.say(f"{label}: " + ", ".join(f"{name} {lines:,} lines" for name, (lines, _) in expected.items()))
    return counts


def _given_and_written(splits: List[str]) -> List[Tuple[str, str, str]]:
    """Return (option, split, name that fairseq-preprocess writes): it knows train, valid, test, test1, test2 ..."""
    rows, others = [], 0
    for split in splits:
        if split in ("train", "valid"):
            rows.append((f"--{split}pref", split, split))
        else:
            rows.append(("--testpref", split, f"test{others or ''}"))
            others += 1
    return rows


def _run_fairseq(
    sources: Dict[str, Path], pair: Pair, splits: List[str], dictionary: Path, folder: Path, workers: int, label: str
) -> None:
    prefixes: Dict[str, List[str]] = {}
    for option, split, _ in _given_and_written(splits):
        prefixes.setdefault(option, []).append(str(sources[f"{split}.{pair[0]}"].with_name(split)))
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "--source-lang", pair[0], "--target-lang", pair[1]]
    for option, values in prefixes.items():
        command += [option, ",".join(values)]
    command += ["--srcdict", str(dictionary), "--tgtdict", str(dictionary), "--destdir", folder.name]
    command += ["--workers", str(workers), "--dataset-impl", "mmap"]
    log = folder.with_name("output.log")
    cli.say(f"{label}: fairseq-preprocess with {workers} workers")
    with open(log, "wb") as file:
        # Its folder is relative to one that the next run removes: a process that outlives a kill can write no more.
        process = subprocess.Popen(
            command, cwd=folder.parent, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            with heartbeat(label):
                status = process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    if status != 0:
        tail = "\n".join(lines[-LOG_TAIL_LINES:])
        raise InputError(f"{label}: fairseq-preprocess ended with status {status}; its last lines:\n{tail}")


def _use_split_names(folder: Path, pair: Pair, splits: List[str]) -> None:
    """Give the files of the further splits their own names (test1 -> the third of --splits ...)."""
    moves = []
    for _, split, written in _given_and_written(splits):
        for lang in pair:
            for part in PARTS:
                ending = f"{pair[0]}-{pair[1]}.{lang}.{part}"
                moves.append((folder / f"{written}.{ending}", f"{split}.{ending}"))
    final = folder / "named"
    final.mkdir()
    for path, name in moves:
        if not path.is_file():
            raise InputError(f"fairseq-preprocess did not write {path.name}; please report this")
        os.replace(path, final / name)
    for path in final.iterdir():
        os.replace(path, folder / path.name)


def check_output(output: Path, pairs: List[Pair], dictionary: Path) -> None:
    """Check that the folder does not hold another pair's files made with another dictionary.

    Raises:
        InputError: it does; all pairs of a data-bin folder share one dictionary.
    """
    digest = sha256(dictionary)
    requested = {pair_record(output / STEPS_FOLDER, pair) for pair in pairs}
    for path in sorted((output / STEPS_FOLDER).glob("pair.*.json")):
        record = read_json(path) or {}
        if path not in requested and record.get("inputs", {}).get("dict") != digest:
            raise InputError(
                f"--output {output}: holds {path.stem.removeprefix('pair.')}, made with another dictionary than --dict "
                f"{dictionary}; valid: another folder, or all its pairs again (--pairs)"
            )


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.binarize``."""
    parser = cli.parser("binarize", __doc__)
    parser.add_argument("--pieces", required=True, metavar="DIR", help="folder with files SPLIT.LANG of pieces")
    parser.add_argument("--pairs", required=True, metavar="PAIRS", help="language pairs, as en-de,en-fr")
    parser.add_argument("--splits", default=DEFAULT_SPLITS, metavar="NAMES", help="splits, separated by commas")
    parser.add_argument("--dict", required=True, metavar="FILE", help="dict.txt for both sides of every pair")
    parser.add_argument("--output", required=True, metavar="DIR", help="data-bin folder")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes, shared by the pairs")
    parser.add_argument("--per-pair", action="store_true", help="the pieces are SRC-TGT/SPLIT.LANG")
    return parser


def _one_pair(job: Tuple[Any, ...]) -> Dict:
    return binarize_pair(*job)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    pairs, splits = parse_pairs(args.pairs), parse_splits(args.splits)
    pieces, dictionary, output = (Path(path).resolve() for path in (args.pieces, args.dict, args.output))
    if args.workers < 1:
        raise InputError(f"--workers {args.workers}: valid: 1 or more")
    if "," in str(pieces):
        raise InputError(f"--pieces {pieces}: valid: a path without commas, which fairseq-preprocess would split")
    count = len(read_dictionary(dictionary))
    check_output(output, pairs, dictionary)
    at_once = min(args.workers, len(pairs))
    each = args.workers // at_once
    with locked(output / STEPS_FOLDER / "binarize.lock", f"--output {args.output}"):
        write_bytes(output / "dict.txt", dictionary.read_bytes())
        cli.say(f"binarize: dictionary of {count:,} pieces")
        cli.say(f"binarize: {len(pairs)} pairs, {at_once} at a time")
        jobs = [(pieces, p, splits, dictionary, output, each, args.per_pair) for p in pairs]
        for_each(_one_pair, jobs, at_once, "binarize")
