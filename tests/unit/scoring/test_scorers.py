"""--scoring: our names give our classes, over the whole set, with a signature; fairseq's chrf works as it is."""

import pytest
from fairseq import scoring
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.scoring import SCORER_REGISTRY

from fairseq_plugins.scoring import scorers
from fairseq_plugins.scoring.meteor import Meteor
from fairseq_plugins.scoring.rouge import Rouge

PAIRS = [("Der Hund läuft im Park.", "Ein Hund läutet im Park."), ("他在北京。", "他在南京。"), ("ein Haus", "")]
REFERENCES, HYPOTHESES = [pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]


def build(name):
    return scoring.build_scorer(name, tgt_dict=None)


def filled(name, **options):
    config = scorers.__dict__[f"{SCORER_REGISTRY[name].__name__}Config"](**options)
    scorer = SCORER_REGISTRY[name](config)
    for reference, hypothesis in PAIRS:
        scorer.add_string(reference, hypothesis)
    return scorer


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("rouge", scorers.RougeScorer),
        ("meteor_exact", scorers.MeteorExactScorer),
        ("meteor_stem", scorers.MeteorStemScorer),
    ],
)
def test_the_names_build_our_classes(name, cls):
    assert SCORER_REGISTRY[name] is cls
    assert type(build(name)) is cls


def test_rouge_scores_the_whole_set():
    scorer = filled("rouge")
    expected = [Rouge(kind).corpus_score(HYPOTHESES, [REFERENCES]).score for kind in ("1", "2", "L")]
    assert scorer.score() == pytest.approx(expected[-1])
    assert 0 < scorer.score() < 100
    text = scorer.result_string()
    assert text.startswith(f"ROUGE-1 = {expected[0]:.2f} (P = ")
    assert f", ROUGE-2 = {expected[1]:.2f} (" in text
    assert f", ROUGE-L = {expected[2]:.2f} (" in text
    assert " | nrefs:1|case:lc|tok:words-auto|" in text
    before = scorer.score()
    scorer.add_string("a", "a")
    assert scorer.score() == pytest.approx((3 * before + 100) / 4)  # nothing is frozen by the first call


def test_the_order_is_reference_then_hypothesis():
    scorer = filled("rouge")
    scorer.ref, scorer.pred = ["a b c d"], ["a b"]
    assert "ROUGE-1 = 66.67 (P = 100.00 R = 50.00)" in scorer.result_string()
    scorer.pred = ["b a"]
    assert "ROUGE-1 = 66.67 (" in scorer.result_string()
    assert scorer.score() == pytest.approx(100 / 3), "the score is that of ROUGE-L, which counts the order"


def test_rouge_options_change_the_score():
    default = filled("rouge").score()
    assert filled("rouge", rouge_tokens="word").score() < default  # 他在北京 and 他在南京 are two words
    cased = filled("rouge", rouge_cased=True)
    cased.ref, cased.pred = ["Der Zug"], ["der Zug"]
    assert cased.score() == pytest.approx(50)


@pytest.mark.parametrize(("name", "prefix", "stem"), [("meteor_exact", None, "none"), ("meteor_stem", 5, "prefix5")])
def test_meteor_scores_the_whole_set(name, prefix, stem):
    scorer = filled(name)
    assert scorer.score() == pytest.approx(Meteor(prefix).corpus_score(HYPOTHESES, [REFERENCES]).score)
    text = scorer.result_string()
    assert text.startswith(f"METEOR-{name.split('_')[1]} = {scorer.score():.2f} (")
    assert f"|stem:{stem}|syn:none|alpha:0.9|beta:3.0|gamma:0.5|agg:sum|" in text


@pytest.mark.parametrize(
    "options",
    [
        {"meteor_alpha": 0.5},
        {"meteor_beta": 1.0},
        {"meteor_gamma": 0.1},
        {"meteor_tokens": "word"},
        {"meteor_prefix": 2},
    ],
)
def test_meteor_options_change_the_score(options):
    assert filled("meteor_stem", **options).score() != pytest.approx(filled("meteor_stem").score(), abs=1e-6)


@pytest.mark.parametrize("name", ["rouge", "meteor_exact", "meteor_stem"])
def test_no_sentence_and_unequal_counts_are_refused(name):
    scorer = build(name)
    with pytest.raises(ValueError, match="no sentence to score"):
        scorer.result_string()
    scorer.add_string("a", "a")
    scorer.ref.append("b")
    with pytest.raises(ValueError, match="1 hypotheses, but 2 lines"):
        scorer.score()


def test_the_command_line_knows_the_kinds_of_words():
    from argparse import ArgumentParser

    parser = ArgumentParser()
    gen_parser_from_dataclass(parser, scorers.RougeScorerConfig())
    assert str(parser.parse_args(["--rouge-tokens", "char"]).rouge_tokens) == "char"
    with pytest.raises(SystemExit):
        parser.parse_args(["--rouge-tokens", "bpe"])
