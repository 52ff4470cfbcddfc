"""Pre-training of VECO: encoder and virtual decoder of the same layers, and the masked-LM head that serves both."""

from typing import Any, Callable, Dict, Optional, Sequence

import torch
from torch import Tensor, nn

from ...checkpoints.layouts import MASK_ROW
from ...checkpoints.veco import mask_marker
from ...checkpoints.vocabulary import MASK
from ...masked_lm.model import MaskedLMHead, initialise
from .prepared_model import PreparedModel
from .state import check_tied_state

Reduction = Callable[[Dict[str, int], Tensor, Tensor, Tensor], Dict[str, Any]]
"""Objective -> N_i, hidden (N, C) of all of them in this order, weight (V, C), bias (V,) -> objective -> e.g. its loss.

All are projected together, so that the weight has one gradient of its size at a time.
"""

SHARED_IN_LAYER = ("self_attn", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
SHARED_OUTSIDE = ("embed_tokens", "embed_positions", "layernorm_embedding")
CROSS_ATTENTION = ("encoder_attn", "encoder_attn_layer_norm")
OBJECTIVES = ("is", "cs", "tlm")


def project(counts: Dict[str, int], hidden: Tensor, weight: Tensor, bias: Tensor) -> Dict[str, Tensor]:
    """The reduction that keeps the logits: (N_i, V) of each objective."""
    logits = nn.functional.linear(hidden, weight, bias)
    return dict(zip(counts, logits.split(list(counts.values()))))


class VECOPretrainingModel(PreparedModel):
    """One stack of layers: self-attention and feed-forward network always, cross-attention where it runs as a decoder.

    ``decoder.layers[l]`` is a stock decoder layer of which all but the cross-attention *is* ``encoder.layers[l]``; embeddings are
    shared too. So the state has the names that an encoder-decoder loads, and the two routes are the stock ones.

    Attributes:
        lm_head: the head of every objective; its projection is the token embedding.
        backbone_frozen: True while only cross-attention trains.

    Source: VECO section 2.1 and 2.2, equations 1 to 7.
    """

    def __init__(self, args: Any, encoder: Any, decoder: Any) -> None:
        super().__init__(args, encoder, decoder)
        for name in SHARED_OUTSIDE:
            setattr(decoder, name, getattr(encoder, name))
        for layer, own in zip(decoder.layers, encoder.layers):
            for name in SHARED_IN_LAYER:
                setattr(layer, name, getattr(own, name))
        self.lm_head = MaskedLMHead(encoder.embed_tokens.embedding_dim, encoder.embed_tokens.weight)
        # Which row is that of <mask> goes into the checkpoint: those who read it may have another dictionary.
        self.lm_head.register_buffer(MASK_ROW.split(".")[1], mask_marker(encoder.dictionary.index(MASK)))
        self.backbone_frozen = False
        initialise(self)

    def adapt(self, state_dict: Dict[str, Tensor]) -> None:
        """Refuse a state that is not one of pre-training."""
        check_tied_state(self, state_dict)

    def max_positions(self) -> int:
        return int(self.encoder.max_positions())

    def freeze_backbone(self, frozen: bool) -> None:
        """Let only cross-attention train, or everything again. Call it after the optimizer has collected the parameters that train.

        Source: VECO section 3, "Optimization Settings".
        """
        if frozen == self.backbone_frozen:
            return
        self.backbone_frozen = frozen
        crossing = {id(parameter) for parameter in self.cross_attention_parameters()}
        for parameter in self.parameters():
            if id(parameter) not in crossing:
                parameter.requires_grad_(not frozen)

    def cross_attention_parameters(self) -> Sequence[nn.Parameter]:
        modules = [getattr(layer, name) for layer in self.decoder.layers for name in CROSS_ATTENTION]
        return [parameter for module in modules for parameter in module.parameters()]

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        masked: Optional[Tensor] = None,
        joint_tokens: Optional[Tensor] = None,
        joint_masked: Optional[Tensor] = None,
        objectives: Sequence[str] = OBJECTIVES,
        reduce: Reduction = project,
    ) -> Dict[str, Any]:
        """Compute the objectives that the batch allows; only masked positions are projected.

        Args:
            src_tokens: (2B, S) int64, padded on the right: the first segments, then the second, in the same order.
            src_lengths: (2B,) int64, unused by the stock encoder.
            masked: (2B, S) bool, True = is predicted; or those places as two index tensors, for which no device is waited for.
            joint_tokens: (B, J) int64, both segments in one row; None in monolingual batches.
            joint_masked: of (B, J), likewise, or None.
            objectives: of ``is``, ``cs`` and ``tlm``. While the backbone is frozen, training computes ``cs`` alone.
            reduce: see :data:`Reduction`; the projection of the masked positions, without a loss, by default.

        Returns:
            ``is_mlm``, ``cs_mlm`` and ``tlm`` -> what ``reduce`` gives for the masked positions, in row-major order. Where no
            objective fits the batch, ``tlm`` of no position.
        """
        chosen, hidden = self._chosen(objectives, masked), {}
        if "is" in chosen or "cs" in chosen:
            encoded = self.encoder(src_tokens, src_lengths=src_lengths)
            if "is" in chosen:
                hidden["is_mlm"] = encoded["encoder_out"][0].transpose(0, 1)[masked]
            if "cs" in chosen:
                hidden["cs_mlm"] = self._decode(src_tokens, encoded)[masked]
        if "tlm" in chosen and joint_tokens is not None:
            hidden["tlm"] = self.encoder(joint_tokens, src_lengths=None)["encoder_out"][0].transpose(0, 1)[joint_masked]
        if not hidden:
            hidden["tlm"] = self.encoder.embed_tokens.weight[:0]
        states = self.lm_head.transform(torch.cat(list(hidden.values())))
        counts = {name: len(rows) for name, rows in hidden.items()}
        return reduce(counts, states, self.lm_head.weight, self.lm_head.bias)

    def _chosen(self, objectives: Sequence[str], masked: Optional[Tensor]) -> Sequence[str]:
        self.check_source()
        if masked is None:
            raise ValueError("masked: which positions are predicted must be given")
        if not (self.backbone_frozen and self.training):
            return objectives
        if "cs" not in objectives:
            raise ValueError("--objectives without cs: nothing trains while --freeze-backbone-updates lasts")
        return ("cs",)

    def _decode(self, tokens: Tensor, encoded: Dict[str, Any]) -> Tensor:
        """Virtual decoder over each segment, causal; it attends to the other segment's states, which get no gradient. (2B, S, C).

        Source: equations 4 to 6.
        """
        half = tokens.size(0) // 2
        other = encoded["encoder_out"][0].detach().roll(half, dims=1)
        if self.backbone_frozen and self.cfg.checkpoint_activations and torch.is_grad_enabled():
            # A checkpointed layer without an input that needs a gradient has none for its cross-attention either.
            other.requires_grad_()
        memory = {
            "encoder_out": [other],
            "encoder_padding_mask": [encoded["encoder_padding_mask"][0].roll(half, dims=0)],
        }
        # No layer is number -1: the weights of the attention are not asked for.
        states: Tensor = self.decoder(tokens, encoder_out=memory, features_only=True, alignment_layer=-1)[0]
        return states
