"""The model for free generation: predicted lengths, mask-predict, then the CTC denoiser.

``mask_predict.py`` has its criterion and its decoding.

Source: SGA sections 4.3 and 4.4, "free generation tasks"; Ghazvininejad et al. 2019 (CMLM).
"""

from dataclasses import dataclass, replace
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

import torch
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ..common.frozen import Frozen
from ..common.options import Rule, option
from ..common.slot_model import Target
from ..ops.ctc import linear_best_path
from ..ops.masks import Places, lengths_to_padding_mask, move
from ..ops.vocab_loss import label_smoothed, linear_token_losses
from ..ops.vocab_scan import accumulation_dtype
from .model import Corruption, Guidance, Losses, SGAModel

LENGTH_INPUTS: Any = ChoiceEnum(["mean", "bos"])
LENGTH_LAYERS = {"mean": "projection", "bos": "bos_projection"}
"""--length-from -> name of the length predictor's layer, by which a checkpoint tells its input."""


# ---- Options. ----


@dataclass
class LengthOptions:
    """Options of the model with ``--alignment mask_predict``."""

    length_from: LENGTH_INPUTS = option(
        "mean",
        "with --alignment mask_predict, input of the length predictor in the encoder unit's last "
        "layer: the mean over the source, or the state of <s> (bos), as in the authors' code",
    )


LENGTH_RULES = (
    Rule(
        lambda o: str(o.length_from) not in LENGTH_LAYERS,
        "--length-from must be one of mean, bos; got {length_from}",
    ),
    Rule(
        lambda o: str(o.length_from) != "mean" and str(o.alignment) != "mask_predict",
        "--length-from {length_from}: only a model with --alignment mask_predict predicts "
        "lengths; leave it out",
    ),
)


# ---- Model. ----


class MaskedTarget(NamedTuple):
    """The target of a batch, and which of its tokens are predicted."""

    tokens: Tensor  # (B, U) int64 without </s>, right-padded
    lengths: Tensor  # (B,) int64, best on the host
    chunk_size: int  # vocabulary rows projected at a time
    masked: Tensor  # (B, U) bool, True = to be predicted

    def for_ctc(self) -> Target:
        """Drop the masks, which CTC does not read."""
        return Target(self.tokens, self.lengths, self.chunk_size)


