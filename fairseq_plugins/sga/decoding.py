"""Decoding: the alignment's best path, then denoising until nothing changes (section 4.4)."""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Deque, Dict, List, NamedTuple, Optional

import torch
from torch import Tensor

from ..ops.ctc import BestPath, collapse_mask
from ..ops.masks import lengths_to_padding_mask, move, source_lengths
from .model import Guidance

MAX_PERIOD = 16
"""Longest cycle of outputs that is looked for; the longest of trained models had 6 passes."""

Hypotheses = List[List[Dict[str, Any]]]
"""Hypotheses of each sentence, with the keys of fairseq's generators."""


class IterationOptions(NamedTuple):
    """fairseq's options of iterative decoding.

    Attributes:
        max_iter: ``--iter-decode-max-iter``, largest number of denoising passes; 0 = the alignment
            alone.
        adaptive: stop once the output no longer changes; ``--iter-decode-force-max-iter``: never.
        retain_history: ``--retain-iter-history``, keep the output of every pass.
        blank_penalty: ``--iter-decode-blank-penalty``, nats subtracted from the blank's logit.
    """

    max_iter: int
    adaptive: bool = True
    retain_history: bool = False
    blank_penalty: float = 0.0


class Denoised(NamedTuple):
    """Outcome of the denoising passes."""

    path: BestPath  # (B, T), last output of each sentence
    steps: Tensor  # (B,) int64 on the host, passes of each sentence
    history: List[BestPath]  # output of the alignment and of each pass; empty unless retained


@dataclass
class Active:
    """The B' sentences that still change."""

    rows: Tensor  # (B',) int64 on the host, their numbers in the batch
    slots: Tensor  # (B',) int64 on the host
    guidance: Guidance
    path: BestPath  # (B', T'), output of the last pass
    last_pass: Tensor  # (B',) int64, last pass needed; max_iter until the outputs repeat
    inputs: Deque[Tensor]  # what the last passes read, (B', >= T') int64 each

    def select(self, staying: Tensor, device: torch.device) -> "Active":
        """Keep the sentences ``staying`` (B'',) int64, on the host."""
        rows = move(staying, device)
        return Active(
            rows=self.rows[staying],
            slots=self.slots[staying],
            guidance=self.guidance.select(rows),
            path=BestPath(*(part[rows] for part in self.path)),
            last_pass=self.last_pass[rows],
            inputs=deque((tokens[rows] for tokens in self.inputs), maxlen=MAX_PERIOD),
        )


