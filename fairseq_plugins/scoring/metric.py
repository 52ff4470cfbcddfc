"""Base of ROUGE and METEOR: words in, sums of sentence statistics, and a sacreBLEU signature."""

from typing import Any, Dict, List, Optional, Sequence

from sacrebleu.metrics.base import Metric, Score, Signature

from .words import words

Lines = Sequence[str]
References = Optional[Sequence[Lines]]


class WordScore(Score):
    """Score, precision and recall in percent; ``details`` follow them in the output."""

    def __init__(self, name: str, score: float, precision: float, recall: float, details: str = ""):
        super().__init__(name, score)
        self.precision = precision
        self.recall = recall
        self._verbose = f"(P = {precision:.2f} R = {recall:.2f}{details})"


class WordSignature(Signature):
    """Signature of a metric on words: its ``details``, and the version of this package."""

    def __init__(self, args: Dict[str, Any]):
        from .. import __version__  # set after this module was imported

        super().__init__(args)
        self.info["case"] = "lc" if args["lower"] else "mixed"
        self.info["tok"] = f"words-{args['tokens']}"
        self.info["version"] = f"fairseq_plugins-{__version__}"
        self.info.update(args["details"])
        self._abbr.update({"case": "c", "tok": "tok", **{name: name for name in args["details"]}})


class WordMetric(Metric):
    """A sacreBLEU metric on lists of words; the statistics of sentences are added up.

    Args:
        tokens: kind of words, see :func:`.words.words`.
        lower: lower-case the text.

    Raises:
        ValueError: ``tokens`` is unknown. When scoring: there are no hypotheses, or more or fewer
            than references.
    """

    _SIGNATURE_TYPE = WordSignature
    details: Dict[str, Any]
    """Entries of the signature; subclasses set it."""

    def __init__(self, tokens: str, lower: bool):
        super().__init__()
        words("", tokens)  # raises ValueError for an unknown kind
        self.tokens = tokens
        self.lower = lower

    def segment_statistics(self, hypothesis: List[str], reference: List[str]) -> List[float]:
        """Compute the statistics of a pair of word lists; they are summed over the sentences."""
        raise NotImplementedError

    def _aggregate_and_compute(self, stats: List[List[Any]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats)])

    def _preprocess_segment(self, sent: str) -> str:
        return " ".join(words(sent, self.tokens, self.lower))

    def _extract_reference_info(self, refs: Lines) -> Dict[str, Any]:
        return {"references": [line.split() for line in refs]}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: Dict) -> List[Any]:
        """Compute the statistics against the reference that gives the best score."""
        tokens = hypothesis.split()
        statistics = [self.segment_statistics(tokens, ref) for ref in ref_kwargs["references"]]
        return max(statistics, key=lambda stats: self._compute_score_from_stats(stats).score)

    def _check_corpus_score_args(self, hyps: Lines, refs: References) -> None:
        if not hyps:
            raise ValueError(f"{type(self).__name__}: no sentence to score; valid: at least one")
        super()._check_corpus_score_args(hyps, refs)

    def _extract_corpus_statistics(self, hypotheses: Lines, references: References) -> List[Any]:
        for number, lines in enumerate(references or (), start=1):
            if len(lines) != len(hypotheses):  # sacreBLEU drops the longer side's rest silently
                raise ValueError(
                    f"{type(self).__name__}: {len(hypotheses)} hypotheses, but {len(lines)} lines "
                    f"in reference {number}; valid: one hypothesis for each line"
                )
        return super()._extract_corpus_statistics(hypotheses, references)
