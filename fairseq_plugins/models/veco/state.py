"""States of a pretrained stack: choosing layers and rows from them for a translation model, and going on with pre-training."""

import logging
import re
from argparse import Namespace
from typing import Any, Dict, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ...checkpoints.fitting import MARKERS, MASK, Fit, folded
from ...checkpoints.loading import LoadReport
from ...checkpoints.renames import listing
from .dictionary_map import cut_rows

logger = logging.getLogger(__name__)

SIDES = ("encoder", "decoder")
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")
_CROSS_ATTENTION = re.compile(r"encoder_attn(?:_layer_norm)?\..+")
_HEADS = re.compile(r"(lm_head|classification_heads)\..+")
_WORDS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")
_ENCODER_OUTPUT = "encoder.output_projection.weight"
_PRETRAINED_HERE = "lm_head.dense.weight"


def layers_of(state: Dict[str, Tensor], side: str) -> int:
    """Layers that a state has on one side.

    Raises:
        ValueError: their numbers are not 0, 1, 2 ...
    """
    found = {int(match.group(2)) for match in map(_LAYER.fullmatch, state) if match and match.group(1) == side}
    if found != set(range(len(found))):
        raise ValueError(f"the state to load has the {side} layers {sorted(found)}; valid: 0 to {len(found) - 1}")
    return len(found)


def first_untied(state: Dict[str, Tensor]) -> Optional[str]:
    """The first tensor of a decoder layer (without cross-attention) that differs from the encoder layer's; None = none does."""
    for name, tensor in state.items():
        match = _LAYER.fullmatch(name)
        if match and match.group(1) == "decoder" and not _CROSS_ATTENTION.fullmatch(match.group(3)):
            other = state.get(f"encoder.layers.{match.group(2)}.{match.group(3)}")
            if other is None or other.shape != tensor.shape or not torch.equal(other, tensor):
                return name
    return None


def check_tied_state(model: Any, state: Dict[str, Tensor]) -> None:
    """Check that a state is one of pre-training, of the model's sizes.

    Raises:
        ValueError: a released or a translation model, other sizes, or encoder and decoder that are not the same layers.
    """
    if _PRETRAINED_HERE not in state:
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
    for name in (*_WORDS, "lm_head.weight"):
        if name in state and state[name].size(0) != rows:
            raise ValueError(
                f"the state to load has {state[name].size(0):,} rows in {name}, the data's dictionary with <mask> {rows:,} "
                "entries; valid: the dictionary that it was pre-trained with"
            )
        if name in state and not torch.equal(state[name], state[_WORDS[0]]):
            raise ValueError(
                f"the state to load has another {name} than {_WORDS[0]}; in pre-training they are one tensor"
            )


