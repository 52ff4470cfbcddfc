"""Test reranking against a loop over the tokens; combination, order, errors."""

import argparse
import math
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_plugins.sga.extensions.reranking import ATReranker, RerankOptions, check_dictionary
from tests import builders

SOURCES = builders.source_rows([4, 9, 6])


def at_dictionary(pieces=None):
    """Build the dictionary of a stock data-bin, which is without ``<mask>``."""
    return builders.of_symbols(builders.piece_names() if pieces is None else pieces)


def at_task():
    return TranslationTask(TranslationConfig(), at_dictionary(), at_dictionary())


def at_model(seed=1, positions=60):
    options = {"share_all_embeddings": True, "dropout": 0.3}
    args = argparse.Namespace(**options, **builders.sides(1, 16, 24, 2, positions=positions))
    base_architecture(args)
    model = TransformerModel.build_model(args, at_task())
    builders.randomise(model, seed)
    return model.double()


def build_reranker(weight=0.5, length_penalty=1.0, models=None):
    options = RerankOptions("at.pt", weight, length_penalty)
    return ATReranker(models or [at_model()], at_task(), builders.dictionary(), options)


def slow_log_prob(models, source, tokens):
    """Sum log p(y_t | y_<t, x) token by token, with </s>; p is the mean of the models."""
    total, prefix = 0.0, [builders.EOS]
    for token in [*tokens, builders.EOS]:
        probability = 0.0
        for model in models:
            encoded = model.eval().encoder(source[None], torch.tensor([len(source)]))
            logits, _ = model.decoder(torch.tensor([prefix]), encoder_out=encoded)
            probability += float(logits[0, -1].softmax(-1)[token].detach()) / len(models)
        total += math.log(probability)
        prefix.append(token)
    return total


def make_hypothesis(tokens, score):
    score = torch.tensor(score, dtype=torch.float64)
    tokens = torch.tensor(tokens)
    return {"tokens": tokens, "ctc_score": score - 0.25, "score": score, "steps": 2}


def make_hypotheses():
    """Make three, two and one hypothesis of a sentence, one of them empty."""
    sentences = [
        [([5, 6, 7], -1.0), ([8], -1.5), ([9, 9], -2.0)],
        [([builders.EOS], -0.5), ([10, 11, 12, 13], -3.0)],
        [([20, 4], -0.7)],
    ]
    return [[make_hypothesis(*entry) for entry in sentence] for sentence in sentences]


def by_tokens(sentences):
    return {
        (number, tuple(hypothesis["tokens"].tolist())): hypothesis
        for number, sentence in enumerate(sentences)
        for hypothesis in sentence
    }


@pytest.mark.cases("weight length_penalty", (0.5, 1.0), (0.2, 0.0), (1.0, 2.0), (0.0, 1.0))
def test_scores_and_order_are_those_of_a_loop_over_the_tokens(weight, length_penalty):
    """The tolerance is that of fairseq's softmax in float32."""
    models = [at_model(1), at_model(2)] if weight == 0.5 else [at_model(1)]
    reranker = build_reranker(weight, length_penalty, models)
    sentences = reranker.rescore(builders.pad(SOURCES, extra=2), make_hypotheses())
    rescored = by_tokens(sentences)
    assert len(rescored) == 6
    for (number, tokens), before in by_tokens(make_hypotheses()).items():
        labels = [token for token in tokens if token != builders.EOS]
        at_score = slow_log_prob(models, SOURCES[number][1:], labels)
        after = rescored[number, tokens]
        assert float(after["at_score"]) == pytest.approx(at_score, abs=1e-4)
        assert (after["ctc_score"], after["steps"]) == (before["ctc_score"], 2)
        score = (1 - weight) * float(before["score"]) + weight * at_score
        score /= (len(labels) + 1) ** length_penalty
        assert float(after["score"]) == pytest.approx(score, abs=1e-4)
        assert float(after["positional_scores"].sum()) == pytest.approx(score, abs=1e-4)
        assert len(after["positional_scores"]) == len(tokens)
    for sentence in sentences:
        scores = [float(hypothesis["score"]) for hypothesis in sentence]
        assert scores == sorted(scores, reverse=True)


