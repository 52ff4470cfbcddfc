"""VECO: a stack of variable blocks, as an encoder-decoder that translates and as one pre-trained.

A block has self-attention and a feed-forward network always, cross-attention optionally (section
2.1). It consists of two stock layers: ``encoder.layers[l]`` has no cross-attention, and
``decoder.layers[l]`` has it. In pre-training both layers hold the same self-attention and
feed-forward network; :meth:`VECOPretrainingModel.encode` runs the former,
:meth:`VECOPretrainingModel.decode` the latter.
"""

import copy
import logging
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from fairseq.models import register_model
from fairseq.models.transformer import TransformerModel
from torch import Tensor, nn

from ..checkpoints.fitting import FitOptions
from ..checkpoints.layouts import MASK_ROW
from ..checkpoints.masked_lm import FAIRSEQ_EPSILON
from ..checkpoints.starting import explain_unread
from ..checkpoints.veco import mask_marker
from ..checkpoints.vocabulary import MASK
from ..common.filled_model import FilledTransformer
from ..common.fit_options import FIT_OPTIONS, fit_options
from ..common.options import (
    as_namespace,
    defaults_of,
    register_architectures,
    set_architecture,
    writable,
)
from ..masked_lm.model import MaskedLMHead, initialise
from . import from_masked_lm
from .config import ARCHITECTURES, RUN, LayerChoice, VECOOptions, resolve
from .state import StackReader, check_tied_state, decide_kind, find_kind

logger = logging.getLogger(__name__)

Reduction = Callable[[Dict[str, int], Tensor, Tensor, Tensor], Dict[str, Any]]
"""Function of (counts, hidden, weight, bias) that returns a value, such as a loss, per objective.

``counts`` maps the name of each objective's loss to its number N_i of masked positions; ``hidden``
(N, C) has the states of all objectives in this order; weight (V, C) and bias (V,) project them.
They are projected together, so that one gradient of the weight is in memory at a time.
"""

OBJECTIVES = {"is": "is_mlm", "cs": "cs_mlm", "tlm": "tlm"}
"""Objective as ``--objectives`` calls it -> name of its loss."""

