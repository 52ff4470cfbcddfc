"""A pretrained encoder with its pieces, as the options of an analysis name it, and the vectors it gives."""

import argparse
import contextlib
import logging
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary

from ..checkpoints import load
from ..checkpoints.encoders import read_encoder
from ..checkpoints.fitting import MARKERS
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.vocabulary import STYLES, check_entries, read_dictionary
from ..common.options import check_sizes
from ..understanding.encoder import TextEncoder
from ..understanding.inputs import INPUT_FORMATS
from .report import named_paths
from .text import TextInputs, load_segmenter
from .vectors import LayerVectors, sentence_vectors

logger = logging.getLogger(__name__)

SEGMENTERS = ("sentencepiece.bpe.model", "sentence.bpe.model", "sentencepiece.model", "spiece.model")
NO_SEGMENTER = "none"
FORMAT_NAMES = [str(name) for name in INPUT_FORMATS]
FORMATS = {"xlmr": "xlmr", "bert": "bert", "nllb": "mbart50", "deltalm": "xlmr"}
"""Input format of each family that has only one; mBART's files do not tell mbart from mbart50."""


def pick_device(name: Optional[str]) -> torch.device:
    """The device named, or the GPU where there is one. Raises ValueError: no such device here."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise ValueError(f"--device {name}: {str(error).splitlines()[0]}") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"--device {name}: this torch sees {torch.cuda.device_count()} GPUs; valid: cpu")
    return device


@contextlib.contextmanager
def vector_folder(args: argparse.Namespace) -> Iterator[str]:
    """Where vectors lie while they are used: ``--keep-vectors``, or a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="vectors-") as folder:
        os.makedirs(args.keep_vectors or folder, exist_ok=True)
        yield args.keep_vectors or folder


class PretrainedText:
    """What a pretrained model takes: its pieces and the format of its inputs; subclasses add the model itself.

    ``path``: whatever ``checkpoints.encoders.read_encoder`` reads. ``name``: for files and messages. ``first``: the first model,
    where this one is the second: its options end in ``-b``, and a file that no option names is the one beside the model, or else
    the first model's. Raises ValueError: a file that is missing or does not fit.
    """

    def __init__(self, path: str, name: str, args: argparse.Namespace, first: Optional["Pretrained"] = None):
        self.name, self.max_tokens = name, args.max_tokens
        self._args, self._first = args, first
        self.device = pick_device(args.device)
        self.segmenter_file = self._find_segmenter(path if os.path.isdir(path) else os.path.dirname(path) or ".")
        found = read_encoder(path, self._option("heads"))
        check_sizes({"heads": found.layout.heads}, argparse.Namespace(heads=self._option("heads")), path)
        dictionary, layout, languages = self._find_dictionary(found, path), found.layout, self._option("langs")
        max_positions = self._build(found, path)
        self.inputs = TextInputs(
            dictionary,
            None if self.segmenter_file == NO_SEGMENTER else load_segmenter(self.segmenter_file),
            self._format(layout.family),
            max_positions,
            layout.vocab_size,
            [one for one in languages.split(",") if one] if languages is not None else found.languages or (),
            self._option("language-template") or STYLES.get(layout.family, "[{}]"),
            read_codes(self._option("language-codes") or ""),
            args.max_unknown,
        )
        logger.info("%s: %s, %d layers of width %d", name, layout.family, layout.layers, layout.embed_dim)

    def _build(self, found: PretrainedFile, path: str) -> int:
        """Make the model, in evaluation mode and on the device, from its file. Returns the longest input, in tokens."""
        raise NotImplementedError

    def _option(self, name: str) -> Any:
        """The value of an option; of a second model the first one's where it has none."""
        key = name.replace("-", "_")
        own = getattr(self._args, f"{key}_b") if self._first else None
        return getattr(self._args, key) if own is None else own

    def _own(self, name: str) -> Tuple[str, Optional[str]]:
        """The option of this model, as it is typed and with its value."""
        suffix = "-b" if self._first else ""
        return f"--{name}{suffix}", getattr(self._args, f"{name}{suffix}".replace("-", "_"))

    def _find_segmenter(self, folder: str) -> str:
        """The sentencepiece model that is named, lies beside the model, or is the first model's."""
        option, given = self._own("sentencepiece")
        first = self._first.segmenter_file if self._first else None
        if given is None and first == NO_SEGMENTER:
            return first  # whether the text is in pieces does not depend on the model
        found = [path for path in (os.path.join(folder, one) for one in SEGMENTERS) if os.path.isfile(path)]
        chosen = given or next(iter(found), first)
        if chosen is None:
            raise ValueError(
                f"{option}: {folder} has no {' or '.join(SEGMENTERS)}; valid: a file, or {NO_SEGMENTER} for text in pieces"
            )
        return chosen

    def _find_dictionary(self, found: PretrainedFile, path: str) -> Dictionary:
        """What the rows mean: a file that is named, what the model's own files say, or the first model's entries."""
        option, given = self._own("dict")
        if given is not None:
            result = _dictionary_of(read_dictionary(Path(given)), f"{option} {given}")
            hint = f"{option} must be the dictionary of that model"
            check_entries(found.entries, result.symbols, f"{option} {given}", f"the vocabulary of {path}", hint)
            return result
        entries = found.entries or (self._first.inputs.dictionary.symbols if self._first else ())
        if not entries:
            raise ValueError(f"{option}: no file beside {path} tells its vocabulary; valid: the model's dict.txt")
        return _dictionary_of(entries, path)

    def _format(self, family: str) -> str:
        chosen = self._option("input-format")
        if chosen is None and family not in FORMATS:
            raise ValueError(
                f"--input-format: {self.name} is of the family {family}, whose files do not tell it; valid: "
                f"{', '.join(FORMAT_NAMES)} (mbart: A </s> LANG, mbart50: LANG A </s>)"
            )
        return str(chosen or FORMATS[family])


