"""Mask-predict: the masks of training and decoding, the criterion, and the generator.

Source: SGA sections 4.3 and 4.4; Ghazvininejad et al. 2019 (CMLM).
"""

from dataclasses import dataclass
from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..common.options import Rule, in_range, option
from ..common.slot_model import Target
from ..ops.ctc import BestPath
from ..ops.masks import Places, lengths_to_padding_mask, move
from .config import CRITERION_RULES, SGACTCConfig
from .criterion import Output, SGACTCCriterion
from .decoding import Hypotheses, IterationOptions, SGAGenerator
from .free import MaskedTarget
from .model import Guidance

# ---- Options. ----


@dataclass
class SGAMaskPredictConfig(SGACTCConfig):
    """Options of the loss for free generation; those of the denoiser are sga_ctc's."""

    length_loss_weight: float = option(
        1.0, "weight of the length's negative log-likelihood, one term per sentence; 0 or more"
    )
    label_smoothing: float = option(
        0.0,
        "smoothing of the masked tokens' cross-entropy, in [0, 1); the authors' code has 0.1. "
        "alignment_nll_loss is logged beside it",
    )
    min_mask_ratio: Optional[float] = option(
        None,
        "mask each target token with the probability max(this, U), in [0, 1]; each sentence draws "
        "its U, uniform over (0, 1). The authors' code has 0.2. When not given, the number of "
        "masked tokens is uniform over 1 .. N",
    )
    denoise_all_positions: bool = option(
        False,
        "the denoiser is trained on the alignment's best token at every position, as in the "
        "authors' code; otherwise on the true token where none was masked",
    )


@dataclass
class MaskPredictDecodingOptions:
    """Options of decoding with ``--alignment mask_predict``."""

    mask_predict_iterations: Optional[int] = option(
        None,
        "decoding with --alignment mask_predict: iterations, at least 1 (4 when not given); a CTC "
        "model has 0",
    )
    length_beam: Optional[int] = option(
        None,
        "decoding with --alignment mask_predict: lengths tried for each sentence, the best by mean "
        "log-probability goes on (1 when not given)",
    )


MASK_PREDICT_RULES = (
    in_range("length_loss_weight", "[0, inf)"),
    in_range("label_smoothing", "[0, 1)"),
    in_range("min_mask_ratio", "[0, 1]"),
)
"""Rules of the criterion."""

MASK_PREDICT_DECODING_RULES = (
    Rule(
        lambda o: o.mask_predict_iterations and o.alignment != "mask_predict",
        "--mask-predict-iterations {mask_predict_iterations}: this model has --alignment "
        "{alignment}, which is one pass (0 iterations)",
    ),
    Rule(
        lambda o: o.length_beam is not None and o.alignment != "mask_predict",
        "--length-beam {length_beam}: this model has --alignment {alignment}; only one with "
        "--alignment mask_predict predicts lengths: leave it out",
    ),
    Rule(
        lambda o: (
            o.alignment == "mask_predict"
            and o.mask_predict_iterations is not None
            and o.mask_predict_iterations < 1
        ),
        "--mask-predict-iterations must be at least 1 for a model with --alignment mask_predict; "
        "got {mask_predict_iterations}. The paper's 0 (CTC alignment, then the denoiser) is a "
        "training run of its own: --alignment ctc --criterion sga_ctc",
    ),
    Rule(
        lambda o: o.length_beam is not None and not 1 <= o.length_beam <= o.longest_target,
        "--length-beam must lie in [1, {longest_target}], the model's lengths; got {length_beam}",
    ),
)


# ---- Masks. ----


def draw_masks(lengths: Tensor, size: int) -> Tensor:
    """Mask a random part of each row: a number of tokens uniform over 1 .. N, and any of them.

    Randomness comes from torch's global generator, which fairseq seeds with (seed, update): a
    resumed run draws the same masks.

    Args:
        lengths: (B,) int64, N of each row; a row without tokens has no mask.
        size: columns of the mask.

    Returns:
        (B, size) bool, True = masked.

    Source: Ghazvininejad et al. 2019 (CMLM), section 2.2; SGA section 4.3.
    """
    count = (torch.rand(lengths.shape, device=lengths.device) * lengths).long() + 1
    scores = torch.rand(lengths.size(0), size, device=lengths.device)
    return lowest_scores(scores, torch.minimum(count, lengths), lengths)


def draw_masks_by_ratio(lengths: Tensor, size: int, least: float) -> Tensor:
    """Mask each token with the probability max(``least``, U); each row draws U from (0, 1).

    A row may be left without a mask. ``least`` lies in [0, 1]; see :func:`draw_masks`.

    Source: the authors' code of SGA, with 0.2 and one U for a whole batch. One U per sentence is
    the same on average and does not depend on the batch.
    """
    ratio = torch.rand(lengths.size(0), 1, device=lengths.device).clamp(min=least)
    masked = torch.rand(lengths.size(0), size, device=lengths.device) < ratio
    return masked & ~lengths_to_padding_mask(lengths, size)


