"""--scoring: our names give our classes, over the whole set, with a signature and their options."""

import pytest

from fairseq_plugins.scoring import scorers
from fairseq_plugins.scoring.meteor import Meteor
from fairseq_plugins.scoring.rouge import Rouge

PAIRS = [("Der Hund läuft im Park.", "Ein Hund läutet im Park."), ("他在北京。", "他在南京。"), ("ein Haus", "")]
REFERENCES, HYPOTHESES = [pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]
CLASSES = {"rouge": scorers.RougeScorer, "meteor_exact": scorers.MeteorExactScorer}
CLASSES["meteor_stem"] = scorers.MeteorStemScorer


def filled(name, pairs=PAIRS, **options):
    config = vars(scorers)[f"{CLASSES[name].__name__}Config"](**options)
    scorer = CLASSES[name](config)
    for reference, hypothesis in pairs:
        scorer.add_string(reference, hypothesis)
    return scorer


def test_rouge_scores_the_whole_set():
    scorer = filled("rouge")
    expected = [Rouge(kind).corpus_score(HYPOTHESES, [REFERENCES]).score for kind in ("1", "2", "L")]
    assert scorer.score() == pytest.approx(expected[-1])
    text = scorer.result_string()
    assert all(f"ROUGE-{kind} = {score:.2f} (P = " in text for kind, score in zip("12L", expected))
    assert " | nrefs:1|case:lc|tok:words-auto|" in text
    before = scorer.score()
    scorer.add_string("a", "a")
    assert scorer.score() == pytest.approx((3 * before + 100) / 4)  # nothing is frozen by the first call
    few = filled("rouge", [("a b c d", "b a")])
    assert "ROUGE-1 = 66.67 (P = 100.00 R = 50.00)" in few.result_string(), "reference, then hypothesis"
    assert few.score() == pytest.approx(100 / 3), "the score is that of ROUGE-L, which counts the order"


@pytest.mark.parametrize(("name", "prefix"), [("meteor_exact", None), ("meteor_stem", 5)])
def test_meteor_scores_the_whole_set(name, prefix):
    scorer, metric = filled(name), Meteor(prefix)
    expected = metric.corpus_score(HYPOTHESES, [REFERENCES])
    assert scorer.score() == pytest.approx(expected.score)
    assert scorer.result_string() == f"{expected.format()} | {metric.get_signature()}"
