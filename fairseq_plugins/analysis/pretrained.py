"""A pretrained encoder with its pieces, as the options of an analysis name it."""

import argparse
import contextlib
import logging
import os
import tempfile
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional, Sequence

import torch
from fairseq.data import Dictionary

from ..checkpoints import load
from ..checkpoints.encoders import read_encoder
from ..checkpoints.fitting import MARKERS
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.vocabulary import STYLES, check_entries, read_dictionary
from ..common.data_bins import split_names
from ..common.options import check_sizes
from ..understanding.encoder import TextEncoder
from ..understanding.inputs import INPUT_FORMATS
from ..understanding.languages import read_codes
from .segmenters import SEGMENTERS, load_segmenter
from .text import TextInputs
from .vectors import LayerVectors, sentence_vectors

logger = logging.getLogger(__name__)

NO_SEGMENTER = "none"
FORMAT_NAMES = [str(name) for name in INPUT_FORMATS]
FORMATS = {"xlmr": "xlmr", "bert": "bert", "nllb": "mbart50", "deltalm": "xlmr"}
"""Input format of each family that has only one; mBART's files do not tell mbart from mbart50."""


def pick_device(name: Optional[str]) -> torch.device:
    """Return the device of this name (default: the GPU if there is one).

    Raises:
        ValueError: this machine has no such device.
    """
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise ValueError(f"--device {name}: {str(error).splitlines()[0]}") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise ValueError(f"--device {name}: this torch sees {count} GPUs; valid: cpu")
    return device


