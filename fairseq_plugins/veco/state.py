"""States of VECO: what a checkpoint is, and how it becomes an encoder-decoder (section 2.3).

A checkpoint is of one of three kinds:

- ``released``: the authors' pre-training, in fairseq's layout. Its embeddings are scaled, and its
  last row is that of ``<mask>``. Nothing states that row: a surplus last row of another kind would
  be taken for it.
- ``pretraining``: written by ``veco_pretraining``. It has a masked-LM head (``lm_head.*``) and
  states the row of ``<mask>`` (``lm_head.mask_row``). Its embeddings are not scaled.
- ``run``: a translation model. Its rows are those of its dictionary.

From the first two, a translation model takes the layers of ``--keep-encoder-layers`` and
``--keep-decoder-layers`` (each with its self-attention, cross-attention and feed-forward network)
and the rows of its dictionary. Heads are dropped. The checkpoint of a run is loaded as it is, but
for ``--embedding-mismatch``, fewer positions, and layers to choose if it has the whole stack.
"""

import logging
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

from ..checkpoints.fitting import MARKERS, Filler
from ..checkpoints.loading import LoadReport, fold, mismatches
from ..checkpoints.opening import find_settings
from ..checkpoints.reading import read_checkpoint
from ..checkpoints.veco import PRETRAINED_HERE, mask_row
from ..checkpoints.vocabulary import MASK, task_options
from ..checkpoints.writing import memory_of
from ..common.options import SIDES
from .config import PRETRAINING, RELEASED, RUN, LayerChoice
from .dictionary_map import cut_rows

logger = logging.getLogger(__name__)

ORIGIN = "the state to load"
PRETRAINING_TASK, TRANSLATION_TASK = "veco_pretraining", "translation_from_pretrained_veco"
OWN_OPTIONS = ("init_from_mlm", "embedding_mismatch")
"""Options that every checkpoint of this package stores, and no other code."""

_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")
_CROSS_ATTENTION = re.compile(r"encoder_attn(?:_layer_norm)?\..+")
_CONSTANT_AT_START = re.compile(
    r"decoder\.layers\.\d+\.(?:encoder_attn\..+\.bias|encoder_attn_layer_norm\.(?:weight|bias))"
)
"""Parameters of cross-attention with a constant initial value: norm weights 1, biases 0."""
_HEADS = re.compile(r"(?:lm_head|classification_heads)\..+|encoder\.output_projection\.weight")
_WORDS = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.output_projection.weight",
)

Layers = Mapping[str, Optional[Tuple[int, ...]]]
"""Side -> numbers of the layers to take; None = the state has as many as the model."""


# ---- What a checkpoint is. ----


def decide_kind(task: str, model_options: Mapping[str, Any], choice: Optional[str]) -> str:
    """Decide the kind of a checkpoint by the task and the options that it stores.

    Args:
        task: name of the stored task; empty if it is unknown.
        model_options: stored options of the model.
        choice: ``--veco-checkpoint-kind``, for checkpoints that do not state their kind; None =
            they are released ones.
    """
    if task == PRETRAINING_TASK:
        return PRETRAINING
    is_own = any(name in model_options for name in OWN_OPTIONS)
    has_chosen_layers = any(model_options.get(f"keep_{side}_layers") for side in SIDES)
    if task == TRANSLATION_TASK or is_own or has_chosen_layers:
        return RUN
    return str(choice or RELEASED)


def find_kind(model: Any, state: Mapping[str, Tensor]) -> str:
    """Find the kind of a state that is about to be loaded into a translation model.

    A state with the head of pre-training is of that kind. Otherwise options decide: those that the
    model was built from if they came from a checkpoint, else those stored in the state's file.
    """
    if PRETRAINED_HERE in state:
        return PRETRAINING
    if model.state_kind is not None:
        return str(model.state_kind)
    if model.state_file is None:
        return RUN if model.starts_from_mlm else decide_kind("", {}, model.kind_option)
    entries = read_checkpoint(model.state_file)
    task = str(task_options(entries).get("_name") or "")
    return decide_kind(task, find_settings(entries), model.kind_option)


def count_layers(state: Mapping[str, Tensor], side: str) -> int:
    """Count the layers of one side. Raises ValueError unless they are numbered 0, 1, 2 ..."""
    matches = [match for match in map(_LAYER.fullmatch, state) if match and match[1] == side]
    numbers = {int(match[2]) for match in matches}
    if numbers != set(range(len(numbers))):
        valid = f"0 to {len(numbers) - 1}"
        raise ValueError(f"{ORIGIN} has the {side} layers {sorted(numbers)}; valid: {valid}")
    return len(numbers)


# ---- Going on with pre-training. ----


