"""Cut a dictionary, and its checkpoint if there is one, to the pieces of a corpus."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from .. import cli
from ..files import atomic_texts, locked, write_bytes
from ..io import InputError, PathLike, read_lines
from ..layout import SEGMENTER_FILES
from ..options import Options, add_fields, adder, from_args, option
from ..progress import with_progress
from ..steps import write_manifest
from .cut_checkpoint import (
    check_checkpoint,
    cut,
    open_checkpoint,
    write_checkpoint,
    wrong_rows_error,
)
from .dictionary import FAIRSEQ_SPECIAL, piece_of, read_dictionary
from .encode import DEFAULT_MAX_UNKNOWN
from .segmenters import SentencePiece

MANIFEST = "cut_vocabulary.json"
DICT, DICT_MAP, TABLE = "dict.txt", "resized_dict_map.txt", "rows.tsv"
MODEL = SEGMENTER_FILES["model"]
# Symbols that are no text: <mask>, <2de>, </s>; [en_XX], [en]; __en__. Their rows always stay.
SYMBOL = re.compile(r"<[^<>\s]+>|\[[A-Za-z]{2,3}(?:_[A-Za-z]{2,4})?\]|__[A-Za-z_]{2,12}__")


@dataclass(frozen=True)
class CutOptions(Options):
    """Options of a cut; the pieces of `keep` stay whatever the corpus holds."""

    min_count: int = option(1, "least count of a piece, >= 1; rarer ones become <unk>", minimum=1)
    keep: Sequence[str] = ()
    max_unknown: float = option(
        DEFAULT_MAX_UNKNOWN,
        "largest share of the corpus that may become <unk>, in [0, 1]",
        minimum=0,
        maximum=1,
    )
    max_extra_rows: int = option(
        256, "most rows after those of dict.txt (languages, <mask>); they stay"
    )


# ---- The corpus. ----


@dataclass(frozen=True)
class Corpus:
    """Text that shows which pieces are needed.

    Args:
        pieces: files of pieces, or
        text: files of text, with
        model: the sentencepiece model that cuts them.
    """

    pieces: Sequence[PathLike] = ()
    text: Sequence[PathLike] = ()
    model: Optional[PathLike] = None

    def __post_init__(self) -> None:
        if bool(self.pieces) == bool(self.text):
            valid = "valid: one of them, files of pieces, or text with --model"
            raise InputError(f"--pieces or --text: {valid}")
        if bool(self.text) != (self.model is not None):
            valid = "valid: a sentencepiece model together with --text, and only then"
            raise InputError(f"--model: {valid}")
        for name, path in self.files():
            if not Path(path).exists():
                raise InputError(f"{name} {path}: no such file")

    def files(self) -> List[Tuple[str, PathLike]]:
        """Return option and path of every file."""
        files = [("--pieces", path) for path in self.pieces]
        files += [("--text", path) for path in self.text]
        return [*files, ("--model", self.model)] if self.model is not None else files

    def lines(self) -> Iterator[List[str]]:
        """Yield the pieces of each line."""
        for path in self.pieces:
            for line in self._read(path, "--pieces"):
                yield line.split()
        if self.model is not None:
            segmenter = SentencePiece(self.model)
            for path in self.text:
                yield from segmenter.encode(self._read(path, "--text"))

    @staticmethod
    def _read(path: PathLike, option: str) -> Iterator[str]:
        return with_progress(read_lines(path, option), f"cut_vocabulary: {Path(path).name}")


def count_corpus(corpus: Corpus) -> Tuple[Counter, Dict[str, int]]:
    """Return the count of each piece, and the numbers of lines and pieces."""
    frequencies: Counter = Counter()
    sizes: Counter = Counter()
    for pieces in corpus.lines():
        sizes["lines"] += 1
        sizes["pieces"] += len(pieces)
        frequencies.update(pieces)
    return frequencies, dict(sizes)


# ---- The rows. ----


@dataclass(frozen=True)
class Rows:
    """Rows that stay.

    Attributes:
        ids: their old ids, ascending; new id i is old id ``ids[i]``.
        lines: lines of the old dict.txt that stay, in order.
        flags: for each line of the old dict.txt, True if it stays.
        extra: number of rows after those of dict.txt (languages, ``<mask>``); all stay.
        symbols: pieces of dict.txt that stay although the corpus has too few of them.
    """

    ids: List[int]
    lines: List[str]
    flags: List[bool]
    extra: int
    symbols: List[str]

    def pieces(self) -> List[str]:
        """Return the pieces of the new dict.txt."""
        return [piece_of(line) for line in self.lines]


def check_dictionary(dictionary: PathLike, keep: Sequence[str]) -> List[str]:
    """Return the pieces of dict.txt, which must list every piece of `keep`.

    Raises:
        InputError: a bad dict.txt, or a piece that it lacks.
    """
    pieces = read_dictionary(dictionary)
    missing = sorted(set(keep) - set(pieces))
    if missing:
        valid = "pieces that it lists"
        raise InputError(f"--keep {missing[0]}: not in --dict {dictionary}; valid: {valid}")
    return pieces


def choose_rows(
    dictionary: PathLike, row_count: int, frequencies: Mapping[str, int], options: CutOptions
) -> Rows:
    """Choose rows: fairseq's four, frequent pieces, symbols, `keep`, all rows after dict.txt.

    Args:
        dictionary: dict.txt of the checkpoint.
        row_count: rows of its embedding.
        frequencies: piece -> count in the corpus.
        options: which pieces stay.

    Raises:
        InputError: rows and dictionary do not belong together, or nothing of the corpus is known.
    """
    pieces = check_dictionary(dictionary, options.keep)
    first = len(FAIRSEQ_SPECIAL)
    extra = row_count - first - len(pieces)
    if not 0 <= extra <= options.max_extra_rows:
        raise wrong_rows_error(dictionary, len(pieces), row_count, options.max_extra_rows)
    keep = set(options.keep)
    frequent = [frequencies.get(piece, 0) >= options.min_count for piece in pieces]
    if not any(frequent):
        reason = "the corpus holds none of its pieces"
        raise InputError(f"--dict {dictionary}: {reason}; valid: pieces of its own model")
    flags, ids, lines, symbols = [], list(range(first)), [], []
    old_lines = read_lines(dictionary, "--dict", strict=False)
    rows = enumerate(zip(pieces, old_lines, frequent), start=first)
    for row, (piece, line, is_frequent) in rows:
        stays = is_frequent or piece in keep or SYMBOL.fullmatch(piece) is not None
        flags.append(stays)
        if stays:
            ids.append(row)
            lines.append(line)
            if not is_frequent:
                symbols.append(piece)
    ids += range(row_count - extra, row_count)
    return Rows(ids, lines, flags, extra, symbols)


def write_rows(rows: Rows, dictionary: PathLike, dict_map: PathLike, table: PathLike) -> None:
    """Write the new dict.txt, the map of ``--resized-dict-map``, and a table.

    Args:
        rows: rows that stay.
        dictionary: gets their lines of dict.txt.
        dict_map: gets a line per piece of the *old* dict.txt, 1 = its row stays, 0 = not; fairseq's
            four rows and those after dict.txt are not listed. Source: the format that the authors
            of VECO read.
        table: gets a line per row that stays: new id, old id, piece, separated by tabs; rows after
            dict.txt have their number after it, as ``+1``.
    """
    names = [*FAIRSEQ_SPECIAL, *rows.pieces()]
    names += [f"+{number}" for number in range(1, rows.extra + 1)]
    paths = [dictionary, dict_map, table]
    with atomic_texts(paths, "--output") as (dict_file, map_file, table_file):
        dict_file.writelines(line + "\n" for line in rows.lines)
        map_file.writelines(f"{int(stays)}\n" for stays in rows.flags)
        for new, (old, name) in enumerate(zip(rows.ids, names)):
            table_file.write(f"{new}\t{old}\t{name}\n")


def _count_unknown(frequencies: Mapping[str, int], rows: Rows, options: CutOptions) -> int:
    """Count the pieces of the corpus that become ``<unk>``; refuse more than the allowed share."""
    pieces = set(rows.pieces())
    unknown = sum(count for piece, count in frequencies.items() if piece not in pieces)
    total = sum(frequencies.values())
    if unknown > options.max_unknown * total:
        share = f"{unknown} of {total} pieces of the corpus ({100 * unknown / total:.1f} %)"
        raise InputError(
            f"--min-count {options.min_count}: {share} would become <unk>; "
            f"valid: at most --max-unknown {options.max_unknown}; "
            "do the corpus and the dictionary belong together?"
        )
    return unknown


# ---- The verb. ----


def cut_vocabulary(
    checkpoint: Optional[PathLike],
    dictionary: PathLike,
    output: PathLike,
    corpus: Corpus,
    options: CutOptions,
) -> Dict[str, Any]:
    """Write the cut checkpoint, dict.txt, the maps and, last, the manifest into a folder.

    Args:
        checkpoint: fairseq .pt file of one of ``cut_checkpoint.LAYOUTS``, or a Hugging Face folder;
            None = the dictionary alone is cut.
        dictionary: its dict.txt.
        output: the folder.
        corpus: text that shows which pieces are needed; its model is copied, unchanged.
        options: which pieces stay.

    Returns:
        The counts of the manifest.

    Raises:
        InputError: bad input, or too much of the corpus would become ``<unk>``.
    """
    folder, model = Path(output), corpus.model
    for kind, path, name in (("dict", dictionary, DICT), ("model", model, MODEL)):
        if path is not None and (folder / name).resolve() == Path(path).resolve():
            problem = f"would overwrite --{kind} {path}"
            raise InputError(f"--output {folder}: {problem}; valid: another folder")
    pieces = len(check_dictionary(dictionary, options.keep))
    if checkpoint is not None:
        check_checkpoint(checkpoint, folder, dictionary, pieces, options.max_extra_rows)
    _check_output(folder)
    frequencies, counts = count_corpus(corpus)
    opened = None if checkpoint is None else open_checkpoint(checkpoint)
    row_count = len(FAIRSEQ_SPECIAL) + pieces if opened is None else opened.rows
    rows = choose_rows(dictionary, row_count, frequencies, options)
    unknown = _count_unknown(frequencies, rows, options)
    (folder / MANIFEST).unlink(missing_ok=True)
    choices: Dict[str, Any] = {"min_count": options.min_count, "keep": sorted(options.keep)}
    inputs: List[PathLike] = [dictionary, *(path for _, path in corpus.files())]
    outputs = []
    if opened is not None:
        cut(opened, rows.ids)
        outputs += write_checkpoint(opened, folder)
        choices.update(layouts=opened.layouts, tensors=opened.tensors)
        inputs.insert(0, opened.path)
    tables = [folder / DICT, folder / DICT_MAP, folder / TABLE]
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(rows, *tables)
    outputs += tables
    if model is not None:
        write_bytes(folder / MODEL, Path(model).read_bytes())
        outputs.append(folder / MODEL)
    counts["rows_before"], counts["rows_after"] = row_count, len(rows.ids)
    counts["rows_after_dict"] = rows.extra
    counts["symbols_kept"], counts["unknown"] = len(rows.symbols), unknown
    write_manifest(folder / MANIFEST, "cut_vocabulary", choices, counts, inputs, outputs)
    return counts


def _check_output(folder: Path) -> None:
    """Refuse a folder with files that this verb has not made: its manifest tells."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {folder}: is a file; valid: a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise InputError(
            f"--output {folder}: holds files without a {MANIFEST}, so another program made them or "
            "a run was stopped; valid: a new or empty folder, or one of an earlier run"
        )


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("cut_vocabulary", __doc__)
    add = adder(parser)
    text = "fairseq .pt file, or a Hugging Face folder; without it the dictionary alone is cut"
    add("--checkpoint", "PATH", text)
    add("--dict", "FILE", "its dict.txt", required=True)
    add("--output", "DIR", "folder of checkpoint, dict.txt, maps, manifest", required=True)
    add("--pieces", "FILE", "corpus: files of pieces", many=True)
    add("--text", "FILE", "corpus: files of text, with --model", many=True)
    add("--model", "FILE", "sentencepiece model of the checkpoint; copied unchanged")
    add("--keep", "PIECE", "pieces that stay whatever the corpus holds", many=True)
    add_fields(parser, CutOptions)
    args = parser.parse_args(argv)
    target = Path(args.output).absolute()
    with locked(target.with_name(f".{target.name}.lock"), f"--output {args.output}"):
        args.keep = args.keep or ()
        options = from_args(CutOptions, args)
        corpus = Corpus(args.pieces or (), args.text or (), args.model)
        counts = cut_vocabulary(args.checkpoint, args.dict, args.output, corpus, options)
    cli.say(f"cut_vocabulary: {args.output}: {cli.list_counts(counts)}")
