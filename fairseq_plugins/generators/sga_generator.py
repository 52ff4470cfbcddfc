"""SGA decoding: one alignment pass, then denoising until nothing changes."""

import logging
from typing import Any, Dict, List, NamedTuple, Optional

import torch
from torch import Tensor

from ..ops.ctc import BestPath, collapse_mask

logger = logging.getLogger(__name__)


class IterationOptions(NamedTuple):
    """fairseq's iterative-decoding options.

    Attributes:
        max_iter: largest number of denoising passes (``--iter-decode-max-iter``); 0 = the alignment alone.
        adaptive: stop a sentence when its output no longer changes (off with ``--iter-decode-force-max-iter``).
        retain_history: keep the output of every pass (``--retain-iter-history``).
    """

    max_iter: int
    adaptive: bool = True
    retain_history: bool = False


class SGAGenerator:
    """Batched decoding with the interface of fairseq's generators.

    A sentence leaves the batch as soon as a denoising pass leaves its output slots unchanged: its result does not depend on
    what else is in the batch.

    Args:
        tgt_dict: target dictionary.
        options: see :class:`IterationOptions`.

    Source: SGA section 4.4, last paragraph of the decoding loop (Eq. 6).
    """

    def __init__(self, tgt_dict: Any, options: IterationOptions):
        if options.max_iter < 0:
            raise ValueError(f"--iter-decode-max-iter must be 0 or more; got {options.max_iter}")
        self.options = options
        self.pad, self.eos = tgt_dict.pad(), tgt_dict.eos()
        self.symbols_to_strip_from_output = {tgt_dict.bos(), tgt_dict.eos(), tgt_dict.pad(), tgt_dict.index("<mask>")}

    @torch.no_grad()
    def generate(
        self,
        models: List[Any],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
    ) -> List[List[Dict[str, Any]]]:
        """Translate a batch.

        Args:
            models: one SGA model.
            sample: batch with ``net_input.src_tokens`` (B, S) and ``src_lengths`` (B,).
            prefix_tokens: not supported.
            constraints: not supported.

        Returns:
            One hypothesis a sentence: ``tokens`` (T,), ``</s>`` alone when it is empty; ``score`` (mean log-probability of the
            slots, nats), ``positional_scores`` (T,), ``steps`` (denoising passes), ``history``.

        Raises:
            ValueError: several models, target prefixes or constraints.
        """
        if len(models) != 1:
            raise ValueError(f"SGA decodes with one model; got {len(models)} in --path (average checkpoints instead)")
        if prefix_tokens is not None or constraints is not None:
            raise ValueError("SGA does not support --prefix-size or --constraints: all tokens are produced at once")
        model = models[0]
        model.eval()  # fairseq replaces train() for inference: it returns None
        net_input = sample["net_input"]
        guidance = model.encode(net_input["src_tokens"])
        lengths = model.slot_lengths(net_input["src_lengths"])
        path = model.best_path(model.align(guidance, lengths), lengths)
        steps = torch.zeros_like(lengths)
        history = [path] if self.options.retain_history else None
        if model.has_denoiser:
            path = self._denoise(model, guidance, lengths, path, steps, history)
        return self._hypotheses(path, lengths, steps, model.blank, history)

    def _denoise(
        self,
        model: Any,
        guidance: Any,
        lengths: Tensor,
        path: BestPath,
        steps: Tensor,
        history: Optional[List[BestPath]],
    ) -> BestPath:
        """Run denoising passes on the sentences that still change; counts them in ``steps``."""
        active = torch.arange(lengths.size(0), device=lengths.device)
        current, slots = path, lengths
        for _ in range(self.options.max_iter):
            width = int(slots.max())
            tokens = model.denoiser_input(current)[:, :width]
            new = model.best_path(model.denoise(tokens, guidance, slots), slots)
            steps[active] += 1
            path = _scatter(path, new, active)
            if history is not None:
                history.append(path)
            if self.options.adaptive:
                changed = (new.tokens != current.tokens[:, :width]).any(dim=1).nonzero()[:, 0]
                if len(changed) == 0:
                    break
                if len(changed) < len(active):
                    active, slots, guidance = active[changed], slots[changed], guidance.select(changed)
                    new = BestPath(*(part[changed] for part in new))
            current = new
        return path

    def _hypotheses(
        self, path: BestPath, lengths: Tensor, steps: Tensor, blank: int, history: Optional[List[BestPath]]
    ) -> List[List[Dict[str, Any]]]:
        kept = collapse_mask(path.tokens, lengths, blank)
        score = path.log_probs.sum(dim=1) / lengths
        hypotheses = []
        for row in range(path.tokens.size(0)):
            tokens, scores = path.tokens[row, kept[row]], path.log_probs[row, kept[row]]
            if len(tokens) == 0:  # stock hypotheses hold at least </s>; fairseq's BLEU crashes on one without tokens
                tokens, scores = tokens.new_tensor([self.eos]), score[row : row + 1]
            hypothesis = {
                "tokens": tokens,
                "score": score[row],
                "positional_scores": scores,
                "steps": int(steps[row]),
                "attention": None,
                "alignment": None,
            }
            if history is not None:
                hypothesis["history"] = [
                    {"tokens": past.tokens[row, collapse_mask(past.tokens, lengths, blank)[row]]}
                    for past in history[: int(steps[row]) + 1]
                ]
            hypotheses.append([hypothesis])
        return hypotheses


def _scatter(path: BestPath, new: BestPath, active: Tensor) -> BestPath:
    """Write the rows of the active sentences back into the whole batch."""
    merged = []
    for whole, part in zip(path, new):
        whole = whole.clone()
        whole[active, : part.size(1)] = part
        merged.append(whole)
    return BestPath(*merged)
