"""Training of a sentencepiece model, the same bytes from the same text."""

import io
import random
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import sentencepiece

from ..files import write_bytes
from ..io import InputError, PathLike, read_lines
from ..progress import heartbeat, with_progress
from ..steps import write_manifest
from . import models as pieces

MODEL_TYPES = ("unigram", "bpe")
NORMALISATIONS = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")
COVERAGE = (0.98, 1.0)


@dataclass(frozen=True)
class TrainOptions:
    """How a model is trained; one thread and a fixed order, so the same text gives the same bytes.

    Args:
        vocab_size: pieces of the model, with ``<unk>``, ``<s>`` and ``</s>``; the dictionary has 3 fewer lines.
        model_type: one of ``MODEL_TYPES``.
        character_coverage: share of the characters of the text that get a piece, in [0.98, 1].
        normalisation: sentencepiece's rule, one of ``NORMALISATIONS``.
        user_symbols: pieces that are never split (tags); in the dictionary they come first.
        max_line_bytes: sentencepiece leaves longer lines out; they are counted and reported.
        max_lines: train on a random sample of so many lines (held in memory); 0 = all.
        seed: of the sample.
        fewer: a text that gives fewer pieces than ``vocab_size`` is no error (unigram only).
    """

    vocab_size: int
    model_type: str = "unigram"
    character_coverage: float = 0.9995
    normalisation: str = "nmt_nfkc"
    user_symbols: Tuple[str, ...] = ()
    max_line_bytes: int = 4192
    max_lines: int = 0
    seed: int = 1
    fewer: bool = False

    def __post_init__(self) -> None:
        if self.model_type not in MODEL_TYPES:
            raise InputError(f"--model-type {self.model_type}: valid: {', '.join(MODEL_TYPES)}")
        if self.normalisation not in NORMALISATIONS:
            raise InputError(f"--normalisation {self.normalisation}: valid: {', '.join(NORMALISATIONS)}")
        if not COVERAGE[0] <= self.character_coverage <= COVERAGE[1]:
            raise InputError(f"--character-coverage {self.character_coverage}: valid: {COVERAGE[0]} to {COVERAGE[1]}")
        if self.fewer and self.model_type != "unigram":
            raise InputError(f"--fewer: --model-type {self.model_type} always has its size; valid: with unigram")
        for option, value, least in (
            ("vocab-size", self.vocab_size, 4),
            ("max-line-bytes", self.max_line_bytes, 1),
            ("max-lines", self.max_lines, 0),
        ):
            if value < least:
                raise InputError(f"--{option} {value}: valid: {least} or more")
        for index, symbol in enumerate(self.user_symbols):
            if symbol.split() != [symbol] or symbol in pieces.RESERVED or symbol in self.user_symbols[:index]:
                raise InputError(
                    f"--user-symbols {symbol!r}: valid: different symbols without white space, none of "
                    f"{' '.join(sorted(pieces.RESERVED))} (fairseq and the tasks add those)"
                )


class TrainingText:
    """The lines that sentencepiece asks for; keeps count, and keeps the error that sentencepiece would hide."""

    def __init__(self, inputs: Sequence[PathLike], options: TrainOptions):
        self.inputs = inputs
        self.options = options
        self.lines = 0
        self.too_long = 0
        self.error: Optional[InputError] = None

    def __iter__(self) -> Iterator[str]:
        try:
            yield from self._sample() if self.options.max_lines else self._all()
        except InputError as error:
            self.error = error

    def _all(self) -> Iterator[str]:
        for path in self.inputs:
            for line in with_progress(read_lines(path, "--inputs"), f"spm train: reading {Path(path).name}"):
                self.lines += 1
                if len(line.encode("utf-8")) > self.options.max_line_bytes:
                    self.too_long += 1
                else:
                    yield line

    def _sample(self) -> Iterable[str]:
        """Reservoir sampling, the sample in the order of the text."""
        rng = random.Random(self.options.seed)
        kept: List[Tuple[int, str]] = []
        for index, line in enumerate(self._all()):
            if len(kept) < self.options.max_lines:
                kept.append((index, line))
            else:
                place = rng.randrange(index + 1)
                if place < self.options.max_lines:
                    kept[place] = (index, line)
        return (line for _, line in sorted(kept))


def train(inputs: Sequence[PathLike], model: PathLike, dictionary: PathLike, options: TrainOptions) -> Dict[str, int]:
    """Train a sentencepiece model and write it, its fairseq dictionary and a manifest (the model's name + ``.json``).

    Returns:
        Counts: ``lines``, ``too_long`` (left out), ``model_pieces``, ``dictionary_pieces``.

    Raises:
        InputError: bad input, as in :func:`read_lines`, or a vocabulary size that this text does not allow.
    """
    text = TrainingText(inputs, options)
    proto = _train(text, options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    dictionary_pieces = pieces.write_dictionary(processor, dictionary)
    write_bytes(model, proto)
    counts = {
        "lines": text.lines,
        "too_long": text.too_long,
        "model_pieces": processor.get_piece_size(),
        "dictionary_pieces": dictionary_pieces,
    }
    write_manifest(f"{model}.json", "spm train", asdict(options), counts, inputs, [model, dictionary])
    return counts


def _train(text: TrainingText, options: TrainOptions) -> bytes:
    writer = io.BytesIO()
    try:
        with heartbeat(f"spm train: {options.vocab_size:,} pieces"):
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(text),
                model_writer=writer,
                vocab_size=options.vocab_size,
                model_type=options.model_type,
                hard_vocab_limit=not options.fewer,
                character_coverage=options.character_coverage,
                normalization_rule_name=options.normalisation,
                user_defined_symbols=list(options.user_symbols),
                max_sentence_length=options.max_line_bytes,
                num_threads=1,
                minloglevel=2,
            )
    except (RuntimeError, ValueError, OSError) as error:
        raise text.error or _explained(str(error), text, options) from None
    if text.error:
        raise text.error
    return writer.getvalue()


def _explained(message: str, text: TrainingText, options: TrainOptions) -> InputError:
    high = re.search(r"size too high .*value <= (\d+)", message)
    low = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if high:
        return InputError(f"--vocab-size {options.vocab_size}: more than this text gives; valid: at most {high[1]}")
    if low:
        return InputError(
            f"--vocab-size {options.vocab_size}: fewer than the characters of this text; "
            f"valid: {low[1]} or more, or a lower --character-coverage"
        )
    if text.too_long == text.lines:
        return InputError(f"--inputs: all {text.lines} lines are longer than --max-line-bytes {options.max_line_bytes}")
    return InputError(f"spm train: sentencepiece says: {message}")
