"""What SGA's generators share: denoising passes until nothing changes, and hypotheses from rows of CTC slots."""

import math
from typing import Any, Dict, List, NamedTuple, Optional

import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor

from ..ops.ctc import BestPath, collapse_mask
from ..ops.masks import lengths_to_padding_mask, move
from ..ops.places import source_lengths


class IterationOptions(NamedTuple):
    """fairseq's iterative-decoding options."""

    max_iter: int  # --iter-decode-max-iter, denoising passes at most; 0 = the alignment alone
    adaptive: bool = True  # stop where the output no longer changes; off with --iter-decode-force-max-iter
    retain_history: bool = False  # --retain-iter-history, the output of every pass
    blank_penalty: float = 0.0  # --iter-decode-blank-penalty, nats taken off the blank's logit


MAX_PERIOD = 16
"""Longer cycles of outputs are not looked for; of the trained models seen here the longest had 6 passes."""

_UNREAD = (
    "lenpen unkpen min_len max_len_a max_len_b match_source_len no_early_stop no_repeat_ngram_size unnormalized sampling "
    "sampling_topk sampling_topp temperature diverse_beam_groups diverse_beam_strength diversity_rate lm_path lm_weight "
    "score_reference print_alignment replace_unk decoding_format eos_token iter_decode_with_beam iter_decode_eos_penalty "
    "iter_decode_with_external_reranker"
)
UNREAD_OPTIONS = {name: getattr(GenerationConfig(), name) for name in _UNREAD.split()}
"""Generation options of a search from left to right, of its attention, or of other iterative models, with their defaults."""

HINTS = {
    "lenpen": "; --rerank-at and --dag-decoding viterbi read it",
    "iter_decode_with_external_reranker": "; use --rerank-at PATH",
}


def refuse_unread_options(args: Any, models: List[Any], reads_lenpen: bool) -> None:
    """Raise ValueError for an option of fairseq's generation that nothing would read.

    ``--beam`` is let pass, every recipe has it. fairseq keeps dropout in its own modules alone, SGA's units have none of them.
    """
    for name, default in UNREAD_OPTIONS.items():
        value = getattr(args, name, default)
        if value != default and not (reads_lenpen and name == "lenpen"):
            given = f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
            valid = "leave it out" if default is None or default is False else f"valid: {default}"
            reason = "has no meaning for SGA, which decodes all tokens at once"
            raise ValueError(f"{given} {reason}; {valid}{HINTS.get(name, '')}")
    for model in models if getattr(args, "retain_dropout", False) else ():
        if not any(isinstance(module, FairseqDropout) for module in model.modules()):
            name = type(model).__name__
            raise ValueError(f"--retain-dropout: {name} has no dropout that could be kept; leave it out")


