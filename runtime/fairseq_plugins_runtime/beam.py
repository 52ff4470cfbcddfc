"""Models that write from left to right: the beam search of fairseq over a graph of one decoding step.

B sentences, K beams, W candidates of a beam, V symbols. The first step has one beam a sentence. The caches of a step have a row for
each beam of the step before; the graph itself picks the rows that go on.
"""

from typing import List, NamedTuple, Optional, Tuple

import numpy as np
from onnxruntime import OrtValue

from .folder import Folder, Pair
from .hypothesis import Hypothesis
from .model_json import ModelError, Values

NOTHING = np.float32(-np.inf)
HEAD = ("tokens", "order", "forced", "penalty", "width", "source")
MOST_SCORES = 1 << 26
"""Of one step, 256 MiB in float32: larger batches are decoded in parts."""
BEST = ("scores", "ids", "forced_scores")


class Search(NamedTuple):
    """Options of the search, as fairseq-generate has them."""

    beam: int
    lenpen: float
    unkpen: float
    max_len_a: float
    max_len_b: int
    min_len: int
    normalize: bool  # scores are divided by the length

    @classmethod
    def read(cls, values: Values, longest: int) -> "Search":
        """The entry ``search`` of ``model.json``; ``longest``: of the targets of the model. ModelError: one that is not valid."""
        most = values.integer("max_len_b", 0)
        return cls(
            values.integer("beam", 1),
            values.number("lenpen"),
            values.number("unkpen"),
            values.number("max_len_a", 0),
            most,
            values.integer("min_len", 0, min(most, longest - 1)),
            values.flag("normalize"),
        )


class Candidates(NamedTuple):
    """How the beams of each sentence may go on, the best first, (B, M)."""

    scores: np.ndarray  # float32, of the whole output
    tokens: np.ndarray  # int64
    beams: np.ndarray  # int64, the beam that goes on so

    def take(self, places: np.ndarray) -> "Candidates":
        """Some of each sentence; places: (B, N)."""
        return Candidates(*(np.take_along_axis(part, places, axis=1) for part in self))


