"""Share of lines in the right language, by py3langid: it shows "accidental translation"."""

from typing import Any, Dict, List, Sequence

from sacrebleu.metrics.base import Metric, Score, Signature

from ..io import InputError


class LanguageSignature(Signature):
    """Signature with the languages to choose from and the version of py3langid."""

    def __init__(self, args: Dict[str, Any]):
        import py3langid

        super().__init__(args)
        version = f"py3langid-{py3langid.__version__}"
        self.info.update(languages="+".join(args["languages"]), version=version)
        self._abbr["languages"] = "l"


class LanguageShare(Metric):
    """Percentage of the hypotheses in the first language; references are not read.

    A line without letters is in no language.

    Args:
        languages: ISO 639-1 codes, the expected one first. A line may be in one of the others in
            its place: with few to choose from, short lines are told apart too.

    Raises:
        InputError: fewer than two languages, a repeated one, one that py3langid does not know; or
            py3langid is not installed.
    """

    _SIGNATURE_TYPE = LanguageSignature

    def __init__(self, languages: Sequence[str]):
        super().__init__()
        self.languages = list(languages)
        option = f"--languages {','.join(languages)}"
        if len(set(languages)) != len(languages) or len(languages) < 2:
            valid = "two codes at least, each once, the expected one first"
            raise InputError(f"{option}: valid: {valid}")
        try:
            import py3langid
        except ImportError:
            reason = "needs the package py3langid"
            raise InputError(f"{option}: {reason}; valid: after pip install py3langid") from None
        try:
            py3langid.set_languages(self.languages)
        except ValueError as error:
            raise InputError(f"{option}: {error}; valid: ISO 639-1 codes, as de,en") from None

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: Dict) -> List[Any]:
        import py3langid

        py3langid.set_languages(self.languages)  # of its only identifier, shared with other metrics
        has_letters = any(character.isalpha() for character in hypothesis)
        return [int(has_letters and py3langid.classify(hypothesis)[0] == self.languages[0]), 1]

    def _aggregate_and_compute(self, stats: List[List[Any]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats)])

    def _compute_score_from_stats(self, stats: List[Any]) -> Score:
        return Score(f"in {self.languages[0]}", 100 * float(stats[0]) / float(stats[1]))

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> Dict[str, Any]:
        return {}
