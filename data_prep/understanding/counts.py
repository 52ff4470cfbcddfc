"""What was read, dropped and counted of every split and language, as a table."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Sequence

from .. import cli
from .labels import Labels, listed

MANY_UNKNOWN = 0.2  # a share of <unk> above which pieces, dictionary and text hardly belong together
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
    """What one split of one language had.

    Attributes:
        read: rows that were read: sentences, pairs, questions.
        kept: rows that were written.
        dropped: reason -> rows.
        notes: what else should be known -> number.
        words: of the texts that were written, as white space or the format separates them.
        pieces: of these texts, without ``</s>``.
        unknown: pieces that are ``<unk>``.
        longest: tokens of the longest row: its pieces and a ``</s>`` for each text.
        too_long: rows with more tokens than ``--max-positions``.
        unknown_labels: label that train has not -> rows (or words) with it.
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

    def text(self, words: int, ids: Sequence[int], unknown: int) -> None:
        """Count a text; ``unknown`` is the id of ``<unk>``."""
        self.words += words
        self.pieces += len(ids)
        self.unknown += sum(index == unknown for index in ids)

    def length(self, tokens: int, max_positions: int) -> None:
        """Count the tokens of a row."""
        self.longest = max(self.longest, tokens)
        self.too_long += tokens > max_positions

    def as_json(self) -> Dict[str, object]:
        """For the manifest."""
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()}

    def dropped_text(self) -> str:
        """What was dropped, in words; ``0`` for nothing."""
        return listed(self.dropped) or "0"


def table(counts: Mapping[str, Counts], max_positions: int) -> List[str]:
    """Return the lines of a Markdown table, a row for each SPLIT.LANG."""
    rows = [[column.format(max_positions) for column in COLUMNS]]
    for name, of in counts.items():
        rows.append(
            [
                name,
                f"{of.read:,}",
                f"{of.kept:,}",
                of.dropped_text(),
                f"{of.words:,}",
                f"{of.pieces:,}",
                f"{of.pieces / of.words:.2f}" if of.words else "-",
                f"{of.longest:,}",
                f"{of.too_long:,}",
                f"{100 * of.unknown / of.pieces:.2f}" if of.pieces else "-",
                listed(of.unknown_labels) or "0",
                listed(of.notes) or "-",
            ]
        )
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def warn(name: str, of: Counts) -> None:
    """Say on standard error what a user should not miss."""
    if of.unknown_labels:
        total = sum(of.unknown_labels.values())
        cli.say(
            f"nlu: warning: {name}: {total:,} labels that train has not, kept as <unk>: {listed(of.unknown_labels)}"
        )
    if of.unknown > MANY_UNKNOWN * of.pieces:
        share = 100 * of.unknown / of.pieces
        cli.say(
            f"nlu: warning: {name}: {share:.1f} % of the pieces are <unk>; do model, dictionary and text belong together?"
        )


def page(verb: str, counts: Mapping[str, Counts], max_positions: int, labels: Optional[Labels]) -> str:
    """Return README.md of a data-bin."""
    lines = [
        f"# A data-bin for understanding ({verb})",
        "",
        "Written by `python -m data_prep.nlu`; `manifest.json` has its options and the hashes of all files. Tokens are pieces "
        f"and a `</s>` for each text; rows longer than {max_positions} are only counted here: the tasks cut or window them.",
        "",
        *table(counts, max_positions),
    ]
    if labels is not None:
        numbered = ", ".join(f"{number} `{name}`" for number, name in enumerate(labels.names))
        lines += ["", f"{len(labels.names)} labels (`--num-classes {len(labels.names)}` for stock tasks): {numbered}."]
    return "\n".join(lines) + "\n"
