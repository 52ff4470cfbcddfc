"""SGA decoding for free generation: mask-predict over several lengths, duplication, then denoising until nothing changes."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..ops.ctc import BestPath
from ..ops.mask_predict import likely_lengths, lowest_scores, masked_counts
from ..ops.masks import move
from ..ops.places import Places
from .decoding import DenoisingGenerator, IterationOptions


class MaskPredictOptions(NamedTuple):
    """How the alignment of a model with ``--alignment mask_predict`` is decoded."""

    iterations: int = 4  # --mask-predict-iterations, at least 1
    length_beam: int = 1  # --length-beam, lengths that are tried, at least 1


def mask_predict_options(
    model: Any, iterations: Optional[int], length_beam: Optional[int]
) -> Optional[MaskPredictOptions]:
    """Fill the default of what was not given (None), and check the options against the model (SGA, ``nat_ctc``, or None).

    None for a model that was trained with CTC (0 iterations, which is row 0 of SGA's Table 4) or with a graph.
    """
    alignment = getattr(model, "alignment", "ctc")
    if alignment != "mask_predict":
        if iterations or length_beam is not None:
            option = f"--mask-predict-iterations {iterations}" if iterations else f"--length-beam {length_beam}"
            raise ValueError(f"{option}: this model has --alignment {alignment}, which is one pass (0 iterations)")
        return None
    given = {"iterations": iterations, "length_beam": length_beam}
    options = MaskPredictOptions(**{name: value for name, value in given.items() if value is not None})
    if options.iterations < 1:
        raise ValueError(
            f"--mask-predict-iterations must be at least 1 for a model with --alignment mask_predict; got {options.iterations}. "
            "The paper's 0 (CTC alignment, then the denoiser) is a training run of its own: --alignment ctc --criterion sga_ctc"
        )
    longest = model.length_predictor.max_length
    if not 1 <= options.length_beam <= longest:
        raise ValueError(f"--length-beam must lie in [1, {longest}], the model's lengths; got {options.length_beam}")
    return options


class SGAMaskPredictGenerator(DenoisingGenerator):
    """Mask-predict, then the denoiser; with the interface of fairseq's generators.

    The most probable lengths of a sentence are decoded side by side; the one whose tokens have the best mean log-probability
    goes on. Its tokens are duplicated and denoised as in :class:`~.sga_generator.SGAGenerator`; with ``--iter-decode-max-iter
    0`` or without a denoiser they are the result as they are (nothing is collapsed: mask-predict has no blank).

    Source: SGA sections 4.3 and 4.4; Ghazvininejad et al. 2019 (CMLM), section 3. Several lengths are CMLM's, the authors'
    code of SGA has one.
    """

    def __init__(self, tgt_dict: Any, options: IterationOptions, mask_predict: MaskPredictOptions):
        super().__init__(tgt_dict, options)
        self.mask_predict = mask_predict

    def decode(self, model: Any, net_input: Dict[str, Any]) -> List[List[Dict[str, Any]]]:
        """Generate for a batch.

        One hypothesis per sentence: ``tokens`` (T,); ``score`` (mean log-probability of the denoiser's slots, without denoising
        that of the tokens, nats), ``positional_scores`` (T,), ``steps`` (denoising passes), ``history``.
        """
        guidance = model.encode(net_input["src_tokens"])
        tokens, log_probs, lengths = self.align(model, guidance)
        return self.denoised(model, guidance, BestPath(tokens, tokens, log_probs), lengths)

    def align(self, model: Any, guidance: Any) -> Tuple[Tensor, Tensor, Tensor]:
        """Mask-predict over ``length_beam`` lengths per sentence; what :meth:`fill` gives of the best one, and its length (B,).

        The length lies on the host; each iteration waits for the device once, and all lengths twice.
        """
        count = self.mask_predict.length_beam
        candidates = likely_lengths(guidance.length_log_probs, count)  # B K
        sentences = torch.arange(len(candidates), device=candidates.device)
        lengths = candidates.flatten().cpu()
        tokens, log_probs = self.fill(model, guidance.select(sentences.repeat_interleave(count)), lengths)
        score = log_probs.sum(dim=1) / move(lengths, log_probs.device)  # B*K
        best = sentences * count + score.view(-1, count).argmax(dim=1)
        lengths = lengths[best.cpu()]
        longest = int(lengths.max())
        return tokens[best, :longest], log_probs[best, :longest], lengths

    def fill(self, model: Any, guidance: Any, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        """Mask everything at first, then in each iteration the tokens the model is least sure of.

        Returns tokens (B, T) and their log-probabilities (B, T) nats, when they were predicted; 0 in padding.
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
