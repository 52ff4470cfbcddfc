"""Fits the tensors of a pretrained file to a model, and loads them strictly.

Token embeddings, positions, the row of ``<mask>`` and tied tensors are brought to the model's
shapes. The log names the source of every tensor.
"""

import logging
import re
from dataclasses import replace
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .layouts import MASK_ROW, POSITIONS, WORDS
from .loading import LoadReport, fold, load
from .pretrained import PretrainedFile
from .vocabulary import MASK, check_entries, find_rows

logger = logging.getLogger(__name__)

MARKERS = (
    r"(?:(?:encoder|decoder)\.)?version",
    r"(?:(?:encoder|decoder)\.)?embed_positions\._float_tensor",
    re.escape(MASK_ROW),
)
"""Patterns of tensors that the model makes itself, so that no file needs to have them."""

_ENCODER_WORDS, _DECODER_WORDS = f"encoder.{WORDS}", f"decoder.{WORDS}"
_OUTPUT = "decoder.output_projection.weight"
_WORDS = re.compile(  # tensors with a row for each entry of the dictionary
    rf"(?:(?:encoder|decoder)\.)?{re.escape(WORDS)}|{re.escape(_OUTPUT)}|lm_head\.bias"
)
_POSITIONS = re.compile(rf"(?:(encoder|decoder)\.)?{re.escape(POSITIONS)}")


class FitOptions(NamedTuple):
    """Options for fitting rows, and the option names that error messages suggest.

    Attributes:
        rows: policy if a token embedding has another number of rows than the dictionary:
            ``error``, ``extend`` (rows beyond the file's keep the model's random values) or
            ``truncate`` (the file's last rows are left out).
        rows_option: name of the option that chooses the policy.
        positions: side -> name of the option of its longest input.
        shared: name of the option that shares the embeddings of both sides.
        tied: names of the options that tie the output projection.
        dictionary: advice if the dictionary is not the file's.
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
    """Extend or truncate a token embedding to the rows of the model.

    Args:
        tensor: embedding of the file, (rows, C), or another tensor with a row for each entry.
        target: embedding of the model, (V, C), with random values; V is not ``rows``.
        options: hold the policy.
        origin: name of the file, for messages.

    Returns:
        the embedding, (V, C), and a description of the change.

    Raises:
        ValueError: the policy does not allow the change; the message tells its probable reason.
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


def fit_masked_lm(
    model: PretrainedFile, module: nn.Module, options: FitOptions, origin: str
) -> None:
    """Bring the rows of a masked LM to those of a module, in place, and log the change.

    Args:
        model: a masked LM, in the names of ``MaskedLM``.
        module: a ``MaskedLM`` with a row for each entry of the dictionary.
        options: hold the policy.
        origin: name of the file, for messages.

    Raises:
        ValueError: the policy does not allow the change.
    """
    targets = module.state_dict()
    for name in (f"sentence_encoder.{WORDS}", "lm_head.bias"):
        tensor = model.tensors.get(name)
        if tensor is not None and tensor.size(0) != targets[name].size(0):
            model.tensors[name], change = fit_rows(tensor, targets[name], options, origin)
            logger.info("%s: %s: %s", origin, name, change)


def fit_positions(
    tensor: Tensor, rows: int, unused: int, origin: str, option: str
) -> Tuple[Tensor, str]:
    """Cut a position embedding to its first rows.

    Args:
        rows: number of rows in the model.
        unused: number of rows before that of the first position.
        origin: name of the file, for messages.
        option: name of the option of the longest input, for messages.

    Returns:
        the embedding, (rows, C), and a description of the change.

    Raises:
        ValueError: the file has fewer rows.
    """
    available, longest = tensor.size(0) - unused, rows - unused
    if longest > available:
        limit = f"{origin} has {available} learned positions; valid: at most that"
        raise ValueError(f"{option} {longest}: {limit}")
    return tensor[:rows], f"the first {longest} of {available} positions ({option})"


def explain_difference(entries: int) -> str:
    """Return the probable reason if a dictionary has one entry more than a file, or one fewer.

    Args:
        entries: number of entries of the dictionary minus that of the file's rows.
    """
    more = "more" if entries > 0 else "fewer"
    return f"The one entry {more} is probably {MASK}. " if abs(entries) == 1 else ""


