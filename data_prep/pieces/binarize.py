"""Pieces to a data-bin folder: run fairseq-preprocess for each pair and check what it wrote."""

import array
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

from .. import cli, layout
from ..files import locked, sha256, write_bytes
from ..io import (
    InputError,
    PathLike,
    check_same_counts,
    read_json,
    read_lines,
)
from ..options import adder, check_minimum
from ..parallel import for_each
from ..progress import heartbeat
from ..steps import Step
from .dictionary import read_dictionary

# Head of an .idx file of MMapIndexedDataset: magic, format version, code of the number type,
# number of sequences.
INDEX_MAGIC = b"MMIDIDX\x00\x00"
INDEX_HEAD = struct.Struct("<QBQ")
LOG_TAIL_LINES = 15


class SizeCounts(NamedTuple):
    """Size of a file of pieces or of a binary file, which has a token more for each line."""

    lines: int
    tokens: int


def count_pieces(path: PathLike) -> SizeCounts:
    """Count the lines and the pieces of a file of pieces."""
    lines = pieces = 0
    for line in read_lines(path, "--pieces"):
        lines += 1
        pieces += len(line.split())
    return SizeCounts(lines, pieces)


def count_index(path: PathLike) -> SizeCounts:
    """Count the sequences and the tokens that a data-bin .idx file lists.

    Raises:
        InputError: no such file, or another format.
    """
    content = Path(path).read_bytes() if Path(path).is_file() else b""
    start = len(INDEX_MAGIC) + INDEX_HEAD.size
    if not content.startswith(INDEX_MAGIC) or len(content) < start:
        raise InputError(f"{path}: not an index of fairseq's mmap format")
    _, _, sequences = INDEX_HEAD.unpack_from(content, len(INDEX_MAGIC))
    sizes = array.array("i")
    sizes.frombytes(content[start : start + sequences * sizes.itemsize])
    if sys.byteorder == "big":
        sizes.byteswap()
    return SizeCounts(sequences, sum(sizes))


class PairJob(NamedTuple):
    """A language pair to be made.

    Attributes:
        pieces: folder with files SPLIT.LANG of pieces.
        pair: source and target language.
        splits: names of the splits.
        dictionary: dict.txt for both sides, or for the source.
        output: data-bin folder.
        workers: processes of fairseq-preprocess; the result does not depend on it.
        per_pair: the pieces lie in a folder SRC-TGT of their own.
        target_dictionary: dict.txt for the target; None = that of the source.
    """

    pieces: Path
    pair: layout.Pair
    splits: List[str]
    dictionary: Path
    output: Path
    workers: int = 1
    per_pair: bool = False
    target_dictionary: Optional[Path] = None

    @property
    def label(self) -> str:
        """Name of the job on standard error."""
        return f"binarize {self.pair[0]}-{self.pair[1]}"

    def sources(self) -> Dict[str, Path]:
        """Return SPLIT.LANG -> file of pieces."""
        files = {}
        for split in self.splits:
            for lang in self.pair:
                name = layout.text_name(self.pair, split, lang, self.per_pair)
                files[f"{split}.{lang}"] = self.pieces / name
        return files


