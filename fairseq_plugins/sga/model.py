"""SGA: three units around one frozen masked LM, Eq. 1 to 7 from top to bottom.

All units share the weights of the masked LM. Each has key and value prompts of its own for every
layer, and optionally low-rank updates of the layers' matrices (both in ``masked_lm.prompts``).

The plain method, for translation: CTC on the alignment, CTC on its denoised output. ``variants.py``
says which class each ``--alignment`` builds.
"""

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from ..common.frozen import Frozen
from ..common.slot_model import SlotModel, Target
from ..masked_lm.model import MaskedLM, MaskedLMSizes, Prefix, split_heads
from ..masked_lm.prompts import LowRank, Prompts, join_prefixes
from ..ops.ctc import BestPath, linear_ctc_with_best
from ..ops.linear import Linear
from ..ops.masks import lengths_to_padding_mask
from .config import SGAConfig
from .target_rows import TargetRows, select_again

Corruption = Callable[[Tensor, Tensor], Tensor]
"""(tokens (B, T), slots (B,)) -> noisy tokens (B, T)."""

Losses = Tuple[Dict[str, Tensor], Dict[str, Tensor]]
"""Losses (B,) in nats by name, and by the same names the slots (B,) that a loss aligns."""


# ---- Parts of the units: prompts, W_K and W_V, and the guidance that they make. ----


def make_prompts(cfg: Any, sizes: MaskedLMSizes) -> Prompts:
    """Create the prompts of one unit: theta_s, theta_a or theta_d.

    Args:
        cfg: options ``prompt_length``, ``prompt_scale`` and ``lora_rank``.
        sizes: of the frozen masked LM.
    """
    low_rank = None
    if cfg.lora_rank:
        low_rank = LowRank(sizes.layers, sizes.embed_dim, sizes.ffn_dim, cfg.lora_rank)
    return Prompts(
        layers=sizes.layers,
        length=cfg.prompt_length or 0,
        embed_dim=sizes.embed_dim,
        heads=sizes.heads,
        scaled=cfg.prompt_scale,
        low_rank=low_rank,
    )


class SemanticProjection(nn.Module):
    """W_K and W_V, shared by all layers.

    Source: SGA Eq. 2. The biases are those of the authors' code; with them the trainable sizes are
    the ones that the paper reports.
    """

    def __init__(self, embed_dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.key = Linear(embed_dim, embed_dim)
        self.value = Linear(embed_dim, embed_dim)
        for linear in (self.key, self.value):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, states: Sequence[Tensor], layers: nn.ModuleList) -> Prefix:
        """Compute K_s and V_s of every layer: W_K h^l and W_V h^l.

        Args:
            states: h^0 .. h^L of the encoder unit, each (B, S, C); h^0 is the embedding's output.
            layers: layers of the frozen model, which ``tlm_start.py`` reads.

        Returns:
            One (keys, values) pair per layer, each (B, H, S, C / H).
        """
        return [self.project(hidden) for hidden in states[1:]]

    def project(self, hidden: Tensor) -> Tuple[Tensor, Tensor]:
        """Project a layer's output (B, S, C) to keys and values, each (B, H, S, C / H)."""
        keys, values = self.key(hidden), self.value(hidden)  # B S C
        return split_heads(keys, self.heads), split_heads(values, self.heads)


@dataclass(frozen=True, eq=False)
class Guidance:
    """Semantic guidance of a batch: K_s^{1:L} and V_s^{1:L} of Eq. 2."""

    prefix: Prefix  # one (keys, values) pair per layer, each (B, H, S, C / H)
    padding_mask: Tensor  # (B, S) bool, True = source padding

    def select(self, rows: Tensor) -> "Guidance":
        """Select sentences. rows: (B',) int64."""
        prefix = [
            (keys.index_select(0, rows), values.index_select(0, rows))
            for keys, values in self.prefix
        ]
        return replace(self, prefix=prefix, padding_mask=self.padding_mask.index_select(0, rows))

    def source_lengths(self) -> Tensor:
        """Count the tokens of each source. Returns (B, 1) int64."""
        return (~self.padding_mask).sum(1, keepdim=True)


# ---- The model. ----