class Pretrained(PretrainedText):
    """An encoder, in evaluation mode and on the device, and the inputs that it takes; see :class:`PretrainedText`."""

    encoder: TextEncoder

    def _build(self, found: PretrainedFile, path: str) -> int:
        self.encoder = TextEncoder(found.layout)
        load(self.encoder, found.tensors, allow_missing=MARKERS)
        self.encoder.eval().to(self.device)
        return found.layout.max_positions

    def vectors(
        self, lines: Sequence[str], language: str, title: str, folder: str, layers: Optional[Sequence[int]] = None
    ) -> LayerVectors:
        """Vectors of the sentences of a language, kept in ``folder`` under ``title``; see ``vectors.sentence_vectors``."""
        name = f"{self.name} {title}"
        rows = self.inputs.rows(lines, language, name)
        file = f"{self.name}.{title}.npy".replace("/", "_")
        return sentence_vectors(self.encoder, rows, os.path.join(folder, file), layers, self.max_tokens, name)


def _dictionary_of(entries: Sequence[str], origin: str) -> Dictionary:
    """A fairseq dictionary with these entries, the four special ones first."""
    result = Dictionary()
    for entry in entries[result.nspecial :]:
        result.add_symbol(entry)
    if result.symbols != list(entries):
        raise ValueError(f"{origin}: its vocabulary has an entry twice; valid: as --dict a dict.txt that has not")
    return result


def read_codes(text: str) -> Dict[str, str]:
    """``de=deu_Latn,fr=fra_Latn`` as a dictionary. Raises ValueError: a part without ``=``."""
    parts = [part.partition("=") for part in text.split(",") if part]
    if not all(key and equals and value for key, equals, value in parts):
        raise ValueError(f"--language-codes {text}: valid: as de=deu_Latn,fr=fra_Latn")
    return {key: value for key, _, value in parts}


def named_files(items: Sequence[str], option: str) -> Dict[str, str]:
    """``en=FILE de=FILE`` as a dictionary, in that order; see ``report.named_paths``."""
    return named_paths(items, option, "as en=FILE de=FILE, each language once", "LANG=FILE")


def row_parallel(texts: Dict[str, List[str]], option: str) -> None:
    """Refuse texts of different lengths (ValueError, with the numbers of lines)."""
    counts = {language: len(lines) for language, lines in texts.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{language} {count}" for language, count in counts.items())
        raise ValueError(f"{option}: the texts need equal numbers of lines, one per sentence; got {listed}")