def binarize_pair(job: PairJob) -> Dict[str, Dict[str, int]]:
    """Make the binary files of a pair, unless they were made from the same pieces before.

    Returns:
        SPLIT.LANG -> {lines, tokens}, tokens with the end of sentence.

    Raises:
        InputError: bad input, unequal line counts, fairseq-preprocess failed or lost something.
    """
    pair, output = job.pair, job.output
    sources = job.sources()
    sizes = {name: count_pieces(path) for name, path in sources.items()}
    for split in job.splits:
        sides = [f"{split}.{lang}" for lang in pair]
        check_same_counts("--pieces", {side: sizes[side].lines for side in sides})
    names = layout.data_names(pair, job.splits)
    inputs = {**sources, "dict": job.dictionary}
    if job.target_dictionary is not None:
        inputs["target_dict"] = job.target_dictionary
    record = layout.pair_record(output / layout.STEPS_FOLDER, pair)
    step = Step(record, inputs, {"splits": job.splits}, [output / name for name in names])
    counts = step.recall()
    if counts is not None:
        cli.say(f"{job.label}: unchanged, skipped")
        return counts
    step.begin()
    prefix = f".tmp-{pair[0]}-{pair[1]}-"
    for leftover in output.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=output) as folder:
        binary = Path(folder) / "made"
        _run_fairseq(job, binary)
        _use_split_names(job, binary)
        for name, size in sizes.items():
            _check_size(job, binary, name, size)
        for name in names:
            os.replace(binary / name, output / name)
    counts = {
        name: {"lines": size.lines, "tokens": size.tokens + size.lines}
        for name, size in sizes.items()
    }
    step.finish(counts)
    listed = ", ".join(f"{name} {size.lines:,} lines" for name, size in sizes.items())
    cli.say(f"{job.label}: {listed}")
    return counts


def _check_size(job: PairJob, folder: Path, name: str, size: SizeCounts) -> None:
    split, lang = name.split(".", 1)
    index = count_index(folder / f"{split}.{job.pair[0]}-{job.pair[1]}.{lang}.idx")
    if index != (size.lines, size.tokens + size.lines):
        output = f"{index.lines} sentences and {index.tokens} tokens of {name}"
        expected = f"{size.lines} lines and {size.tokens} pieces (+ 1 a line)"
        raise InputError(
            f"{job.label}: fairseq-preprocess wrote {output}, which has {expected}; "
            "please report this"
        )


class _SplitName(NamedTuple):
    split: str
    option: str  # of fairseq-preprocess
    output: str  # its name for the split


def _fairseq_names(splits: List[str]) -> List[_SplitName]:
    """Return fairseq-preprocess' names: it knows train, valid, test, test1, test2 ..."""
    names, tests = [], 0
    for split in splits:
        if split in ("train", "valid"):
            names.append(_SplitName(split, f"--{split}pref", split))
        else:
            names.append(_SplitName(split, "--testpref", f"test{tests or ''}"))
            tests += 1
    return names