def check_tied_state(model: Any, state: Mapping[str, Tensor]) -> None:
    """Compare a state with a model that pre-trains.

    Raises:
        ValueError: the state is not one of pre-training, or has other layers or another dictionary.
    """
    if PRETRAINED_HERE not in state:
        raise ValueError(
            "--restore-file: the state has no masked-LM head (lm_head.*), so it is a released VECO "
            "or a translation model; valid for pre-training: a checkpoint of pre-training, or a "
            "masked LM with --init-from-mlm"
        )
    for side in SIDES:
        actual, expected = count_layers(state, side), len(getattr(model, side).layers)
        if actual != expected:
            valid = f"the {expected} of --encoder-layers"
            raise ValueError(f"{ORIGIN} has {actual} {side} layers; valid: {valid}")
    _check_tied_layers(state)
    words = [name for name in (*_WORDS, "lm_head.weight") if name in state]
    entries = model.encoder.embed_tokens.num_embeddings
    for name in words:
        if state[name].size(0) != entries:
            raise ValueError(
                f"{ORIGIN} has {state[name].size(0):,} rows in {name}, the data's dictionary with "
                f"<mask> {entries:,} entries; valid: the dictionary that it was pre-trained with"
            )
        if _differ(state[name], state[words[0]]):
            raise ValueError(
                f"{ORIGIN} has another {name} than {words[0]}; in pre-training they are one tensor"
            )
    row, index = mask_row(state, ORIGIN), model.lm_head.mask_row.size(0)
    if row != index:
        raise ValueError(
            f"{ORIGIN} has {MASK} in row {row}, the data's dictionary as entry {index}; valid: the "
            "dictionary that it was pre-trained with"
        )


