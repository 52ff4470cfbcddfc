"""Fits the tensors of a pretrained file to a model: rows, positions, ``<mask>`` and ties.

Then it loads them strictly, and logs where every tensor comes from.
"""

import logging
import re
from dataclasses import replace
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .layouts import MASK_ROW, POSITIONS, WORDS
from .loading import LoadReport, fold, load
from .pretrained import PretrainedFile
from .vocabulary import MASK, check_entries

logger = logging.getLogger(__name__)

MARKERS = (
    r"(?:(?:encoder|decoder)\.)?version",
    r"(?:(?:encoder|decoder)\.)?embed_positions\._float_tensor",
    re.escape(MASK_ROW),
)
"""Names of tensors that the model makes itself and no file needs to have."""

_DECODER_WORDS, _OUTPUT = f"decoder.{WORDS}", "decoder.output_projection.weight"
_WORDS = re.compile(
    rf"(?:(?:encoder|decoder)\.)?{re.escape(WORDS)}|{re.escape(_OUTPUT)}|lm_head\.bias"
)
_POSITIONS = re.compile(rf"(?:(encoder|decoder)\.)?{re.escape(POSITIONS)}")


class FitOptions(NamedTuple):
    """Options that say how rows are fitted, and what messages call the options that help.

    Attributes:
        rows: policy for token embeddings: ``error``, ``extend`` (rows beyond the file's keep the
            model's random values) or ``truncate`` (the file's last rows are left out).
        rows_option: name of the option ``rows``.
        positions: side -> option of its longest input.
        shared: option that shares the embeddings of both sides.
        tied: options that tie the output projection.
        dictionary: remedy for a dictionary that is not the file's.
    """

    rows: str
    rows_option: str
    positions: Mapping[str, str]
    shared: str
    tied: str
    dictionary: str


def fit_rows(
    tensor: Tensor, target: Tensor, options: FitOptions, origin: str
) -> Tuple[Tensor, str]:
    """Fit a token embedding of the file, (rows, C), to that of the model, (V, C), at random.

    Returns:
        the embedding, (V, C), and a description of the change.

    Raises:
        ValueError: the policy does not allow the change; says where the difference may come from.
    """
    rows, vocab = tensor.size(0), target.size(0)
    if vocab > rows:
        valid, effect = "extend", "gives random values to the rows beyond the file's"
    else:
        valid, effect = "truncate", "leaves the file's last rows out"
    choice = f"{options.rows_option} {options.rows}"
    if options.rows != valid:
        raise ValueError(
            f"the dictionary has {vocab:,} entries, {origin} {rows:,} rows, and "
            f"{options.rows_option} is {options.rows}; valid here: {valid}, which {effect}. "
            f"{explain_difference(vocab - rows)}Entries must mean the same: preprocess with the "
            "model's own dictionary, new symbols at its end"
        )
    if vocab < rows:
        return tensor[:vocab], f"the first {vocab:,} of {rows:,} rows ({choice})"
    extended = torch.cat([tensor, target[rows:].to(tensor.dtype)])
    return extended, f"{vocab - rows:,} random rows after the file's {rows:,} ({choice})"


def fit_positions(
    tensor: Tensor, rows: int, unused: int, origin: str, option: str
) -> Tuple[Tensor, str]:
    """Cut a position embedding to a number of rows. Raises ValueError: the file has fewer.

    Args:
        unused: rows before that of the first position.
        option: of the longest input, for messages.

    Returns:
        the embedding, (rows, C), and a description of the change.
    """
    available, longest = tensor.size(0) - unused, rows - unused
    if longest > available:
        limit = f"{origin} has {available} learned positions; valid: at most that"
        raise ValueError(f"{option} {longest}: {limit}")
    return tensor[:rows], f"the first {longest} of {available} positions ({option})"


def explain_difference(entries: int) -> str:
    """Return the probable reason if a dictionary has one entry more (or fewer) than a file."""
    more = "more" if entries > 0 else "fewer"
    return f"The one entry {more} is probably {MASK}. " if abs(entries) == 1 else ""


def layer_sources(model: PretrainedFile, side: str, layers: Sequence[int]) -> Dict[str, str]:
    """Map names in one side of a model to names in a masked LM.

    Args:
        layers: numbers of the masked LM's layers that become the layers 0, 1 ... of the side.
    """
    embeddings = (WORDS, POSITIONS, "layernorm_embedding.weight", "layernorm_embedding.bias")
    sources = {f"{side}.{name}": f"sentence_encoder.{name}" for name in embeddings}
    for number, layer in enumerate(layers):
        start = f"sentence_encoder.layers.{layer}."
        for name in model.tensors:
            if name.startswith(start):
                sources[f"{side}.layers.{number}.{name[len(start) :]}"] = name
    return sources


