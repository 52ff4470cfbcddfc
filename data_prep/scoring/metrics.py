"""The metrics of ``score`` as sacreBLEU objects, and their paired bootstrap."""

import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

from ..io import InputError

DEFAULT_METRICS = ("bleu", "chrf")
METRICS = ("bleu", "chrf", "ter", "rouge", "meteor_exact", "meteor_stem")
STEM_LETTERS = 5
# Tokenizers of BLEU for scripts without spaces: TER then needs its own splitting of these scripts.
SPACELESS_TOKENIZERS = ("zh", "ja-mecab", "char")


class Outcome(NamedTuple):
    """Scores of one metric.

    Attributes:
        name: as the metric calls itself.
        scores: of every system.
        p_values: of every system against the first; None for the first.
        signature: of the metric.
    """

    name: str
    scores: List[float]
    p_values: List[Optional[float]]
    signature: str


def check_metrics(names: Sequence[str]) -> None:
    """Check the names of metrics.

    Raises:
        InputError: one is unknown or given twice, or there is none.
    """
    valid = f"valid: {', '.join(METRICS)}, separated by commas, or all"
    for name in names:
        if name not in METRICS:
            raise InputError(
                f"--metrics {','.join(names)}: {name or 'an empty name'} is unknown; {valid}"
            )
    if not names or len(set(names)) < len(names):
        raise InputError(f"--metrics {','.join(names)}: each name once; {valid}")


def build_bleu(tokenize: str) -> Any:
    """BLEU with the tokenizer ``tokenize``.

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
        names: of :data:`METRICS`.
        tokenize: of BLEU. With one for a script without spaces, TER splits characters as well.
        languages: for the metric ``language``; none without.

    Returns:
        sacreBLEU metrics by the key of their score; ``rouge`` gives ``rouge_1``, ``rouge_2`` and ``rouge_l``.

    Raises:
        InputError: as :func:`check_metrics`, :func:`build_bleu` and :class:`.score_language.LanguageShare`.
    """
    from sacrebleu.metrics import CHRF, TER

    check_metrics(names)
    found: Dict[str, Any] = {}
    for name in names:
        if name == "bleu":
            found[name] = build_bleu(tokenize)
        elif name == "chrf":
            found[name] = CHRF()
        elif name == "ter":
            spaceless = tokenize in SPACELESS_TOKENIZERS
            found[name] = TER(normalized=spaceless, asian_support=spaceless)
        else:
            found.update(_package_metrics(name))
    if languages:
        from .language import LanguageShare

        found["language"] = LanguageShare(languages)
    return found


def _package_metrics(name: str) -> Dict[str, Any]:
    """Metrics of the package; imported here because that imports fairseq, which takes seconds."""
    from fairseq_plugins.scoring.meteor import Meteor
    from fairseq_plugins.scoring.rouge import KINDS, Rouge

    if name == "rouge":
        return {f"rouge_{kind.lower()}": Rouge(kind) for kind in KINDS}
    return {name: Meteor(prefix=STEM_LETTERS if name == "meteor_stem" else None)}


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """sacreBLEU takes the seed of its bootstrap from the environment."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before


def evaluate(
    outputs: Sequence[List[str]],
    references: Sequence[List[str]],
    metrics: Dict[str, Any],
    samples: int,
    seed: int,
) -> Dict[str, Outcome]:
    """Score every output with every metric, and compare it with the first by paired bootstrap resampling.

    Args:
        outputs: one sentence per line of the reference each.
        references: one sentence per line each; an empty line of the second or a later one is missing.
        metrics: from :func:`build_metrics`.
        samples: bootstrap samples.
        seed: of the bootstrap.

    Source: Koehn 2004; sacreBLEU's implementation. An output equal to the first has p = 1, where sacreBLEU, which takes no
        difference without variance for significant, reports the smallest p.
    """
    # sacreBLEU counts None, not an empty line, as missing. The first reference is always there.
    known: List[Any] = [
        references[0],
        *([line or None for line in lines] for lines in references[1:]),
    ]
    if len(outputs) == 1:
        found = {key: metric.corpus_score(outputs[0], known) for key, metric in metrics.items()}
        return {
            key: Outcome(
                score.name, [float(score.score)], [None], str(metrics[key].get_signature())
            )
            for key, score in found.items()
        }
    from sacrebleu.significance import PairedTest

    named: Any = [(str(index), lines) for index, lines in enumerate(outputs)]
    outcomes = {}
    for key, metric in metrics.items():
        with _seeded(seed):
            _, table = PairedTest(named, {key: metric}, known, test_type="bs", n_samples=samples)()
        name = next(column for column in table if column != "System")
        results: List[Any] = list(table[name])
        p_values: List[Optional[float]] = [None]
        for lines, result in zip(outputs[1:], results[1:]):
            p_values.append(1.0 if lines == outputs[0] else float(result.p_value))
        scores = [float(result.score) for result in results]
        outcomes[key] = Outcome(name, scores, p_values, str(metric.get_signature()))
    return outcomes