def _check_tied_layers(state: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless decoder layers, except cross-attention, equal the encoder's."""
    for name, tensor in state.items():
        match = _LAYER.fullmatch(name)
        if not match or match[1] == "encoder" or _CROSS_ATTENTION.fullmatch(match[3]):
            continue
        if _differ(tensor, state.get(f"encoder.layers.{match[2]}.{match[3]}")):
            raise ValueError(
                f"{ORIGIN} has another {name} than the encoder's layer; in pre-training they are "
                "one tensor, so this is no checkpoint of pre-training"
            )


def _differ(tensor: Tensor, twin: Optional[Tensor]) -> bool:
    """Return True unless the tensors are equal; values in the same memory are not compared."""
    if twin is None or tensor.shape != twin.shape:
        return True
    return memory_of(tensor) != memory_of(twin) and not torch.equal(tensor, twin)


# ---- From a checkpoint to a translation model. ----


class StackReader:
    """Turns a state into one of a translation model, in place.

    Args:
        model: the translation model.
        state: name -> tensor; changed.
        kind: of the state.

    Attributes:
        mask_row: row of ``<mask>`` that the state gives; None = it gives none.
        sources: name in the model -> name in the state.
        drops: name of a tensor that is left out -> the reason.
    """

    def __init__(self, model: Any, state: Dict[str, Tensor], kind: str):
        self.model, self.state, self.kind = model, state, kind
        self.mask_row = mask_row(state, ORIGIN)
        self.sources: Dict[str, str] = {}
        self.drops: Dict[str, str] = {}

    def adapt(self) -> None:
        """Choose layers and rows, drop heads, and log the source of every tensor.

        Of a run with the model's layers, only tensors that change are logged.

        Raises:
            ValueError: the state does not fit; the message names the option that helps.
        """
        layers = {side: self._choose_layers(side) for side in SIDES}
        is_run = self.kind == RUN
        if not is_run:
            logger.info("pretrained state: its kind is %s (--veco-checkpoint-kind)", self.kind)
            self._check_scale()
            self._warn_if_untrained()
        self._select(layers)
        filler = Filler(self.model, self.state, self.model.fit_options, ORIGIN)
        if not is_run:
            self._check_shared_words()
            self._fit_dictionary(filler)
        filler.fit()
        if not is_run or any(layers.values()):
            self._check_complete(filler.targets)
            self._log(filler.changes)
        for name, change in filler.changes.items():
            logger.info("pretrained state: %s: %s", name, change)

    def _choose_layers(self, side: str) -> Optional[Tuple[int, ...]]:
        """Choose layers of the state for one side; None if it has as many as the model."""
        choice: LayerChoice = self.model.choice
        actual, expected = count_layers(self.state, side), len(getattr(self.model, side).layers)
        if actual == expected:
            return None
        option = f"--keep-{side}-layers"
        if actual != choice.stack:
            raise ValueError(
                f"{ORIGIN} has {actual} {side} layers; valid: the model's {expected}, or a stack "
                f"of --encoder-layers {choice.stack}, of which {option} chooses"
            )
        layers: Optional[Tuple[int, ...]] = getattr(choice, side)
        if layers is None:
            raise ValueError(
                f"{ORIGIN} has {actual} {side} layers, the model {expected}; write {option} with a "
                f"choice of them, for example {option} last:{expected}"
            )
        return layers

    def _check_scale(self) -> None:
        """Raise ValueError if the model scales embeddings that were pre-trained without a scale."""
        is_scaled = not self.model.cfg.no_scale_embedding
        if self.kind == PRETRAINING and is_scaled:
            raise ValueError(
                f"{ORIGIN} was pre-trained without scaled embeddings (it has lm_head.*), and this "
                "model scales them; write --no-scale-embedding"
            )
        if self.kind == RELEASED and not is_scaled:
            logger.warning(
                f"{ORIGIN} is a released VECO, which scales its embeddings, and this model does "
                "not: leave --no-scale-embedding and --init-from-mlm out"
            )

    def _warn_if_untrained(self) -> None:
        """Warn of cross-attention that still has the initial values of pre-training.

        They are smaller than those of a translation model.
        """
        is_trained = any(_has_moved(name, tensor) for name, tensor in self.state.items())
        if self.kind == PRETRAINING and not is_trained:
            logger.warning(
                f"{ORIGIN} has a cross-attention that was never trained (pre-training with "
                "--objectives without cs), and translation learns slowly from its small initial "
                "values; give the file to --init-from-mlm, with --embedding-mismatch extend, in "
                "place of --finetune-from-model: cross-attention then begins as in any translation "
                "model"
            )

    def _select(self, layers: Layers) -> None:
        """Drop heads and the layers that are not chosen, and renumber the others from 0."""
        selection: Dict[str, Tensor] = {}
        for name, tensor in self.state.items():
            new_name, match = name, _LAYER.fullmatch(name)
            numbers = layers[match[1]] if match else None
            if _HEADS.fullmatch(name):
                self.drops[name] = "a head, which translation does not have"
                continue
            if match and numbers is not None:
                side, number = match[1], int(match[2])
                if number not in numbers:
                    self.drops[name] = f"a layer that --keep-{side}-layers does not choose"
                    continue
                new_name = f"{side}.layers.{numbers.index(number)}.{match[3]}"
            selection[new_name], self.sources[new_name] = tensor, name
        self.state.clear()
        self.state.update(selection)

    # ---- Rows. ----

    def _words(self) -> List[str]:
        """List the tensors of the state that have a row per entry of the dictionary."""
        return [name for name in _WORDS if name in self.state]

    def _check_shared_words(self) -> None:
        """Raise ValueError if the model shares its embeddings and those of the state differ."""
        if self.model.encoder.embed_tokens is not self.model.decoder.embed_tokens:
            return
        words = self._words()
        for name in words[1:]:
            if not torch.equal(self.state[name], self.state[words[0]]):
                raise ValueError(
                    f"{ORIGIN} has another {name} than {words[0]}; in a VECO they are equal"
                )

    def _fit_dictionary(self, filler: Filler) -> None:
        """Cut rows by the dictionary map, or drop the row of ``<mask>`` if no entry needs it."""
        kept_rows = self.model.kept_rows
        if kept_rows is not None:
            for name in self._words():
                cut_rows(filler, name, kept_rows, self.mask_row)
            return
        for side in SIDES:
            words = self.state.get(f"{side}.embed_tokens.weight")
            row = self.mask_row
            if self.kind == RELEASED and words is not None:
                row = words.size(0) - 1
            filler.drop_mask_row(side, row)

    # ---- Report. ----

    def _check_complete(self, targets: Mapping[str, Tensor]) -> None:
        """Raise ValueError naming the tensors that do not fit, which fairseq would not name."""
        marker = re.compile("|".join(MARKERS))
        ignored = set(filter(marker.fullmatch, self.state.keys() ^ targets.keys()))
        tensors = {name: part for name, part in self.state.items() if name not in ignored}
        shapes = {name: tuple(part.shape) for name, part in targets.items() if name not in ignored}
        problems = "; ".join(mismatches(tensors, shapes))
        if problems:
            raise ValueError(f"{ORIGIN} does not fit the --arch and the command line: {problems}")

    def _log(self, changes: Mapping[str, str]) -> None:
        """Log where tensors come from: under their name, under another name; what is dropped."""
        moves = {name: source for name, source in self.sources.items() if name != source}
        unmoved = tuple(name for name in self.sources if name not in moves)
        report = LoadReport(unmoved, dropped=tuple(self.drops), reasons={**changes, **self.drops})
        logger.info("pretrained state: %s", "; ".join(report.summary().splitlines()))
        if moves:
            names = ", ".join(fold(moves.items()))
            logger.info("pretrained state: chosen %d: %s", len(moves), names)


def _has_moved(name: str, tensor: Tensor) -> bool:
    """Return True if a parameter with a constant initial value in cross-attention has changed."""
    if not _CONSTANT_AT_START.fullmatch(name):
        return False
    initial = 1.0 if name.endswith("norm.weight") else 0.0
    return bool((tensor != initial).any())