class TokenAlignmentModel(SGAModel):
    """SGA whose alignment gives tokens without blanks; the denoiser reads each ``copies`` times.

    Source: SGA section 4.4, "we upsample the alignment result by a factor of 2 by duplicating each
    token".
    """

    copies: int

    def duplicate(self, tokens: Tensor) -> Tensor:
        """Repeat each token ``copies`` times, and leave out tokens without room for all copies.

        (B, T) -> (B, T'), T' = copies T or as many slots as there are positions.
        """
        most_tokens = self.masked_lm.sizes.max_positions // self.copies
        return tokens[:, :most_tokens].repeat_interleave(self.copies, dim=1)

    def denoiser_slots(self, lengths: Tensor) -> Tensor:
        """Count the slots that :meth:`duplicate` fills. (B,) tokens -> (B,)."""
        return lengths.clamp(max=self.masked_lm.sizes.max_positions // self.copies) * self.copies


class LengthPredictor(nn.Module):
    """Classify a vector of the encoder unit's last layer into target lengths 1 .. ``max_length``.

    ``</s>`` is not counted. The vector is the ``mean`` over the source without padding, or the
    state of ``<s>`` (``bos``). Its gradient reaches the encoder unit's prompts.

    Source: Ghazvininejad et al. 2019 (CMLM), section 2.3, which classifies a special token of the
    encoder's input; a frozen masked LM has none. The authors' code of SGA has 50 classes over the
    state of ``<s>``, and counts ``<s>`` and ``</s>`` of the target.
    """

    def __init__(self, embed_dim: int, max_length: int, length_from: str = "mean"):
        super().__init__()
        self.max_length, self.length_from = max_length, length_from
        layer = nn.Linear(embed_dim, max_length)
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
        self.add_module(LENGTH_LAYERS[length_from], layer)

    def forward(self, hidden: Tensor, padding_mask: Tensor) -> Tensor:
        """Compute log-probabilities (B, max_length) in nats; column j stands for j + 1 tokens.

        Args:
            hidden: (B, S, C), rows start with ``<s>``.
            padding_mask: (B, S) bool, True = padding.
        """
        if self.length_from == "bos":
            vector = hidden[:, 0]  # B C
        else:
            count = (~padding_mask).sum(dim=1, keepdim=True).clamp(min=1)  # B 1
            vector = hidden.masked_fill(padding_mask[..., None], 0.0).sum(dim=1) / count  # B C
        scores = self.get_submodule(LENGTH_LAYERS[self.length_from])(vector)  # B N
        return scores.log_softmax(dim=-1, dtype=accumulation_dtype(hidden.dtype))

    def check_state(
        self, state_dict: Mapping[str, Tensor], upsample: Optional[int], positions: int
    ) -> None:
        """Compare ``--length-from`` and ``--ctc-upsample`` with a checkpoint's.

        Args:
            state_dict: of a whole model.
            upsample: ``--ctc-upsample`` of this model, from which its lengths follow; None without
                a denoiser.
            positions: of the masked LM.

        Raises:
            ValueError: it was trained with other options.
        """
        biases = {
            name: state_dict.get(f"length_predictor.{layer}.bias")
            for name, layer in LENGTH_LAYERS.items()
        }
        trained = [name for name, bias in biases.items() if bias is not None]
        if trained and self.length_from not in trained:
            raise ValueError(
                f"--length-from {self.length_from}: the length predictor of this checkpoint was "
                f"trained with --length-from {trained[0]}; valid: {trained[0]}"
            )
        bias = biases[self.length_from]
        if bias is None or upsample is None:
            return
        factors = range(1, positions + 1)
        valid = [factor for factor in factors if positions // factor == len(bias)]
        if valid and upsample not in valid:
            interval = str(valid[0]) if len(valid) == 1 else f"{valid[0]} to {valid[-1]}"
            raise ValueError(
                f"--ctc-upsample {upsample} leaves {self.max_length} lengths of the {positions} "
                f"positions, the checkpoint's length predictor has {len(bias)}; with --alignment "
                f"mask_predict valid: {interval}, as in its training"
            )


def length_nll(log_probs: Tensor, lengths: Tensor) -> Tensor:
    """Pick the negative log-probability (B,) in nats of ``lengths`` (B,); length 0 costs 0."""
    nll = -log_probs.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
    return nll.masked_fill(lengths == 0, 0.0)


@dataclass(frozen=True, eq=False)
class FreeGuidance(Guidance):
    """Semantic guidance, and the log-probabilities of target lengths."""

    length_log_probs: Tensor  # (B, N) nats; column j stands for j + 1 tokens

    def select(self, rows: Tensor) -> "FreeGuidance":
        """Select sentences. rows: (B',) int64."""
        guidance: Any = super().select(rows)
        return replace(guidance, length_log_probs=self.length_log_probs.index_select(0, rows))


class FreeSGAModel(TokenAlignmentModel):
    """SGA with a length predictor, and an alignment unit that fills masked tokens."""

    alignment = "mask_predict"

    def __init__(
        self,
        frozen: Frozen,
        cfg: Any,
        blank: int,
        mask: int,
        target_rows: Optional[Tensor] = None,
    ):
        super().__init__(frozen, cfg, blank, mask, target_rows)
        sizes = self.masked_lm.sizes
        self.copies = cfg.ctc_upsample
        longest = sizes.max_positions
        if not cfg.no_denoising:
            longest = longest // cfg.ctc_upsample
        self.length_predictor = LengthPredictor(sizes.embed_dim, longest, str(cfg.length_from))

    @property
    def longest_target(self) -> int:
        """Tokens of the longest target, ``</s>`` not counted."""
        return self.length_predictor.max_length

    def max_positions(self) -> Tuple[int, int]:
        """Return the longest source and the longest target, ``</s>`` counted."""
        return self.masked_lm.sizes.max_positions, self.longest_target + 1

    def encode(self, src_tokens: Tensor) -> FreeGuidance:
        """Compute semantic guidance (Eq. 1 and 2) and lengths. src_tokens: (B, S) int64."""
        states, padding_mask = self.encoder_states(src_tokens)
        guidance = self.guide(states, padding_mask)
        length_log_probs = self.length_predictor(states[-1], padding_mask)  # B N
        return FreeGuidance(guidance.prefix, padding_mask, length_log_probs)

    def fill_masks(
        self, tokens: Tensor, masked: Places, guidance: Guidance, lengths: Tensor
    ) -> Tuple[Tensor, Tensor]:
        """Run one iteration of mask-predict; only masked positions are projected.

        Args:
            tokens: (B, T) int64, ``<mask>`` at the masked positions.
            masked: N places of (B, T) that are predicted; none in padding.
            lengths: (B,) int64, tokens of each sentence.

        Returns:
            The best token of each masked position, (N,) int64, and its log-probability, (N,) nats.
        """
        hidden = self.run_unit(tokens, lengths, self.alignment_prompts, guidance)[masked]  # N C
        weight, bias = self.projection
        path = linear_best_path(hidden[None], weight, bias, torch.tensor([len(hidden)]), self.blank)
        return path.tokens[0], path.log_probs[0]

    def forward(  # type: ignore[override]
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        target: MaskedTarget,
        corrupt: Optional[Corruption] = None,
        unroll: int = 1,
        label_smoothing: float = 0.0,
        read_all: bool = False,
    ) -> Losses:
        """Compute the losses of a batch (Eq. 7) with mask-predict in place of the alignment's CTC.

        Args:
            src_lengths: (B,), unused: the slots follow from the target.
            label_smoothing, read_all: see :meth:`masked_losses`.

        All other arguments are those of :meth:`.model.SGAModel.forward`.
        """
        guidance = self.encode(src_tokens)
        losses, tokens = self.masked_losses(guidance, target, label_smoothing, read_all)
        if not self.has_denoiser:
            return losses, {}
        slots = self.denoiser_slots(target.lengths.clamp(min=1))  # B
        losses["denoising"] = self.denoising_loss(
            self.duplicate(tokens), slots, guidance, target.for_ctc(), corrupt, unroll
        )
        return losses, {"denoising": slots}

    def masked_losses(
        self,
        guidance: FreeGuidance,
        target: MaskedTarget,
        label_smoothing: float = 0.0,
        read_all: bool = False,
    ) -> Tuple[Dict[str, Tensor], Tensor]:
        """Compute L_1, the cross-entropy of the masked tokens, and the loss of the length.

        Args:
            label_smoothing: of the masked tokens' cross-entropy, in [0, 1).
            read_all: the denoiser reads the best token at every position instead of the masked
                ones.

        Returns:
            ``alignment``, ``length`` and, with smoothing, ``alignment_nll`` (without gradient, no
            part of the total), (B,) nats each; the tokens that the denoiser reads, (B, U) int64.

        Raises:
            ValueError: a target is longer than the longest length.
        """
        targets, lengths, masked = target.tokens, target.lengths, target.masked
        self._check_target_size(targets.size(1))
        (weight, bias), pad = self.projection, self.masked_lm.sizes.padding_idx
        outside = lengths_to_padding_mask(lengths, targets.size(1), targets.device)  # B U
        tokens = targets.masked_fill(masked | outside, self.mask)
        slots = lengths.clamp(min=1)  # B
        hidden = self.run_unit(tokens, slots, self.alignment_prompts, guidance)  # B U C
        predicted = ~outside if read_all else masked
        labels = targets.masked_fill(~predicted, pad)
        terms = linear_token_losses(
            hidden, weight, bias, labels, label_smoothing, ignore_index=pad, want_best=True
        )
        assert terms.best is not None
        losses = {"alignment": terms.nll.masked_fill(~masked, 0.0).sum(dim=1)}
        if label_smoothing:
            smoothed = label_smoothed(terms.nll, terms.smooth, label_smoothing, weight.size(0))
            losses["alignment_nll"] = losses["alignment"].detach()
            losses["alignment"] = smoothed.masked_fill(~masked, 0.0).sum(dim=1)
        losses["length"] = length_nll(guidance.length_log_probs, move(lengths, targets.device))
        return losses, torch.where(predicted, terms.best, tokens)

    def _check_target_size(self, size: int) -> None:
        if size > self.longest_target:
            raise ValueError(
                f"target of {size} tokens: --alignment mask_predict has lengths 1 to "
                f"{self.longest_target} (positions of the masked LM / --ctc-upsample); give "
                "--max-target-positions and --skip-invalid-size-inputs-valid-test, or cut it"
            )

    def load_state_dict(
        self, state_dict: Dict[str, Tensor], strict: bool = True, **kwargs: Any
    ) -> Any:
        """Load the trained part; see :meth:`LengthPredictor.check_state`."""
        has_denoiser = self.has_denoiser and "denoiser_prompts.key" in state_dict
        self.length_predictor.check_state(
            state_dict,
            self.copies if has_denoiser else None,
            self.masked_lm.sizes.max_positions,
        )
        return super().load_state_dict(state_dict, strict, **kwargs)