class DenoisingGenerator:
    """Base of the generators: checks, denoising loop, hypotheses.

    A sentence leaves the batch as soon as a denoising pass leaves its output slots unchanged: its result does not depend on
    what else is in the batch. One whose outputs come in a cycle (a third of the sentences of a briefly trained model) leaves
    with the output that the last allowed pass would give, after fewer passes.

    Source: SGA section 4.4, last paragraph of the decoding loop (Eq. 6).
    """

    def __init__(self, tgt_dict: Any, options: IterationOptions):
        if options.max_iter < 0:
            raise ValueError(f"--iter-decode-max-iter must be 0 or more; got {options.max_iter}")
        if not math.isfinite(options.blank_penalty):
            raise ValueError(
                f"--iter-decode-blank-penalty must be a finite number of nats; got {options.blank_penalty}"
            )
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
        """The hypotheses of each sentence of a batch, see :meth:`decode`; with the interface of fairseq's generators.

        Raises ValueError: several models, target prefixes or constraints.
        """
        if len(models) != 1:
            raise ValueError(f"SGA decodes with one model; got {len(models)} in --path (average checkpoints instead)")
        if prefix_tokens is not None or constraints is not None:
            raise ValueError("SGA does not support --prefix-size or --constraints: all tokens are produced at once")
        models[0].eval()  # fairseq replaces train() for inference: it returns None
        return self.decode(models[0], {**sample["net_input"], "src_lengths": source_lengths(sample)})

    def decode(self, model: Any, net_input: Dict[str, Any]) -> List[List[Dict[str, Any]]]:
        """The hypotheses of one model, in evaluation mode and without gradients; ``src_lengths`` lie on the host."""
        raise NotImplementedError

    def passes(self, model: Any) -> bool:
        """Whether there are denoising passes."""
        return bool(model.has_denoiser and self.options.max_iter)

    def denoise(
        self,
        model: Any,
        guidance: Any,
        lengths: Tensor,
        path: BestPath,
        steps: Tensor,
        history: Optional[List[BestPath]],
    ) -> BestPath:
        """Run denoising passes on the sentences that still change; the last output of each.

        Each pass waits for the device once, to know which these are.

        Args:
            lengths: (B,) int64, slots, on the host.
            path: what the alignment gave, (B, T).
            steps: (B,) int64 on the host, the passes of each sentence; counted in place.
            history: gets the output after each pass, unless None.
        """
        active, device = torch.arange(lengths.size(0)), path.tokens.device
        current, slots, last = path, lengths, torch.full_like(path.tokens[:, 0], self.options.max_iter)
        seen: List[Tensor] = []
        for done in range(1, self.options.max_iter + 1):
            tokens = model.denoiser_input(current)[:, : int(slots.max())]
            seen = [*seen[1 - MAX_PERIOD :], tokens]
            hidden = model.denoise(tokens, guidance, slots)
            rows = move(active, device)
            self.after_pass(hidden, rows)
            new = model.best_path(hidden, slots, self.options.blank_penalty)
            steps[active] += 1
            path = _scatter(path, new, rows)
            if history is not None:
                history.append(path)
            if self.options.adaptive:
                padding = lengths_to_padding_mask(slots, new.tokens.size(1), device)
                unchanged = _equal(new.tokens, current.tokens, padding)
                last = torch.minimum(last, self._last_pass(done, seen, model.denoiser_input(new), padding))
                staying = (~unchanged & (last > done)).cpu().nonzero()[:, 0]
                if len(staying) == 0:
                    break
                if len(staying) < len(active):
                    active, slots, rows = active[staying], slots[staying], move(staying, device)
                    last, *seen = (part[rows] for part in (last, *seen))
                    new, guidance = BestPath(*(part[rows] for part in new)), guidance.select(rows)
            current = new
        return path

    def _last_pass(self, done: int, seen: List[Tensor], coming: Tensor, padding: Tensor) -> Tensor:
        """The pass whose output is that of pass ``max_iter``, (B',): ``max_iter`` unless the denoiser's input comes in a cycle.

        A pass depends on its input alone. If the next one would read ``coming`` (B', T'), which was read P passes before
        (``seen``, (B', >= T') each), all outputs since come again every P passes. ``done`` passes were made.
        """
        limit = self.options.max_iter
        last = torch.full_like(coming[:, 0], limit)
        for period, past in enumerate(reversed(seen), start=1):
            end = done + (limit - done) % period
            last = last.masked_fill(_equal(coming, past, padding), end)
        return last

    def denoised(self, model: Any, guidance: Any, path: BestPath, lengths: Tensor) -> List[List[Dict[str, Any]]]:
        """The hypotheses of an alignment without blanks: as it is (``--iter-decode-max-iter 0``, or no denoiser), or denoised.

        ``path`` (B, T) holds tokens, ``lengths`` (B,) of them; both are right-padded, lengths lie on the host.
        """
        steps = torch.zeros_like(lengths)
        history = [path] if self.options.retain_history else None
        if not self.passes(model):
            return self.hypotheses(path, lengths, steps, None, history)
        slots = model.denoiser_slots(lengths)
        last = self.denoise(model, guidance, slots, BestPath(*map(model.duplicate, path)), steps, history)
        found = self.hypotheses(last, slots, steps, model.blank, history)
        if history is not None:
            aligned = self.hypotheses(history[0], lengths, steps, None, None)
            for (hypothesis,), (first,) in zip(found, aligned):
                hypothesis["history"][0] = {"tokens": first["tokens"]}  # as it is: not collapsed
        return found

    def after_pass(self, hidden: Tensor, active: Tensor) -> None:
        """Called with the states (B', T', C) of the sentences ``active`` (B',) after each denoising pass; does nothing here."""

    def hypotheses(
        self, path: BestPath, lengths: Tensor, steps: Tensor, blank: Optional[int], history: Optional[List[BestPath]]
    ) -> List[List[Dict[str, Any]]]:
        """One hypothesis per sentence from the best path: collapsed tokens (all when blank is None), scores, passes, history.

        They lie on the host: two copies from the device, and one for each pass of the history.
        """
        all_tokens, log_probs = path.tokens.cpu(), path.log_probs.cpu()
        passed = [past.tokens.cpu() for past in history or ()]

        def survivors(tokens: Tensor) -> Tensor:
            if blank is None:
                return ~lengths_to_padding_mask(lengths, tokens.size(1))
            return collapse_mask(tokens, lengths, blank)

        kept = survivors(all_tokens)
        score = log_probs.sum(dim=1) / lengths
        hypotheses = []
        for row in range(len(all_tokens)):
            tokens, scores = all_tokens[row, kept[row]], log_probs[row, kept[row]]
            if len(tokens) == 0:  # stock hypotheses hold at least </s>; fairseq's BLEU crashes on one without tokens
                tokens, scores = tokens.new_tensor([self.eos]), score[row : row + 1]
            hypothesis = {"tokens": tokens, "score": score[row], "positional_scores": scores, "steps": int(steps[row])}
            hypothesis.update(attention=None, alignment=None)
            if history is not None:
                hypothesis["history"] = [
                    {"tokens": past[row, survivors(past)[row]]} for past in passed[: int(steps[row]) + 1]
                ]
            hypotheses.append([hypothesis])
        return hypotheses


def _equal(rows: Tensor, others: Tensor, padding: Tensor) -> Tensor:
    """Whether rows (B', T') are those of a tensor that may be wider, padding apart; (B',) bool."""
    return ((rows == others[:, : rows.size(1)]) | padding).all(dim=1)


def _scatter(path: BestPath, new: BestPath, active: Tensor) -> BestPath:
    """Write the rows of the active sentences back into the whole batch."""
    merged = [whole.clone() for whole in path]
    for whole, part in zip(merged, new):
        whole[active, : part.size(1)] = part
    return BestPath(*merged)