SHARED_IN_BLOCK = ("self_attn", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
"""Modules of a layer that hold theta_s and theta_f."""
CROSS_ATTENTION = ("encoder_attn", "encoder_attn_layer_norm")
"""Modules of a layer that hold theta_c."""
SHARED_OUTSIDE = ("embed_tokens", "embed_positions", "layernorm_embedding")


class VECOTransformer(FilledTransformer):
    """Stock encoder and decoder that load pretrained states.

    Attributes:
        choice: layers that encoder and decoder take from a pretrained stack.
        kept_rows: for each entry of the pretrained dict.txt, True = the data's dictionary has it;
            None = the dictionaries are the same.
        fit_options: names and values of the options that fit a pretrained state.
        kind_option: value of ``--veco-checkpoint-kind``.
        state_kind: kind of the next state to load; None = ``state.find_kind`` decides it.
        state_file: file of that state, set by the patch ``state_files``; None = unknown.
        starts_from_mlm: True with ``--init-from-mlm``; a state of an unknown file is then taken for
            one of the same run.
    """

    own_options = VECOOptions
    choice: LayerChoice
    kept_rows: Optional[Sequence[bool]] = None
    fit_options: FitOptions = FIT_OPTIONS
    kind_option: Optional[str] = None
    state_kind: Optional[str] = None
    state_file: Optional[str] = None
    starts_from_mlm = False

    def adapt(self, state_dict: Dict[str, Tensor]) -> None:
        """Turn a state into one that fits this model, in place. Raises ValueError if it cannot."""
        raise NotImplementedError

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """Adapt a state, then apply fairseq's own upgrades."""
        if not name:
            try:
                self.adapt(state_dict)
            except ValueError as error:  # fairseq's trainer replaces errors raised here by its own
                logger.error("%s", error)
                raise
        super().upgrade_state_dict_named(state_dict, name)


@register_model("veco")
class VECOModel(VECOTransformer):
    """The encoder-decoder that translates; all options of the stock transformer apply.

    For a task that pre-trains (``task.pretrains_veco``), ``build_model`` makes a
    :class:`VECOPretrainingModel` instead.
    """

    @classmethod
    def build_model(cls, args: Any, task: Any) -> VECOTransformer:
        """Build the model, and fill it from ``--init-from-mlm``.

        ``args``, which checkpoints store, keep the choice of layers; ``encoder_layers`` there is
        still the number of layers of the pretrained stack.
        """
        pretrains = bool(getattr(task, "pretrains_veco", False))
        kind_option = getattr(task, "checkpoint_kind", None)
        state_kind = None
        if getattr(task, "from_checkpoint", False):  # then args are the options of the checkpoint
            state_kind = decide_kind("", vars(as_namespace(args)), kind_option)
        with writable(args):
            set_architecture(args, defaults_of(VECOOptions))
            choice = resolve(args, pretrains)
        stock_args = copy.copy(as_namespace(args))
        stock_args.encoder_layers = len(choice.encoder)
        model_class = VECOPretrainingModel if pretrains else cls
        # __func__ passes the class to build to the stock class method.
        model: VECOTransformer = TransformerModel.build_model.__func__(
            model_class, stock_args, task
        )
        model.choice, model.kept_rows = choice, getattr(task, "kept_rows", None)
        model.state_kind, model.kind_option = state_kind, kind_option
        model.fit_options = fit_options(args)
        path = args.init_from_mlm
        if path:
            model.starts_from_mlm = True
            absent = explain_unread("--init-from-mlm", path, stock_args, task)
            fill = partial(from_masked_lm.fill, model, stock_args, path)
            model.start_from(args, "init_from_mlm", absent, fill)
        return model

    def adapt(self, state_dict: Dict[str, Tensor]) -> None:
        """Choose layers and rows of a pretrained stack; leave the state of a run as it is."""
        StackReader(self, state_dict, find_kind(self, state_dict)).adapt()
        self.state_kind = RUN  # whatever fairseq loads later (a moving average) fits already


def project(counts: Dict[str, int], hidden: Tensor, weight: Tensor, bias: Tensor) -> Dict[str, Any]:
    """Compute the logits (N_i, V) of each objective; see :data:`Reduction`."""
    logits = nn.functional.linear(hidden, weight, bias)
    return dict(zip(counts, logits.split(list(counts.values()))))


class VECOPretrainingModel(VECOTransformer):
    """Stack of blocks that runs as an encoder and as a "virtual" decoder.

    ``decoder.layers[l]`` holds the modules of ``encoder.layers[l]`` and its own cross-attention.
    Embeddings are shared too. So the state has the names that an encoder-decoder loads.

    Attributes:
        lm_head: head of every objective; its projection is the token embedding.
        backbone_frozen: True while cross-attention alone trains.

    Source: VECO sections 2.1 and 2.2.
    """

    def __init__(self, args: Any, encoder: Any, decoder: Any) -> None:
        super().__init__(args, encoder, decoder)
        for name in SHARED_OUTSIDE:
            setattr(decoder, name, getattr(encoder, name))
        for decoder_layer, encoder_layer in zip(decoder.layers, encoder.layers):
            for name in SHARED_IN_BLOCK:
                setattr(decoder_layer, name, getattr(encoder_layer, name))
        words = encoder.embed_tokens
        self.lm_head = MaskedLMHead(words.weight, FAIRSEQ_EPSILON)
        # Checkpoints state the row of <mask>, because readers may have another dictionary.
        marker = mask_marker(encoder.dictionary.index(MASK))
        self.lm_head.register_buffer(MASK_ROW.split(".")[1], marker)
        self.backbone_frozen = False
        initialise(self)

    def adapt(self, state_dict: Dict[str, Tensor]) -> None:
        """Raise ValueError unless the state is one of pre-training."""
        check_tied_state(self, state_dict)

    def max_positions(self) -> int:
        """Return the longest row in tokens."""
        return int(self.encoder.max_positions())

    # ---- Eq. 4: encoder. ----

    def encode(self, tokens: Tensor) -> Dict[str, Any]:
        """Run the blocks without cross-attention; every token sees its whole row.

        H^(i) = SelfAttention(X^(i-1); theta_s), X^(i) = FFN(H^(i); theta_f).

        Args:
            tokens: (B, S) int64, right-padded.

        Returns:
            The stock encoder's output; :func:`last_states` takes X^(N) from it.
        """
        encoded: Dict[str, Any] = self.encoder(tokens, src_lengths=None)
        return encoded

    # ---- Eq. 6: virtual decoder. ----

    def decode(self, tokens: Tensor, encoded: Dict[str, Any]) -> Tensor:
        """Run the blocks with cross-attention; a token sees itself, those before it, and X^(N).

        S^(i) = SelfAttention(Y^(i-1); theta_s), Z^(i) = CrossAttention(S^(i), X^(N); theta_c),
        Y^(i) = FFN(Z^(i); theta_f). X^(N) of the other segment is detached: it gets no gradient.
        The paper writes ŷ<t; a token's own noisy input is visible here, as under any causal mask.

        Args:
            tokens: (2B, S) int64, the first segments, then the second, right-padded.
            encoded: output of :meth:`encode` for ``tokens``.

        Returns:
            Y^(N), (2B, S, C).
        """
        half = tokens.size(0) // 2
        context = encoded["encoder_out"][0].detach().roll(half, dims=1)  # S 2B C
        if self.backbone_frozen and self.cfg.checkpoint_activations and torch.is_grad_enabled():
            # With activation checkpointing, a layer computes gradients of its parameters only if
            # one of its inputs needs a gradient.
            context.requires_grad_()
        padding_mask = encoded["encoder_padding_mask"][0].roll(half, dims=0)  # 2B S
        memory = {"encoder_out": [context], "encoder_padding_mask": [padding_mask]}
        # Layer -1 does not exist: no attention weights are computed.
        states: Tensor = self.decoder(
            tokens, encoder_out=memory, features_only=True, alignment_layer=-1
        )[0]
        return states

    # ---- Eq. 5 and 7: what predicts the masked tokens. ----

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        masked: Optional[Tensor] = None,
        joint_tokens: Optional[Tensor] = None,
        joint_masked: Optional[Tensor] = None,
        objectives: Sequence[str] = tuple(OBJECTIVES),
        reduce: Reduction = project,
    ) -> Dict[str, Any]:
        """Compute the objectives that the batch allows; only masked positions are projected.

        Args:
            src_tokens: (2B, S) int64, right-padded: the first segments, then the second, in the
                same order.
            src_lengths: not used.
            masked: (2B, S) bool, True = is predicted; or ``ops.masks.Places`` in (2B, S), which
                spare a wait for the device.
            joint_tokens: (B, J) int64, both segments in one row; None in monolingual batches.
            joint_masked: the same in (B, J), or None.
            objectives: some of ``is``, ``cs`` and ``tlm``; training with a frozen backbone
                computes ``cs`` alone.
            reduce: see :data:`Reduction`; by default the projection, without a loss.

        Returns:
            ``is_mlm``, ``cs_mlm`` and ``tlm`` -> what ``reduce`` returns for the masked positions,
            in row-major order. If the batch allows no objective, ``tlm`` with no position.
        """
        self.check_source()
        if masked is None:
            raise ValueError("masked: the positions to predict are required")
        objectives = self._trainable(objectives)
        hidden = self._predict(src_tokens, masked, objectives)
        if "tlm" in objectives and joint_tokens is not None:
            hidden["tlm"] = last_states(self.encode(joint_tokens))[joint_masked]  # N C
        if not hidden:
            hidden["tlm"] = self.encoder.embed_tokens.weight[:0]
        states = self.lm_head.transform(torch.cat(list(hidden.values())))
        counts = {name: len(rows) for name, rows in hidden.items()}
        return reduce(counts, states, self.lm_head.weight, self.lm_head.bias)

    def _predict(
        self, tokens: Tensor, masked: Tensor, objectives: Sequence[str]
    ) -> Dict[str, Tensor]:
        """Compute the states (N, C) of the masked positions that Eq. 5 and 7 project."""
        hidden: Dict[str, Tensor] = {}
        if "is" in objectives or "cs" in objectives:
            encoded = self.encode(tokens)
            if "is" in objectives:  # Eq. 5, L_IS(x) and L_IS(y)
                hidden["is_mlm"] = last_states(encoded)[masked]
            if "cs" in objectives:  # Eq. 7, L_CS(x, y) and L_CS(y, x)
                hidden["cs_mlm"] = self.decode(tokens, encoded)[masked]
        return hidden

    def _trainable(self, objectives: Sequence[str]) -> Sequence[str]:
        """Return the objectives; in training with a frozen backbone, ``cs`` alone."""
        if not (self.backbone_frozen and self.training):
            return objectives
        if "cs" not in objectives:
            raise ValueError(
                "--objectives without cs: nothing trains while --freeze-backbone-updates lasts"
            )
        return ("cs",)

    # ---- What trains. ----

    def cross_attention_parameters(self) -> List[nn.Parameter]:
        """List theta_c of all blocks."""
        modules = [
            getattr(layer, name) for layer in self.decoder.layers for name in CROSS_ATTENTION
        ]
        return [parameter for module in modules for parameter in module.parameters()]

    def freeze_backbone(self, frozen: bool) -> None:
        """Let cross-attention alone train (``frozen``), or everything.

        The optimizer must be built before: it collects only parameters that train.

        Source: VECO section 3, "Optimization Settings".
        """
        if frozen == self.backbone_frozen:
            return
        self.backbone_frozen = frozen
        cross_attention = {id(parameter) for parameter in self.cross_attention_parameters()}
        for parameter in self.parameters():
            if id(parameter) not in cross_attention:
                parameter.requires_grad_(not frozen)


def last_states(encoded: Dict[str, Any]) -> Tensor:
    """Return X^(N) of a stock encoder's output, (B, S, C)."""
    states: Tensor = encoded["encoder_out"][0]  # S B C
    return states.transpose(0, 1)


register_architectures("veco", ARCHITECTURES)
