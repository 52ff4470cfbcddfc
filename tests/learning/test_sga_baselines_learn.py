"""The comparison systems of SGA learn to translate a word-for-word code of ten words; the test sentences were never trained on."""

import argparse
from types import SimpleNamespace

import pytest
import torch
from fairseq import models
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from fairseq.sequence_generator import SequenceGenerator

from fairseq_plugins import checkpoints
from fairseq_plugins.baselines.gpt_msp import GPTMSPConfig, GPTMSPModel
from tests import builders, gpt_builders
from tests.learning import training

WORDS, ROWS, WIDTH, POSITIONS = 10, 32, 48, 24
LANGS = ["de", "en", "fr"]  # the words of each language follow each other in the dictionary
FIRST = {language: 4 + number * WORDS for number, language in enumerate(LANGS)}
TAG = {language: 4 + len(LANGS) * WORDS + number for number, language in enumerate(LANGS)}
EOS = torch.tensor([builders.EOS])


def dictionary():
    result = Dictionary()
    for symbol in [f"p{n}" for n in range(len(LANGS) * WORDS)] + [f"__{name}__" for name in LANGS] + ["<mask>"]:
        result.add_symbol(symbol)
    return result


def task(**more):
    return SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary(), **more)


def pairs(count, seed, source, tagged=False):
    """Sentences of two to five different words, and the same in English."""
    found = []
    for words in training.words(count, seed, WORDS):
        tags = [[torch.tensor([TAG[name]])] if tagged else [] for name in (source, "en")]
        found.append(tuple(torch.cat([*t, words + FIRST[n], EOS]) for t, n in zip(tags, (source, "en"))))
    return found


def sample(chosen):
    found = builders.batch(*([pair[side] for pair in chosen] for side in (0, 1)))
    found["net_input"]["prev_output_tokens"] = builders.pad([torch.cat([EOS, target[:-1]]) for _, target in chosen])
    return found


def train(model, data, updates, rate):
    """Nats a token, by update."""
    criterion = LabelSmoothedCrossEntropyCriterion(task(), False, 0.0)

    def drawn(update):
        return sample([data[row] for row in torch.randint(len(data), (ROWS,)).tolist()])

    return training.fit_criterion(model, criterion, drawn, updates, rate)


def exact(model, test, prefix=False):
    """Share of sentences that the stock generator translates without an error."""
    generator = SequenceGenerator([model.eval()], dictionary(), beam_size=2, max_len_b=8)
    batch = sample(test)
    forced = torch.full((len(test), 1), TAG["en"]) if prefix else None
    found = generator.generate([model], batch, prefix_tokens=forced)
    return sum(one[0]["tokens"].tolist() == target.tolist() for one, (_, target) in zip(found, test)) / len(test)


def sizes(*sides):
    found = {"dropout": 0.0, "max_source_positions": POSITIONS, "max_target_positions": POSITIONS}
    for side in sides:
        found.update({f"{side}_layers": 2, f"{side}_embed_dim": WIDTH, f"{side}_ffn_embed_dim": 2 * WIDTH})
        found.update({f"{side}_attention_heads": 4, f"{side}_normalize_before": True})
    return found


