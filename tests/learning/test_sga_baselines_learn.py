"""Test that the comparison systems of SGA learn a word-for-word code of ten words.

The test sentences are not in the training data.
"""

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


def make_dictionary():
    dictionary = Dictionary()
    words = [f"p{number}" for number in range(len(LANGS) * WORDS)]
    for symbol in [*words, *(f"__{name}__" for name in LANGS), "<mask>"]:
        dictionary.add_symbol(symbol)
    return dictionary


def make_task(**more):
    dictionary = make_dictionary()
    return SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary, **more)


def make_sentence(words, language, tagged):
    tag = torch.tensor([TAG[language]] if tagged else [], dtype=torch.long)
    return torch.cat([tag, words + FIRST[language], EOS])


def pairs(count, seed, language, tagged=False):
    """Draw sentences of two to five different words, and the same in English."""
    rows = training.words(count, seed, WORDS)
    return [[make_sentence(row, name, tagged) for name in (language, "en")] for row in rows]


def unseen_pairs(train, language, tagged=False):
    return training.unseen(train, pairs(60, 3, language, tagged))


def random_rows(data):
    return [data[row] for row in torch.randint(len(data), (ROWS,)).tolist()]


def make_sample(rows):
    sources, targets = zip(*rows)
    sample = builders.batch(list(sources), list(targets))
    shifted = [torch.cat([EOS, target[:-1]]) for target in targets]
    sample["net_input"]["prev_output_tokens"] = builders.pad(shifted)
    return sample


def train(model, data, updates, rate):
    """Return the loss per token (in nats) of each update."""
    criterion = LabelSmoothedCrossEntropyCriterion(make_task(), False, 0.0)

    def next_sample(update):
        return make_sample(random_rows(data))

    return training.fit_criterion(model, criterion, next_sample, updates, rate)


def accuracy(model, test, tagged=False):
    """Return the share of sentences that the stock generator translates without an error."""
    generator = SequenceGenerator([model.eval()], make_dictionary(), beam_size=2, max_len_b=8)
    prefix = torch.full((len(test), 1), TAG["en"]) if tagged else None
    output = generator.generate([model], make_sample(test), prefix_tokens=prefix)
    correct = [
        beam[0]["tokens"].tolist() == target.tolist() for beam, (_, target) in zip(output, test)
    ]
    return sum(correct) / len(test)


def sizes(*sides):
    options = {"dropout": 0.0, "max_source_positions": POSITIONS, "max_target_positions": POSITIONS}
    for side in sides:
        options[f"{side}_layers"] = 2
        options[f"{side}_embed_dim"] = WIDTH
        options[f"{side}_ffn_embed_dim"] = 2 * WIDTH
        options[f"{side}_attention_heads"] = 4
        options[f"{side}_normalize_before"] = True
    return options


def test_adapters_teach_a_frozen_model_a_language(tmp_path):
    """A model of German learns French words in mixed batches and does not forget German."""
    german, french = pairs(1500, 1, "de", tagged=True), pairs(1500, 2, "fr", tagged=True)
    german_test = unseen_pairs(german, "de", tagged=True)
    french_test = unseen_pairs(french, "fr", tagged=True)
    tags = {"encoder_langtok": "src", "decoder_langtok": True, "lang_tok_style": "multilingual"}
    args = argparse.Namespace(**tags)
    task = make_task(langs=LANGS, lang_pairs=["de-en", "fr-en"], args=args)
    shape = {"share_all_embeddings": True, **sizes("encoder", "decoder")}
    stock = models.build_model(argparse.Namespace(arch="transformer", **shape), task)
    train(stock, german, 180, 4e-3)
    assert accuracy(stock, german_test, tagged=True) >= 0.8
    assert accuracy(stock, french_test, tagged=True) <= 0.1
    file = tmp_path / "stock.pt"
    torch.save({"args": argparse.Namespace(**shape), "model": stock.state_dict()}, file)

    options = {"adapter_backbone": str(file), "adapter_width": 64, **shape}
    args = argparse.Namespace(arch="transformer_adapter_tiny", **options)
    model = models.build_model(args, task)
    losses = train(model, german + french, 120, 1e-2)
    assert losses[-1] < 0.2 * losses[0]
    assert accuracy(model, german_test, tagged=True) >= 0.8
    assert accuracy(model, french_test, tagged=True) >= 0.8


def test_an_xlmr_encoder_learns_with_a_random_decoder(tmp_path):
    vocab_size = len(make_dictionary())
    module = builders.masked_lm(vocab_size=vocab_size, embed_dim=WIDTH, ffn_dim=2 * WIDTH, heads=4)
    module.reset_parameters()
    tensors = module.state_dict()
    checkpoints.write_masked_lm(tmp_path, vars(module.sizes), tensors, dtype=torch.float32)
    data = pairs(1500, 1, "de")
    test = unseen_pairs(data, "de")
    options = sizes("encoder", "decoder")
    options.update(encoder_normalize_before=False, share_all_embeddings=True)
    options["pretrained_xlmr"] = str(tmp_path)
    args = argparse.Namespace(arch="transformer_from_xlmr_tiny", **options)
    model = models.build_model(args, make_task())
    assert accuracy(model, test) <= 0.05
    losses = train(model, data, 180, 3e-3)
    assert losses[-1] < 0.2 * losses[0]
    assert accuracy(model, test) >= 0.8


def pretrain_lm(path, data):
    """Train a stock transformer_lm on German sentences followed by their translations."""
    options = sizes("decoder")
    del options["max_source_positions"]
    options.update(decoder_layers=3, decoder_input_dim=WIDTH, decoder_output_dim=WIDTH)
    options.update(decoder_learned_pos=True, no_scale_embedding=True, activation_fn="gelu")
    options.update(share_decoder_input_output_embed=True)
    cfg = TransformerLanguageModelConfig(**options)
    lm = TransformerLanguageModel.build_model(cfg, make_task())

    def loss(update):
        rows = random_rows(data)
        tokens = builders.pad([torch.cat([EOS, *row, row[0]]) for row in rows])
        logits = lm(tokens[:, :-1])[0].transpose(1, 2)
        return torch.nn.functional.cross_entropy(logits, tokens[:, 1:], ignore_index=builders.PAD)

    training.fit(lm, loss, 350, 4e-3)
    defaults = vars(gpt_builders.stock_settings())
    args = {name: getattr(cfg, name, default) for name, default in defaults.items()}
    torch.save({"args": argparse.Namespace(**args), "model": lm.state_dict()}, path / "lm.pt")
    make_dictionary().save(str(path / "dict.txt"))


@pytest.mark.slow
def test_prompts_turn_a_language_model_into_a_translator(tmp_path):
    data = pairs(3000, 1, "de")
    test = unseen_pairs(data, "de")
    pretrain_lm(tmp_path, data)
    cfg = GPTMSPConfig(pretrained_gpt=str(tmp_path / "lm.pt"), prompt_length=16)
    model = GPTMSPModel.build_model(cfg, make_task())
    before = {name: tensor.clone() for name, tensor in model.decoder.lm.named_parameters()}
    assert accuracy(model, test) <= 0.05
    losses = train(model, data, 300, 5e-2)
    assert losses[-1] < 0.3 * losses[0]
    assert accuracy(model, test) >= 0.7
    for name, tensor in model.decoder.lm.named_parameters():
        assert torch.equal(tensor, before[name]), name
