"""Test the scorers of --scoring: the whole set counts, with a signature and the options."""

import pytest

from fairseq_plugins.scoring import scorers
from fairseq_plugins.scoring.meteor import Meteor
from fairseq_plugins.scoring.rouge import Rouge

REFERENCES = ["Der Hund läuft im Park.", "他在北京。", "ein Haus"]
HYPOTHESES = ["Ein Hund läutet im Park.", "他在南京。", ""]


def build(name, references=REFERENCES, hypotheses=HYPOTHESES):
    config = getattr(scorers, f"{name}Config")()
    scorer = getattr(scorers, name)(config)
    for reference, hypothesis in zip(references, hypotheses):
        scorer.add_string(reference, hypothesis)
    return scorer


def test_rouge_scores_the_whole_set():
    scorer = build("RougeScorer")
    text = scorer.result_string()
    for kind in ("1", "2", "L"):
        expected = Rouge(kind).corpus_score(HYPOTHESES, [REFERENCES]).score
        assert f"ROUGE-{kind} = {expected:.2f} (P = " in text
    assert " | nrefs:1|case:lc|tok:words-auto|" in text
    score = scorer.score()
    assert score == pytest.approx(expected)
    scorer.add_string("a", "a")
    assert scorer.score() == pytest.approx((3 * score + 100) / 4), "sentences can still be added"


def test_rouge_takes_reference_then_hypothesis_and_scores_by_rouge_l():
    scorer = build("RougeScorer", ["a b c d"], ["b a"])
    assert "ROUGE-1 = 66.67 (P = 100.00 R = 50.00)" in scorer.result_string()
    assert scorer.score() == pytest.approx(100 / 3)


@pytest.mark.cases("name prefix", ("MeteorExactScorer", None), ("MeteorStemScorer", 5))
def test_meteor_scores_the_whole_set(name, prefix):
    scorer, metric = build(name), Meteor(prefix)
    expected = metric.corpus_score(HYPOTHESES, [REFERENCES])
    assert scorer.score() == pytest.approx(expected.score)
    assert scorer.result_string() == f"{expected.format()} | {metric.get_signature()}"
