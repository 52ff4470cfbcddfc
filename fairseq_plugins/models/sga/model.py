"""SGA: three units around one frozen masked LM."""

import logging
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq.models import BaseFairseqModel, register_model, register_model_architecture
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from ...modules.blank import check_blank
from ...modules.frozen import MARKER, Frozen
from ...modules.linear import pack_linears
from ...modules.masked_lm import MaskedLM
from ...modules.model_options import check_slots_task, set_architecture
from ...modules.prefix_encoder import Prefix
from ...modules.prompts import Prompts
from ...ops.ctc import BestPath, linear_best_path
from ...ops.linear import pack
from ...ops.mask_predict import MaskedTargets
from ...ops.masks import lengths_to_padding_mask
from ...ops.vocab_scan import DEFAULT_CHUNK_SIZE
from .config import ARCHITECTURES, SIZE_OPTIONS, SGAConfig, check_config, reads_upsample
from .length_predictor import LengthPredictor, length_nll
from .prompts import SemanticProjection
from .sga_pretrained import build_empty, build_frozen

logger = logging.getLogger(__name__)

Reduction = Callable[[Tensor, Tensor, Tensor, Tensor, bool], Tuple[Tensor, Optional[BestPath]]]
"""(hidden (B, T, C), weight (V, C), bias (V,), slot lengths (B,), want best path) -> (loss (B,) nats, best path or None)."""

Corruption = Callable[[Tensor, Tensor], Tensor]
"""(tokens (B, T), slot lengths (B,)) -> disturbed tokens (B, T)."""


class Guidance(NamedTuple):
    """Semantic guidance of a batch (Eq. 2).

    Attributes:
        prefix: one (keys, values) pair a layer, each (B, H, S, C / H).
        padding_mask: (B, S) bool, True = source padding.
        length_log_probs: (B, N) nats, of the length predictor (column j: j + 1 tokens); None without one.
    """

    prefix: Prefix
    padding_mask: Tensor
    length_log_probs: Optional[Tensor] = None

    def select(self, rows: Tensor) -> "Guidance":
        """Keep some sentences. rows: (B',) int64."""
        prefix = [(key.index_select(0, rows), value.index_select(0, rows)) for key, value in self.prefix]
        lengths = None if self.length_log_probs is None else self.length_log_probs.index_select(0, rows)
        return Guidance(prefix, self.padding_mask.index_select(0, rows), lengths)