def layer_sources(model: PretrainedFile, side: str, layers: Sequence[int]) -> Dict[str, str]:
    """Map the embeddings and layers of one side of a model to those of a masked LM, by name.

    Args:
        model: the masked LM.
        side: ``encoder`` or ``decoder``.
        layers: layers of the masked LM that become the layers 0, 1, ... of the side.
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
    """Fits tensors of a file to a model, and loads them.

    Attributes:
        model: an encoder-decoder, or an encoder.
        tensors: the file's tensors by their names in the model; fitted in place.
        targets: the model's tensors.
        changes: name -> description of the change of a tensor.
    """

    def __init__(
        self, model: Any, tensors: Dict[str, Tensor], options: FitOptions, origin: str
    ) -> None:
        self.model, self.tensors = model, tensors
        self.options, self.origin = options, origin
        self.targets: Dict[str, Tensor] = model.state_dict()
        self.changes: Dict[str, str] = {}

    def check_dictionary(self, side: str, entries: Sequence[str]) -> None:
        """Raise ValueError if a side's dictionary differs from the entries of the file."""
        symbols = getattr(self.model, side).dictionary.symbols
        remedy = self.options.dictionary
        check_entries(entries, symbols, self.origin, "the vocabulary beside it", remedy)

    def drop_mask_row(self, side: str, row: Optional[int]) -> None:
        """Remove the row of ``<mask>`` from a side's tensors if its dictionary has no ``<mask>``.

        Args:
            row: row of ``<mask>`` in the file; None if it has none.

        Raises:
            ValueError: the dictionary has ``<mask>`` in another row.
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

    def fit_dictionaries(self, entries: Sequence[str], mask_row: Optional[int]) -> None:
        """Check the dictionaries of a start from a masked LM, and drop the row of ``<mask>``.

        The decoder may have a dictionary of its own, with some of the encoder's entries in any
        order: its embedding takes their rows, by name.

        Args:
            entries: entries of the file; empty if they are not known.
            mask_row: row of ``<mask>`` in the file; None if it has none.

        Raises:
            ValueError: a dictionary differs from the file's, or the encoder's lacks an entry of the
                decoder's.
        """
        source, target = self.model.encoder.dictionary, self.model.decoder.dictionary
        is_same = target.symbols[: len(source)] == source.symbols  # new symbols may follow
        for side in ("encoder", "decoder") if is_same else ("encoder",):
            self.check_dictionary(side, entries)
            self.drop_mask_row(side, mask_row)
        if is_same:
            return
        del self.tensors[_DECODER_WORDS]
        self.fit()
        files = "the target's dictionary", "the source's dictionary"
        rows = find_rows(target.symbols, source.indices, *files, self.options.dictionary)
        change = f"the rows of the target's {len(rows):,} entries"
        self._replace(_DECODER_WORDS, self.tensors[_ENCODER_WORDS][rows], change)

    def fit(self) -> None:
        """Fit token and position embeddings whose number of rows is not the model's."""
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
        """Replace a tensor by the fitted one, and note the change."""
        self.tensors[name] = tensor
        earlier = self.changes.get(name)
        self.changes[name] = f"{earlier}; {change}" if earlier else change

    def _tie(self) -> None:
        """Copy the decoder's embedding to the output projection if the file has no projection.

        Raises:
            ValueError: the model ties tensors that differ in the file.
        """
        encoder, decoder = self.model.encoder, self.model.decoder
        words = self.tensors[_DECODER_WORDS]
        is_shared = encoder.embed_tokens is decoder.embed_tokens
        if is_shared and not torch.equal(self.tensors[_ENCODER_WORDS], words):
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
        """Fit and load all tensors, and log their sources.

        Args:
            sources: name in the model -> name in the file; None if the names are the same, and no
                tensor needs a tie.
            random: patterns of names in the model that may keep their initial values.

        Returns:
            report on every tensor of the model; its ``reasons`` name the source of each.

        Raises:
            ValueError: a tensor does not fit, is missing or surplus.
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
        """Log the sources of the tensors. Return name in the model -> source, or reason of none."""
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
