"""Decode from left to right: fairseq's beam search over a graph of one decoding step.

B sentences, K beams, W candidates per beam, V symbols. The first step has one beam per sentence.
The caches have a row for each beam of the previous step; the graph selects the rows that continue.
"""

from typing import List, NamedTuple, Optional, Tuple

import numpy as np
from onnxruntime import OrtValue

from .folder import Folder, Pair
from .hypothesis import Hypothesis
from .model_json import ModelError, Values

IMPOSSIBLE = np.float32(-np.inf)
"""Score of a candidate that is never chosen."""
HEAD = ("tokens", "order", "forced", "penalty", "width", "source")
MOST_SCORES = 1 << 26
"""Scores of a step (256 MiB in float32) above which a batch is decoded in parts."""
BEST = ("scores", "ids", "forced_scores")


class Search(NamedTuple):
    """Options of fairseq-generate's search."""

    beam: int
    lenpen: float
    unkpen: float
    max_len_a: float
    max_len_b: int
    min_len: int
    normalize: bool  # scores are divided by the length

    @classmethod
    def read(cls, values: Values, longest: int) -> "Search":
        """Read the entry ``search`` of ``model.json``.

        Args:
            longest: tokens of the longest target.

        Raises:
            ModelError: an option is not valid.
        """
        max_len_b = values.integer("max_len_b", 0)
        return cls(
            beam=values.integer("beam", 1),
            lenpen=values.number("lenpen"),
            unkpen=values.number("unkpen"),
            max_len_a=values.number("max_len_a", 0),
            max_len_b=max_len_b,
            min_len=values.integer("min_len", 0, min(max_len_b, longest - 1)),
            normalize=values.flag("normalize"),
        )


class Candidates(NamedTuple):
    """M continuations of the beams of each sentence, best first; each array is (B, M)."""

    scores: np.ndarray  # float32, of the output so far
    tokens: np.ndarray  # int64
    beams: np.ndarray  # int64, beam that the token continues

    def take(self, places: np.ndarray) -> "Candidates":
        """Select candidates of each sentence by their places (B, N)."""
        return Candidates(*(np.take_along_axis(part, places, axis=1) for part in self))


