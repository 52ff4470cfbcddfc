"""Models that fill slots at once: SGA and ``nat_ctc``.

One alignment pass (or the iterations of mask-predict), then denoising passes on the sentences that still change. Arrays have
the shapes (B, T): sentences, slots.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from .folder import Folder, Graph, Pair
from .hypothesis import Hypothesis

MAX_PERIOD = 16
"""Longer cycles of outputs are not looked for."""
MOST_LOGITS = 1 << 28
"""Of one pass, 1 GiB in float32: larger batches are decoded in parts."""


class Path(NamedTuple):
    """What a pass gives."""

    tokens: np.ndarray  # (B, T) int64, the best id of each slot; the blank in padding
    pieces: np.ndarray  # (B, T) int64, the best id without the blank; ``tokens`` where nothing reads it
    log_probs: np.ndarray  # (B, T) float32, of ``tokens``, nats; 0 in padding

    def rows(self, chosen: np.ndarray) -> "Path":
        """The path of some sentences."""
        return Path(*(part[chosen] for part in self))


class Guidance(NamedTuple):
    """What the other graphs read of the encoder."""

    source: np.ndarray  # (B, S) int64
    states: Dict[str, np.ndarray]  # keys and values (L, B, H, S, D), or states (B, S, C), by the name of the input

    def rows(self, chosen: np.ndarray) -> "Guidance":
        """The guidance of some sentences."""
        states = {name: part[:, chosen] if part.ndim == 5 else part[chosen] for name, part in self.states.items()}
        return Guidance(self.source[chosen], states)


class SlotDecoder:
    """Decodes batches; holds nothing that changes."""

    def __init__(self, folder: Folder) -> None:
        values, search, size = folder.model.part("slots"), folder.model.part("search"), len(folder.text.target)
        self.text, self.symbols = folder.text, folder.symbols
        self.upsample = values.integer("upsample", 1)
        self.blank = values.integer("blank", 0, size - 1)
        self.mask = values.integer("mask", 0, size - 1) if values.values.get("mask") is not None else self.blank
        self.has_denoiser, self.fill_blanks = values.flag("denoiser"), values.flag("fill_blanks")
        self.mask_predict = values.choice("alignment", "ctc", "mask_predict") == "mask_predict"
        self.max_iter, self.adaptive = search.integer("max_iter", 0), search.flag("adaptive")
        graphs = folder.graphs("encoder", "alignment", *(["denoising"] if self.has_denoiser else []))
        self.encoder, self.alignment, self.denoising = graphs["encoder"], graphs["alignment"], graphs.get("denoising")
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
        """The hypotheses of a batch; source: (B, S) int64, padded on the right."""
        logits = len(self.text.target) * source.shape[1] * self.upsample * max(self.length_beam, 1)
        rows, found = max(MOST_LOGITS // logits, 1), []
        for first in range(0, len(source), rows):
            found += self.passes(source[first : first + rows])[0]
        return found

    def passes(self, source: np.ndarray) -> Tuple[List[Hypothesis], List[Path]]:
        """The hypotheses, and what each pass gave of the sentences: the alignment's first, each sentence's last from then on."""
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
            path = self._run(self.alignment, self._blank_sentence(lengths), lengths, guidance)
            history = [path]
        steps = np.zeros_like(lengths)
        if self.denoising is not None:
            path = self._denoise(guidance, lengths, path, steps, history)
        return self._hypotheses(path, lengths, steps, self.blank), history

    def _encode(self, source: np.ndarray) -> Tuple[Guidance, np.ndarray]:
        names = [*self.guided, *(["length_log_probs"] if self.mask_predict else [])]
        found = dict(zip(names, self.encoder.run(names, {"source": source})))
        length_log_probs = found.pop("length_log_probs", np.zeros((len(source), 0), np.float32))
        return Guidance(source, found), length_log_probs

    def _blank_sentence(self, lengths: np.ndarray) -> np.ndarray:
        return np.full((len(lengths), int(lengths.max())), self.mask, np.int64)

    def _run(self, graph: Graph, tokens: np.ndarray, lengths: np.ndarray, guidance: Guidance) -> Path:
        inputs = {"lengths": lengths, "source": guidance.source, **guidance.states}
        if "tokens" in graph.inputs:
            inputs["tokens"] = tokens
        names = ["best", "log_probs", *(["pieces"] if self.fill_blanks and "pieces" in graph.outputs else [])]
        found = dict(zip(names, graph.run(names, inputs)))
        outside = padding(lengths, found["best"].shape[1])
        best = np.where(outside, self.blank, found["best"])
        pieces = np.where(outside, self.blank, found["pieces"]) if "pieces" in found else best
        return Path(best, pieces, np.where(outside, np.float32(0), found["log_probs"]))

    # ---- Denoising passes until nothing changes. ----

    def _denoise(
        self,
        guidance: Guidance,
        lengths: np.ndarray,
        path: Path,
        steps: np.ndarray,
        history: List[Path],
    ) -> Path:
        """The last output of each sentence. A sentence leaves as soon as a pass changes nothing of it, or its outputs come again.

        Args:
            lengths: (B,) slots.
            path: what the alignment gave; its successors are added to ``history``.
            steps: (B,) the passes of each sentence, counted in place.
        """
        assert self.denoising is not None
        active, current, slots = np.arange(len(lengths)), path, lengths
        last, seen = np.full_like(lengths, self.max_iter), []  # type: ignore[var-annotated]
        for done in range(1, self.max_iter + 1):
            tokens = self._denoiser_input(current)[:, : int(slots.max())]
            seen = [*seen[1 - MAX_PERIOD :], tokens]
            new = self._run(self.denoising, tokens, slots, guidance)
            steps[active] += 1
            path = _put(path, new, active)
            history.append(path)
            if self.adaptive:
                outside = padding(slots, new.tokens.shape[1])
                unchanged = _equal(new.tokens, current.tokens, outside)
                last = np.minimum(last, self._last_pass(done, seen, self._denoiser_input(new), outside))
                staying = np.flatnonzero(~unchanged & (last > done))
                if len(staying) == 0:
                    break
                if len(staying) < len(active):
                    active, slots, last, *seen = (part[staying] for part in (active, slots, last, *seen))
                    new, guidance = new.rows(staying), guidance.rows(staying)
            current = new
        return path

    def _denoiser_input(self, path: Path) -> np.ndarray:
        return path.pieces if self.fill_blanks else path.tokens

    def _last_pass(self, done: int, seen: List[np.ndarray], coming: np.ndarray, outside: np.ndarray) -> np.ndarray:
        """The pass whose output is that of the last allowed one, (B,), where the next input ``coming`` was read before."""
        last = np.full(len(coming), self.max_iter, np.int64)
        for period, past in enumerate(reversed(seen), start=1):
            last[_equal(coming, past, outside)] = done + (self.max_iter - done) % period
        return last

    # ---- Mask-predict: the alignment of models that have no blank. ----

    def _mask_predict(self, guidance: Guidance, length_log_probs: np.ndarray) -> Tuple[Path, np.ndarray]:
        """The tokens (B, N) of the best of some likely lengths of each sentence, and these lengths (B,)."""
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
        """Mask everything at first, then in each iteration the tokens of which the model is least sure."""
        tokens = self._blank_sentence(lengths)
        log_probs = np.zeros(tokens.shape, np.float32)
        masked = ~padding(lengths, tokens.shape[1])
        for step in range(self.iterations):
            if step:
                masked = lowest_scores(log_probs, lengths * (self.iterations - step) // self.iterations, lengths)
                tokens = np.where(masked, self.mask, tokens)
            if not masked.any():
                break
            new = self._run(self.alignment, tokens, lengths, guidance)
            tokens, log_probs = np.where(masked, new.tokens, tokens), np.where(masked, new.log_probs, log_probs)
        return tokens, log_probs

    # ---- Hypotheses. ----

    def _hypotheses(self, path: Path, lengths: np.ndarray, steps: np.ndarray, blank: Optional[int]) -> List[Hypothesis]:
        kept = ~padding(lengths, path.tokens.shape[1]) if blank is None else collapse_mask(path.tokens, lengths, blank)
        scores = path.log_probs.sum(axis=1) / lengths
        return [
            Hypothesis(tokens[keep].tolist(), float(score), int(passes))
            for tokens, keep, score, passes in zip(path.tokens, kept, scores, steps)
        ]

    def trace(self, source: np.ndarray) -> List[List[str]]:
        """The slots of one sentence after the alignment and after each pass, as pieces; "" for the blank. source: (1, S)."""
        rows = []
        for path in self.passes(source)[1]:
            rows.append(
                ["" if number == self.blank else self.text.symbol(number) for number in path.tokens[0].tolist()]
            )
        return rows


def padding(lengths: np.ndarray, size: int) -> np.ndarray:
    """(B, ``size``) bool, True behind each sentence's length (B,)."""
    return np.arange(size)[None] >= lengths[:, None]


def collapse_mask(tokens: np.ndarray, lengths: np.ndarray, blank: int) -> np.ndarray:
    """(B, T) bool: the slots that survive CTC's collapse, the first of every run of equal tokens but blanks."""
    first = np.ones(tokens.shape, bool)
    first[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    return first & (tokens != blank) & ~padding(lengths, tokens.shape[1])


def lowest_scores(scores: np.ndarray, counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(B, T) bool, True: the ``counts`` (B,) tokens of each row with the lowest scores (B, T); of equal ones, those to the left."""
    scores = np.where(padding(lengths, scores.shape[1]), np.inf, scores)
    rank = scores.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return rank < counts[:, None]


def _equal(rows: np.ndarray, others: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Whether rows (B, T) are those of an array that may be wider, padding apart; (B,) bool."""
    return ((rows == others[:, : rows.shape[1]]) | outside).all(axis=1)


def _put(path: Path, new: Path, active: np.ndarray) -> Path:
    """The path of the whole batch with the rows of the active sentences."""
    merged = [whole.copy() for whole in path]
    for whole, part in zip(merged, new):
        whole[active, : part.shape[1]] = part
    return Path(*merged)
