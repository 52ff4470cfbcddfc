"""SGA: three units around one frozen masked LM."""

import logging
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq.models import BaseFairseqModel, register_model, register_model_architecture
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from ...modules.blank import check_blank
from ...modules.frozen import MARKER, Frozen
from ...modules.masked_lm import MaskedLM
from ...modules.prefix_encoder import Prefix
from ...ops.ctc import BestPath, linear_best_path
from ...ops.masks import lengths_to_padding_mask
from .config import ARCHITECTURES, SIZE_OPTIONS, SGAConfig, check_config, set_architecture
from .pretrained import build_empty, build_frozen
from .prompts import Prompts, SemanticProjection

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
    """

    prefix: Prefix
    padding_mask: Tensor

    def select(self, rows: Tensor) -> "Guidance":
        """Keep some sentences. rows: (B',) int64."""
        prefix = [(key.index_select(0, rows), value.index_select(0, rows)) for key, value in self.prefix]
        return Guidance(prefix, self.padding_mask.index_select(0, rows))


@register_model("sga", dataclass=SGAConfig)
class SGAModel(BaseFairseqModel):
    """Semantic-guided alignment, then denoising.

    Encoder, alignment and denoiser unit are the same frozen masked LM with different prompts; only prompts, W_K and W_V train.

    Args:
        frozen: the masked LM.
        cfg: options with the architecture filled in.
        blank: dictionary id of the CTC blank.
        mask: dictionary id of ``<mask>``.

    Source: SGA sections 4.1 to 4.4.
    """

    def __init__(self, frozen: Frozen, cfg: SGAConfig, blank: int, mask: int):
        super().__init__()
        check_config(cfg)
        self.frozen = frozen
        self.blank, self.mask = blank, mask
        self.upsample, self.fill_blanks = cfg.ctc_upsample, cfg.fill_blanks
        sizes = self.masked_lm.sizes

        def prompts() -> Prompts:
            return Prompts(sizes.layers, cfg.prompt_length or 0, sizes.embed_dim, sizes.heads, cfg.prompt_scale)

        self.semantic = SemanticProjection(sizes.embed_dim, sizes.heads)
        self.encoder_prompts = prompts()
        self.alignment_prompts = prompts()
        self.denoiser_prompts = None if cfg.no_denoising else prompts()

    @classmethod
    def build_model(cls, cfg: SGAConfig, task: Any) -> "SGAModel":
        """Build from a config; reads the pretrained file unless the checkpoint carries the frozen weights.

        Raises:
            ValueError: see :func:`check_config`, :func:`~.pretrained.build_frozen`; a blank that is not in the dictionary.
        """
        set_architecture(cfg, ARCHITECTURES["sga_tiny"])
        check_config(cfg)
        dictionary = task.source_dictionary
        blank = check_blank(cfg.ctc_blank, dictionary)
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

    def max_positions(self) -> Tuple[int, int]:
        """Longest source whose slots fit into the positions of the masked LM, and longest target."""
        positions = self.masked_lm.sizes.max_positions
        return positions // self.upsample, positions

    def encode(self, src_tokens: Tensor) -> Guidance:
        """Run the encoder unit and project its layer outputs (Eq. 1 and 2). src_tokens: (B, S) int64."""
        encoder = self.masked_lm.sentence_encoder
        layers = encoder(src_tokens, prefix=self.encoder_prompts())
        return Guidance([self.semantic(hidden) for hidden in layers], src_tokens.eq(encoder.padding_idx))

    def slot_lengths(self, src_lengths: Tensor) -> Tensor:
        """Slots of each sentence, (B,): upsample x source length, whatever else is in the batch.

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
    ) -> Dict[str, Tensor]:
        """Both losses of a batch (Eq. 7); the output projection happens inside ``reduce``, never as B x T x V.

        Args:
            src_tokens: (B, S) int64.
            src_lengths: (B,) int64.
            reduce: the criterion's loss on (hidden, weight, bias, lengths, want best).
            corrupt: noise on the denoiser's input; none when None.
            unroll: N >= 1, denoising steps that are trained: on T_0 .. T_(N-1).
            prev_output_tokens: ignored, part of fairseq's batches.

        Returns:
            ``alignment`` and, with a denoiser, ``denoising`` (mean over the steps): (B,) nats each.
        """
        guidance = self.encode(src_tokens)
        lengths = self.slot_lengths(src_lengths)
        weight, bias = self.masked_lm.output_weight, self.masked_lm.output_bias
        loss, path = reduce(self.align(guidance, lengths), weight, bias, lengths, self.has_denoiser)
        losses = {"alignment": loss}
        if not self.has_denoiser:
            return losses
        steps = []
        for step in range(unroll):
            assert path is not None
            tokens = self.denoiser_input(path)  # ids: nothing flows back, loss 2 reaches theta_s through the guidance
            tokens = corrupt(tokens, lengths) if corrupt is not None else tokens
            loss, path = reduce(self.denoise(tokens, guidance, lengths), weight, bias, lengths, step + 1 < unroll)
            steps.append(loss)
        losses["denoising"] = torch.stack(steps).mean(dim=0)
        return losses

    def get_targets(self, sample: Dict[str, Any], net_output: Any) -> Tensor:
        """The sample's targets. (B, S)."""
        return sample["target"]

    def load_state_dict(self, state_dict: Dict[str, Tensor], strict: bool = True, **kwargs: Any) -> Any:
        """Load the trained part; a checkpoint with the frozen weights brings their fingerprint along."""
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