def _run_fairseq(job: PairJob, folder: Path) -> None:
    sources = job.sources()
    prefixes: Dict[str, List[str]] = {}
    for name in _fairseq_names(job.splits):
        path = sources[f"{name.split}.{job.pair[0]}"].with_name(name.split)
        prefixes.setdefault(name.option, []).append(str(path))
    dictionary, target_dictionary = job.dictionary, job.target_dictionary or job.dictionary
    command = [sys.executable, "-m", "fairseq_cli.preprocess"]
    command += ["--source-lang", job.pair[0], "--target-lang", job.pair[1]]
    for option, paths in prefixes.items():
        command += [option, ",".join(paths)]
    command += ["--srcdict", str(dictionary), "--tgtdict", str(target_dictionary)]
    command += ["--destdir", folder.name]
    command += ["--workers", str(job.workers), "--dataset-impl", "mmap"]
    log = folder.with_name("output.log")
    cli.say(f"{job.label}: fairseq-preprocess with {job.workers} workers")
    with open(log, "wb") as file:
        # --destdir is relative to a folder that the next run removes: a process that outlives a
        # kill can write no more.
        process = subprocess.Popen(
            command,
            cwd=folder.parent,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            with heartbeat(job.label):
                status = process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if status != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        tail = "\n".join(lines[-LOG_TAIL_LINES:])
        problem = f"fairseq-preprocess ended with status {status}"
        raise InputError(f"{job.label}: {problem}; its last lines:\n{tail}")


def _use_split_names(job: PairJob, folder: Path) -> None:
    """Rename fairseq-preprocess' test, test1 ... to the splits that they were made from, in order.

    Raises:
        InputError: a file is missing.
    """
    # By way of a folder: with --splits train,test1,test the names test and test1 are exchanged.
    target = folder / "named"
    target.mkdir()
    for name in _fairseq_names(job.splits):
        for lang in job.pair:
            for part in layout.PARTS:
                ending = f"{job.pair[0]}-{job.pair[1]}.{lang}.{part}"
                path = folder / f"{name.output}.{ending}"
                if not path.is_file():
                    problem = f"fairseq-preprocess did not write {path.name}"
                    raise InputError(f"{problem}; please report this")
                os.replace(path, target / f"{name.split}.{ending}")
    for path in target.iterdir():
        os.replace(path, folder / path.name)


def _check_dictionary(
    output: Path, pairs: List[layout.Pair], dictionary: Path, target_dictionary: Optional[Path]
) -> None:
    """Refuse a folder with other pairs that were made with other dictionaries."""
    digests = {"dict": sha256(dictionary)}
    if target_dictionary is not None:
        digests["target_dict"] = sha256(target_dictionary)
    records = {layout.pair_record(output / layout.STEPS_FOLDER, pair) for pair in pairs}
    for path in sorted((output / layout.STEPS_FOLDER).glob("pair.*.json")):
        record = read_json(path) or {}
        inputs = record.get("inputs", {})
        names = ("dict", "target_dict")
        wrong = [name for name in names if inputs.get(name) != digests.get(name)]
        if path not in records and wrong:
            pair = path.stem.removeprefix("pair.")
            choice = f"--dict {dictionary}"
            if wrong == ["target_dict"]:
                choice = f"--target-dict {target_dictionary or '(none)'}"
            raise InputError(
                f"--output {output}: holds {pair}, made with another dictionary than {choice}; "
                "valid: another folder, or all its pairs again (--pairs)"
            )


def check_sides(pairs: List[layout.Pair], text: str) -> None:
    """Refuse a language that is a source and a target: a folder has one dictionary for each.

    Args:
        text: the option --pairs, for messages.
    """
    targets = {target for _, target in pairs}
    languages = sorted(source for source, _ in pairs if source in targets)
    if languages:
        valid = "with --target-dict a language on one side only; another folder for the rest"
        raise InputError(f"--pairs {text}: {languages[0]} is a source and a target; valid: {valid}")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("binarize", __doc__)
    add = adder(parser)
    add("--pieces", "DIR", "folder with files SPLIT.LANG of pieces", required=True)
    layout.add_pair_options(parser)
    add("--dict", "FILE", "dict.txt for both sides of every pair", required=True)
    add("--target-dict", "FILE", "dict.txt for the target in place of --dict")
    add("--output", "DIR", "data-bin folder", required=True)
    add("--workers", "N", "processes, shared by the pairs, >= 1", default=1)
    args = parser.parse_args(argv)
    pairs, splits = layout.parse_pairs(args.pairs), layout.parse_splits(args.splits)
    pieces, dictionary, output = (
        Path(path).resolve() for path in (args.pieces, args.dict, args.output)
    )
    check_minimum("--workers", args.workers, 1)
    if "," in str(pieces):
        valid = "a path without commas, which fairseq-preprocess would split"
        raise InputError(f"--pieces {pieces}: valid: {valid}")
    count, target_dictionary = len(read_dictionary(dictionary)), None
    if args.target_dict is not None:
        target_dictionary = Path(args.target_dict).resolve()
        read_dictionary(target_dictionary, "--target-dict")
        check_sides(pairs, args.pairs)
    _check_dictionary(output, pairs, dictionary, target_dictionary)
    at_once = min(args.workers, len(pairs))
    workers = args.workers // at_once
    with locked(output / layout.STEPS_FOLDER / "binarize.lock", f"--output {args.output}"):
        write_bytes(output / "dict.txt", dictionary.read_bytes())
        cli.say(f"binarize: dictionary of {count:,} pieces")
        cli.say(f"binarize: {len(pairs)} pairs, {at_once} at a time")
        more = (workers, args.per_pair, target_dictionary)
        jobs = [PairJob(pieces, pair, splits, dictionary, output, *more) for pair in pairs]
        for_each(binarize_pair, jobs, at_once, "binarize")
