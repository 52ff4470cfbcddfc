"""Sentencepiece: train a model and its dictionary, text to pieces and back, the dictionary."""

import io
import random
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import sentencepiece

from .. import cli
from ..files import write_bytes
from ..io import InputError, PathLike, read_lines
from ..options import Options, add_fields, adder, from_args, option
from ..progress import heartbeat, with_progress
from ..steps import write_manifest
from .dictionary import FAIRSEQ_SPECIAL, RESERVED
from .encode import add_apply_options, apply_or_decode
from .segmenters import load_model, write_dictionary

MODEL_TYPES = ("unigram", "bpe")
NORMALISATIONS = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")


@dataclass(frozen=True)
class TrainOptions(Options):
    """Options of training; with one thread and a fixed order, equal text gives equal bytes.

    `vocab_size` counts ``<unk>``, ``<s>`` and ``</s>``; the dictionary has 3 fewer lines. User
    symbols come first in the dictionary. A sample of lines is held in memory.
    """

    vocab_size: int = option(0, "pieces, with <unk>, <s> and </s>, >= 4", minimum=4)
    model_type: str = option("unigram", "algorithm", choices=MODEL_TYPES)
    character_coverage: float = option(
        0.9995, "share of the characters that get a piece, in [0.98, 1]", minimum=0.98, maximum=1.0
    )
    normalisation: str = option("nmt_nfkc", "normalisation rule", choices=NORMALISATIONS)
    user_symbols: Tuple[str, ...] = ()
    max_line_bytes: int = option(
        4192, "most bytes of a line, >= 1; longer ones are left out", minimum=1
    )
    max_lines: int = option(0, "size of a random sample of lines; 0 = all lines", minimum=0)
    seed: int = option(1, "seed of the sample")
    fewer: bool = option(False, "accept a text that gives fewer pieces (unigram only)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fewer and self.model_type != "unigram":
            reason = f"--model-type {self.model_type} always has its size"
            raise InputError(f"--fewer: {reason}; valid: with unigram")
        for index, symbol in enumerate(self.user_symbols):
            is_repeated = symbol in self.user_symbols[:index]
            if symbol.split() != [symbol] or symbol in RESERVED or is_repeated:
                raise InputError(
                    f"--user-symbols {symbol!r}: valid: different symbols without white space, "
                    f"none of {' '.join(sorted(RESERVED))} (fairseq and the tasks add those)"
                )


class TrainingText:
    """The lines that sentencepiece asks for, their counts, and the error that it would hide."""

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
            label = f"spm train: reading {Path(path).name}"
            for line in with_progress(read_lines(path, "--inputs"), label):
                self.lines += 1
                if len(line.encode("utf-8")) > self.options.max_line_bytes:
                    self.too_long += 1
                else:
                    yield line

    def _sample(self) -> Iterable[str]:
        """Return a sample by reservoir sampling, in the order of the text."""
        rng = random.Random(self.options.seed)
        sample: List[Tuple[int, str]] = []
        for index, line in enumerate(self._all()):
            if len(sample) < self.options.max_lines:
                sample.append((index, line))
            else:
                place = rng.randrange(index + 1)
                if place < self.options.max_lines:
                    sample[place] = (index, line)
        return (line for _, line in sorted(sample))


def train(
    inputs: Sequence[PathLike], model: PathLike, dictionary: PathLike, options: TrainOptions
) -> Dict[str, int]:
    """Train a model; write it, its fairseq dictionary and a manifest (MODEL.json).

    Returns:
        Counts: ``lines``, ``too_long`` (left out), ``model_pieces``, ``dictionary_pieces``.

    Raises:
        InputError: bad input, as in :func:`read_lines`, or a vocabulary size that the text does
            not allow.
    """
    text = TrainingText(inputs, options)
    proto = _train(text, options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    dictionary_pieces = write_dictionary(processor, dictionary)
    write_bytes(model, proto)
    counts = {
        "lines": text.lines,
        "too_long": text.too_long,
        "model_pieces": processor.get_piece_size(),
        "dictionary_pieces": dictionary_pieces,
    }
    outputs = [model, dictionary]
    write_manifest(f"{model}.json", "spm train", asdict(options), counts, inputs, outputs)
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
        raise text.error or _explain(str(error), text, options) from None
    if text.error:
        raise text.error
    return writer.getvalue()


def _explain(message: str, text: TrainingText, options: TrainOptions) -> InputError:
    """Return an error of sentencepiece in terms of the options."""
    high = re.search(r"size too high .*value <= (\d+)", message)
    low = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    option = f"--vocab-size {options.vocab_size}"
    if high:
        return InputError(f"{option}: more than this text gives; valid: at most {high[1]}")
    if low:
        valid = f"{low[1]} or more, or a lower --character-coverage"
        return InputError(f"{option}: fewer than the characters of this text; valid: {valid}")
    if text.too_long == text.lines:
        limit = f"--max-line-bytes {options.max_line_bytes}"
        return InputError(f"--inputs: all {text.lines} lines are longer than {limit}")
    return InputError(f"spm train: sentencepiece says: {message}")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("spm", __doc__)
    names = "train|apply|decode|dict"
    commands = parser.add_subparsers(dest="command", required=True, metavar=names)
    command = commands.add_parser("train", help="train a model, write its dictionary")
    add = adder(command)
    add("--inputs", "FILE", "text, all languages together", many=True, required=True)
    add("--model", "FILE", "output: the model", required=True)
    add("--dict", "FILE", "output: fairseq dictionary, in XLM-R's order", required=True)
    text = "pieces, with <unk>, <s> and </s>, >= 4"
    add("--vocab-size", "N", text, required=True)
    add_fields(command, TrainOptions, leave_out=["vocab_size"])
    text = "pieces that are never split"
    add("--user-symbols", "SYMBOL", text, nargs="*", default=[])
    add_apply_options(commands, "model", "sentencepiece model")
    text = "write the fairseq dictionary of an existing model"
    add = adder(commands.add_parser("dict", help=text))
    add("--model", "FILE", "sentencepiece model", required=True)
    add("--output", "FILE", "dict.txt", required=True)
    args = parser.parse_args(argv)
    if args.command == "train":
        args.user_symbols = tuple(args.user_symbols)
        options = from_args(TrainOptions, args)
        counts = train(args.inputs, args.model, args.dict, options)
        cli.say(f"spm train: {args.model}, {args.dict}: {cli.list_counts(counts)}")
    elif args.command == "dict":
        count = write_dictionary(load_model(args.model), args.output)
        rows = count + len(FAIRSEQ_SPECIAL)
        sizes = f"{count:,} pieces; {rows:,} rows in fairseq, {rows + 1:,} with <mask>"
        cli.say(f"spm dict: {args.output}: {sizes}")
    else:
        apply_or_decode("spm", args)
