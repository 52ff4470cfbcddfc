"""States of a pretrained stack: choosing layers and rows from them for a translation model, and going on with pre-training."""

import logging
import re
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch import Tensor

from ...checkpoints.fitting import MARKERS, Filler
from ...checkpoints.loading import LoadReport, fold, mismatches
from ...checkpoints.veco import PRETRAINED_HERE, mask_row
from ...checkpoints.vocabulary import MASK
from ...checkpoints.writing import memory_of
from .dictionary_map import SPECIAL_ROWS, cut_rows

logger = logging.getLogger(__name__)

SIDES = ("encoder", "decoder")
_TAG = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")
_CROSS_ATTENTION = re.compile(r"encoder_attn(?:_layer_norm)?\..+")
_STARTS = re.compile(r"decoder\.layers\.\d+\.(?:encoder_attn\..+\.bias|encoder_attn_layer_norm\.(?:weight|bias))")
"""Parameters of cross-attention that begin at one value: norms at 1, biases at 0."""
_HEADS = re.compile(r"(lm_head|classification_heads)\..+")
_WORDS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")
_ENCODER_OUTPUT = "encoder.output_projection.weight"
_STATE = "the state to load"


def layers_of(state: Mapping[str, Tensor], side: str) -> int:
    """Layers that a state has on one side. Raises ValueError: their numbers are not 0, 1, 2 ..."""
    found = {int(match.group(2)) for match in map(_LAYER.fullmatch, state) if match and match.group(1) == side}
    if found != set(range(len(found))):
        raise ValueError(f"the state to load has the {side} layers {sorted(found)}; valid: 0 to {len(found) - 1}")
    return len(found)


def first_unequal(pairs: Mapping[str, Tuple[Tensor, Optional[Tensor]]]) -> Optional[str]:
    """The first name whose two tensors differ, or of which one is missing; None = none does. Waits for a device once."""
    differ = {}
    for name, (one, other) in pairs.items():
        if other is None or one.shape != other.shape:
            return name
        if memory_of(one) != memory_of(other):
            differ[name] = (one != other).any()
    found = torch.stack(list(differ.values())).tolist() if differ else []
    return next((name for name, differs in zip(differ, found) if differs), None)


def first_untied(state: Mapping[str, Tensor]) -> Optional[str]:
    """The first tensor of a decoder layer (without cross-attention) that differs from the encoder layer's; None = none does."""
    pairs = {}
    for name, tensor in state.items():
        match = _LAYER.fullmatch(name)
        if match and match.group(1) == "decoder" and not _CROSS_ATTENTION.fullmatch(match.group(3)):
            pairs[name] = tensor, state.get(f"encoder.layers.{match.group(2)}.{match.group(3)}")
    return first_unequal(pairs)


def check_tied_state(model: Any, state: Dict[str, Tensor]) -> None:
    """Raise ValueError for a state that is not one of pre-training, of the model's sizes and with its row of ``<mask>``."""
    if PRETRAINED_HERE not in state:
        raise ValueError(
            "--restore-file: the state has no masked-LM head (lm_head.*), so it is a released VECO or a translation model; valid "
            "for pre-training: a checkpoint of pre-training, or a masked LM with --init-from-mlm"
        )
    for side in SIDES:
        found, wanted = layers_of(state, side), len(getattr(model, side).layers)
        if found != wanted:
            raise ValueError(f"the state to load has {found} {side} layers; valid: the {wanted} of --encoder-layers")
    untied = first_untied(state)
    if untied:
        raise ValueError(
            f"the state to load has another {untied} than the encoder's layer; in pre-training they are one tensor, so this is no "
            "checkpoint of pre-training"
        )
    rows = model.encoder.embed_tokens.num_embeddings
    words = [name for name in (*_WORDS, "lm_head.weight") if name in state]
    for name in words:
        if state[name].size(0) != rows:
            raise ValueError(
                f"the state to load has {state[name].size(0):,} rows in {name}, the data's dictionary with <mask> {rows:,} "
                "entries; valid: the dictionary that it was pre-trained with"
            )
    other = first_unequal({name: (state[name], state[words[0]]) for name in words})
    if other:
        raise ValueError(f"the state to load has another {other} than {words[0]}; in pre-training they are one tensor")
    row, wanted = mask_row(state, _STATE), model.lm_head.mask_row.size(0)
    if row != wanted:
        raise ValueError(
            f"the state to load has {MASK} in row {row}, the data's dictionary as entry {wanted}; valid: the dictionary that it "
            "was pre-trained with"
        )


Choices = Mapping[str, Optional[Tuple[int, ...]]]
"""Side -> layers to choose; None if the state has the model's."""


class StateKind(NamedTuple):
    """Kind of a state, as :func:`guess_kind` guesses it.

    Attributes:
        is_stack: of a pretrained stack, to be adapted; else of a run, which stays as it is.
        is_released: of the authors' pre-training for certain; its last row is that of ``<mask>``.
        is_tied: of another pre-training than this package's, with equal layers on both sides.
    """

    is_stack: bool
    is_released: bool = False
    is_tied: bool = False