class SGAGenerator:
    """Batched decoding with the interface of fairseq's generators.

    A sentence leaves the batch as soon as a denoising pass leaves its output unchanged, so that its
    result does not depend on the rest of the batch. The output is compared before the collapse,
    blanks included, also with ``--fill-blanks``. A sentence whose outputs come in a cycle (a third
    of the sentences of a briefly trained model) leaves with the output that the last allowed pass
    would give, after fewer passes.

    Source: SGA section 4.4, "the loop is running until the output sequence keeps unchanged".
    """

    def __init__(self, tgt_dict: Any, options: IterationOptions):
        self.options = options
        self.pad, self.eos = tgt_dict.pad(), tgt_dict.eos()
        self.symbols_to_strip_from_output = {
            tgt_dict.bos(),
            tgt_dict.eos(),
            tgt_dict.pad(),
            tgt_dict.index("<mask>"),
        }

    @torch.no_grad()
    def generate(
        self,
        models: List[Any],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
    ) -> Hypotheses:
        """Decode a batch of fairseq's translation task; see :meth:`decode`.

        Raises:
            ValueError: several models, target prefixes or constraints.
        """
        if len(models) != 1:
            raise ValueError(
                f"SGA decodes with one model; got {len(models)} in --path (average checkpoints "
                "instead)"
            )
        if prefix_tokens is not None or constraints is not None:
            raise ValueError(
                "SGA does not support --prefix-size or --constraints: all tokens are produced at "
                "once"
            )
        models[0].eval()  # not chained: fairseq replaces train() for inference, and it returns None
        return self.decode(models[0], sample["net_input"]["src_tokens"], source_lengths(sample))

    def decode(self, model: Any, src_tokens: Tensor, src_lengths: Tensor) -> Hypotheses:
        """Decode with one model in evaluation mode.

        Args:
            src_tokens: (B, S) int64.
            src_lengths: (B,) int64, on the host.

        Returns:
            One hypothesis per sentence: ``tokens`` (U,), ``</s>`` alone if it is empty; ``score``,
            mean log-probability of the slots in nats; ``positional_scores`` (U,) nats; ``steps``,
            denoising passes; ``history`` if it is retained.
        """
        guidance = model.encode(src_tokens)  # Eq. 1 and 2
        slots = model.slot_lengths(src_lengths)  # B
        hidden = model.align(guidance, slots)  # B T C, Eq. 3 and 4
        path = self.read_slots(model, hidden, slots, torch.arange(len(slots)))
        denoised = self.denoise(model, guidance, slots, path)
        return self.hypotheses(denoised, slots, model.blank)

    def read_slots(self, model: Any, hidden: Tensor, slots: Tensor, rows: Tensor) -> BestPath:
        """Find the best token of every slot of one pass.

        Args:
            hidden: (B', T', C) states of the sentences that still change.
            slots: (B',) int64.
            rows: (B',) int64 on the host, their numbers in the batch.
        """
        return model.best_path(hidden, slots, self.options.blank_penalty)

    def runs_denoiser(self, model: Any) -> bool:
        """Return True if there are denoising passes."""
        return bool(model.has_denoiser and self.options.max_iter)

    # ---- Eq. 6, until nothing changes. ----

    def denoise(self, model: Any, guidance: Guidance, slots: Tensor, path: BestPath) -> Denoised:
        """Run denoising passes on the sentences that still change.

        Each pass waits for the device once, to learn which these are.

        Args:
            slots: (B,) int64, on the host.
            path: output of the alignment, (B, T).
        """
        device = path.tokens.device
        history = [path] if self.options.retain_history else []
        steps = torch.zeros_like(slots)
        if not self.runs_denoiser(model):
            return Denoised(path, steps, history)
        last_pass = torch.full_like(path.tokens[:, 0], self.options.max_iter)
        inputs: Deque[Tensor] = deque(maxlen=MAX_PERIOD)
        active = Active(torch.arange(len(slots)), slots, guidance, path, last_pass, inputs)
        for step in range(1, self.options.max_iter + 1):
            output = self.denoise_once(model, active)
            steps[active.rows] += 1
            path = _write_rows(path, output, move(active.rows, device))
            if self.options.retain_history:
                history.append(path)
            if not self.options.adaptive:
                active = replace(active, path=output)
                continue
            staying = self._staying(active, output, model.denoiser_input(output), step)
            if len(staying) == 0:
                break
            active = replace(active, path=output)
            if len(staying) < len(active.rows):
                active = active.select(staying, device)
        return Denoised(path, steps, history)

    def denoise_once(self, model: Any, active: Active) -> BestPath:
        """Run one pass (Eq. 6), (B', T') -> (B', T'), and record what it reads."""
        tokens = model.denoiser_input(active.path)[:, : int(active.slots.max())]  # B' T'
        active.inputs.append(tokens)
        hidden = model.denoise(tokens, active.guidance, active.slots)  # B' T' C
        return self.read_slots(model, hidden, active.slots, active.rows)

    def _staying(self, active: Active, output: BestPath, next_input: Tensor, step: int) -> Tensor:
        """List the sentences of ``active`` that another pass may change, (B'',) int64 on the host.

        A pass depends on its input alone. If the next pass would read ``next_input`` (B', T'),
        which was read P passes before, all outputs since then come again every P passes. Such a
        sentence leaves after the pass whose output is that of pass ``max_iter``.

        Args:
            output: of pass number ``step``, counted from 1.
        """
        padding = lengths_to_padding_mask(active.slots, output.tokens.size(1), output.tokens.device)
        unchanged = _equal_rows(output.tokens, active.path.tokens, padding)
        limit = self.options.max_iter
        last_pass = torch.full_like(active.last_pass, limit)
        for period, earlier_input in enumerate(reversed(active.inputs), start=1):
            in_cycle = _equal_rows(next_input, earlier_input, padding)
            # Outputs come again every ``period`` passes: pass max_iter would give the output of
            # pass step + (limit - step) % period, and no later pass is needed.
            last_pass = last_pass.masked_fill(in_cycle, step + (limit - step) % period)
        active.last_pass = torch.minimum(active.last_pass, last_pass)
        return (~unchanged & (active.last_pass > step)).cpu().nonzero()[:, 0]

    # ---- Hypotheses. ----

    def hypotheses(self, denoised: Denoised, slots: Tensor, blank: Optional[int]) -> Hypotheses:
        """Build one hypothesis per sentence, on the host; see :meth:`decode`.

        Args:
            slots: (B,) int64 on the host.
            blank: id of the CTC blank; None = the slots hold tokens, nothing is collapsed.
        """
        tokens, log_probs = denoised.path.tokens.cpu(), denoised.path.log_probs.cpu()  # B T
        survivors = _survivors(tokens, slots, blank)  # B T
        score = log_probs.sum(dim=1) / slots  # B
        history = [past.tokens.cpu() for past in denoised.history]
        history_survivors = [_survivors(past, slots, blank) for past in history]
        sentences: Hypotheses = []
        for row, steps in enumerate(denoised.steps.tolist()):
            row_tokens, row_scores = tokens[row, survivors[row]], log_probs[row, survivors[row]]
            if len(row_tokens) == 0:
                # Stock hypotheses hold at least </s>; fairseq's BLEU crashes on one without tokens.
                row_tokens, row_scores = row_tokens.new_tensor([self.eos]), score[row : row + 1]
            hypothesis: Dict[str, Any] = {
                "tokens": row_tokens,
                "score": score[row],
                "positional_scores": row_scores,
                "steps": steps,
                "attention": None,
                "alignment": None,
            }
            if self.options.retain_history:
                passes = list(zip(history, history_survivors))[: steps + 1]
                hypothesis["history"] = [{"tokens": past[row, keep[row]]} for past, keep in passes]
            sentences.append([hypothesis])
        return sentences


def _survivors(tokens: Tensor, slots: Tensor, blank: Optional[int]) -> Tensor:
    """Mark the slots that survive the collapse; all but padding if ``blank`` is None.

    (B, T) bool.
    """
    if blank is None:
        return ~lengths_to_padding_mask(slots, tokens.size(1))
    return collapse_mask(tokens, slots, blank)


def _equal_rows(tokens: Tensor, wider: Tensor, padding: Tensor) -> Tensor:
    """Compare rows (B', T') with those of a tensor that may be wider, padding apart. (B',) bool."""
    return ((tokens == wider[:, : tokens.size(1)]) | padding).all(dim=1)


def _write_rows(path: BestPath, output: BestPath, rows: Tensor) -> BestPath:
    """Copy the path (B, T), with rows number ``rows`` (B',) replaced by ``output`` (B', T')."""
    merged = BestPath(*(part.clone() for part in path))
    for merged_part, part in zip(merged, output):
        merged_part[rows, : part.size(1)] = part
    return merged
