"""Sentences of files as token rows of a pretrained encoder."""

import logging
import os
from typing import Any, Dict, List, Optional, Sequence

import sentencepiece
import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..understanding.inputs import InputFormat

logger = logging.getLogger(__name__)


def read_lines(path: str, limit: Optional[int] = None) -> List[str]:
    """The lines of a UTF-8 file, at most ``limit`` from its beginning; only LF (or CR LF) ends a line.

    Raises ValueError: no such file, an empty one, or one that is not UTF-8.
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
        raise ValueError(f"{path}: is not UTF-8 after line {len(lines)} ({error.reason})") from None
    if not lines:
        raise ValueError(f"{path}: is empty; valid: one sentence per line")
    return lines


def load_segmenter(path: str) -> Any:
    """A sentencepiece model. Raises ValueError: no such file, or no sentencepiece model."""
    if not os.path.isfile(path):
        raise ValueError(f"--sentencepiece {path}: no such file")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=path)  # an empty model_proto would be no error
    except (RuntimeError, OSError) as error:
        raise ValueError(f"--sentencepiece {path}: not a sentencepiece model ({error})") from None


class TextInputs:
    """Turns sentences into what an encoder reads.

    Args:
        dictionary: of the pieces; the symbols of ``languages`` are added to it, in their order, where it lacks them.
        segmenter: sentencepiece model; None where lines are pieces already, separated by spaces.
        input_format: one of ``understanding.inputs.INPUT_FORMATS``.
        max_positions: tokens of an input, at most; longer ones are cut, which is logged.
        vocab_size: rows of the encoder's embedding.
        languages: of the model, in their order, as ``de_DE``.
        template: symbol of a language, as ``[{}]``.
        codes: languages of the text that ``languages`` names otherwise, as ``{"de": "deu_Latn"}``; ``de`` is found in ``de_DE``
            without.
        max_unknown: share of unknown pieces above which text, model and dictionary hardly belong together.

    Raises:
        ValueError: the dictionary has more entries than the embedding has rows; an option out of range.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        segmenter: Any,
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
                f"--dict has {len(dictionary)} entries with its special symbols and {len(languages)} languages, but the model "
                f"only {vocab_size} rows; valid: the dictionary that the model was trained with"
            )
        self.dictionary, self.segmenter, self.max_positions = dictionary, segmenter, max_positions
        self.languages, self.template, self.codes = list(languages), template, dict(codes or {})
        self.max_unknown = max_unknown

    def rows(self, lines: Sequence[str], language: str, name: str) -> List[Tensor]:
        """Token rows (S,), int64, one for each line; ``name`` is that of the text, for messages.

        Raises ValueError: too many unknown pieces, or a language without a symbol where the format needs one.
        """
        symbol = self.symbol(language) if self.input_format.needs_language else None
        room = self.max_positions - self.input_format.added(1)
        found, pieces, unknown, cut, empty = [], 0, 0, 0, 0
        for line in lines:
            split = line.split() if self.segmenter is None else self.segmenter.encode(line, out_type=str)
            tokens = torch.tensor([self.dictionary.index(piece) for piece in split], dtype=torch.long)
            pieces += len(tokens)
            unknown += int(tokens.eq(self.dictionary.unk()).sum())
            cut += len(tokens) > room
            empty += not len(tokens)
            found.append(self.input_format.assemble([tokens], self.max_positions, symbol).tokens)
        if unknown > self.max_unknown * pieces:
            raise ValueError(
                f"{name}: {unknown} of {pieces} pieces are unknown, more than --max-unknown {self.max_unknown}; valid: text, "
                "--sentencepiece and --dict that belong together"
            )
        logger.info(
            "%s: %d sentences, %.1f tokens each, %.2f %% of the pieces unknown", name, len(found),
            sum(map(len, found)) / len(found), 100 * unknown / max(pieces, 1)
        )  # fmt: skip
        if cut or empty:
            logger.warning("%s: %d sentences cut to %d tokens, %d empty", name, cut, self.max_positions, empty)
        return found

    def symbol(self, language: str) -> int:
        """Id of the symbol of a language. Raises ValueError: none, or several."""
        wanted = self.codes.get(language, language)
        found = [one for one in self.languages if one == wanted]
        if not found and language not in self.codes:
            found = [one for one in self.languages if one.split("_")[0] == wanted]
        names = [self.template.format(one) for one in (found if self.languages else [wanted])]
        ids = [self.dictionary.index(name) for name in names]
        if len(ids) != 1 or ids[0] == self.dictionary.unk():
            raise ValueError(
                f"language {language}: --input-format {self.input_format.name} needs the symbol of one language, found "
                f"{', '.join(names) or 'none'} in --langs {','.join(self.languages) or '(empty)'} and the dictionary; valid: "
                "--langs with the model's languages in their order, and --language-codes de=CODE where they have other names"
            )
        return ids[0]
