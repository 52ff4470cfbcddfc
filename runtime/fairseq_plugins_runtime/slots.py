"""Decode models that fill all slots at once: SGA and ``nat_ctc``.

An alignment pass (or the iterations of mask-predict) is followed by denoising passes over the
sentences that still change. Shape letters: B sentences, S source tokens, T slots.
"""

from collections import deque
from typing import Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .folder import Folder, Graph, Pair
from .hypothesis import Hypothesis

MAX_PERIOD = 16
"""Longest cycle of outputs that ends the denoising of a sentence."""
MOST_LOGITS = 1 << 28
"""Logits of a pass (1 GiB in float32) above which a batch is decoded in parts."""


class Path(NamedTuple):
    """Output of a pass."""

    tokens: np.ndarray  # (B, T) int64, best id of each slot; the blank in padding
    pieces: np.ndarray  # (B, T) int64, best id other than the blank; ``tokens`` if nothing reads it
    log_probs: np.ndarray  # (B, T) float32, of ``tokens``, nats; 0 in padding

    def rows(self, indices: np.ndarray) -> "Path":
        """Select sentences."""
        return Path(*(part[indices] for part in self))


class Guidance(NamedTuple):
    """Inputs of the other graphs that depend on the source alone.

    Attributes:
        source: (B, S) int64.
        states: name of the input -> keys or values (L, B, H, S, D), or states (B, S, C).
    """

    source: np.ndarray
    states: Dict[str, np.ndarray]

    def rows(self, indices: np.ndarray) -> "Guidance":
        """Select sentences."""
        states = {}
        for name, part in self.states.items():
            states[name] = part[:, indices] if part.ndim == 5 else part[indices]
        return Guidance(self.source[indices], states)