def guess_kind(model: Any, state: Mapping[str, Tensor], choices: Choices) -> StateKind:
    """Guess whether a state is that of a pretrained stack or of a run.

    It is a stack's if it has a head, if it has all layers of the stack and the model has not, or if
    encoder and decoder have equal layers: training parts them. A translator of all layers has equal
    layers too until an update has moved something (the first one of a warm-up has the learning rate
    0). It is told from a stack by its rows, as many as its dictionary has entries. This is the only
    place where rows are counted to find out what a state is.

    Args:
        model: a prepared translation model.

    Raises:
        ValueError: it cannot be told.
    """
    has_head = any(_HEADS.fullmatch(name) for name in state)
    if PRETRAINED_HERE in state:
        return StateKind(is_stack=True)
    is_square = layers_of(state, "encoder") == layers_of(state, "decoder")
    is_tied = is_square and first_untied(state) is None
    has_more = has_head or _ENCODER_OUTPUT in state or any(choices.values())
    if is_tied and has_more:
        return StateKind(is_stack=True, is_released=True, is_tied=True)
    if has_head or any(choices.values()):
        return StateKind(is_stack=True)
    if not is_tied:
        return StateKind(is_stack=False)
    rows = {name: state[name].size(0) for name in _WORDS if name in state}
    entries = {name: len(getattr(model, name.split(".")[0]).dictionary) for name in rows}
    if model.kept_rows is None or rows != entries:
        return StateKind(is_stack=True, is_tied=True)
    scales = not model.cfg.no_scale_embedding
    is_stack = scales and not _rows_are_cut(model.kept_rows, set(rows.values()))
    return StateKind(is_stack, is_tied=True)


def _rows_are_cut(kept_rows: Sequence[bool], sizes: Set[int]) -> bool:
    """Return True if rows, as many as the dictionary has entries, were cut by its map.

    Raises:
        ValueError: it cannot be told.
    """
    listed = SPECIAL_ROWS + len(kept_rows)
    if not sizes & {listed, listed + 1}:
        return True
    if not all(kept_rows):
        raise ValueError(
            f"the state to load has {max(sizes):,} rows, as many as the data's dictionary has entries "
            f"and as many as --resized-dict-map was written for ({listed:,}, and one for {MASK}): it "
            "cannot be told whether they are cut already. Valid: a file that `python -m "
            "data_prep.cut_vocabulary` has cut, without the map; or, where a run of all layers is to "
            "go on, a checkpoint of its second update or later"
        )
    return False


