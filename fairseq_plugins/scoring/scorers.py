"""Values of ``fairseq-generate --scoring``: rouge, meteor_exact, meteor_stem."""

from dataclasses import dataclass
from typing import Any, List, Sequence

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.scoring import BaseScorer, register_scorer

from ..common.options import option
from .meteor import Meteor
from .metric import WordMetric
from .rouge import KINDS, Rouge
from .words import KINDS as TOKENS

Tokens: Any = ChoiceEnum(list(TOKENS))
TOKENS_HELP = "kind of words: auto (characters in scripts without spaces), word, or char"


class WordScorer(BaseScorer):
    """Collects sentences and scores them with sacreBLEU metrics; the last metric is the score."""

    def __init__(self, cfg: Any, metrics: Sequence[WordMetric]):
        super().__init__(cfg)
        self.metrics = metrics

    def _scores(self) -> List[Any]:
        return [metric.corpus_score(self.pred, [self.ref]) for metric in self.metrics]

    def score(self) -> float:
        """Return the score of all sentences in percent. Raises ValueError if there are none."""
        return self._scores()[-1].score

    def result_string(self) -> str:
        """Format the scores of all metrics, and the signature of the last one."""
        scores = ", ".join(score.format() for score in self._scores())
        return f"{scores} | {self.metrics[-1].get_signature()}"


@dataclass
class RougeScorerConfig(FairseqDataclass):
    """Options of ``--scoring rouge``."""

    rouge_tokens: Tokens = option("auto", TOKENS_HELP)
    rouge_cased: bool = option(False, "tell upper from lower case")


@register_scorer("rouge", dataclass=RougeScorerConfig)
class RougeScorer(WordScorer):
    """ROUGE-1, ROUGE-2 and ROUGE-L; the score is F1 of ROUGE-L. See :class:`.rouge.Rouge`."""

    def __init__(self, cfg: RougeScorerConfig):
        tokens, lower = str(cfg.rouge_tokens), not cfg.rouge_cased
        super().__init__(cfg, [Rouge(kind, tokens, lower) for kind in KINDS])


@dataclass
class MeteorExactScorerConfig(FairseqDataclass):
    """Options of ``--scoring meteor_exact``."""

    meteor_alpha: float = option(0.9, "weight of recall, 0 to 1")
    meteor_beta: float = option(3.0, "exponent of the penalty for chunks, 0 or more")
    meteor_gamma: float = option(0.5, "largest penalty for chunks, 0 to 1")
    meteor_tokens: Tokens = option("auto", TOKENS_HELP)


@register_scorer("meteor_exact", dataclass=MeteorExactScorerConfig)
class MeteorExactScorer(WordScorer):
    """METEOR with exact matches alone. See :class:`.meteor.Meteor`."""

    def __init__(self, cfg: MeteorExactScorerConfig):
        metric = Meteor(
            prefix=getattr(cfg, "meteor_prefix", None),  # meteor_stem alone has this option
            alpha=cfg.meteor_alpha,
            beta=cfg.meteor_beta,
            gamma=cfg.meteor_gamma,
            tokens=str(cfg.meteor_tokens),
        )
        super().__init__(cfg, [metric])


@dataclass
class MeteorStemScorerConfig(MeteorExactScorerConfig):
    """Options of ``--scoring meteor_stem``."""

    meteor_prefix: int = option(5, "letters that make the stem of a longer word, 1 or more")


@register_scorer("meteor_stem", dataclass=MeteorStemScorerConfig)
class MeteorStemScorer(MeteorExactScorer):
    """METEOR with words that match if their first letters do. See :class:`.meteor.Meteor`."""