class SlotDecoder:
    """Decode batches. Holds no state, so several threads may use it at once."""

    def __init__(self, folder: Folder) -> None:
        values, search = folder.model.part("slots"), folder.model.part("search")
        last_id = len(folder.text.target) - 1
        self.text, self.symbols = folder.text, folder.symbols
        self.upsample = values.integer("upsample", 1)
        self.blank = self.mask = values.integer("blank", 0, last_id)
        if values.values.get("mask") is not None:
            self.mask = values.integer("mask", 0, last_id)
        self.has_denoiser, self.fill_blanks = values.flag("denoiser"), values.flag("fill_blanks")
        self.mask_predict = values.choice("alignment", "ctc", "mask_predict") == "mask_predict"
        self.max_iter, self.adaptive = search.integer("max_iter", 0), search.flag("adaptive")
        names = ["encoder", "alignment", *(["denoising"] if self.has_denoiser else [])]
        graphs = folder.graphs(*names)
        self.encoder, self.alignment = graphs["encoder"], graphs["alignment"]
        self.denoising = graphs.get("denoising")
        self.iterations = self.length_beam = 0
        guided = [name for name in self.encoder.outputs if name != "length_log_probs"]
        self.encoder.expect(["source"], guided)
        if self.mask_predict:
            self.iterations = search.integer("mask_predict_iterations", 1)
            self.length_beam = search.integer("length_beam", 1, values.integer("lengths", 1))
            self.encoder.expect(["source"], ["length_log_probs"])
            self.alignment.expect(["tokens"], [])
        self.guided = guided
        self.alignment.expect(["lengths", "source", *guided], ["best", "log_probs"])
        if self.denoising is not None:
            outputs = ["best", "log_probs", *(["pieces"] if self.fill_blanks else [])]
            self.alignment.expect([], [] if self.mask_predict else outputs)
            self.denoising.expect(["tokens", "lengths", "source", *guided], outputs)

    def decode(self, source: np.ndarray, pair: Pair) -> List[Hypothesis]:
        """Return the hypothesis of each sentence.

        Args:
            source: (B, S) int64, padded on the right.
        """
        logits = len(self.text.target) * source.shape[1] * self.upsample * max(self.length_beam, 1)
        rows, hypotheses = max(MOST_LOGITS // logits, 1), []
        for first in range(0, len(source), rows):
            hypotheses += self.passes(source[first : first + rows])[0]
        return hypotheses

    def passes(self, source: np.ndarray) -> Tuple[List[Hypothesis], List[Path]]:
        """Decode a batch; return its hypotheses and the output after each pass.

        The first output is the alignment's. A later one holds the latest output of each sentence.
        """
        guidance, length_log_probs = self._encode(source)
        if self.mask_predict:
            path, lengths = self._mask_predict(guidance, length_log_probs)
            history = [path]
            if self.denoising is None or self.max_iter == 0:
                return self._hypotheses(path, lengths, np.zeros_like(lengths), None), history
            path = Path(*(np.repeat(part, self.upsample, axis=1) for part in path))
            lengths = lengths * self.upsample
        else:
            lengths = (source != self.symbols.pad).sum(axis=1) * self.upsample
            path = self._run(self.alignment, self._masks(lengths), lengths, guidance)
            history = [path]
        steps = np.zeros_like(lengths)
        if self.denoising is not None:
            path = self._denoise(guidance, lengths, path, steps, history)
        return self._hypotheses(path, lengths, steps, self.blank), history

    def _encode(self, source: np.ndarray) -> Tuple[Guidance, np.ndarray]:
        """Run the encoder; return the guidance and log-probabilities of lengths, (B, 0) for CTC."""
        names = [*self.guided, *(["length_log_probs"] if self.mask_predict else [])]
        states = dict(zip(names, self.encoder.run(names, {"source": source})))
        length_log_probs = states.pop("length_log_probs", np.zeros((len(source), 0), np.float32))
        return Guidance(source, states), length_log_probs

    def _masks(self, lengths: np.ndarray) -> np.ndarray:
        """Make the input of an alignment, masks in every slot; (B, T) int64."""
        return np.full((len(lengths), int(lengths.max())), self.mask, np.int64)

    def _run(
        self, graph: Graph, tokens: np.ndarray, lengths: np.ndarray, guidance: Guidance
    ) -> Path:
        """Run the alignment or the denoising once over ``tokens`` (B, T)."""
        inputs = {"lengths": lengths, "source": guidance.source, **guidance.states}
        if "tokens" in graph.inputs:
            inputs["tokens"] = tokens
        names = ["best", "log_probs"]
        if self.fill_blanks and "pieces" in graph.outputs:
            names.append("pieces")
        outputs = dict(zip(names, graph.run(names, inputs)))
        outside = padding(lengths, outputs["best"].shape[1])
        best = np.where(outside, self.blank, outputs["best"])
        pieces = np.where(outside, self.blank, outputs["pieces"]) if "pieces" in outputs else best
        return Path(best, pieces, np.where(outside, np.float32(0), outputs["log_probs"]))

    # ---- Denoising passes until nothing changes. ----

    def _denoise(
        self,
        guidance: Guidance,
        lengths: np.ndarray,
        path: Path,
        steps: np.ndarray,
        history: List[Path],
    ) -> Path:
        """Denoise each sentence until its output stays the same, or for ``max_iter`` passes.

        Outputs that repeat in a cycle need no more passes: the sentence stops at the pass whose
        output the last allowed pass would have.

        Args:
            lengths: (B,) slots.
            path: output of the alignment.
            steps: (B,) passes of each sentence; changed.
            history: outputs after each pass; changed.

        Returns:
            the last output of each sentence.
        """
        assert self.denoising is not None
        active, current, slots = np.arange(len(lengths)), path, lengths
        last = np.full_like(lengths, self.max_iter)
        seen: Deque[np.ndarray] = deque(maxlen=MAX_PERIOD)
        for step in range(1, self.max_iter + 1):
            tokens = self._denoiser_input(current)[:, : int(slots.max())]
            seen.append(tokens)
            new = self._run(self.denoising, tokens, slots, guidance)
            steps[active] += 1
            path = _replace_rows(path, new, active)
            history.append(path)
            if self.adaptive:
                outside = padding(slots, new.tokens.shape[1])
                unchanged = _equal(new.tokens, current.tokens, outside)
                next_input = self._denoiser_input(new)
                last = np.minimum(last, self._last_pass(step, seen, next_input, outside))
                staying = np.flatnonzero(~unchanged & (last > step))
                if len(staying) == 0:
                    break
                if len(staying) < len(active):
                    active, slots, last = active[staying], slots[staying], last[staying]
                    seen = deque((part[staying] for part in seen), MAX_PERIOD)
                    new, guidance = new.rows(staying), guidance.rows(staying)
            current = new
        return path

    def _denoiser_input(self, path: Path) -> np.ndarray:
        return path.pieces if self.fill_blanks else path.tokens

    def _last_pass(
        self, step: int, seen: Sequence[np.ndarray], next_input: np.ndarray, outside: np.ndarray
    ) -> np.ndarray:
        """Return the pass at which each sentence stops, (B,).

        If the next input was the input of an earlier pass, outputs repeat with a period. Then a
        pass of the coming period has the output of the last allowed pass, and the sentence stops
        there. Otherwise it stops at the last allowed pass.

        Args:
            step: number of passes so far.
            seen: inputs of the latest passes, (B, T) each.
            next_input: (B, T).
            outside: (B, T) bool, True = padding.
        """
        last = np.full(len(next_input), self.max_iter, np.int64)
        for period, past in enumerate(reversed(seen), start=1):
            last[_equal(next_input, past, outside)] = step + (self.max_iter - step) % period
        return last

    # ---- Mask-predict: the alignment of models without a blank. ----

    def _mask_predict(
        self, guidance: Guidance, length_log_probs: np.ndarray
    ) -> Tuple[Path, np.ndarray]:
        """Fill an output of each of the most probable lengths.

        Returns:
            The output of each sentence with the best mean log-probability, and its length, (B,).
        """
        count = self.length_beam
        lengths = (np.argsort(-length_log_probs, axis=1, kind="stable")[:, :count] + 1).reshape(-1)
        sentences = np.arange(len(length_log_probs))
        tokens, log_probs = self._fill(guidance.rows(np.repeat(sentences, count)), lengths)
        score = log_probs.sum(axis=1) / lengths
        best = sentences * count + score.reshape(-1, count).argmax(axis=1)
        lengths = lengths[best]
        longest = int(lengths.max())
        tokens = tokens[best, :longest]
        return Path(tokens, tokens, log_probs[best, :longest]), lengths

    def _fill(self, guidance: Guidance, lengths: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Fill masked sentences; later iterations mask the tokens with the lowest scores again.

        Returns:
            tokens (B, N) and their log-probabilities (B, N).
        """
        tokens = self._masks(lengths)
        log_probs = np.zeros(tokens.shape, np.float32)
        masked = ~padding(lengths, tokens.shape[1])
        for step in range(self.iterations):
            if step:
                counts = lengths * (self.iterations - step) // self.iterations
                masked = lowest_scores(log_probs, counts, lengths)
                tokens = np.where(masked, self.mask, tokens)
            if not masked.any():
                break
            new = self._run(self.alignment, tokens, lengths, guidance)
            tokens = np.where(masked, new.tokens, tokens)
            log_probs = np.where(masked, new.log_probs, log_probs)
        return tokens, log_probs

    # ---- Hypotheses. ----

    def _hypotheses(
        self, path: Path, lengths: np.ndarray, steps: np.ndarray, blank: Optional[int]
    ) -> List[Hypothesis]:
        """Make the hypotheses of a path, collapsed as CTC does unless ``blank`` is None."""
        if blank is None:
            output_slots = ~padding(lengths, path.tokens.shape[1])
        else:
            output_slots = collapse_mask(path.tokens, lengths, blank)
        scores = path.log_probs.sum(axis=1) / lengths
        return [
            Hypothesis(tokens[slots].tolist(), float(score), int(passes))
            for tokens, slots, score, passes in zip(path.tokens, output_slots, scores, steps)
        ]

    def trace(self, source: np.ndarray) -> List[List[str]]:
        """Return the slots of a sentence after the alignment and each pass, as pieces; "" = blank.

        Args:
            source: (1, S) int64.
        """
        rows = []
        for path in self.passes(source)[1]:
            ids = path.tokens[0].tolist()
            rows.append(["" if n == self.blank else self.text.symbol(n) for n in ids])
        return rows


def padding(lengths: np.ndarray, size: int) -> np.ndarray:
    """Return a mask (B, ``size``) bool, True = padding, for sentences of these lengths (B,)."""
    return np.arange(size)[None] >= lengths[:, None]


def collapse_mask(tokens: np.ndarray, lengths: np.ndarray, blank: int) -> np.ndarray:
    """Mark the slots whose tokens CTC's collapse keeps, (B, T) bool.

    These are the first slots of every run of equal tokens, without blanks.
    """
    first = np.ones(tokens.shape, bool)
    first[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    return first & (tokens != blank) & ~padding(lengths, tokens.shape[1])


def lowest_scores(scores: np.ndarray, counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Mark the ``counts`` (B,) tokens with the lowest scores of each row, the left ones if equal.

    Args:
        scores: (B, T).
        lengths: (B,) tokens of each row.

    Returns:
        (B, T) bool.
    """
    scores = np.where(padding(lengths, scores.shape[1]), np.inf, scores)
    rank = scores.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return rank < counts[:, None]


def _equal(rows: np.ndarray, references: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Compare rows (B, T) with ``references``, which may be wider, except at padding; (B,) bool."""
    return ((rows == references[:, : rows.shape[1]]) | outside).all(axis=1)


def _replace_rows(path: Path, new: Path, active: np.ndarray) -> Path:
    """Return the path of a batch with the rows of its active sentences replaced by ``new``."""
    merged = [batch.copy() for batch in path]
    for batch, rows in zip(merged, new):
        batch[active, : rows.shape[1]] = rows
    return Path(*merged)
