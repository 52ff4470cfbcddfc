"""The names that ``fairseq-generate --scoring`` takes: rouge, meteor_exact, meteor_stem."""

from dataclasses import dataclass, field
from typing import Any, List, Sequence

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.scoring import BaseScorer, register_scorer

from .meteor import Meteor
from .metric import WordMetric
from .rouge import KINDS, Rouge
from .words import KINDS as TOKENS

Tokens: Any = ChoiceEnum(list(TOKENS))
TOKENS_HELP = "what a word is: auto (by character where the script has no spaces), word, or char"


class WordScorer(BaseScorer):
    """Collects sentences and scores them all at the end with sacreBLEU metrics; all are shown, the last one is the score."""

    def __init__(self, cfg: Any, metrics: Sequence[WordMetric]):
        super().__init__(cfg)
        self.metrics = metrics

    def _scores(self) -> List[Any]:
        return [metric.corpus_score(self.pred, [self.ref]) for metric in self.metrics]

    def score(self) -> float:
        """The score of all sentences added so far, in percent; ValueError if there are none."""
        return self._scores()[-1].score

    def result_string(self) -> str:
        shown = ", ".join(score.format() for score in self._scores())
        return f"{shown} | {self.metrics[-1].get_signature()}"


@dataclass
class RougeScorerConfig(FairseqDataclass):
    """Options of ``--scoring rouge``."""

    rouge_tokens: Tokens = field(default="auto", metadata={"help": TOKENS_HELP})
    rouge_cased: bool = field(default=False, metadata={"help": "tell upper from lower case"})


@register_scorer("rouge", dataclass=RougeScorerConfig)
class RougeScorer(WordScorer):
    """ROUGE-1, ROUGE-2 and ROUGE-L; the score is F1 of ROUGE-L. See :class:`.rouge.Rouge`."""

    def __init__(self, cfg: RougeScorerConfig):
        super().__init__(cfg, [Rouge(kind, str(cfg.rouge_tokens), not cfg.rouge_cased) for kind in KINDS])


@dataclass
class MeteorExactScorerConfig(FairseqDataclass):
    """Options of ``--scoring meteor_exact``."""

    meteor_alpha: float = field(default=0.9, metadata={"help": "weight of recall, 0 to 1"})
    meteor_beta: float = field(default=3.0, metadata={"help": "exponent of the penalty for chunks, 0 or more"})
    meteor_gamma: float = field(default=0.5, metadata={"help": "largest penalty for chunks, 0 to 1"})
    meteor_tokens: Tokens = field(default="auto", metadata={"help": TOKENS_HELP})


@register_scorer("meteor_exact", dataclass=MeteorExactScorerConfig)
class MeteorExactScorer(WordScorer):
    """METEOR with exact matches alone. See :class:`.meteor.Meteor`."""

    def __init__(self, cfg: MeteorExactScorerConfig):
        prefix = getattr(cfg, "meteor_prefix", None)
        tokens = str(cfg.meteor_tokens)
        super().__init__(cfg, [Meteor(prefix, cfg.meteor_alpha, cfg.meteor_beta, cfg.meteor_gamma, tokens=tokens)])


@dataclass
class MeteorStemScorerConfig(MeteorExactScorerConfig):
    """Options of ``--scoring meteor_stem``."""

    meteor_prefix: int = field(default=5, metadata={"help": "letters that make the stem of a longer word, 1 or more"})


@register_scorer("meteor_stem", dataclass=MeteorStemScorerConfig)
class MeteorStemScorer(MeteorExactScorer):
    """METEOR where words also match that begin alike. See :class:`.meteor.Meteor`."""