def lowest_scores(scores: Tensor, counts: Tensor, lengths: Tensor) -> Tensor:
    """Mark the ``counts`` (B,) lowest scores of each row; of equal ones, those to the left.

    Args:
        scores: (B, T).
        lengths: (B,) int64; columns after them are never marked.

    Returns:
        (B, T) bool.
    """
    scores = scores.masked_fill(lengths_to_padding_mask(lengths, scores.size(1)), float("inf"))
    order = scores.argsort(dim=1, stable=True)  # place -> column
    rank = order.argsort(dim=1)  # column -> place
    return rank < counts[:, None]


def masked_counts(lengths: Tensor, step: int, iterations: int) -> Tensor:
    """Count the tokens masked before iteration ``step``: N (iterations - step) / iterations.

    N at step 0, then fewer by a linear decay, rounded down. lengths: (B,) int64, N. Returns (B,).

    Source: Ghazvininejad et al. 2019 (CMLM), section 3.1.
    """
    return lengths * (iterations - step) // iterations


def likely_lengths(log_probs: Tensor, count: int) -> Tensor:
    """List the ``count`` likeliest lengths of each sentence; of equal ones, the shorter first.

    log_probs: (B, N); column j stands for j + 1 tokens. Returns (B, K) int64.
    """
    return torch.argsort(log_probs, dim=1, descending=True, stable=True)[:, :count] + 1


# ---- Criterion. ----


class SGAMaskPredictCriterion(SGACTCCriterion):
    """Total = cross-entropy of the masked tokens + length + denoising CTC.

    Each sentence has its own number of masked tokens, uniform over 1 .. N (``</s>`` is no token:
    the length says where it ends). The denoiser reads the unmasked tokens and, in place of the
    masked ones, the alignment unit's best tokens (ids: detached), each ``--ctc-upsample`` times,
    with the noise of ``sga_ctc``. Masks are drawn in validation too; ``--fixed-validation-seed``
    makes its losses comparable.

    The authors' code is ``--label-smoothing 0.1 --min-mask-ratio 0.2 --denoise-all-positions`` with
    ``--length-from bos`` of the model. It averages each loss over its own tokens, and subtracts a
    constant, the smallest value of a smoothed loss.

    Losses are sums in nats; ``sample_size`` is the number of target tokens, or of sentences. A
    sentence without target tokens has a denoising loss only. Differs from CMLM, which divides by
    the masked tokens: CTC scores all of them.

    Source: SGA Eq. 7; Ghazvininejad et al. 2019 (CMLM), sections 2.2 and 2.3.
    """

    alignment = "mask_predict"
    config = SGAMaskPredictConfig
    units = {
        "loss": "sample_size",
        "denoising_loss": "sample_size",
        "alignment_loss": "nmasked",
        "alignment_nll_loss": "nmasked",
        "length_loss": "nsentences",
    }
    rules = (*CRITERION_RULES, *MASK_PREDICT_RULES)

    def __init__(self, task: Any, cfg: SGAMaskPredictConfig):
        super().__init__(task, cfg)
        self.weights["length"] = cfg.length_loss_weight

    def target(self, sample: Dict[str, Any]) -> Any:
        """Drop the final ``</s>`` of the targets, and draw the masks."""
        target = super().target(sample)
        size = target.tokens.size(1)
        lengths = move(target.lengths, target.tokens.device)
        if self.cfg.min_mask_ratio is None:
            masked = draw_masks(lengths, size)
        else:
            masked = draw_masks_by_ratio(lengths, size, self.cfg.min_mask_ratio)
        return MaskedTarget(target.tokens, target.lengths, target.chunk_size, masked)

    def model_inputs(self, sga: Any, sample: Dict[str, Any], target: Target) -> Dict[str, Any]:
        """Add the options of the masked tokens' loss."""
        return {
            **super().model_inputs(sga, sample, target),
            "label_smoothing": self.cfg.label_smoothing,
            "read_all": self.cfg.denoise_all_positions,
        }

    def summed(self, losses: Any, slots: Any, target: Any, blank: int) -> Output:
        """Log the number of masked tokens too."""
        loss, sample_size, logged = super().summed(losses, slots, target, blank)
        return loss, sample_size, {**logged, "nmasked": target.masked.sum()}


# ---- Decoding. ----


