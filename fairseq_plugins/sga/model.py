"""SGA: three units around one frozen masked LM."""

import logging
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from fairseq.models import register_model
from torch import Tensor

from ..checkpoints.loading import load
from ..common.architectures import fill_missing, register_architectures, set_architecture, writable
from ..common.blank import check_blank
from ..common.frozen import Frozen, log_sizes
from ..common.slot_model import SlotModel, check_slots_task
from ..masked_lm.low_rank import LowRank
from ..masked_lm.model import MaskedLM, MaskedLMSizes
from ..masked_lm.prompts import Prompts, join_prefixes
from ..ops.ctc import BestPath, linear_best_path, linear_ctc_with_best
from ..ops.linear import pack
from ..ops.linear_layer import pack_linears
from ..ops.masks import lengths_to_padding_mask
from ..ops.places import Places
from ..ops.vocab_scan import DEFAULT_CHUNK_SIZE
from .config import ARCHITECTURES, SIZE_OPTIONS, SGAConfig, check_config, reads_upsample
from .extensions.glancing import glanced
from .extensions.graph import COPIES, graph_loss
from .extensions.transitions import Transitions
from .free import masked_losses
from .lengths import LengthPredictor
from .state import read_pretrained
from .units import Guidance, SemanticProjection

logger = logging.getLogger(__name__)

Corruption = Callable[[Tensor, Tensor], Tensor]
"""(tokens (B, T), slot lengths (B,)) -> disturbed tokens (B, T)."""

CTC = Callable[..., Tuple[Tensor, Optional[BestPath]]]
"""(hidden (B, T, C), input_lengths (B,), want_best) -> (loss (B,) nats, best path or None)."""


def build_frozen(cfg: SGAConfig, dictionary: Any) -> Frozen:
    """The frozen masked LM that ``cfg.pretrained_mlm`` names, on the CPU, float32; errors of ``read_pretrained``."""
    found = read_pretrained(cfg, SIZE_OPTIONS, dictionary)
    module = MaskedLM(MaskedLMSizes(**found.sizes), cfg.frozen_dropout, cfg.frozen_dropout)
    load(module, found.tensors)
    logger.info("frozen masked LM %s: %s, fingerprint %s", cfg.pretrained_mlm, module.sizes, found.fingerprint)
    return Frozen(module, found.fingerprint, str(cfg.pretrained_mlm), cfg.save_full_model, cfg.frozen_dropout > 0)


def build_empty(cfg: SGAConfig, dictionary: Any) -> Frozen:
    """A frozen masked LM of zeros, for checkpoints that hold its weights; ValueError where a size is not set."""
    sizes = {name: getattr(cfg, option) for name, option in SIZE_OPTIONS.items()}
    missing = [option for name, option in SIZE_OPTIONS.items() if sizes[name] is None]
    if missing:
        raise ValueError(
            f"--save-full-model checkpoint without {', '.join(missing)}: it was not written by this package"
        )
    module = MaskedLM(MaskedLMSizes(vocab_size=len(dictionary), padding_idx=dictionary.pad(), **sizes))
    for parameter in module.parameters():
        torch.nn.init.zeros_(parameter)
    return Frozen(module, "", "the checkpoint itself", True, cfg.frozen_dropout > 0)