@register_model("sga", dataclass=SGAConfig)
class SGAModel(BaseFairseqModel):
    """Semantic-guided alignment, then denoising.

    Encoder, alignment and denoiser unit are the same frozen masked LM with different prompts; only prompts, W_K, W_V and, with
    ``--alignment mask_predict``, the length predictor train.

    Args:
        frozen: the masked LM.
        cfg: options with the architecture filled in.
        blank: dictionary id of the CTC blank.
        mask: dictionary id of ``<mask>``.

    Raises:
        ValueError: see :func:`check_config`; more slots a token than the masked LM has positions.

    Source: SGA sections 4.1 to 4.4.
    """

    def __init__(self, frozen: Frozen, cfg: SGAConfig, blank: int, mask: int):
        super().__init__()
        check_config(cfg)
        self.frozen = frozen
        self.blank, self.mask = blank, mask
        self.upsample, self.fill_blanks = cfg.ctc_upsample, cfg.fill_blanks
        sizes = self.masked_lm.sizes
        if cfg.ctc_upsample > sizes.max_positions and reads_upsample(cfg):
            raise ValueError(
                f"--ctc-upsample must be at most the masked LM's positions; got {cfg.ctc_upsample}; valid: 1 to "
                f"{sizes.max_positions}"
            )

        def prompts() -> Prompts:
            return Prompts(sizes.layers, cfg.prompt_length or 0, sizes.embed_dim, sizes.heads, cfg.prompt_scale)

        self.semantic = SemanticProjection(sizes.embed_dim, sizes.heads)
        self.encoder_prompts = prompts()
        self.alignment_prompts = prompts()
        self.denoiser_prompts = None if cfg.no_denoising else prompts()
        self.alignment = str(getattr(cfg, "alignment", "ctc"))  # checkpoints before mask-predict do not say
        self.length_predictor = None
        if self.alignment == "mask_predict":
            longest = sizes.max_positions if cfg.no_denoising else sizes.max_positions // cfg.ctc_upsample
            length_from = str(getattr(cfg, "length_from", "mean"))
            self.length_predictor = LengthPredictor(sizes.embed_dim, longest, length_from)

    @classmethod
    def build_model(cls, cfg: SGAConfig, task: Any) -> "SGAModel":
        """Build from a config; reads the pretrained file unless the checkpoint carries the frozen weights.

        Raises:
            ValueError: see :func:`check_config`, :func:`.build_frozen`; a blank that is not in the dictionary; another
                task.
        """
        check_slots_task(task, "sga")
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
        record_sizes(cfg, model)
        trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        logger.info("%d trainable parameters, %d frozen", trained, sum(p.numel() for p in frozen.parameters()))
        return model

    @property
    def masked_lm(self) -> MaskedLM:
        """The frozen masked LM."""
        return self.frozen.module  # type: ignore[return-value]

    @property
    def has_denoiser(self) -> bool:
        """False for a model trained with ``--no-denoising``."""
        return self.denoiser_prompts is not None

    def pack_weights(self) -> int:
        """Copy what decoding multiplies with into oneDNN's layout, beside the weights; see :func:`...ops.linear.pack`.

        Returns:
            Bytes of the copies made now; a weight that has its copy is left as it is.

        Raises:
            ValueError: weights that are not float32 on the CPU, or a torch that cannot do it.
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
        layers = encoder(src_tokens, prefix=self.encoder_prompts())
        padding = src_tokens.eq(encoder.padding_idx)
        lengths = None if self.length_predictor is None else self.length_predictor(layers[-1], padding)
        return Guidance([self.semantic(hidden) for hidden in layers], padding, lengths)

    def slot_lengths(self, src_lengths: Tensor) -> Tensor:
        """Slots of each sentence, (B,): upsample x source length, whatever else is in the batch.

        With ``--alignment mask_predict`` the denoiser's slots are upsample x target length.

        Differs from the authors' code, which gives every sentence 2 x the padded length.
        """
        return src_lengths * self.upsample

    def run_unit(self, tokens: Tensor, lengths: Tensor, prompts: Prompts, guidance: Guidance) -> Tensor:
        """Run the masked LM with [semantic, prompt] prefixes (Eq. 3 to 6).

        Args:
            tokens: (B, T) int64 slot contents.
            lengths: (B,) int64, slots.
            prompts: of the alignment or the denoiser unit.
            guidance: from :meth:`encode`.

        Returns:
            (B, T, C), ready for the tied output projection.
        """
        batch = tokens.size(0)
        prefix: List[Tuple[Tensor, Tensor]] = []
        for (semantic_key, semantic_value), (key, value) in zip(guidance.prefix, prompts()):
            prefix.append(
                (
                    torch.cat([semantic_key, key.expand(batch, -1, -1, -1)], dim=2),  # B H S+P D
                    torch.cat([semantic_value, value.expand(batch, -1, -1, -1)], dim=2),
                )
            )
        prompt_mask = guidance.padding_mask.new_zeros(batch, prompts.key.size(1))
        hidden = self.masked_lm.sentence_encoder(
            tokens,
            prefix=prefix,
            prefix_padding_mask=torch.cat([guidance.padding_mask, prompt_mask], dim=1),
            positions=self._slot_positions(tokens, lengths),
            padding_mask=lengths_to_padding_mask(lengths, tokens.size(1)),
        )[-1]
        return self.masked_lm.head(hidden)

    def _slot_positions(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Positions by slot, not by token: the blank may be any symbol, the padding symbol included. (B, T)."""
        padding_idx = self.masked_lm.sizes.padding_idx
        positions = torch.arange(tokens.size(1), device=tokens.device) + padding_idx + 1
        return positions.expand_as(tokens).masked_fill(lengths_to_padding_mask(lengths, tokens.size(1)), padding_idx)

    def blank_sentence(self, lengths: Tensor) -> Tensor:
        """Rows of ``<mask>``: Y_blank of Eq. 4. (B,) -> (B, T) int64."""
        return lengths.new_full((lengths.size(0), int(lengths.max())), self.mask)

    def denoiser_input(self, path: BestPath) -> Tensor:
        """What the denoiser reads: the uncollapsed output, blanks filled when asked for. (B, T) int64."""
        return path.pieces if self.fill_blanks else path.tokens

    def align(self, guidance: Guidance, lengths: Tensor) -> Tensor:
        """Alignment unit (Eq. 4). Returns (B, T, C)."""
        return self.run_unit(self.blank_sentence(lengths), lengths, self.alignment_prompts, guidance)

    def fill_masks(self, tokens: Tensor, masked: Tensor, guidance: Guidance, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        """One iteration of mask-predict by the alignment unit; only masked positions are projected.

        Args:
            tokens: (B, T) int64, ``<mask>`` at the masked positions.
            masked: (B, T) bool, True = to be predicted; none in padding.
            guidance: from :meth:`encode`.
            lengths: (B,) int64, tokens a row holds.

        Returns:
            The best token of each of the N masked positions, (N,) int64, and its log-probability, (N,) nats.
        """
        hidden = self.run_unit(tokens, lengths, self.alignment_prompts, guidance)[masked]
        path = self.best_path(hidden[None], lengths.new_tensor([len(hidden)]))
        return path.tokens[0], path.log_probs[0]

    def duplicate(self, tokens: Tensor) -> Tensor:
        """What the denoiser reads after mask-predict: each token upsample times. (B, T) -> (B, upsample T)."""
        return tokens.repeat_interleave(self.upsample, dim=1)

    def denoise(self, tokens: Tensor, guidance: Guidance, lengths: Tensor) -> Tensor:
        """Denoiser unit (Eq. 6). tokens: (B, T) int64. Returns (B, T, C)."""
        assert self.denoiser_prompts is not None
        return self.run_unit(tokens, lengths, self.denoiser_prompts, guidance)

    def best_path(self, hidden: Tensor, lengths: Tensor) -> BestPath:
        """Best token of every slot. hidden: (B, T, C)."""
        return linear_best_path(hidden, self.masked_lm.output_weight, self.masked_lm.output_bias, lengths, self.blank)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        reduce: Reduction,
        corrupt: Optional[Corruption] = None,
        unroll: int = 1,
        prev_output_tokens: Optional[Tensor] = None,
        masked: Optional[MaskedTargets] = None,
    ) -> Dict[str, Tensor]:
        """The losses of a batch (Eq. 7); the output projection happens inside ``reduce``, never as B x T x V.

        Args:
            src_tokens: (B, S) int64.
            src_lengths: (B,) int64.
            reduce: the criterion's loss on (hidden, weight, bias, lengths, want best).
            corrupt: noise on the denoiser's input; none when None.
            unroll: N >= 1, denoising steps that are trained: on T_0 .. T_(N-1).
            prev_output_tokens: ignored, part of fairseq's batches.
            masked: the targets, with ``--alignment mask_predict`` and only there.

        Returns:
            ``alignment``, with mask-predict ``length``, with a denoiser ``denoising`` (mean over the steps): (B,) nats each.
        """
        assert (masked is None) == (self.length_predictor is None)
        guidance = self.encode(src_tokens)
        if masked is not None:
            lengths = self.slot_lengths(masked.lengths.clamp(min=1))  # without a token: slots that are all blank
            losses, tokens = self._masked_losses(guidance, masked)
        else:
            lengths = self.slot_lengths(src_lengths)
            losses, tokens = self._ctc_losses(guidance, lengths, reduce)
        if self.has_denoiser:
            assert tokens is not None
            losses["denoising"] = self._denoising_loss(tokens, guidance, lengths, reduce, corrupt, unroll)
        return losses

    def _ctc_losses(
        self, guidance: Guidance, lengths: Tensor, reduce: Reduction
    ) -> Tuple[Dict[str, Tensor], Optional[Tensor]]:
        """Loss 1 by CTC, and what the denoiser reads, if there is one."""
        weight, bias = self.masked_lm.output_weight, self.masked_lm.output_bias
        loss, path = reduce(self.align(guidance, lengths), weight, bias, lengths, self.has_denoiser)
        return {"alignment": loss}, None if path is None else self.denoiser_input(path)

    def _masked_losses(self, guidance: Guidance, masked: MaskedTargets) -> Tuple[Dict[str, Tensor], Optional[Tensor]]:
        """Loss 1 by mask-predict, loss of the length, and what the denoiser reads."""
        assert self.length_predictor is not None and guidance.length_log_probs is not None
        longest = self.length_predictor.max_length
        if masked.tokens.size(1) > longest:
            raise ValueError(
                f"target of {masked.tokens.size(1)} tokens: --alignment mask_predict has lengths 1 to {longest} (positions of the "
                "masked LM / --ctc-upsample); give --max-target-positions and --skip-invalid-size-inputs-valid-test, or cut it"
            )
        hidden = self.run_unit(masked.tokens, masked.lengths.clamp(min=1), self.alignment_prompts, guidance)
        loss, tokens = masked.reduce(hidden, self.masked_lm.output_weight, self.masked_lm.output_bias)
        losses = {"alignment": loss, "length": length_nll(guidance.length_log_probs, masked.lengths)}
        return losses, self.duplicate(tokens)

    def _denoising_loss(
        self,
        tokens: Tensor,
        guidance: Guidance,
        lengths: Tensor,
        reduce: Reduction,
        corrupt: Optional[Corruption],
        unroll: int,
    ) -> Tensor:
        """Loss 2; ``tokens`` are ids: nothing flows back through them, it reaches theta_s through the guidance. (B,) nats."""
        weight, bias = self.masked_lm.output_weight, self.masked_lm.output_bias
        steps: List[Tensor] = []
        for step in range(unroll):
            tokens = corrupt(tokens, lengths) if corrupt is not None else tokens
            loss, path = reduce(self.denoise(tokens, guidance, lengths), weight, bias, lengths, step + 1 < unroll)
            steps.append(loss)
            if path is not None:
                tokens = self.denoiser_input(path)
        return torch.stack(steps).mean(dim=0)

    def get_targets(self, sample: Dict[str, Any], net_output: Any) -> Tensor:
        """The sample's targets. (B, S)."""
        return sample["target"]

    def load_state_dict(self, state_dict: Dict[str, Tensor], strict: bool = True, **kwargs: Any) -> Any:
        """Load the trained part; a checkpoint with the frozen weights brings their fingerprint along.

        Raises:
            ValueError: another ``--length-from`` than in training, or ``--ctc-upsample``, from which the lengths follow.
        """
        if self.length_predictor is not None:
            self.length_predictor.check_input(state_dict)
        if self.length_predictor is not None and self.has_denoiser and "denoiser_prompts.key" in state_dict:
            self.length_predictor.check_upsample(state_dict, self.upsample, self.masked_lm.sizes.max_positions)
        markers = [key for key in state_dict if key.startswith("frozen." + MARKER)]
        if len(markers) == 1 and not self.frozen.fingerprint:
            self.frozen.fingerprint = markers[0][len("frozen." + MARKER) :]
        return super().load_state_dict(state_dict, strict, **kwargs)


def record_sizes(cfg: Any, model: SGAModel) -> None:
    """Write the frozen model's sizes into the config, so that a checkpoint tells what it needs."""
    with open_dict(cfg) if OmegaConf.is_config(cfg) else _nothing():
        for name, option in SIZE_OPTIONS.items():
            setattr(cfg, option, getattr(model.masked_lm.sizes, name))


class _nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


def _register(name: str, defaults: Dict[str, int]) -> None:
    @register_model_architecture("sga", name)
    def architecture(args: Any) -> None:
        set_architecture(args, defaults)


for _name, _defaults in ARCHITECTURES.items():
    _register(_name, _defaults)
