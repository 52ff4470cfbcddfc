"""Text of files, and its sentences as token rows of a pretrained encoder."""

import logging
import os
from typing import Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..understanding.inputs import InputFormat
from ..understanding.languages import match_languages
from .report import named_paths
from .segmenters import Segmenter

logger = logging.getLogger(__name__)


def read_lines(path: str, limit: Optional[int] = None) -> List[str]:
    """Read the lines of a UTF-8 file, at most ``limit``; only LF (or CR LF) ends a line.

    Raises:
        ValueError: no such file, an empty one, or one that is not UTF-8.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path}: no such file")
    if limit is not None and limit < 1:
        raise ValueError(f"--limit must be at least 1; got {limit}")
    lines: List[str] = []
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            for line in file:
                if limit is not None and len(lines) == limit:
                    break
                lines.append(line.rstrip("\r\n"))
    except UnicodeDecodeError as error:
        message = f"{path}: is not UTF-8 after line {len(lines)} ({error.reason})"
        raise ValueError(message) from None
    if not lines:
        raise ValueError(f"{path}: is empty; valid: one sentence per line")
    return lines


def named_files(items: Sequence[str], option: str) -> Dict[str, str]:
    """Parse ``en=FILE de=FILE`` into a dictionary, in that order; see ``report.named_paths``."""
    return named_paths(items, option, "as en=FILE de=FILE, each language once", "LANG=FILE")


def check_parallel(texts: Dict[str, List[str]], option: str) -> None:
    """Raise ValueError, with the numbers of lines, unless all texts have equally many."""
    counts = {language: len(lines) for language, lines in texts.items()}
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{language} {count}" for language, count in counts.items())
        raise ValueError(
            f"{option}: the texts need equal numbers of lines, one per sentence; got {numbers}"
        )


class TextInputs:
    """Turn sentences into token rows of an encoder.

    Args:
        dictionary: of the pieces; symbols of ``languages`` that it lacks are added, in their order.
        segmenter: gives the pieces of a line; None if lines are pieces already, separated by
            spaces.
        input_format: one of ``understanding.inputs.INPUT_FORMATS``.
        max_positions: largest number of tokens of an input; longer ones are cut, which is logged.
        vocab_size: rows of the encoder's embedding.
        languages: of the model, in their order, as ``de_DE``.
        template: symbol of a language, as ``[{}]``.
        codes: language of a text -> its name in ``languages``, as ``{"de": "deu_Latn"}``; ``de``
            needs no entry to match ``de_DE``.
        max_unknown: largest share of unknown pieces, in [0, 1]. A larger share is an error: text,
            segmenter and dictionary probably do not belong together.

    Raises:
        ValueError: the dictionary has more entries than the embedding has rows, or an option is out
            of range.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        segmenter: Optional[Segmenter],
        input_format: str,
        max_positions: int,
        vocab_size: int,
        languages: Sequence[str] = (),
        template: str = "[{}]",
        codes: Optional[Dict[str, str]] = None,
        max_unknown: float = 0.2,
    ):
        if not 0 <= max_unknown <= 1:
            raise ValueError(f"--max-unknown must lie in [0, 1]; got {max_unknown}")
        self.input_format = InputFormat(input_format, dictionary.bos(), dictionary.eos())
        for language in languages:
            dictionary.add_symbol(template.format(language))
        if len(dictionary) > vocab_size:
            raise ValueError(
                f"--dict has {len(dictionary)} entries with its special symbols and "
                f"{len(languages)} languages, but the model only {vocab_size} rows; valid: the "
                "dictionary that the model was trained with"
            )
        self.dictionary, self.segmenter, self.max_positions = dictionary, segmenter, max_positions
        self.languages, self.template, self.codes = list(languages), template, dict(codes or {})
        self.max_unknown = max_unknown

    def rows(self, lines: Sequence[str], language: str, name: str) -> List[Tensor]:
        """Convert lines to token rows (S,) int64.

        Args:
            language: of the lines.
            name: of the text, for messages.

        Raises:
            ValueError: too many unknown pieces, or a language without a symbol where the format
                needs one.
        """
        symbol = self.symbol(language) if self.input_format.needs_language else None
        room = self.max_positions - self.input_format.added(1)
        rows, pieces, unknown, cut_count, empty = [], 0, 0, 0, 0
        for line in lines:
            tokens = self._pieces(line)
            pieces += len(tokens)
            unknown += int(tokens.eq(self.dictionary.unk()).sum())
            cut_count += len(tokens) > room
            empty += not len(tokens)
            assembled = self.input_format.assemble([tokens], self.max_positions, symbol)
            rows.append(assembled.tokens)
        if unknown > self.max_unknown * pieces:
            raise ValueError(
                f"{name}: {unknown} of {pieces} pieces are unknown, more than --max-unknown "
                f"{self.max_unknown}; valid: text, --sentencepiece and --dict that belong together"
            )
        mean, share = sum(map(len, rows)) / len(rows), 100 * unknown / max(pieces, 1)
        text = "%s: %d sentences, %.1f tokens each, %.2f %% of the pieces unknown"
        logger.info(text, name, len(rows), mean, share)
        if cut_count or empty:
            text = "%s: %d sentences cut to %d tokens, %d empty"
            logger.warning(text, name, cut_count, self.max_positions, empty)
        return rows

    def _pieces(self, line: str) -> Tensor:
        """Look up the ids (S,) of the pieces of a line."""
        if self.segmenter is None:
            pieces = line.split()
        else:
            pieces = self.segmenter(line)
        return torch.tensor([self.dictionary.index(piece) for piece in pieces], dtype=torch.long)

    def symbol(self, language: str) -> int:
        """Look up the id of a language's symbol. Raises ValueError if there are none or several."""
        if self.languages:
            matches = match_languages(language, self.languages, self.codes)
        else:
            matches = [self.codes.get(language, language)]
        names = [self.template.format(name) for name in matches]
        ids = [self.dictionary.index(name) for name in names]
        if len(ids) != 1 or ids[0] == self.dictionary.unk():
            raise ValueError(
                f"language {language}: --input-format {self.input_format.name} needs the symbol of "
                f"one language, found {', '.join(names) or 'none'} in --langs "
                f"{','.join(self.languages) or '(empty)'} and the dictionary; valid: --langs with "
                "the model's languages in their order, and --language-codes de=CODE where they "
                "have other names"
            )
        return ids[0]