@register_model("sga", dataclass=SGAConfig)
class SGAModel(SlotModel):
    """Semantic-guided alignment, then denoising.

    Encoder, alignment and denoiser unit are the same frozen masked LM with different prompts; only prompts, W_K, W_V and what
    options add train: the length predictor, the transitions of ``--alignment dag``, low-rank updates. ``blank`` and ``mask`` are
    ids of the CTC blank and ``<mask>``.

    Source: SGA sections 4.1 to 4.4.
    """

    def __init__(self, frozen: Frozen, cfg: SGAConfig, blank: int, mask: int):
        super().__init__()
        check_config(cfg)
        self.frozen = frozen
        self.blank, self.mask, self.num_updates = blank, mask, 0
        self.upsample, self.fill_blanks, self.blank_bias = cfg.ctc_upsample, cfg.fill_blanks, cfg.ctc_blank_bias
        sizes = self.masked_lm.sizes
        if cfg.ctc_upsample > sizes.max_positions and reads_upsample(cfg):
            raise ValueError(
                f"--ctc-upsample must be at most the masked LM's positions; got {cfg.ctc_upsample}; valid: 1 to "
                f"{sizes.max_positions}"
            )

        def prompts() -> Prompts:
            low_rank = None
            if cfg.lora_rank:
                low_rank = LowRank(sizes.layers, sizes.embed_dim, sizes.ffn_dim, cfg.lora_rank)
            return Prompts(
                sizes.layers, cfg.prompt_length or 0, sizes.embed_dim, sizes.heads, cfg.prompt_scale, low_rank
            )

        self.semantic = SemanticProjection(sizes.embed_dim, sizes.heads)
        self.encoder_prompts = prompts()
        self.alignment_prompts = prompts()
        self.denoiser_prompts = None if cfg.no_denoising else prompts()
        self.alignment = str(cfg.alignment)
        self.length_predictor = None
        self.transitions = Transitions(sizes.embed_dim) if self.alignment == "dag" else None
        self.copies = COPIES if self.alignment == "dag" else cfg.ctc_upsample
        if self.alignment == "mask_predict":
            longest = sizes.max_positions if cfg.no_denoising else sizes.max_positions // cfg.ctc_upsample
            self.length_predictor = LengthPredictor(sizes.embed_dim, longest, str(cfg.length_from))

    @classmethod
    def build_model(cls, cfg: SGAConfig, task: Any) -> "SGAModel":
        """Build from a config; reads the pretrained file unless the checkpoint carries the frozen weights."""
        check_slots_task(task, "sga")
        fill_missing(cfg, SGAConfig)
        set_architecture(cfg, ARCHITECTURES["sga_tiny"])
        check_config(cfg)
        dictionary = task.source_dictionary
        blank = check_blank(cfg.ctc_blank, dictionary)
        if cfg.fill_blanks and cfg.no_denoising:
            logger.warning("--fill-blanks has no effect with --no-denoising: it is about what the denoiser reads")
        if not reads_upsample(cfg) and cfg.ctc_upsample != SGAConfig.ctc_upsample:
            logger.warning(
                "--ctc-upsample %d has no effect with --alignment mask_predict and --no-denoising: there are no CTC slots",
                cfg.ctc_upsample,
            )
        if cfg.save_full_model and getattr(task, "from_checkpoint", False):
            frozen = build_empty(cfg, dictionary)
        else:
            frozen = build_frozen(cfg, dictionary)
        model = cls(frozen, cfg, blank, dictionary.index("<mask>"))
        with writable(cfg):  # so that a checkpoint tells which frozen model it needs
            for name, option in SIZE_OPTIONS.items():
                setattr(cfg, option, getattr(model.masked_lm.sizes, name))
        log_sizes(model)
        return model

    @property
    def masked_lm(self) -> MaskedLM:
        return self.frozen.module  # type: ignore[return-value]

    @property
    def has_denoiser(self) -> bool:
        """False for a model trained with ``--no-denoising``."""
        return self.denoiser_prompts is not None

    @property
    def projection(self) -> Tuple[Tensor, Optional[Tensor]]:
        return self.masked_lm.output_weight, self.masked_lm.output_bias

    def pack_weights(self) -> int:
        """Copy what decoding multiplies with into oneDNN's layout, beside the weights; returns the bytes of the new copies.

        Raises ValueError: weights that are not float32 on the CPU, or a torch that cannot do it.
        """
        copied = pack_linears(self.masked_lm) + pack_linears(self.semantic)
        return copied + pack(self.masked_lm.output_weight, DEFAULT_CHUNK_SIZE)

    def max_positions(self) -> Tuple[int, int]:
        """Longest source and longest target, ``</s>`` counted, whose slots fit into the positions of the masked LM."""
        positions = self.masked_lm.sizes.max_positions
        if self.length_predictor is not None:
            return positions, self.length_predictor.max_length + 1
        return positions // self.upsample, positions

    def encode(self, src_tokens: Tensor) -> Guidance:
        """Run the encoder unit, project its layer outputs (Eq. 1 and 2), predict lengths. src_tokens: (B, S) int64."""
        encoder = self.masked_lm.sentence_encoder
        layers = encoder(src_tokens, prefix=self.encoder_prompts(), updates=self.encoder_prompts.updates())
        padding = src_tokens.eq(encoder.padding_idx)
        lengths = None if self.length_predictor is None else self.length_predictor(layers[-1], padding)
        return Guidance([self.semantic(hidden) for hidden in layers], padding, lengths)

    def run_unit(self, tokens: Tensor, lengths: Tensor, prompts: Prompts, guidance: Guidance) -> Tensor:
        """As :meth:`unit_states`, ready for the tied output projection. Returns (B, T, C)."""
        return self.masked_lm.lm_head.transform(self.unit_states(tokens, lengths, prompts, guidance))

    def unit_states(self, tokens: Tensor, lengths: Tensor, prompts: Prompts, guidance: Guidance) -> Tensor:
        """Run the masked LM on slots with [semantic, prompt] prefixes (Eq. 3 to 6): the last layer's states, (B, T, C).

        Args:
            tokens: (B, T) int64 slot contents; ``lengths`` (B,) slots.
            prompts: of the alignment or the denoiser unit.
        """
        # Positions count slots, not tokens: the blank may be any symbol, the padding symbol included.
        padding = lengths_to_padding_mask(lengths, tokens.size(1), tokens.device)
        padding_idx = self.masked_lm.sizes.padding_idx
        positions = torch.arange(tokens.size(1), device=tokens.device) + padding_idx + 1
        prompt_mask = guidance.padding_mask.new_zeros(tokens.size(0), prompts.key.size(1))
        return self.masked_lm.sentence_encoder(
            tokens,
            prefix=join_prefixes(guidance.prefix, prompts()),
            prefix_padding_mask=torch.cat([guidance.padding_mask, prompt_mask], dim=1),
            positions=positions.expand_as(tokens).masked_fill(padding, padding_idx),
            padding_mask=padding,
            updates=prompts.updates(),
        )[-1]

    def blank_sentence(self, lengths: Tensor) -> Tensor:
        """Rows of ``<mask>``: Y_blank of Eq. 4. (B,) -> (B, T) int64."""
        shape = lengths.size(0), int(lengths.max())
        return torch.full(shape, self.mask, device=self.masked_lm.output_weight.device)

    def denoiser_input(self, path: BestPath) -> Tensor:
        """What the denoiser reads: the uncollapsed output, blanks filled when asked for. (B, T) int64."""
        return path.pieces if self.fill_blanks else path.tokens

    def align(self, guidance: Guidance, lengths: Tensor, tokens: Optional[Tensor] = None) -> Tensor:
        """Alignment unit (Eq. 4), which reads ``<mask>`` in every slot, or ``tokens`` (B, T). Returns (B, T, C)."""
        tokens = self.blank_sentence(lengths) if tokens is None else tokens
        return self.run_unit(tokens, lengths, self.alignment_prompts, guidance)

    def align_graph(
        self, guidance: Guidance, lengths: Tensor, tokens: Optional[Tensor] = None
    ) -> Tuple[Tensor, Tensor]:
        """As :meth:`align`, with ``--alignment dag``; also the log-probabilities of transitions, (B, T, T)."""
        assert self.transitions is not None
        tokens = self.blank_sentence(lengths) if tokens is None else tokens
        states = self.unit_states(tokens, lengths, self.alignment_prompts, guidance)
        return self.masked_lm.lm_head.transform(states), self.transitions(states, lengths)

    def fill_masks(self, tokens: Tensor, masked: Places, guidance: Guidance, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        """One iteration of mask-predict by the alignment unit; only masked positions are projected.

        Args:
            tokens: (B, T) int64, ``<mask>`` at the masked positions; ``lengths`` (B,) tokens.
            masked: N places of (B, T), to be predicted; none in padding.

        Returns:
            The best token of each of the N masked positions, (N,) int64, and its log-probability, (N,) nats.
        """
        hidden = self.run_unit(tokens, lengths, self.alignment_prompts, guidance)[masked]
        path = linear_best_path(hidden[None], *self.projection, torch.tensor([len(hidden)]), self.blank)
        return path.tokens[0], path.log_probs[0]

    def duplicate(self, tokens: Tensor) -> Tensor:
        """What the denoiser reads after mask-predict or a graph: each token ``copies`` times, as far as there are positions.

        (B, T) -> (B, copies T).
        """
        return tokens[:, : self.masked_lm.sizes.max_positions // self.copies].repeat_interleave(self.copies, dim=1)

    def denoiser_slots(self, lengths: Tensor) -> Tensor:
        """Slots of what :meth:`duplicate` gives. (B,) tokens -> (B,)."""
        return lengths.clamp(max=self.masked_lm.sizes.max_positions // self.copies) * self.copies

    def denoise(self, tokens: Tensor, guidance: Guidance, lengths: Tensor) -> Tensor:
        """Denoiser unit (Eq. 6). tokens: (B, T) int64. Returns (B, T, C)."""
        assert self.denoiser_prompts is not None
        return self.run_unit(tokens, lengths, self.denoiser_prompts, guidance)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        targets: Tensor,
        target_lengths: Tensor,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        corrupt: Optional[Corruption] = None,
        unroll: int = 1,
        masked: Optional[Tensor] = None,
        glancing: float = 0.0,
        **masked_options: Any,
    ) -> Tuple[Dict[str, Tensor], Dict[str, Tensor]]:
        """The losses of a batch (Eq. 7). The output projection runs in here, in chunks, never as B x T x V.

        Args:
            src_tokens: (B, S) int64; ``src_lengths`` (B,), best on the host.
            targets: (B, U) int64 without ``</s>``, right-padded; ``target_lengths`` (B,), best on the host.
            chunk_size: vocabulary rows projected at a time by CTC.
            unroll: N, denoising steps that are trained: on T_0 .. T_(N-1), or none; ``corrupt``: noise on what each reads.
            masked: (B, U) bool, True = to be predicted; with ``masked_options`` of :func:`masked_losses`, for mask-predict;
                ``glancing``: ``ratio`` of :func:`.glancing.glanced`, for CTC and graphs.

        Returns:
            The losses by name, (B,) nats each: ``alignment``, with a denoiser ``denoising`` (mean over the steps), and those of
            :func:`masked_losses`; by the same names the slots that each loss aligns with, (B,), of those that do.
        """
        guidance = self.encode(src_tokens)
        slots = self.slot_lengths(src_lengths if masked is None else target_lengths.clamp(min=1))
        given: Dict[str, Any] = {"targets": targets, "target_lengths": target_lengths, "chunk_size": chunk_size}
        if masked is None:
            losses, tokens, read = self._alignment_loss(guidance, slots, glancing, given)
        else:
            losses, tokens = masked_losses(self, guidance, targets, target_lengths, masked, **masked_options)
            read = slots
        aligned = {"alignment": slots} if masked is None else {}
        if self.has_denoiser:
            losses["denoising"] = self._denoising_loss(tokens, read, guidance, self._ctc(given), corrupt, unroll)
            aligned["denoising"] = read
        return losses, aligned

    def _ctc(self, given: Dict[str, Any]) -> CTC:
        weight, bias = self.ctc_projection()
        return partial(linear_ctc_with_best, weight=weight, bias=bias, blank=self.blank, **given)

    def _alignment_loss(
        self, guidance: Guidance, slots: Tensor, glancing: float, given: Dict[str, Any]
    ) -> Tuple[Dict[str, Tensor], Optional[Tensor], Tensor]:
        """Loss 1 by CTC or by a graph; with a denoiser, what it reads (B, T), and how many slots of it (B,).

        The denoiser reads what the alignment gives without a glance at the target, as in decoding.
        """
        seen = glanced(self, guidance, slots, ratio=glancing, **given) if glancing else None
        if self.transitions is None:
            tokens, best = (None, None) if seen is None else (seen.tokens, seen.path)
            want_best = self.has_denoiser and seen is None
            loss, path = self._ctc(given)(self.align(guidance, slots, tokens), input_lengths=slots, want_best=want_best)
            path = path or best
            return {"alignment": loss}, None if path is None else self.denoiser_input(path), slots
        loss, decoded = graph_loss(self, guidance, seen, slots, **given)
        if decoded is None:
            return {"alignment": loss}, None, slots
        return {"alignment": loss}, self.duplicate(decoded.tokens), self.denoiser_slots(decoded.lengths)

    def _denoising_loss(
        self,
        tokens: Optional[Tensor],
        slots: Tensor,
        guidance: Guidance,
        ctc: CTC,
        corrupt: Optional[Corruption],
        unroll: int,
    ) -> Tensor:
        """Loss 2; ``tokens`` are ids: nothing flows back through them, it reaches theta_s through the guidance. (B,) nats."""
        assert tokens is not None and self.denoiser_prompts is not None
        if not unroll:  # data-parallel training wants a gradient, if only zero, for every parameter
            parts = [(0.0 * part).sum() for part in self.denoiser_prompts.parameters()]
            return torch.stack(parts).sum().expand(len(tokens))
        steps: List[Tensor] = []
        for step in range(unroll):
            tokens = corrupt(tokens, slots) if corrupt is not None else tokens
            hidden = self.denoise(tokens, guidance, slots)
            loss, path = ctc(hidden, input_lengths=slots, want_best=step + 1 < unroll)
            steps.append(loss)
            if path is not None:
                tokens = self.denoiser_input(path)
        return torch.stack(steps).mean(dim=0)

    def set_num_updates(self, num_updates: int) -> None:
        """fairseq calls this before every update: a schedule of the criterion reads it."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def load_state_dict(self, state_dict: Dict[str, Tensor], strict: bool = True, **kwargs: Any) -> Any:
        """Load the trained part; ValueError for another ``--length-from`` or number of lengths than in training."""
        if self.length_predictor is not None:
            upsample = self.upsample if self.has_denoiser and "denoiser_prompts.key" in state_dict else None
            self.length_predictor.check_state(state_dict, upsample, self.masked_lm.sizes.max_positions)
        return super().load_state_dict(state_dict, strict, **kwargs)


register_architectures("sga", ARCHITECTURES)