class StackReader:
    """Turns the state of a pretrained stack into that of a translation model, in place.

    The state of a run stays as it is; see :func:`guess_kind`.

    Args:
        model: a prepared translation model.
        state: name -> tensor; changed.
    """

    def __init__(self, model: Any, state: Dict[str, Tensor]):
        self.model, self.state = model, state
        self.pretrained_here, self.mask_row = PRETRAINED_HERE in state, mask_row(state, _STATE)
        self.kind = StateKind(is_stack=False)
        self.sources: Dict[str, str] = {}
        self.dropped: Dict[str, str] = {}

    def adapt(self) -> None:
        """Choose layers and rows, drop heads, and log what became of every tensor; ValueError names the option that helps."""
        choices = {side: self._choice(side) for side in SIDES}
        self.kind = guess_kind(self.model, self.state, choices)
        stack = self.kind.is_stack
        if stack:
            self._check_scale()
            self._check_cross_attention()
        self._select(choices)
        filler = Filler(self.model, self.state, self.model.fit_options, _STATE)
        self._rows(filler, stack)
        if stack:
            self._check_complete(filler.targets)
            self._log(filler.changes)

    def _choice(self, side: str) -> Optional[Tuple[int, ...]]:
        """The layers to choose; None where the state has the model's."""
        assert self.model.choice is not None
        have, want = layers_of(self.state, side), len(getattr(self.model, side).layers)
        stack, chosen = self.model.choice.stack, getattr(self.model.choice, side)
        if have == want:
            return None
        option = f"--keep-{side}-layers"
        if have != stack:
            raise ValueError(
                f"the state to load has {have} {side} layers; valid: the model's {want}, or a stack of --encoder-layers {stack}, "
                f"of which {option} chooses"
            )
        if chosen is None:
            raise ValueError(
                f"the state to load has {have} {side} layers, the model {want}; write {option} with a choice of them, for example "
                f"{option} last:{want}"
            )
        return tuple(chosen)

    def _dictionary(self, name: str) -> Any:
        return getattr(self.model, name.split(".")[0]).dictionary

    def _check_scale(self) -> None:
        """Pre-training here does not scale embeddings, the authors' does; ValueError where the model scales after the former."""
        scaled = not self.model.cfg.no_scale_embedding
        if self.pretrained_here and scaled:
            raise ValueError(
                "the state to load was pre-trained without scaled embeddings (it has lm_head.*), and this model scales them; write "
                "--no-scale-embedding"
            )
        if not self.pretrained_here and not scaled:
            logger.warning(
                "the state to load has no lm_head.*; a released VECO scales its embeddings, and this model does not: for a "
                "released one leave --no-scale-embedding and --init-from-mlm out"
            )

    def _check_cross_attention(self) -> None:
        """Warn of one that was never trained: the initial values of pre-training are smaller than those of a translation model."""
        starts = {name: tensor for name, tensor in self.state.items() if _STARTS.fullmatch(name)}
        moved = any(bool((tensor != name.endswith("norm.weight")).any()) for name, tensor in starts.items())
        if self.pretrained_here and not moved:
            logger.warning(
                "the state to load has a cross-attention that was never trained (pre-training with --objectives without cs), and "
                "translation learns slowly from its small initial values; give the file to --init-from-mlm, with "
                "--embedding-mismatch extend, in place of --finetune-from-model: cross-attention then begins as in any translation "
                "model"
            )

    def _select(self, choices: Dict[str, Optional[Tuple[int, ...]]]) -> None:
        """Leave out heads and the layers that are not chosen, and number the others anew."""
        selected: Dict[str, Tensor] = {}
        for name, tensor in self.state.items():
            match, new = _LAYER.fullmatch(name), name
            if _HEADS.fullmatch(name) or name == _ENCODER_OUTPUT:
                self.dropped[name] = "a head, which translation does not have"
                continue
            layers = choices[match.group(1)] if match else None
            if match and layers is not None:
                side, layer = match.group(1), int(match.group(2))
                if layer not in layers:
                    self.dropped[name] = f"a layer that --keep-{side}-layers does not choose"
                    continue
                new = f"{side}.layers.{layers.index(layer)}.{match.group(3)}"
            selected[new], self.sources[new] = tensor, name
        self.state.clear()
        self.state.update(selected)

    def _rows(self, filler: Filler, stack: bool) -> None:
        """Bring words and positions to the model's rows."""
        words = [name for name in _WORDS if name in self.state]
        if stack and len(words) > 1 and self.model.encoder.embed_tokens is self.model.decoder.embed_tokens:
            for name in words[1:]:
                if not torch.equal(self.state[name], self.state[words[0]]):
                    raise ValueError(f"the state to load has another {name} than {words[0]}; in a VECO they are equal")
        kept = self.model.kept_rows
        for name in words:
            dictionary = self._dictionary(name)
            # A run has cut rows already: as many as the dictionary has entries.
            if kept is not None and (stack or self.state[name].size(0) != len(dictionary)):
                mask_at = dictionary.index(MASK) if MASK in dictionary else None
                self.state[name], filler.changes[name] = cut_rows(
                    self.state[name], kept, mask_at, name, _STATE, self.mask_row
                )
        if stack and kept is None:
            for side in SIDES:
                self._drop_mask_row(filler, side)
        filler.fit()

    def _drop_mask_row(self, filler: Filler, side: str) -> None:
        """Without a dictionary map: leave out the row of ``<mask>`` where the dictionary has none."""
        dictionary, words = getattr(self.model, side).dictionary, self.state.get(f"{side}.embed_tokens.weight")
        if self.pretrained_here:
            # Anywhere: in pre-training <mask> takes the place that the data's dictionary gives it.
            filler.drop_mask_row(side, self.mask_row)
            return
        # With all layers of the stack it may be a translator in which nothing has moved. A dictionary of as many entries is then
        # its own, unless it is that of a released one, which scales, with the one tag more for which <mask> makes room.
        likely = self.kind.is_tied and not self.model.cfg.no_scale_embedding
        one_tag = [bool(_TAG.fullmatch(entry)) for entry in dictionary.symbols[-2:]] == [False, True]
        released = self.kind.is_released or (likely and (MASK in dictionary or one_tag))
        if words is not None and (released or words.size(0) != len(dictionary)):
            filler.drop_mask_row(side, words.size(0) - 1)

    def _check_complete(self, targets: Dict[str, Tensor]) -> None:
        """fairseq hides which tensors do not fit: compare before it does. Raises ValueError: names them."""
        marker = re.compile("|".join(MARKERS))
        own = {name: tensor for name, tensor in self.state.items() if name in targets or not marker.fullmatch(name)}
        shapes = {name: tuple(one.shape) for name, one in targets.items() if name in own or not marker.fullmatch(name)}
        problems = mismatches(own, shapes)
        if problems:
            raise ValueError(f"the state to load does not fit the --arch and the command line: {'; '.join(problems)}")

    def _log(self, changes: Dict[str, str]) -> None:
        moved = {name: source for name, source in self.sources.items() if name != source}
        same = tuple(name for name in self.sources if name not in moved)
        report = LoadReport(same, dropped=tuple(self.dropped), reasons={**changes, **self.dropped})
        logger.info("pretrained state: %s", "; ".join(report.summary().splitlines()))
        if moved:
            logger.info("pretrained state: chosen %d: %s", len(moved), ", ".join(fold(moved.items())))
        for name, change in changes.items():
            logger.info("pretrained state: %s: %s", name, change)