class StackReader:
    """Turns the state of a pretrained stack into that of a translation model, in place; leaves the state of a run as it is.

    A state is one of a stack when it has a head, when it has all layers of the stack and the model has not, or when encoder and
    decoder have equal layers: training parts them with the first update.

    Args:
        model: a prepared translation model.
        state: name -> tensor; changed.
    """

    def __init__(self, model: Any, state: Dict[str, Tensor]):
        self.model, self.state = model, state
        self.pretrained_here = False
        self.sources: Dict[str, str] = {}
        self.dropped: Dict[str, str] = {}

    def adapt(self) -> None:
        """Choose layers and rows, drop heads, and log what became of every tensor.

        Raises:
            ValueError: layers, rows, dictionary map or embedding scale that do not fit; names the option that helps.
        """
        choices = {side: self._choice(side) for side in SIDES}
        self.sources = {name: name for name in self.state}
        stack, self.pretrained_here = self._is_stack(choices), _PRETRAINED_HERE in self.state
        if stack:
            self._check_scale()
        self._drop_heads()
        for side, layers in choices.items():
            if layers is not None:
                self._choose(side, layers)
        fit = Fit(self.model, Namespace(embedding_mismatch=self.model.embedding_mismatch), "the state to load")
        self._rows(fit, stack)
        if stack:
            self._check_complete(fit.targets)
            self._log(fit.changes)

    def _choice(self, side: str) -> Optional[Tuple[int, ...]]:
        """The layers to choose; None where the state has the model's."""
        assert self.model.choice is not None
        have, want = layers_of(self.state, side), len(getattr(self.model, side).layers)
        stack, chosen = self.model.choice.stack, getattr(self.model.choice, side)
        if have == want:
            return None
        if have == stack and chosen is not None:
            return tuple(chosen)
        option = f"--keep-{side}-layers"
        if have == stack:
            raise ValueError(
                f"the state to load has {have} {side} layers, the model {want}; write {option} with a choice of them, for example "
                f"{option} last:{want}"
            )
        raise ValueError(
            f"the state to load has {have} {side} layers; valid: the model's {want}, or a stack of --encoder-layers {stack}, of "
            f"which {option} chooses"
        )

    def _is_stack(self, choices: Dict[str, Optional[Tuple[int, ...]]]) -> bool:
        if any(_HEADS.fullmatch(name) for name in self.state) or any(choices.values()):
            return True
        return layers_of(self.state, "encoder") == layers_of(self.state, "decoder") and first_untied(self.state) is None

    def _check_scale(self) -> None:
        """Pre-training here does not scale embeddings, the authors' does.

        Raises:
            ValueError: the state has a head, so it was pre-trained here, and the model scales.
        """
        unscaled = self.model.cfg.no_scale_embedding
        if self.pretrained_here and not unscaled:
            raise ValueError(
                "the state to load was pre-trained without scaled embeddings (it has lm_head.*), and this model scales them; write "
                "--no-scale-embedding"
            )
        if not self.pretrained_here and unscaled:
            logger.warning(
                "the state to load has no lm_head.*; a released VECO scales its embeddings, and this model does not: for a "
                "released one leave --no-scale-embedding and --init-from-mlm out"
            )

    def _drop_heads(self) -> None:
        for name in [name for name in self.state if _HEADS.fullmatch(name)]:
            self._drop(name, "a head, which translation does not have")
        if _ENCODER_OUTPUT in self.state:
            self._drop(_ENCODER_OUTPUT, "an output of the encoder, which translation does not have")

    def _drop(self, name: str, because: str) -> None:
        del self.state[name]
        self.dropped[self.sources.pop(name)] = because

    def _choose(self, side: str, layers: Sequence[int]) -> None:
        """Keep these layers of one side, renumbered."""
        numbers = {layer: number for number, layer in enumerate(layers)}
        parts: Dict[str, Tuple[Tensor, str]] = {}
        for name in list(self.state):
            match = _LAYER.fullmatch(name)
            if not match or match.group(1) != side:
                continue
            layer = int(match.group(2))
            if layer in numbers:
                parts[f"{side}.layers.{numbers[layer]}.{match.group(3)}"] = (self.state[name], name)
                del self.state[name], self.sources[name]
            else:
                self._drop(name, f"a layer that --keep-{side}-layers does not choose")
        for name, (tensor, source) in parts.items():
            self.state[name], self.sources[name] = tensor, source

    def _rows(self, fit: Fit, stack: bool) -> None:
        """Bring words and positions to the model's rows."""
        words = [name for name in _WORDS if name in self.state]
        if stack and len(words) > 1 and self.model.encoder.embed_tokens is self.model.decoder.embed_tokens:
            for name in words[1:]:
                if self.state[name].shape != self.state[words[0]].shape or not torch.equal(
                    self.state[name], self.state[words[0]]
                ):
                    raise ValueError(f"the state to load has another {name} than {words[0]}; in a VECO they are equal")
        for name in words:
            side = name.split(".")[0]
            dictionary, kept, rows = (
                getattr(self.model, side).dictionary,
                self.model.kept_rows,
                self.state[name].size(0),
            )
            # A run has cut rows already: as many as the dictionary has entries.
            if kept is not None and (stack or rows != len(dictionary)):
                mask_at = dictionary.index(MASK) if MASK in dictionary else None
                self.state[name], fit.changes[name] = cut_rows(
                    self.state[name], kept, mask_at, name, "the state to load"
                )
        if stack and self.model.kept_rows is None:
            for side in SIDES:
                dictionary = getattr(self.model, side).dictionary
                # Pre-training here takes the place that the data's dictionary gives to <mask>; elsewhere it has the last row.
                if not (self.pretrained_here and MASK in dictionary):
                    fit.leave_mask_out(side, self.state, dictionary, None)
        for name in list(self.state):
            self.state[name] = fit.rows(name, self.state[name])

    def _check_complete(self, targets: Dict[str, Tensor]) -> None:
        """fairseq hides which tensors do not fit: compare before it does.

        Raises:
            ValueError: names what is missing, left over or of another shape.
        """
        marker = re.compile("|".join(MARKERS))
        missing = [name for name in targets if name not in self.state and not marker.fullmatch(name)]
        surplus = [name for name in self.state if name not in targets and not marker.fullmatch(name)]
        wrong = [
            f"{name} {tuple(self.state[name].shape)} instead of {tuple(target.shape)}"
            for name, target in targets.items()
            if name in self.state and self.state[name].shape != target.shape
        ]
        kinds = (("missing", missing), ("unknown to the model", surplus), ("of another shape", wrong))
        problems = [f"{title}: {listing(names)}" for title, names in kinds if names]
        if problems:
            raise ValueError(f"the state to load does not fit the --arch and the command line: {'; '.join(problems)}")

    def _log(self, changes: Dict[str, str]) -> None:
        same = tuple(name for name, source in self.sources.items() if name == source)
        moved = {name: source for name, source in self.sources.items() if name != source}
        report = LoadReport(same, dropped=tuple(self.dropped), reasons={**changes, **self.dropped})
        logger.info("pretrained state: %s", "; ".join(report.summary().splitlines()))
        if moved:
            logger.info("pretrained state: chosen %d: %s", len(moved), folded(moved))
        for name, change in changes.items():
            logger.info("pretrained state: %s: %s", name, change)