@contextlib.contextmanager
def vector_folder(args: argparse.Namespace) -> Iterator[str]:
    """Make the folder of vectors: ``--keep-vectors``, or one that is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="vectors-") as folder:
        os.makedirs(args.keep_vectors or folder, exist_ok=True)
        yield args.keep_vectors or folder


class TypedOption(NamedTuple):
    """An option as it is typed, and its value."""

    flag: str
    value: Optional[str]


class PretrainedText:
    """Pieces and input format of a pretrained model; subclasses add the model itself.

    Args:
        path: a file or folder that ``checkpoints.encoders.read_encoder`` reads.
        name: of the model, for files and messages.
        args: options of the command line.
        first: the first model, if this one is the second. Options of a second model end in ``-b``
            and default to those of the first. A file that no option names is looked for beside
            the model; if it is not there, the first model's is used.

    Raises:
        ValueError: a file that is missing or does not fit.
    """

    def __init__(
        self,
        path: str,
        name: str,
        args: argparse.Namespace,
        first: Optional["PretrainedText"] = None,
    ):
        self.name, self.max_tokens = name, args.max_tokens
        self._args, self._first = args, first
        self.device = pick_device(args.device)
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        self.segmenter_file = self._find_segmenter(folder)
        heads = self._setting("heads")
        file = read_encoder(path, heads)
        layout = file.layout
        check_sizes({"heads": layout.heads}, argparse.Namespace(heads=heads), path)
        dictionary = self._find_dictionary(file, path)
        max_positions = self._build(file, path)
        segmenter = None
        if self.segmenter_file != NO_SEGMENTER:
            segmenter = load_segmenter(self.segmenter_file)
        self.inputs = TextInputs(
            dictionary,
            segmenter,
            self._format(layout.family),
            max_positions,
            layout.vocab_size,
            self._languages(file),
            self._setting("language-template") or STYLES.get(layout.family, "[{}]"),
            read_codes(self._setting("language-codes") or ""),
            args.max_unknown,
        )
        shape = layout.family, layout.layers, layout.embed_dim
        logger.info("%s: %s, %d layers of width %d", name, *shape)

    def _build(self, file: PretrainedFile, path: str) -> int:
        """Build the model, in evaluation mode and on the device.

        Returns:
            The longest input, in tokens.
        """
        raise NotImplementedError

    def _typed(self, name: str) -> TypedOption:
        """Return an option of this model as it was typed, None if it was not."""
        suffix = "-b" if self._first else ""
        return TypedOption(
            f"--{name}{suffix}", getattr(self._args, f"{name}{suffix}".replace("-", "_"))
        )

    def _setting(self, name: str) -> Any:
        """Return the value of an option; a second model without one takes the first model's."""
        value = self._typed(name).value
        return getattr(self._args, name.replace("-", "_")) if value is None else value

    def _languages(self, file: PretrainedFile) -> Sequence[str]:
        """List the languages of ``--langs``, else those of the file."""
        languages = self._setting("langs")
        return split_names(languages) if languages is not None else file.languages or ()

    def _find_segmenter(self, folder: str) -> str:
        """Find the segmenter's file: the option's, one beside the model, or the first model's.

        Returns :data:`NO_SEGMENTER` if the text is in pieces already.
        """
        flag, file = self._typed("sentencepiece")
        default = self._first.segmenter_file if self._first else None
        if file is None and default == NO_SEGMENTER:
            return default  # both models read the same text, which is in pieces
        paths = [os.path.join(folder, name) for name in SEGMENTERS]
        segmenter = file or next(filter(os.path.isfile, paths), default)
        if segmenter is None:
            raise ValueError(
                f"{flag}: {folder} has no {' or '.join(SEGMENTERS)}; valid: a file, or "
                f"{NO_SEGMENTER} for text in pieces"
            )
        return segmenter

    def _find_dictionary(self, file: PretrainedFile, path: str) -> Dictionary:
        """Make the dictionary of the option's file, of the model's files, or of the first model."""
        flag, dict_path = self._typed("dict")
        if dict_path is not None:
            origin = f"{flag} {dict_path}"
            dictionary = make_dictionary(read_dictionary(Path(dict_path)), origin)
            hint = f"{flag} must be the dictionary of that model"
            vocabulary = f"the vocabulary of {path}"
            check_entries(file.entries, dictionary.symbols, origin, vocabulary, hint)
            return dictionary
        entries = file.entries or (self._first.inputs.dictionary.symbols if self._first else ())
        if not entries:
            raise ValueError(
                f"{flag}: no file beside {path} tells its vocabulary; valid: the model's dict.txt"
            )
        return make_dictionary(entries, path)

    def _format(self, family: str) -> str:
        """Return the input format of the option, else of the family."""
        name = self._setting("input-format")
        if name is None and family not in FORMATS:
            raise ValueError(
                f"--input-format: {self.name} is of the family {family}, whose files do not tell "
                f"it; valid: {', '.join(FORMAT_NAMES)} (mbart: A </s> LANG, mbart50: LANG A </s>)"
            )
        return str(name or FORMATS[family])


class Pretrained(PretrainedText):
    """An encoder, in evaluation mode and on the device, and the inputs that it takes."""

    encoder: TextEncoder

    def _build(self, file: PretrainedFile, path: str) -> int:
        self.encoder = TextEncoder(file.layout)
        load(self.encoder, file.tensors, allow_missing=MARKERS)
        self.encoder.eval().to(self.device)
        return file.layout.max_positions

    def vectors(
        self,
        lines: Sequence[str],
        language: str,
        title: str,
        folder: str,
        layers: Optional[Sequence[int]] = None,
    ) -> LayerVectors:
        """Compute the vectors of sentences of a language; see ``vectors.sentence_vectors``.

        They are stored in ``folder``, in a file named after the model and ``title``.
        """
        name = f"{self.name} {title}"
        rows = self.inputs.rows(lines, language, name)
        file = os.path.join(folder, f"{self.name}.{title}.npy".replace("/", "_"))
        return sentence_vectors(self.encoder, rows, file, layers, self.max_tokens, name)


def make_dictionary(entries: Sequence[str], origin: str) -> Dictionary:
    """Make a fairseq dictionary with these entries, the four special ones first."""
    dictionary = Dictionary()
    for entry in entries[dictionary.nspecial :]:
        dictionary.add_symbol(entry)
    if dictionary.symbols != list(entries):
        raise ValueError(
            f"{origin}: its vocabulary has an entry twice; valid: as --dict a dict.txt that has not"
        )
    return dictionary