class BeamDecoder:
    """Decodes batches; holds nothing that changes."""

    def __init__(self, folder: Folder) -> None:
        self.size, self.symbols, self.source_pad = len(folder.text.target), folder.symbols, folder.source_symbols.pad
        self.longest = folder.model.part("limits").integer("target_tokens", 2)
        self.search = Search.read(folder.model.part("search"), self.longest)
        for values, pair in zip(folder.model.parts("pairs"), folder.pairs):
            forced = pair.target_prefix[1:]
            if not pair.target_prefix or self.symbols.pad in pair.target_prefix or pair.eos in forced:
                raise values.error("target_prefix", "at least one id, none of them padding, no end behind the first")
        graphs = folder.graphs("encoder", "step")
        self.encoder, self.step = graphs["encoder"], graphs["step"]
        self.cross = [name for name in self.encoder.outputs if name.startswith("cross_")]
        self.caches = [name.replace("cross_", "self_") for name in self.cross]
        self.outputs = [*BEST, *(f"new_{name}" for name in self.caches)]
        self.encoder.expect(["source"], self.cross)
        self.step.expect([*HEAD, *self.cross, *self.caches], self.outputs)

    def decode(self, source: np.ndarray, pair: Pair) -> List[Hypothesis]:
        """The best hypothesis of each sentence; source: (B, S) int64, padded on the right."""
        rows, found = max(MOST_SCORES // (self.size * self.search.beam), 1), []
        for first in range(0, len(source), rows):
            found += [ranked[0] for ranked in self.hypotheses(source[first : first + rows], pair)]
        return found

    def hypotheses(self, source: np.ndarray, pair: Pair) -> List[List[Hypothesis]]:
        """The finished hypotheses of each sentence, as many as there are beams or fewer, the best first."""
        beams = Beams(self.search, self.symbols.unk, self.size, pair, self.symbols.pad, self._limits(source))
        cross = self.encoder.run_values(self.cross, {"source": OrtValue.ortvalue_from_numpy(source)})
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
        """(B,) longest outputs, without what ends them. fairseq takes the longest source of the batch instead of each."""
        lengths = (source != self.source_pad).sum(axis=1)
        longest = np.trunc(self.search.max_len_a * lengths + self.search.max_len_b)
        return np.minimum(longest, self.longest - 1).astype(np.int64)

    def _empty(self, sentences: int) -> List[OrtValue]:
        """The caches before the first step."""
        found = []
        for name in self.caches:
            _, heads, _, width = self.step.shape(name)
            found.append(OrtValue.ortvalue_from_numpy(np.zeros((sentences, heads, 0, width), np.float32)))
        return found


class Beams:
    """What a batch has written so far.

    Args:
        unknown, padding: ids.
        size: V.
        limits: (B,) longest outputs, without what ends them.
    """

    def __init__(self, search: Search, unknown: int, size: int, pair: Pair, padding: int, limits: np.ndarray) -> None:
        self.search, self.size, self.eos = search, size, pair.eos
        self.width = min(search.beam, size - 1)  # never padding
        self.prefix = pair.target_prefix[1:]
        self.penalty = np.zeros(size, np.float32)
        self.penalty[unknown] -= search.unkpen
        self.penalty[padding] = NOTHING
        self.without_eos = self.penalty.copy()
        self.without_eos[self.eos] = NOTHING
        self.candidates = np.zeros(min(2 * self.width, size), np.float32)  # of a beam; the size alone counts
        self.step, self.limits, self.active = 0, limits, np.arange(len(limits))
        self.tokens = np.full((len(limits), 1, int(limits.max()) + 2), padding, np.int64)
        self.tokens[:, :, 0] = pair.target_prefix[0]
        self.scores = np.zeros((len(limits), 1), np.float32)
        self.order = self.active[:, None]
        self.ignored = np.zeros((len(limits), self.width), bool)
        self.finished: List[List[Hypothesis]] = [[] for _ in limits]

    def inputs(self) -> Tuple[np.ndarray, ...]:
        """What the graph reads, in the order of ``HEAD`` without the source."""
        forced = np.repeat(np.maximum(self._forced(), 0)[:, None], self.tokens.shape[1], axis=1)
        penalty = self.without_eos if self.step < self.search.min_len else self.penalty
        return np.ascontiguousarray(self.tokens[:, :, self.step]), self.order, forced, penalty, self.candidates

    def _forced(self) -> np.ndarray:
        """(B,) the token that must come next: of the prefix, or the end where the output is as long as it may be; else -1."""
        token = self.prefix[self.step] if self.step < len(self.prefix) else -1
        return np.where(self.limits <= self.step, self.eos, token)

    def advance(self, scores: np.ndarray, ids: np.ndarray, forced: np.ndarray) -> Optional[np.ndarray]:
        """Choose how to go on.

        Args:
            scores, ids: (B, K, W) log-probabilities and tokens of the best candidates of each beam.
            forced: (B, K) log-probabilities of the tokens that :meth:`inputs` forced.

        Returns:
            The sentences of this batch that go on; None where all do. ModelError: scores that are no numbers.
        """
        if np.isnan(scores).any():
            raise ModelError(
                "the graph `step` gives scores that are no numbers: its weights are not those of a trained model"
            )
        must = self._forced()
        scores, ids = _only(scores, ids, forced, must)
        found = self._best(scores, ids)
        ends = (found.tokens == self.eos) & (found.scores != NOTHING)
        ends[:, : self.width] &= ~self.ignored
        done = self._finish(found, ends)
        staying = np.flatnonzero(~done)
        if done.any():
            self.active, self.limits, ends = self.active[staying], self.limits[staying], ends[staying]
            self.ignored, found = self.ignored[staying], Candidates(*(part[staying] for part in found))
        self._go_on(found, ends, staying)
        return staying if done.any() else None

    def _best(self, scores: np.ndarray, ids: np.ndarray) -> Candidates:
        """The best 2 K of all beams: the half of them that does not end is enough to go on with."""
        sentences, beams, each = scores.shape
        total = (scores + self.scores[:, :, None]).reshape(sentences, -1)
        count = min(2 * self.width, beams * self.size - 1)
        places = np.argsort(-total, axis=1, kind="stable")[:, :count]
        tokens = np.take_along_axis(ids.reshape(sentences, -1), places, axis=1)
        return Candidates(np.take_along_axis(total, places, axis=1), tokens, places // each)

    def _finish(self, found: Candidates, ends: np.ndarray) -> np.ndarray:
        """Note the outputs that end among the K best. Returns the sentences that need no further step, (B,) bool."""
        length = self.step + 1
        divisor = np.float32(length**self.search.lenpen if self.search.normalize else 1)
        for row, place in np.argwhere(ends[:, : self.width]).tolist():
            finished = self.finished[self.active[row]]
            if len(finished) < self.width:
                tokens = self.tokens[row, found.beams[row, place], 1:length].tolist()
                finished.append(Hypothesis([*tokens, self.eos], float(found.scores[row, place] / divisor), length))
        full = [len(self.finished[number]) == self.width for number in self.active]
        return np.array(full) | (self.limits <= self.step)

    def _go_on(self, found: Candidates, ends: np.ndarray, staying: np.ndarray) -> None:
        """The next K beams: the best candidates that do not end; others, to be ignored, where these are too few."""
        before = self.tokens.shape[1]
        ends[:, : self.width] |= self.ignored
        rank = ends * (2 * self.width) + np.arange(ends.shape[1])
        places = np.argsort(rank, axis=1)[:, : self.width]
        self.ignored = np.take_along_axis(rank, places, axis=1) >= 2 * self.width
        chosen = found.take(places)
        self.tokens = self.tokens[staying[:, None], chosen.beams]
        self.step += 1
        self.tokens[:, :, self.step] = chosen.tokens
        self.scores = chosen.scores
        self.order = staying[:, None] * before + chosen.beams

    def ranked(self) -> List[List[Hypothesis]]:
        """The finished hypotheses of each sentence, the best first."""
        return [sorted(found, key=lambda one: -one.score) for found in self.finished]


def _only(scores: np.ndarray, ids: np.ndarray, forced: np.ndarray, must: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Candidates where some sentences have a forced token (``must``, (B,), -1 for none) as the only one."""
    rows = np.flatnonzero(must >= 0)
    if len(rows):
        scores, ids = scores.copy(), ids.copy()
        scores[rows] = NOTHING
        scores[rows, :, 0], ids[rows, :, 0] = forced[rows], must[rows, None]
    return scores, ids