class SGAModel(SlotModel):
    """Semantic-guided alignment, then denoising.

    Encoder, alignment and denoiser unit are the same frozen masked LM with different prompts. What
    trains are the prompts (and the scale of ``--prompt-scale``), W_K, W_V and optional low-rank
    updates. A subclass may add a length predictor (``free.py``) or transitions
    (``extensions/graph.py``).

    Args:
        frozen: the masked LM.
        cfg: options that obey the rules of ``config.py``.
        blank, mask: ids of the CTC blank and of ``<mask>`` in the target dictionary, looked up in
            ``variants.SGA.build_model``.
        target_rows: (V',) int64, row of the masked LM for each entry of the target dictionary; None
            = the target has the masked LM's dictionary.

    Attributes:
        recorded_options: sizes and epsilon of the masked LM, which checkpoints must store.

    Source: SGA sections 4.1 to 4.5.
    """

    alignment = "ctc"
    recorded_options: Mapping[str, Any] = {}

    def __init__(
        self,
        frozen: Frozen,
        cfg: SGAConfig,
        blank: int,
        mask: int,
        target_rows: Optional[Tensor] = None,
    ):
        super().__init__()
        self.frozen = frozen
        self.target_rows: Optional[TargetRows] = None
        if target_rows is not None:
            self.target_rows = TargetRows(target_rows, self.masked_lm)
            self.register_load_state_dict_post_hook(select_again)
        self.blank, self.mask = blank, mask
        self.upsample = cfg.ctc_upsample
        self.fill_blanks, self.blank_bias = cfg.fill_blanks, cfg.ctc_blank_bias
        sizes = self.masked_lm.sizes
        self.semantic = SemanticProjection(sizes.embed_dim, sizes.heads)
        self.continues_positions = str(cfg.slot_positions) == "continue"
        self.encoder_prompts = make_prompts(cfg, sizes)  # theta_s
        self.alignment_prompts = make_prompts(cfg, sizes)  # theta_a
        self.denoiser_prompts = None if cfg.no_denoising else make_prompts(cfg, sizes)  # theta_d

    # ---- Eq. 1 and 2: semantic encoding. ----

    def encode(self, src_tokens: Tensor) -> Guidance:
        """Compute the semantic guidance of sources. src_tokens: (B, S) int64."""
        states, padding_mask = self.encoder_states(src_tokens)
        return self.guide(states, padding_mask)

    def encoder_states(self, src_tokens: Tensor) -> Tuple[List[Tensor], Tensor]:
        """Run the encoder unit (Eq. 1).

        Returns:
            The states h_s^0 .. h_s^L, (B, S, C) each, and (B, S) bool, True = padding.
        """
        encoder = self.masked_lm.sentence_encoder
        states = encoder.states(
            src_tokens, prefix=self.encoder_prompts(), updates=self.encoder_prompts.updates()
        )
        return states, src_tokens.eq(encoder.padding_idx)

    def guide(self, states: List[Tensor], padding_mask: Tensor) -> Guidance:
        """Project every layer's output by W_K and W_V (Eq. 2)."""
        layers = self.masked_lm.sentence_encoder.layers
        return Guidance(self.semantic(states, layers), padding_mask)

    # ---- Eq. 3 and 4: alignment. ----

    def align(self, guidance: Guidance, slots: Tensor) -> Tensor:
        """Run the alignment unit on the blank sentence (Eq. 4). slots: (B,). Returns (B, T, C)."""
        return self.run_unit(self.blank_sentence(slots), slots, self.alignment_prompts, guidance)

    def blank_sentence(self, slots: Tensor) -> Tensor:
        """Fill all slots with ``<mask>``: Y_blank of Eq. 4. (B,) -> (B, T) int64."""
        shape = slots.size(0), int(slots.max())
        return torch.full(shape, self.mask, device=self.masked_lm.output_weight.device)

    # ---- Eq. 5 and 6: denoising. ----

    def denoise(self, tokens: Tensor, guidance: Guidance, slots: Tensor) -> Tensor:
        """Run the denoiser unit (Eq. 6). tokens: (B, T) int64; slots: (B,). Returns (B, T, C)."""
        assert self.denoiser_prompts is not None
        return self.run_unit(tokens, slots, self.denoiser_prompts, guidance)

    def denoiser_input(self, path: BestPath) -> Tensor:
        """Choose what the denoiser reads: T_i uncollapsed, blanks filled with ``--fill-blanks``."""
        return path.pieces if self.fill_blanks else path.tokens

    # ---- f_LM(theta, X) of Eq. 4 and 6. ----

    def run_unit(
        self, tokens: Tensor, slots: Tensor, prompts: Prompts, guidance: Guidance
    ) -> Tensor:
        """Run a unit as :meth:`unit_states` does, ready for the tied output projection.

        Returns (B, T, C).
        """
        return self.masked_lm.lm_head.transform(self.unit_states(tokens, slots, prompts, guidance))

    def unit_states(
        self, tokens: Tensor, slots: Tensor, prompts: Prompts, guidance: Guidance
    ) -> Tensor:
        """Run the frozen masked LM on slots with [semantic, prompt] keys and values (Eq. 3 and 5).

        Args:
            tokens: (B, T) int64, contents of the slots, ids of the target dictionary.
            slots: (B,) int64, slots of each sentence.
            prompts: theta of the alignment or the denoiser unit.
            guidance: of the encoder unit; source padding is masked.

        Returns:
            The last layer's states, (B, T, C).
        """
        theta = join_prefixes(guidance.prefix, prompts())  # per layer: B H S+P C/H
        prompt_mask = guidance.padding_mask.new_zeros(tokens.size(0), prompts.key.size(1))  # B P
        theta_mask = torch.cat([guidance.padding_mask, prompt_mask], dim=1)  # B S+P
        padding = lengths_to_padding_mask(slots, tokens.size(1), tokens.device)  # B T
        layers = self.masked_lm.sentence_encoder(
            tokens if self.target_rows is None else self.target_rows(tokens),
            prefix=theta,
            prefix_padding_mask=theta_mask,
            positions=self.slot_positions(padding, guidance),
            padding_mask=padding,
            updates=prompts.updates(),
        )
        return layers[-1]  # B T C

    def slot_positions(self, padding_mask: Tensor, guidance: Guidance) -> Tensor:
        """Count the slots' positions from the first, or after the source's.

        They count slots, not tokens: the blank may be any symbol, even ``<pad>``.

        Args:
            padding_mask: (B, T) bool, True = no slot.
            guidance: of the encoder unit.

        Returns:
            (B, T) int64, rows of the table of positions.
        """
        padding_idx = self.masked_lm.sizes.padding_idx
        first = guidance.source_lengths() if self.continues_positions else 0  # B 1
        slots = torch.arange(padding_mask.size(1), device=padding_mask.device)  # T
        positions = (first + slots + padding_idx + 1).expand_as(padding_mask)
        return positions.masked_fill(padding_mask, padding_idx)

    # ---- Eq. 7: losses. ----

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        target: Target,
        corrupt: Optional[Corruption] = None,
        unroll: int = 1,
    ) -> Losses:
        """Compute the losses of a batch, L = L_1 + L_2 (Eq. 7).

        The output projection runs in here, in chunks of the vocabulary, never as B x T x V.

        Args:
            src_tokens: (B, S) int64.
            src_lengths: (B,) int64, best on the host.
            target: without ``</s>``: the slots end a sentence by themselves.
            corrupt: adds noise to what the denoiser reads; None = no noise.
            unroll: N, the denoiser is trained on T_0 .. T_(N-1); the loss is the mean.

        Returns:
            ``alignment`` and, with a denoiser, ``denoising``: losses (B,) in nats, and slots (B,).
        """
        guidance = self.encode(src_tokens)  # Eq. 1 and 2
        slots = self.slot_lengths(src_lengths)  # B
        hidden = self.align(guidance, slots)  # B T C, Eq. 3 and 4
        losses = {}
        losses["alignment"], path = self.ctc(hidden, slots, target, want_best=self.has_denoiser)
        if path is not None:
            tokens = self.denoiser_input(path)  # B T, T_0
            losses["denoising"] = self.denoising_loss(
                tokens, slots, guidance, target, corrupt, unroll
            )
        return losses, dict.fromkeys(losses, slots)

    def denoising_loss(
        self,
        tokens: Tensor,
        slots: Tensor,
        guidance: Guidance,
        target: Target,
        corrupt: Optional[Corruption] = None,
        unroll: int = 1,
    ) -> Tensor:
        """Compute L_2(theta_s, theta_d): the mean CTC loss (B,) in nats of ``unroll`` steps.

        ``tokens`` (B, T) are ids: no gradient flows back through them. Theta_s trains by the
        guidance.
        """
        losses = []
        for step in range(unroll):
            noisy = tokens if corrupt is None else corrupt(tokens, slots)  # B T
            hidden = self.denoise(noisy, guidance, slots)  # B T C, Eq. 5 and 6
            loss, path = self.ctc(hidden, slots, target, want_best=step + 1 < unroll)
            losses.append(loss)
            if path is not None:
                tokens = self.denoiser_input(path)
        return torch.stack(losses).mean(dim=0)

    def ctc(
        self, hidden: Tensor, slots: Tensor, target: Target, want_best: bool
    ) -> Tuple[Tensor, Optional[BestPath]]:
        """Compute the CTC loss (B,) in nats of states (B, T, C), and the best path if wanted."""
        weight, bias = self.ctc_projection()
        return linear_ctc_with_best(
            hidden,
            weight,
            bias,
            targets=target.tokens,
            input_lengths=slots,
            target_lengths=target.lengths,
            blank=self.blank,
            chunk_size=target.chunk_size,
            want_best=want_best,
        )

    # ---- What others read of the model. ----

    @property
    def masked_lm(self) -> MaskedLM:
        """The frozen masked LM."""
        return self.frozen.module  # type: ignore[return-value]

    @property
    def has_denoiser(self) -> bool:
        """False for a model trained with ``--no-denoising``."""
        return self.denoiser_prompts is not None

    @property
    def projection(self) -> Tuple[Tensor, Optional[Tensor]]:
        """Weight (V, C) and bias (V,) of the output projection; V entries of the target."""
        if self.target_rows is not None:
            return self.target_rows.weight, self.target_rows.bias
        return self.masked_lm.output_weight, self.masked_lm.output_bias

    def max_positions(self) -> Tuple[int, int]:
        """Return the longest source whose slots fit into the positions, and the longest target."""
        positions = self.masked_lm.sizes.max_positions
        per_token = self.upsample + 1 if self.continues_positions else self.upsample
        return positions // per_token, positions