def test_mask_is_unknown_to_the_reranking_model(device):
    hypothesis = builders.to_device(make_hypothesis([builders.MASK], -1.0), device)
    source = builders.pad(SOURCES[:1]).to(device)
    ((rescored,),) = build_reranker().rescore(source, [[hypothesis]])
    expected = slow_log_prob([at_model()], SOURCES[0][1:], [builders.UNK])
    assert float(rescored["at_score"]) == pytest.approx(expected, abs=1e-4)


def build_generator(path, weight, lenpen=1.0):
    task = builders.task(rerank_at=path, rerank_at_weight=weight, iter_decode_ctc_beam=2)
    return task.build_generator([], argparse.Namespace(lenpen=lenpen))


@pytest.mark.parametrize("weight", [1.5, -0.1])
def test_a_weight_out_of_range_is_refused(weight):
    message = rf"--rerank-at-weight must lie in \[0, 1\]; got {weight}"
    with pytest.raises(ValueError, match=message):
        build_generator("nowhere.pt", weight)


def test_models_and_sources_that_do_not_fit_are_refused():
    dictionary, short = builders.dictionary(), build_reranker(models=[at_model(positions=5)])
    with pytest.raises(ValueError, match="--rerank-at nowhere.pt: no such file"):
        ATReranker.read(RerankOptions("nowhere.pt"), dictionary)
    sga = [builders.sga_model()], builders.task(), dictionary, RerankOptions("sga.pt")
    with pytest.raises(ValueError, match="SGAModel"):
        ATReranker(*sga)
    with pytest.raises(ValueError, match="a source of 8 tokens"):
        short.rescore(builders.pad(SOURCES[1:2]), make_hypotheses()[2:])


def test_a_different_dictionary_is_refused():
    pieces, dictionary = builders.piece_names(), builders.dictionary()
    check_dictionary("at.pt", dictionary, at_dictionary(pieces))
    with pytest.raises(ValueError, match="28 entries, .* 29"):
        check_dictionary("at.pt", dictionary, at_dictionary(pieces[:-1]))
    with pytest.raises(ValueError, match="'p24' as entry 4, .* 'p0'"):
        check_dictionary("at.pt", dictionary, at_dictionary(pieces[::-1]))


@pytest.mark.cases("option weight", (None, 0.5), (0.0, 0.0), (1.0, 1.0))
def test_the_task_passes_its_options_to_the_reranker(monkeypatch, option, weight):
    monkeypatch.setattr(ATReranker, "read", lambda options, *args: options)
    generator = build_generator("at.pt", option, 0.6)
    assert generator.reranker == RerankOptions("at.pt", weight, 0.6)


def test_a_missing_data_bin_is_replaced_by_the_one_that_is_decoded(monkeypatch, tmp_path):
    checkpoint = tmp_path / "at.pt"
    checkpoint.write_text("weights", encoding="utf-8")

    def load(paths, arg_overrides=None):
        if arg_overrides is None:
            raise FileNotFoundError("missing/dict.de.txt")
        if arg_overrides["data"] == "smaller":
            raise RuntimeError("size mismatch for encoder.embed_tokens.weight")
        return [at_model()], SimpleNamespace(task=SimpleNamespace()), at_task()

    def read(**options):
        return ATReranker.read(RerankOptions(str(checkpoint)), builders.dictionary(), **options)

    monkeypatch.setattr(checkpoint_utils, "load_model_ensemble_and_task", load)
    with pytest.raises(ValueError, match="missing/dict.de.txt"):
        read()
    with pytest.raises(ValueError, match="smaller .*: size mismatch"):
        read(data="smaller")
    assert isinstance(read(data="bin"), ATReranker)