class Filler:
    """Fills a model from tensors of a file; changed in place.

    Attributes:
        model: an encoder-decoder, or an encoder.
        tensors: by their names in the model.
        changes: name -> description of the rows that were cut or added.
    """

    def __init__(
        self, model: Any, tensors: Dict[str, Tensor], options: FitOptions, origin: str
    ) -> None:
        self.model, self.tensors = model, tensors
        self.options, self.origin = options, origin
        self.targets: Dict[str, Tensor] = model.state_dict()
        self.changes: Dict[str, str] = {}

    def check_dictionary(self, side: str, entries: Sequence[str]) -> None:
        """Raise ValueError if a side's dictionary is not the one beside the file."""
        symbols = getattr(self.model, side).dictionary.symbols
        remedy = self.options.dictionary
        check_entries(entries, symbols, self.origin, "the dict.txt beside it", remedy)

    def drop_mask_row(self, side: str, row: Optional[int]) -> None:
        """Drop the row of ``<mask>`` from the words of a side whose dictionary has no ``<mask>``.

        ``row`` is None if the file has no such row. Raises ValueError if ``<mask>`` is another
        entry of the dictionary.
        """
        if row is None:
            return
        dictionary = getattr(self.model, side).dictionary
        index = dictionary.index(MASK) if MASK in dictionary else None
        for name, tensor in list(self.tensors.items()):
            if not name.startswith(side) or not _WORDS.fullmatch(name):
                continue
            place = "the last row" if row == tensor.size(0) - 1 else f"row {row:,}"
            if index is None:
                change = f"without {place}, {MASK}, which the dictionary does not have"
                self._replace(name, torch.cat([tensor[:row], tensor[row + 1 :]]), change)
            elif index != row:
                entry = f"{MASK} is entry {index} of the dictionary"
                remedy = self.options.dictionary
                raise ValueError(f"{entry}, but {place} of {self.origin}; {remedy}")

    def fit(self) -> None:
        """Bring words and positions to the rows of the model; leave every other tensor."""
        for name, tensor in list(self.tensors.items()):
            target = self.targets.get(name)
            if target is None or not tensor.dim() or tensor.size(0) == target.size(0):
                continue
            if positions := _POSITIONS.fullmatch(name):
                side = positions[1] or "encoder"
                unused = getattr(self.model, side, self.model).padding_idx + 1
                option = self.options.positions[side]
                fitted = fit_positions(tensor, target.size(0), unused, self.origin, option)
                self._replace(name, *fitted)
            elif _WORDS.fullmatch(name):
                self._replace(name, *fit_rows(tensor, target, self.options, self.origin))

    def _replace(self, name: str, tensor: Tensor, change: str) -> None:
        self.tensors[name] = tensor
        earlier = self.changes.get(name)
        self.changes[name] = f"{earlier}; {change}" if earlier else change

    def _tie(self) -> None:
        """Start an output projection that the file lacks as the decoder's embedding.

        Raises ValueError if the model ties tensors that differ in the file.
        """
        encoder, decoder = self.model.encoder, self.model.decoder
        words = self.tensors[_DECODER_WORDS]
        is_shared = encoder.embed_tokens is decoder.embed_tokens
        if is_shared and not torch.equal(self.tensors[f"encoder.{WORDS}"], words):
            remedy = f"leave {self.options.shared} out"
            raise ValueError(f"{self.origin} has different source and target embeddings; {remedy}")
        is_tied = decoder.share_input_output_embed
        if _OUTPUT not in self.tensors:
            self.tensors[_OUTPUT] = words
            if not is_tied:
                self.changes[_OUTPUT] = f"a copy of {_DECODER_WORDS}"
        elif is_tied and not torch.equal(self.tensors[_OUTPUT], words):
            remedy = f"leave {self.options.tied} out"
            raise ValueError(f"{self.origin} has an output projection of its own; {remedy}")

    def load(
        self, sources: Optional[Mapping[str, str]] = None, random: Sequence[str] = ()
    ) -> LoadReport:
        """Fit all tensors, tie what the model ties, load them strictly, and log their sources.

        Args:
            sources: name in the model -> name in the file; None if they are the same.
            random: patterns of the names that may keep their initial values.

        Returns:
            account of every tensor of the model; ``reasons`` names the source of each.

        Raises:
            ValueError: tensors that do not fit, or are not accounted for.
        """
        self.fit()
        if sources is not None and _DECODER_WORDS in self.tensors:
            self._tie()
            sources = {_OUTPUT: sources[_DECODER_WORDS], **sources}
        try:
            report = load(self.model, self.tensors, allow_missing=(*MARKERS, *random))
        except ValueError as error:
            raise ValueError(f"{self.origin}: {error}") from error
        reasons = {**report.reasons, **self.changes}
        if sources is None:
            logger.info("%s: %s", self.origin, report.summary())
        else:
            reasons.update(self._explain(report, sources))
        for name, change in self.changes.items():
            logger.info("%s: %s: %s", self.origin, name, change)
        return replace(report, reasons=reasons)

    def _explain(self, report: LoadReport, sources: Mapping[str, str]) -> Dict[str, str]:
        """Log the sources of the tensors, and return the reason of each."""
        used = {name: sources[name] for name in report.loaded if name in sources}
        logger.info("%s: filled %s", self.origin, ", ".join(fold(used.items())))
        reasons = {}
        for name in report.initialised:
            is_marker = any(re.fullmatch(marker, name) for marker in MARKERS)
            reasons[name] = "of the layout itself" if is_marker else "random"
        for name, source in used.items():
            change = self.changes.get(name)
            reasons[name] = f"{source}; {change}" if change else source
        return reasons