class BeamDecoder:
    """Decode batches. Holds no state, so several threads may use it at once."""

    def __init__(self, folder: Folder) -> None:
        self.size = len(folder.text.target)
        self.symbols = folder.symbols
        self.source_pad = folder.source_symbols.pad
        self.longest = folder.model.part("limits").integer("target_tokens", 2)
        self.search = Search.read(folder.model.part("search"), self.longest)
        for values, pair in zip(folder.model.parts("pairs"), folder.pairs):
            forced = pair.target_prefix[1:]
            if (
                not pair.target_prefix
                or self.symbols.pad in pair.target_prefix
                or pair.eos in forced
            ):
                valid = "at least one id, no padding, and no end symbol after the first id"
                raise values.error("target_prefix", valid)
        graphs = folder.graphs("encoder", "step")
        self.encoder, self.step = graphs["encoder"], graphs["step"]
        self.cross = [name for name in self.encoder.outputs if name.startswith("cross_")]
        self.caches = [name.replace("cross_", "self_") for name in self.cross]
        self.outputs = [*BEST, *(f"new_{name}" for name in self.caches)]
        self.encoder.expect(["source"], self.cross)
        self.step.expect([*HEAD, *self.cross, *self.caches], self.outputs)

    def decode(self, source: np.ndarray, pair: Pair) -> List[Hypothesis]:
        """Return the best hypothesis of each sentence.

        Args:
            source: (B, S) int64, padded on the right.
        """
        rows, best = max(MOST_SCORES // (self.size * self.search.beam), 1), []
        for first in range(0, len(source), rows):
            best += [ranked[0] for ranked in self.hypotheses(source[first : first + rows], pair)]
        return best

    def hypotheses(self, source: np.ndarray, pair: Pair) -> List[List[Hypothesis]]:
        """Return the finished hypotheses of each sentence, at most K, the best first."""
        beams = Beams(
            self.search, self.symbols.unk, self.size, pair, self.symbols.pad, self._limits(source)
        )
        encoder_inputs = {"source": OrtValue.ortvalue_from_numpy(source)}
        cross = self.encoder.run_values(self.cross, encoder_inputs)
        caches = self._empty(len(source))
        while True:
            head = dict(zip(HEAD, map(OrtValue.ortvalue_from_numpy, (*beams.inputs(), source))))
            inputs = {**head, **dict(zip(self.cross, cross)), **dict(zip(self.caches, caches))}
            scores, ids, forced, *caches = self.step.run_values(self.outputs, inputs)
            staying = beams.advance(scores.numpy(), ids.numpy(), forced.numpy())
            if staying is None:
                continue
            if not len(staying):
                return beams.ranked()
            source = source[staying]
            cross = [OrtValue.ortvalue_from_numpy(value.numpy()[staying]) for value in cross]

    def _limits(self, source: np.ndarray) -> np.ndarray:
        """Return the longest output of each sentence, without its end symbol. (B,) int64.

        Counts the tokens of each source, where fairseq takes the longest source of the batch.
        """
        lengths = (source != self.source_pad).sum(axis=1)
        longest = np.trunc(self.search.max_len_a * lengths + self.search.max_len_b)
        return np.minimum(longest, self.longest - 1).astype(np.int64)

    def _empty(self, sentences: int) -> List[OrtValue]:
        """Create the caches before the first step."""
        caches = []
        for name in self.caches:
            _, heads, _, width = self.step.shape(name)
            empty = np.zeros((sentences, heads, 0, width), np.float32)
            caches.append(OrtValue.ortvalue_from_numpy(empty))
        return caches


class Beams:
    """The beams of a batch: their outputs so far, and the finished hypotheses.

    Sentences that need no further step leave the arrays; ``active`` has the numbers of the others.

    Args:
        unknown, padding: ids.
        size: V.
        limits: (B,) longest output of each sentence, without its end symbol.
    """

    def __init__(
        self, search: Search, unknown: int, size: int, pair: Pair, padding: int, limits: np.ndarray
    ) -> None:
        self.search, self.size, self.eos = search, size, pair.eos
        self.width = min(search.beam, size - 1)  # padding is never written
        self.prefix = pair.target_prefix[1:]
        self.penalty = np.zeros(size, np.float32)
        self.penalty[unknown] -= search.unkpen
        self.penalty[padding] = IMPOSSIBLE
        self.without_eos = self.penalty.copy()
        self.without_eos[self.eos] = IMPOSSIBLE
        # The graph reads the number of candidates of a beam from the length of this input.
        self.candidates = np.zeros(min(2 * self.width, size), np.float32)
        self.step, self.limits, self.active = 0, limits, np.arange(len(limits))
        self.tokens = np.full((len(limits), 1, int(limits.max()) + 2), padding, np.int64)
        self.tokens[:, :, 0] = pair.target_prefix[0]
        self.scores = np.zeros((len(limits), 1), np.float32)
        self.order = self.active[:, None]
        self.ignored = np.zeros((len(limits), self.width), bool)
        self.finished: List[List[Hypothesis]] = [[] for _ in limits]

    def inputs(self) -> Tuple[np.ndarray, ...]:
        """Return the inputs of the next step, in the order of ``HEAD`` without the source."""
        forced = np.repeat(np.maximum(self._forced(), 0)[:, None], self.tokens.shape[1], axis=1)
        penalty = self.without_eos if self.step < self.search.min_len else self.penalty
        return (
            np.ascontiguousarray(self.tokens[:, :, self.step]),
            self.order,
            forced,
            penalty,
            self.candidates,
        )

    def _forced(self) -> np.ndarray:
        """Return the token that must come next in each sentence, (B,); -1 if any may.

        The prefix is forced, and the end symbol when an output has its longest length.
        """
        token = self.prefix[self.step] if self.step < len(self.prefix) else -1
        return np.where(self.limits <= self.step, self.eos, token)

    def advance(
        self, scores: np.ndarray, ids: np.ndarray, forced: np.ndarray
    ) -> Optional[np.ndarray]:
        """Finish hypotheses that end, and choose the next beams.

        Args:
            scores, ids: (B, K, W) log-probabilities and tokens of the best candidates of each beam.
            forced: (B, K) log-probabilities of the forced tokens in :meth:`inputs`.

        Returns:
            Rows of the sentences that continue; None if all do.

        Raises:
            ModelError: a score is nan.
        """
        if np.isnan(scores).any():
            raise ModelError(
                "the graph `step` gives scores that are no numbers: its weights are not those of a "
                "trained model"
            )
        scores, ids = _force(scores, ids, forced, self._forced())
        candidates = self._best(scores, ids)
        ends = (candidates.tokens == self.eos) & (candidates.scores != IMPOSSIBLE)
        ends[:, : self.width] &= ~self.ignored
        is_done = self._finish(candidates, ends)
        staying = np.flatnonzero(~is_done)
        if is_done.any():
            self.active, self.limits = self.active[staying], self.limits[staying]
            self.ignored, ends = self.ignored[staying], ends[staying]
            candidates = Candidates(*(part[staying] for part in candidates))
        self._continue(candidates, ends, staying)
        return staying if is_done.any() else None

    def _best(self, scores: np.ndarray, ids: np.ndarray) -> Candidates:
        """Return the best 2 K candidates of each sentence.

        At least K of them do not end, because each of the K beams has one candidate that ends.
        """
        sentences, beams, per_beam = scores.shape
        total = (scores + self.scores[:, :, None]).reshape(sentences, -1)
        count = min(2 * self.width, beams * self.size - 1)
        places = np.argsort(-total, axis=1, kind="stable")[:, :count]
        tokens = np.take_along_axis(ids.reshape(sentences, -1), places, axis=1)
        return Candidates(np.take_along_axis(total, places, axis=1), tokens, places // per_beam)

    def _finish(self, candidates: Candidates, ends: np.ndarray) -> np.ndarray:
        """Store each hypothesis that ends among the K best candidates.

        Returns:
            (B,) bool, True = the sentence needs no further step.
        """
        length = self.step + 1
        divisor = np.float32(length**self.search.lenpen if self.search.normalize else 1)
        for row, place in np.argwhere(ends[:, : self.width]).tolist():
            finished = self.finished[self.active[row]]
            if len(finished) < self.width:
                tokens = self.tokens[row, candidates.beams[row, place], 1:length].tolist()
                score = float(candidates.scores[row, place] / divisor)
                finished.append(Hypothesis([*tokens, self.eos], score, length))
        full = [len(self.finished[number]) == self.width for number in self.active]
        return np.array(full) | (self.limits <= self.step)

    def _continue(self, candidates: Candidates, ends: np.ndarray, staying: np.ndarray) -> None:
        """Make the best K candidates that do not end the next beams.

        If there are fewer than K, candidates that end fill the free beams; ``ignored`` marks them.

        Args:
            candidates: of the sentences that continue.
            ends: (B, M) bool, True = the candidate ends; changed.
            staying: rows of these sentences before this step.
        """
        previous_beams = self.tokens.shape[1]
        ends[:, : self.width] |= self.ignored
        # Candidates that end rank after all others.
        rank = ends * (2 * self.width) + np.arange(ends.shape[1])
        places = np.argsort(rank, axis=1)[:, : self.width]
        self.ignored = np.take_along_axis(rank, places, axis=1) >= 2 * self.width
        beams = candidates.take(places)
        self.tokens = self.tokens[staying[:, None], beams.beams]
        self.step += 1
        self.tokens[:, :, self.step] = beams.tokens
        self.scores = beams.scores
        self.order = staying[:, None] * previous_beams + beams.beams

    def ranked(self) -> List[List[Hypothesis]]:
        """Return the finished hypotheses of each sentence, the best first."""
        return [
            sorted(finished, key=lambda hypothesis: -hypothesis.score) for finished in self.finished
        ]


def _force(
    scores: np.ndarray, ids: np.ndarray, forced_scores: np.ndarray, forced: np.ndarray
) -> Tuple[np.ndarray, np.ndarray]:
    """Make a forced token the only candidate of its sentence.

    Args:
        scores, ids: (B, K, W) candidates.
        forced_scores: (B, K) log-probability of the forced token.
        forced: (B,) forced token of each sentence; -1 = none.
    """
    rows = np.flatnonzero(forced >= 0)
    if len(rows):
        scores, ids = scores.copy(), ids.copy()
        scores[rows] = IMPOSSIBLE
        scores[rows, :, 0] = forced_scores[rows]
        ids[rows, :, 0] = forced[rows, None]
    return scores, ids