class TokenGenerator(SGAGenerator):
    """Decoding of an alignment without blanks: its tokens are duplicated, then denoised."""

    def finish(self, model: Any, guidance: Guidance, path: BestPath, lengths: Tensor) -> Hypotheses:
        """Build the hypotheses of an alignment, denoised unless there are no passes.

        Args:
            path: (B, T), tokens.
            lengths: (B,) int64 on the host, tokens of each sentence.
        """
        if not self.runs_denoiser(model):  # --iter-decode-max-iter 0, or no denoiser
            alignment = self.denoise(model, guidance, lengths, path)
            return self.hypotheses(alignment, lengths, blank=None)
        slots = model.denoiser_slots(lengths)  # B
        duplicated = BestPath(*(model.duplicate(part) for part in path))
        denoised = self.denoise(model, guidance, slots, duplicated)
        sentences = self.hypotheses(denoised, slots, model.blank)
        if self.options.retain_history:
            tokens = path.tokens.cpu()  # those of the alignment are not collapsed
            for row, (hypothesis,) in enumerate(sentences):
                hypothesis["history"][0] = {"tokens": tokens[row, : int(lengths[row])]}
        return sentences


class MaskPredictOptions(NamedTuple):
    """Options of the alignment's decoding."""

    iterations: int = 4  # --mask-predict-iterations, at least 1
    length_beam: int = 1  # --length-beam, lengths that are tried, at least 1


class SGAMaskPredictGenerator(TokenGenerator):
    """Mask-predict, then the denoiser; with the interface of fairseq's generators.

    The most probable lengths of a sentence are decoded side by side; the one whose tokens have the
    best mean log-probability goes on. Its tokens are duplicated and denoised. With
    ``--iter-decode-max-iter 0`` or without a denoiser they are the result (nothing is collapsed:
    mask-predict has no blank).

    Source: SGA sections 4.3 and 4.4; Ghazvininejad et al. 2019 (CMLM), section 3. Several lengths
    are CMLM's, the authors' code of SGA has one.
    """

    def __init__(self, tgt_dict: Any, options: IterationOptions, mask_predict: MaskPredictOptions):
        super().__init__(tgt_dict, options)
        self.mask_predict = mask_predict

    def decode(self, model: Any, src_tokens: Tensor, src_lengths: Tensor) -> Hypotheses:
        """Generate for a batch; see :meth:`.decoding.SGAGenerator.decode`.

        Without denoising ``score`` is the mean log-probability of the tokens.
        """
        guidance = model.encode(src_tokens)
        tokens, log_probs, lengths = self.align(model, guidance)
        return self.finish(model, guidance, BestPath(tokens, tokens, log_probs), lengths)

    def align(self, model: Any, guidance: Any) -> Tuple[Tensor, Tensor, Tensor]:
        """Run mask-predict over ``length_beam`` lengths per sentence, and take the best.

        The host waits for the device twice for the lengths (the candidates, then the best of
        them), and once in each iteration after the first.

        Returns:
            Tokens (B, T) and their log-probabilities, see :meth:`fill`, and lengths (B,) on the
            host.
        """
        count = self.mask_predict.length_beam
        candidates = likely_lengths(guidance.length_log_probs, count)  # B K
        sentences = torch.arange(len(candidates), device=candidates.device)
        lengths = candidates.flatten().cpu()  # B*K
        repeated = guidance.select(sentences.repeat_interleave(count))
        tokens, log_probs = self.fill(model, repeated, lengths)  # B*K T
        score = log_probs.sum(dim=1) / move(lengths, log_probs.device)  # B*K
        best = sentences * count + score.view(-1, count).argmax(dim=1)  # B
        lengths = lengths[best.cpu()]
        longest = int(lengths.max())
        return tokens[best, :longest], log_probs[best, :longest], lengths

    def fill(self, model: Any, guidance: Guidance, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        """Mask all tokens at first, then in each iteration those of the lowest probability.

        Returns:
            Tokens (B, T) int64, and their log-probabilities (B, T) in nats when they were
            predicted, 0 in padding.
        """
        tokens = model.blank_sentence(lengths)
        log_probs = torch.zeros(tokens.shape, device=tokens.device)
        places = Places.inside(lengths, tokens.size(1), tokens.device)
        on_device = move(lengths, tokens.device)
        for step in range(self.mask_predict.iterations):
            if step:
                counts = masked_counts(on_device, step, self.mask_predict.iterations)
                masked = lowest_scores(log_probs, counts, on_device)
                places, tokens = Places.where(masked), tokens.masked_fill(masked, model.mask)
            if not len(places.rows):
                break
            best, scores = model.fill_masks(tokens, places, guidance, lengths)
            tokens = tokens.index_put(places, best)
            log_probs = log_probs.to(scores.dtype).index_put(places, scores)
        return tokens, log_probs
