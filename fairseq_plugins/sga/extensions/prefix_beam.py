"""SGA decoding: one alignment pass, then denoising until nothing changes; the best path, or the n best outputs of CTC."""

import math
from typing import Any, Dict, List, NamedTuple, Optional

import torch
from torch import Tensor

from ...ops.ctc_prefix_beam import linear_prefix_beam
from ..decoding import DenoisingGenerator, IterationOptions
from .reranking import ATReranker

__all__ = ["BeamOptions", "IterationOptions", "SGAGenerator", "beam_options"]


class BeamOptions(NamedTuple):
    """CTC prefix beam search."""

    size: int = 0  # --iter-decode-ctc-beam, prefixes that are kept after each slot; 0 = the best path
    candidates: int = 20  # --iter-decode-ctc-candidates, tokens per slot beside the blank
    nbest: int = 1  # --nbest, hypotheses per sentence
    bonus: float = 0.0  # --iter-decode-ctc-bonus, nats per token


def beam_options(size: int, candidates: Optional[int], nbest: int, reranked: bool, bonus: float = 0.0) -> BeamOptions:
    """Fill the default of what was not given (None); ValueError where the options do not fit each other."""
    given = f"--iter-decode-ctc-candidates {candidates}" if candidates is not None else ""
    given = f"--iter-decode-ctc-bonus {bonus}" if bonus else given
    if given and size == 0:
        raise ValueError(f"{given}: nothing is searched without --iter-decode-ctc-beam of at least 1; got 0")
    if not math.isfinite(bonus):
        raise ValueError(f"--iter-decode-ctc-bonus must be a finite number of nats per token; got {bonus}")
    if size < 0:
        raise ValueError(f"--iter-decode-ctc-beam must be 0 (best path) or more; got {size}")
    if candidates is not None and candidates < 1:
        raise ValueError(f"--iter-decode-ctc-candidates must be at least 1 token per slot; got {candidates}")
    if not 1 <= nbest <= max(size, 1):
        raise ValueError(
            f"--nbest must lie in [1, {max(size, 1)}] with --iter-decode-ctc-beam {size} (0: the best path is one hypothesis; "
            f"fairseq's --beam has no meaning here); got {nbest}"
        )
    if reranked and size < 2:
        raise ValueError(f"--rerank-at chooses among outputs: needs --iter-decode-ctc-beam of at least 2; got {size}")
    return BeamOptions(size, BeamOptions().candidates if candidates is None else candidates, nbest, bonus)


class SGAGenerator(DenoisingGenerator):
    """Batched decoding with the interface of fairseq's generators; see :class:`~.sga_denoising.DenoisingGenerator`.

    With a beam, the states of each sentence's last pass are searched for the outputs with the most probability, summed over
    their alignments; the passes before it go on from the best path, as without a beam. A reranker orders what the search finds.
    """

    def __init__(
        self,
        tgt_dict: Any,
        options: IterationOptions,
        beam: Optional[BeamOptions] = None,
        reranker: Optional[ATReranker] = None,
    ):
        super().__init__(tgt_dict, options)
        self.beam, self.reranker = beam or BeamOptions(), reranker
        self.states: Optional[Tensor] = None

    def decode(self, model: Any, net_input: Dict[str, Any]) -> List[List[Dict[str, Any]]]:
        """Translate a batch.

        One hypothesis per sentence: ``tokens`` (T,), ``</s>`` alone when it is empty; ``score`` (mean log-probability of the slots,
        nats), ``positional_scores`` (T,), ``steps`` (denoising passes), ``history``. With a beam up to ``nbest``, by falling
        ``score``, distinct, without special symbols (``<unk>`` is text): ``ctc_score`` is the log-probability of the output over
        all its alignments, in nats, ``score`` that and the bonus of its tokens, ``positional_scores`` equal shares of it (CTC gives
        none per token). A sentence that has fewer outputs has fewer hypotheses.
        """
        guidance = model.encode(net_input["src_tokens"])
        lengths = model.slot_lengths(net_input["src_lengths"])
        hidden = model.align(guidance, lengths)
        path = model.best_path(hidden, lengths, self.options.blank_penalty)
        self.states = hidden if self.beam.size else None
        steps = torch.zeros_like(lengths)
        history = [path] if self.options.retain_history else None
        if model.has_denoiser:
            path = self.denoise(model, guidance, lengths, path, steps, history)
        best = self.hypotheses(path, lengths, steps, model.blank, history)
        if self.states is None:
            return best
        found = self._search(model, lengths, [sentence[0] for sentence in best])
        if self.reranker is not None:
            found = self.reranker.rescore(net_input["src_tokens"], found)
        return [sentence[: self.beam.nbest] for sentence in found]

    def after_pass(self, hidden: Tensor, active: Tensor) -> None:
        """Keep the states of the last pass, (B, T, C), for the search."""
        if self.states is not None:
            self.states[active, : hidden.size(1)] = hidden

    def _search(self, model: Any, lengths: Tensor, best: List[Dict[str, Any]]) -> List[List[Dict[str, Any]]]:
        """The hypotheses of the beam; ``best`` are those of the best path, whose passes and history they have."""
        weight, bias = model.ctc_projection(self.options.blank_penalty)
        assert self.states is not None
        states, self.states = self.states, None
        # What fairseq strips from the text is no output; two that differ by it alone would be one text twice.
        excluded = self.symbols_to_strip_from_output
        found_there = linear_prefix_beam(
            states,
            weight,
            bias,
            lengths,
            model.blank,
            self.beam.size,
            self.beam.candidates,
            excluded=excluded,
            bonus=self.beam.bonus,
        )
        outputs = type(found_there)(*(part.cpu() for part in found_there))
        found: List[List[Dict[str, Any]]] = []
        for row, common in enumerate(best):
            found.append([])
            for number in range(int(outputs.scores[row].isfinite().sum())):
                tokens = outputs.labels[row, number, : int(outputs.lengths[row, number])]
                tokens = tokens if len(tokens) else tokens.new_tensor([self.eos])
                ctc_score = outputs.scores[row, number]
                score = ctc_score + self.beam.bonus * int(outputs.lengths[row, number])
                shares = (score / len(tokens)).repeat(len(tokens))
                scores = {"score": score, "ctc_score": ctc_score, "positional_scores": shares}
                found[-1].append({**common, "tokens": tokens, **scores})
        return found
