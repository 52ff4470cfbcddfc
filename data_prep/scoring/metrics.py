"""The metrics of the verb `score` as sacreBLEU objects, and their paired bootstrap."""

import os
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

from ..io import InputError

DEFAULT_METRICS = ("bleu", "chrf")
METRICS = ("bleu", "chrf", "ter", "rouge", "meteor_exact", "meteor_stem")
STEM_LETTERS = 5
# Tokenizers of BLEU for scripts without spaces; TER then splits these scripts itself.
SPACELESS_TOKENIZERS = ("zh", "ja-mecab", "char")
REPEATED_ORDER = 4


# ---- The metrics. ----


def check_metrics(names: Sequence[str]) -> None:
    """Raise InputError unless there are names of metrics, each known and listed once."""
    listed = ",".join(names)
    valid = f"valid: {', '.join(METRICS)}, separated by commas, or all"
    for name in names:
        if name not in METRICS:
            raise InputError(f"--metrics {listed}: {name or 'an empty name'} is unknown; {valid}")
    if not names or len(set(names)) < len(names):
        raise InputError(f"--metrics {listed}: each name once; {valid}")


def build_bleu(tokenize: str) -> Any:
    """Make BLEU with a tokenizer.

    Raises:
        InputError: sacreBLEU does not know the tokenizer, or it needs what is not installed.
    """
    from sacrebleu.metrics import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise InputError(f"--tokenize {tokenize}: valid: {', '.join(BLEU.TOKENIZERS)}")
    try:
        return BLEU(tokenize=tokenize)
    except (RuntimeError, ImportError) as error:
        raise InputError(f"--tokenize {tokenize}: {' '.join(str(error).split())}") from None


def build_metrics(
    names: Sequence[str], tokenize: str = "13a", languages: Sequence[str] = ()
) -> Dict[str, Any]:
    """Make the metrics.

    Args:
        names: names of :data:`METRICS`.
        tokenize: tokenizer of BLEU; with one for a script without spaces, TER splits characters.
        languages: languages of the metric ``language``; none: without it.

    Returns:
        Key of the score -> sacreBLEU metric; ``rouge`` gives ``rouge_1``, ``rouge_2``, ``rouge_l``.

    Raises:
        InputError: as :func:`check_metrics`, :func:`build_bleu` and :class:`LanguageShare`.
    """
    from sacrebleu.metrics import CHRF, TER

    check_metrics(names)
    metrics: Dict[str, Any] = {}
    for name in names:
        if name == "bleu":
            metrics[name] = build_bleu(tokenize)
        elif name == "chrf":
            metrics[name] = CHRF()
        elif name == "ter":
            spaceless = tokenize in SPACELESS_TOKENIZERS
            metrics[name] = TER(normalized=spaceless, asian_support=spaceless)
        else:
            metrics.update(_build_package_metrics(name))
    if languages:
        from .language import LanguageShare

        metrics["language"] = LanguageShare(languages)
    return metrics


def _build_package_metrics(name: str) -> Dict[str, Any]:
    # Imported here: the package imports fairseq, which takes seconds.
    from fairseq_plugins.scoring.meteor import Meteor
    from fairseq_plugins.scoring.rouge import KINDS, Rouge

    if name == "rouge":
        return {f"rouge_{kind.lower()}": Rouge(kind) for kind in KINDS}
    return {name: Meteor(prefix=STEM_LETTERS if name == "meteor_stem" else None)}


# ---- Scores. ----


class Outcome(NamedTuple):
    """Scores of a metric.

    Attributes:
        name: name that the metric gives itself.
        scores: score of every output.
        p_values: p of every output against the first; None for the first.
        signature: signature of the metric.
    """

    name: str
    scores: List[float]
    p_values: List[Optional[float]]
    signature: str


def evaluate(
    outputs: Sequence[List[str]],
    references: Sequence[List[str]],
    metrics: Dict[str, Any],
    samples: int,
    seed: int,
) -> Dict[str, Outcome]:
    """Score every output, and compare it with the first by paired bootstrap resampling.

    Args:
        outputs: one sentence per line of the reference each.
        references: one sentence per line each; an empty line of the second or a later one is a
            missing reference.
        metrics: metrics of :func:`build_metrics`.
        samples: number of bootstrap samples.
        seed: seed of the bootstrap.

    Source: Koehn 2004; sacreBLEU's implementation. An output equal to the first has p = 1, where
        sacreBLEU, which takes no difference without variance for significant, reports the least p.
    """
    # sacreBLEU counts None as missing, not an empty line.
    all_references: List[Any] = [references[0]]
    all_references += [[line or None for line in lines] for lines in references[1:]]
    if len(outputs) == 1:
        outcomes = {}
        for key, metric in metrics.items():
            score = metric.corpus_score(outputs[0], all_references)
            signature = str(metric.get_signature())
            outcomes[key] = Outcome(score.name, [float(score.score)], [None], signature)
        return outcomes
    from sacrebleu.significance import PairedTest

    systems: Any = [(str(index), lines) for index, lines in enumerate(outputs)]
    outcomes = {}
    for key, metric in metrics.items():
        with _seeded(seed):
            test = PairedTest(
                systems, {key: metric}, all_references, test_type="bs", n_samples=samples
            )
            table = test()[1]
        name = next(column for column in table if column != "System")
        results: List[Any] = list(table[name])
        p_values: List[Optional[float]] = [None]
        for lines, result in zip(outputs[1:], results[1:]):
            p_values.append(1.0 if lines == outputs[0] else float(result.p_value))
        scores = [float(result.score) for result in results]
        outcomes[key] = Outcome(name, scores, p_values, str(metric.get_signature()))
    return outcomes


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Set the seed of sacreBLEU's bootstrap, which it reads from the environment."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before


# ---- The texts. ----


class TextStatistics(NamedTuple):
    """Counts of a text.

    Attributes:
        tokens: number of tokens.
        repetition: share of the tokens that equal the token before them in their line, in [0, 1].
        repeated_4grams: share of the 4-grams that occurred before in their line, in [0, 1].
    """

    tokens: int
    repetition: float
    repeated_4grams: float

    def shares(self) -> Dict[str, float]:
        """Return the two shares, by name."""
        return {"repetition": self.repetition, "repeated_4grams": self.repeated_4grams}


def text_statistics(lines: Iterable[str], tokenize: Callable[[str], str]) -> TextStatistics:
    """Count tokens and repetitions.

    Args:
        lines: one sentence per line.
        tokenize: puts spaces between tokens; BLEU's tokenizer makes the length ratio BLEU's.
    """
    tokens = adjacent = total = repeated = 0
    for line in lines:
        words: List[str] = tokenize(line.rstrip()).split()
        tokens += len(words)
        adjacent += sum(first == second for first, second in zip(words, words[1:]))
        ngrams = list(zip(*(words[start:] for start in range(REPEATED_ORDER))))
        total += len(ngrams)
        repeated += len(ngrams) - len(set(ngrams))
    return TextStatistics(tokens, adjacent / max(tokens, 1), repeated / max(total, 1))
