"""Counts of every split and language (rows, words, pieces, notes), and their table."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Sequence

from .. import cli

MANY_UNKNOWN = 0.2  # share of <unk> above which pieces, dictionary and text hardly fit together
MAX_LISTED = 10  # labels in a cell
COLUMNS = (
    "set",
    "rows",
    "kept",
    "dropped",
    "words",
    "pieces",
    "pieces / word",
    "longest",
    "longer than {}",
    "<unk> %",
    "unknown labels",
    "notes",
)


@dataclass
class Counts:
    """Counts of a split of a language.

    Attributes:
        read: rows of the file: sentences, pairs, questions.
        kept: rows that were written.
        dropped: reason -> rows.
        notes: further remarks -> number.
        words: words of the texts that were written, as white space or the format separates them.
        pieces: pieces of these texts, without ``</s>``.
        unknown: pieces that are ``<unk>``.
        longest: tokens of the longest row: its pieces and a ``</s>`` for each text.
        too_long: rows with more tokens than ``--max-positions``.
        unknown_labels: label that train lacks -> rows (or words) with it.
    """

    read: int = 0
    kept: int = 0
    dropped: Counter = field(default_factory=Counter)
    notes: Counter = field(default_factory=Counter)
    words: int = 0
    pieces: int = 0
    unknown: int = 0
    longest: int = 0
    too_long: int = 0
    unknown_labels: Counter = field(default_factory=Counter)

    def add_text(self, words: int, ids: Sequence[int], unknown: int) -> None:
        """Count a text; `unknown` is the id of ``<unk>``."""
        self.words += words
        self.pieces += len(ids)
        self.unknown += sum(index == unknown for index in ids)

    def add_length(self, tokens: int, max_positions: int) -> None:
        """Count the tokens of a row."""
        self.longest = max(self.longest, tokens)
        self.too_long += tokens > max_positions

    def as_json(self) -> Dict[str, object]:
        """Return the counts for a manifest."""
        content = dict(vars(self))
        for name in ("dropped", "notes", "unknown_labels"):
            content[name] = dict(content[name])
        return content

    def describe_dropped(self) -> str:
        """Return the reasons with their numbers; ``0`` if nothing was dropped."""
        return list_frequent(self.dropped) or "0"

    def cells(self, name: str) -> List[str]:
        """Return a row of the table."""
        return [
            name,
            f"{self.read:,}",
            f"{self.kept:,}",
            self.describe_dropped(),
            f"{self.words:,}",
            f"{self.pieces:,}",
            f"{self.pieces / self.words:.2f}" if self.words else "-",
            f"{self.longest:,}",
            f"{self.too_long:,}",
            f"{100 * self.unknown / self.pieces:.2f}" if self.pieces else "-",
            list_frequent(self.unknown_labels) or "0",
            list_frequent(self.notes) or "-",
        ]


def list_frequent(counts: Mapping[str, int]) -> str:
    """Return names with their numbers, the most frequent first."""
    names = sorted(counts, key=lambda name: (-counts[name], name))
    more = len(names) - MAX_LISTED
    ending = f" and {more} more" if more > 0 else ""
    return ", ".join(f"{name} {counts[name]:,}" for name in names[:MAX_LISTED]) + ending


def format_table(counts: Mapping[str, Counts], max_positions: int) -> List[str]:
    """Return the lines of a Markdown table, a row for each SPLIT.LANG."""
    rows = [[column.format(max_positions) for column in COLUMNS]]
    rows += [part.cells(name) for name, part in counts.items()]
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def warn(name: str, counts: Counts) -> None:
    """Print on standard error what a user should not miss."""
    if counts.unknown_labels:
        total, listed = sum(counts.unknown_labels.values()), list_frequent(counts.unknown_labels)
        problem = f"{total:,} labels that train has not, kept as <unk>: {listed}"
        cli.say(f"nlu: warning: {name}: {problem}")
    if counts.unknown > MANY_UNKNOWN * counts.pieces:
        share = 100 * counts.unknown / counts.pieces
        hint = "do model, dictionary and text belong together?"
        cli.say(f"nlu: warning: {name}: {share:.1f} % of the pieces are <unk>; {hint}")


def format_page(
    verb: str, counts: Mapping[str, Counts], max_positions: int, labels: Optional[Sequence[str]]
) -> str:
    """Return README.md of a data-bin folder."""
    lines = [
        f"# A data-bin for understanding ({verb})",
        "",
        "Written by `python -m data_prep.nlu`; `manifest.json` has its options and the hashes of "
        "all files. Tokens are pieces "
        f"and a `</s>` for each text; rows longer than {max_positions} are only counted here: "
        "the tasks cut or window them.",
        "",
        *format_table(counts, max_positions),
    ]
    if labels is not None:
        numbered = ", ".join(f"{number} `{name}`" for number, name in enumerate(labels))
        option = f"`--num-classes {len(labels)}` for stock tasks"
        lines += ["", f"{len(labels)} labels ({option}): {numbered}."]
    return "\n".join(lines) + "\n"