def test_adapters_teach_a_frozen_model_a_language(tmp_path):
    """A model that knows German learns French words it never read, in batches that mix both; German is not forgotten."""
    german, french = pairs(1500, 1, "de", tagged=True), pairs(1500, 2, "fr", tagged=True)
    tests = [training.unseen(one, pairs(60, 3, name, tagged=True)) for name, one in (("de", german), ("fr", french))]
    options = argparse.Namespace(encoder_langtok="src", decoder_langtok=True, lang_tok_style="multilingual")
    of = task(langs=LANGS, lang_pairs=["de-en", "fr-en"], args=options)
    shape = {"share_all_embeddings": True, **sizes("encoder", "decoder")}
    stock = models.build_model(argparse.Namespace(arch="transformer", **shape), of)
    train(stock, german, 180, 4e-3)
    assert exact(stock, tests[0], prefix=True) >= 0.8 and exact(stock, tests[1], prefix=True) <= 0.1
    torch.save({"args": argparse.Namespace(**shape), "model": stock.state_dict()}, tmp_path / "stock.pt")

    given = {"adapter_backbone": str(tmp_path / "stock.pt"), "adapter_width": 64, **shape}
    model = models.build_model(argparse.Namespace(arch="transformer_adapter_tiny", **given), of)
    losses = train(model, german + french, 120, 1e-2)

    assert losses[-1] < 0.2 * losses[0]
    assert min(exact(model, one, prefix=True) for one in tests) >= 0.8


def test_an_xlmr_encoder_learns_with_a_random_decoder(tmp_path):
    module = builders.masked_lm(vocab_size=len(dictionary()), embed_dim=WIDTH, ffn_dim=2 * WIDTH, heads=4)
    module.reset_parameters()
    checkpoints.write_masked_lm(tmp_path, vars(module.sizes), module.state_dict(), dtype=torch.float32)
    data = pairs(1500, 1, "de")
    test = training.unseen(data, pairs(60, 3, "de"))
    shape = {**sizes("encoder", "decoder"), "encoder_normalize_before": False, "share_all_embeddings": True}
    given = {"pretrained_xlmr": str(tmp_path), **shape}
    model = models.build_model(argparse.Namespace(arch="transformer_from_xlmr_tiny", **given), task())
    assert exact(model, test) <= 0.05
    losses = train(model, data, 180, 3e-3)
    assert losses[-1] < 0.2 * losses[0] and exact(model, test) >= 0.8


def pretrained_lm(path, data):
    """A stock transformer_lm that has read German sentences followed by their English ones, anywhere in its positions."""
    given = {key: value for key, value in sizes("decoder").items() if key != "max_source_positions"}
    given.update(decoder_layers=3, decoder_input_dim=WIDTH, decoder_output_dim=WIDTH, activation_fn="gelu")
    given.update(dict.fromkeys(("decoder_learned_pos", "no_scale_embedding", "share_decoder_input_output_embed"), True))
    cfg = TransformerLanguageModelConfig(**given)
    lm = TransformerLanguageModel.build_model(cfg, task())

    def loss(update):
        rows = [data[row] for row in torch.randint(len(data), (ROWS,)).tolist()]
        tokens = builders.pad([torch.cat([EOS, *row, *row[:1]]) for row in rows])
        logits = lm(tokens[:, :-1])[0].transpose(1, 2)
        return torch.nn.functional.cross_entropy(logits, tokens[:, 1:], ignore_index=builders.PAD)

    training.fit(lm, loss, 350, 4e-3)
    stated = gpt_builders.stock_settings()
    options = argparse.Namespace(**{name: getattr(cfg, name, value) for name, value in vars(stated).items()})
    torch.save({"args": options, "model": lm.state_dict()}, path / "lm.pt")
    dictionary().save(str(path / "dict.txt"))


@pytest.mark.slow
def test_prompts_turn_a_language_model_into_a_translator(tmp_path):
    data = pairs(3000, 1, "de")
    test = training.unseen(data, pairs(60, 3, "de"))
    pretrained_lm(tmp_path, data)
    cfg = GPTMSPConfig(pretrained_gpt=str(tmp_path / "lm.pt"), prompt_length=16)
    model = GPTMSPModel.build_model(cfg, task())
    before = {name: tensor.clone() for name, tensor in model.decoder.lm.named_parameters()}
    assert exact(model, test) <= 0.05
    losses = train(model, data, 300, 5e-2)
    assert losses[-1] < 0.3 * losses[0] and exact(model, test) >= 0.7
    assert [name for name, tensor in model.decoder.lm.named_parameters() if not torch.equal(tensor, before[name])] == []
