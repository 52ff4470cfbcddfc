"""Reranking: log-probabilities of a stock transformer against a loop over the tokens, combination, order, what is refused."""

import argparse
import math
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_plugins.sga.extensions.reranking import ATReranker, RerankOptions, check_dictionary
from tests import builders

SIZES = {"layers": 1, "embed_dim": 16, "ffn_embed_dim": 24, "attention_heads": 2}


def at_dictionary(pieces=range(builders.PIECES)):
    """As a stock data-bin has it: without ``<mask>``."""
    symbols = Dictionary()
    for number in pieces:
        symbols.add_symbol(f"p{number}")
    return symbols


def at_task():
    return TranslationTask(TranslationConfig(), at_dictionary(), at_dictionary())


def at_model(seed=1, positions=60):
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in SIZES.items()}
    args = argparse.Namespace(share_all_embeddings=True, dropout=0.3, **sizes)
    args.max_source_positions = args.max_target_positions = positions
    base_architecture(args)
    model = TransformerModel.build_model(args, at_task())
    builders.randomise(model, seed)
    return model.double()


def reranker(weight=0.5, length_penalty=1.0, models=None):
    options = RerankOptions("at.pt", weight, length_penalty)
    return ATReranker(models or [at_model()], at_task(), builders.dictionary(), options)


def slow_log_prob(models, source, tokens):
    """Sum of log p(y_t | y_<t, x), token by token, the end included; p is the models' mean. source: pieces and </s>."""
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


def hypotheses():
    """Three, two and one of a sentence, one of them empty."""
    rows = [[[5, 6, 7], [8], [9, 9]], [[builders.EOS], [10, 11, 12, 13]], [[20, 4]]]
    scores = iter([-1.0, -1.5, -2.0, -0.5, -3.0, -0.7])
    return [[hypothesis(row, next(scores)) for row in sentence] for sentence in rows]


def hypothesis(tokens, score):
    score = torch.tensor(score, dtype=torch.float64)
    return {"tokens": torch.tensor(tokens), "ctc_score": score - 0.25, "score": score, "steps": 2}


SOURCES = builders.source_rows([4, 9, 6])


def by_tokens(sentences):
    return {(n, tuple(h["tokens"].tolist())): h for n, sentence in enumerate(sentences) for h in sentence}


@pytest.mark.parametrize(("weight", "length_penalty"), [(0.5, 1.0), (0.2, 0.0), (1.0, 2.0), (0.0, 1.0)])
def test_scores_and_order_are_those_of_a_loop_over_the_tokens(weight, length_penalty):
    models = [at_model(1), at_model(2)][: 2 if weight == 0.5 else 1]
    found = reranker(weight, length_penalty, models).rescore(builders.pad(SOURCES, extra=2), hypotheses())
    scored = by_tokens(found)
    assert len(scored) == 6
    for (number, tokens), before in by_tokens(hypotheses()).items():
        labels = [token for token in tokens if token != builders.EOS]
        expected = slow_log_prob(models, SOURCES[number][1:], labels)
        after = scored[number, tokens]
        assert float(after["at_score"]) == pytest.approx(expected, abs=1e-4)  # stock takes its softmax in float32
        assert (after["ctc_score"], after["steps"]) == (before["ctc_score"], 2)
        both = ((1 - weight) * float(before["score"]) + weight * expected) / (len(labels) + 1) ** length_penalty
        assert float(after["score"]) == pytest.approx(both, abs=1e-4)
        assert float(after["positional_scores"].sum()) == pytest.approx(both, abs=1e-4)
        assert len(after["positional_scores"]) == len(tokens)
    for sentence in found:
        scores = [float(hypothesis["score"]) for hypothesis in sentence]
        assert scores == sorted(scores, reverse=True)


def test_the_mask_of_a_masked_lm_is_unknown_to_the_model(device):
    masked = builders.to_device(hypothesis([builders.MASK], -1.0), device)
    ((found,),) = reranker().rescore(builders.pad(SOURCES[:1]).to(device), [[masked]])
    expected = slow_log_prob([at_model()], SOURCES[0][1:], [builders.UNK])
    assert float(found["at_score"]) == pytest.approx(expected, abs=1e-4)


def test_what_is_refused():
    own = builders.dictionary()
    check_dictionary("at.pt", own, at_dictionary())
    short = reranker(models=[at_model(positions=5)])
    for wrong, message in (
        (lambda: built("nowhere.pt", 1.5), r"--rerank-at-weight must lie in \[0, 1\]; got 1.5"),
        (lambda: built("nowhere.pt", -0.1), r"--rerank-at-weight must lie in \[0, 1\]; got -0.1"),
        (lambda: ATReranker.read(RerankOptions("nowhere.pt"), own), "--rerank-at nowhere.pt: no such file"),
        (
            lambda: ATReranker([builders.sga_model()], builders.task(), own, RerankOptions("sga.pt")),
            "SGAModel does not",
        ),
        (lambda: short.rescore(builders.pad(SOURCES[1:2]), hypotheses()[2:]), "a source of 8 tokens is longer than"),
        (lambda: check_dictionary("at.pt", own, at_dictionary(range(24))), "28 entries, that of the hypotheses 29"),
        (lambda: check_dictionary("at.pt", own, at_dictionary(reversed(range(25)))), "'p24' as entry 4, .* 'p0'"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


def built(path, weight, lenpen=1.0):
    task = builders.task(rerank_at=path, rerank_at_weight=weight, iter_decode_ctc_beam=2)
    return task.build_generator([], argparse.Namespace(lenpen=lenpen))


@pytest.mark.parametrize(("given", "weight"), [(None, 0.5), (0.0, 0.0), (1.0, 1.0)])
def test_the_task_hands_over_its_options(monkeypatch, given, weight):
    monkeypatch.setattr(ATReranker, "read", lambda options, *more: options)
    assert built("at.pt", given, 0.6).reranker == RerankOptions("at.pt", weight, 0.6)


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "at.pt"
    path.write_text("weights", encoding="utf-8")
    return path


def test_a_data_bin_that_is_gone_is_replaced_by_the_one_that_is_decoded(monkeypatch, checkpoint):
    def load(paths, arg_overrides=None):
        if arg_overrides is None:
            raise FileNotFoundError("gone/dict.de.txt")
        if arg_overrides["data"] == "smaller":
            raise RuntimeError("size mismatch for encoder.embed_tokens.weight")
        return [at_model()], SimpleNamespace(task=SimpleNamespace()), at_task()

    monkeypatch.setattr(checkpoint_utils, "load_model_ensemble_and_task", load)
    options = RerankOptions(str(checkpoint))
    with pytest.raises(ValueError, match="gone/dict.de.txt; its dictionaries are read from the data-bin"):
        ATReranker.read(options, builders.dictionary())
    with pytest.raises(ValueError, match="those of smaller do not fit: size mismatch"):
        ATReranker.read(options, builders.dictionary(), data="smaller")
    assert isinstance(ATReranker.read(options, builders.dictionary(), data="bin"), ATReranker)
