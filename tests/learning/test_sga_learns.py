"""Test that SGA learns to translate: a tiny masked LM is pre-trained, frozen and prompted.

The language pair is a word-for-word code of twelve words. Sentences have two to five different
words; the test sentences are not in the training data. One slot per source token is enough, and
keeps the test short.
"""

import itertools
from argparse import Namespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins import checkpoints
from fairseq_plugins.common.frozen import Frozen
from fairseq_plugins.masked_lm.dataset import MaskingConfig, TLMDataset
from fairseq_plugins.masked_lm.model import MaskedLM, MaskedLMSizes
from fairseq_plugins.sga.config import SGAConfig, SGACTCConfig
from fairseq_plugins.sga.criterion import SGACTCCriterion
from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from fairseq_plugins.sga.extensions.graph import (
    GraphModel,
    GraphOptions,
    SGADAGCriterion,
    SGADAGGenerator,
)
from fairseq_plugins.sga.free import FreeSGAModel
from fairseq_plugins.sga.many_pairs import SGATranslationMultiConfig, SGATranslationMultiTask
from fairseq_plugins.sga.mask_predict import (
    MaskPredictOptions,
    SGAMaskPredictConfig,
    SGAMaskPredictCriterion,
    SGAMaskPredictGenerator,
)
from fairseq_plugins.sga.model import SGAModel
from fairseq_plugins.sga.variants import JoinedGraphConfig, JoinedModelConfig
from tests import builders
from tests.learning import training

WORDS = 12
PRETRAINING, UPDATES, ROWS = 600, 300, 32
EOS = torch.tensor([builders.EOS])
BOS = torch.tensor([builders.BOS])


def corpus(count, seed):
    """Draw sentences that end with </s>; the target has every word shifted by WORDS."""
    rows = [row + builders.FIRST_PIECE for row in training.words(count, seed, WORDS)]
    return [(torch.cat([row, EOS]), torch.cat([row + WORDS, EOS])) for row in rows]


def pretrain(train):
    """Train a translation LM with most of one side masked, so that it attends to the other."""
    sides = [list(side) for side in zip(*train)]
    lengths = [np.array([len(row) for row in side]) for side in sides]
    data = TLMDataset(sides, lengths, builders.dictionary(), MaskingConfig(0.15, 0.8, seed=1))
    sizes = {"layers": 2, "embed_dim": 48, "ffn_dim": 96, "heads": 4, "max_positions": 20}
    lm = MaskedLM(MaskedLMSizes(builders.VOCAB, **sizes))
    lm.reset_parameters()

    def loss(update):
        data.set_epoch(update + 1)
        batch = data.collater([data[index] for index in torch.randint(len(data), (ROWS,)).tolist()])
        masked = batch["target"].ne(builders.PAD)
        logits = lm(batch["net_input"]["src_tokens"], batch["net_input"]["positions"], masked)
        return F.cross_entropy(logits, batch["target"][masked])

    training.fit(lm, loss, PRETRAINING, 3e-3)
    return lm


def make_sample(pairs, targets=False):
    sources = [torch.cat([BOS, row]) for row, _ in pairs]
    return builders.batch(sources, [row for _, row in pairs] if targets else None)


def samples(train):
    """Yield random batches without end."""
    while True:
        rows = torch.randint(len(train), (ROWS,)).tolist()
        yield make_sample([train[row] for row in rows], targets=True)


def train_sga(model, criterion, samples, lr=5e-2):
    """Return the loss per token (in nats) of each update."""
    return training.fit_criterion(model, criterion, lambda update: next(samples), UPDATES, lr)


def generate(generator, model, test):
    """Return the tokens of each translation."""
    output = generator.generate([model], make_sample(test))
    return [hypotheses[0]["tokens"].tolist() for hypotheses in output]


def accuracy(translations, test):
    """Return the share of sentences translated without an error."""
    targets = [row[:-1].tolist() for _, row in test]
    return np.mean([row == target for row, target in zip(translations, targets)])


def sga_accuracy(model, test, max_iter):
    generator = SGAGenerator(builders.dictionary(), IterationOptions(max_iter))
    return accuracy(generate(generator, model, test), test)


def share_repaired(model, test):
    """Replace one word per sentence; return the share of sentences that denoising repairs."""
    sample = make_sample(test)["net_input"]
    with torch.no_grad():
        guidance = model.encode(sample["src_tokens"])
        slots = model.slot_lengths(sample["src_lengths"])
        tokens = model.best_path(model.align(guidance, slots), slots).tokens
        rows, position = torch.arange(len(slots)), (tokens != model.blank).int().argmax(1)
        damaged = tokens.clone()
        first = builders.FIRST_PIECE + WORDS
        damaged[rows, position] = (damaged[rows, position] - first + 5) % WORDS + first
        denoised = model.best_path(model.denoise(damaged, guidance, slots), slots).tokens
    assert bool((damaged != tokens).any(1).all())
    return float((denoised == tokens).all(1).float().mean())


def assert_learned(losses):
    assert np.mean(losses[-10:]) < 0.3 * np.mean(losses[:3])


@pytest.fixture(scope="module")
def text():
    train = corpus(4000, seed=1)
    test = training.unseen(train, corpus(150, seed=2))
    assert len(test) >= 50
    return train, test


@pytest.fixture(scope="module")
def frozen(text):
    """Pre-train a masked LM of both languages."""
    lm = pretrain(text[0])
    return Frozen(lm, checkpoints.fingerprint(dict(lm.named_parameters())), "learning test")


@pytest.mark.slow
def test_prompts_turn_a_frozen_masked_lm_into_a_translator(text, frozen):
    train, test = text
    before = {name: tensor.clone() for name, tensor in frozen.module.state_dict().items()}
    options = SGAConfig(prompt_length=16, ctc_upsample=1)
    model = SGAModel(frozen, options, builders.BOS, builders.MASK)
    assert sga_accuracy(model, test, max_iter=3) <= 0.05

    criterion = SGACTCCriterion(builders.task(), SGACTCConfig(sentence_avg=False))
    losses = train_sga(model, criterion, samples(train))

    assert losses[-1] < 0.15 * losses[0]
    assert sga_accuracy(model, test, max_iter=0) >= 0.7
    assert sga_accuracy(model, test, max_iter=3) >= 0.7
    assert share_repaired(model, test) >= 0.3
    for name, tensor in frozen.module.state_dict().items():
        assert torch.equal(tensor, before[name]), name


@pytest.mark.slow
def test_mask_predict_learns_lengths_and_words(text, frozen):
    torch.manual_seed(2)
    train, test = text
    model = FreeSGAModel(frozen, JoinedModelConfig(prompt_length=16), builders.BOS, builders.MASK)

    criterion = SGAMaskPredictCriterion(builders.task(), SGAMaskPredictConfig(sentence_avg=False))
    assert_learned(train_sga(model, criterion, samples(train)))

    for passes in (0, 3):
        options = IterationOptions(passes), MaskPredictOptions()
        generator = SGAMaskPredictGenerator(builders.dictionary(), *options)
        translations = generate(generator, model, test)
        assert accuracy(translations, test) >= 0.6
        if passes == 0:
            lengths = [len(target) - 1 for _, target in test]
            pairs = zip(translations, lengths)
            assert np.mean([len(row) == length for row, length in pairs]) >= 0.9


@pytest.mark.slow
def test_a_graph_of_slots_learns_order_and_words(text, frozen):
    """Train with glancing and low-rank updates; decode along every path."""
    torch.manual_seed(4)
    train, test = text
    options = SGAConfig(prompt_length=16, ctc_upsample=2, lora_rank=2)
    model = GraphModel(frozen, options, builders.BOS, builders.MASK)

    config = JoinedGraphConfig(sentence_avg=False, glancing="0.5")
    criterion = SGADAGCriterion(builders.task(), config)
    # At 5e-2 the loss of a graph diverges.
    assert_learned(train_sga(model, criterion, samples(train), lr=2e-2))

    for path, passes in itertools.product(("lookahead", "greedy", "viterbi"), (0, 3)):
        decoding = IterationOptions(passes), GraphOptions(path)
        generator = SGADAGGenerator(builders.dictionary(), *decoding)
        assert accuracy(generate(generator, model, test), test) >= 0.6, (path, passes)


@pytest.fixture
def two_pairs(text, tmp_path):
    """Write the code in both directions: only the source's language tells the direction."""
    for split, pairs in zip(("train", "valid"), text):
        sides = dict(zip(("de", "en"), zip(*pairs)))
        for pair in ("de-en", "en-de"):
            for language, side in sides.items():
                rows = [row[:-1].tolist() for row in side]
                builders.write_side(tmp_path, split, pair, language, rows)
                builders.write_dictionary(tmp_path, language)
    cfg = SGATranslationMultiConfig(
        dataset_impl="mmap",
        required_seq_len_multiple=1,
        train_subset="train",
        seed=3,
        data=str(tmp_path),
        lang_pairs="de-en,en-de",
    )
    return SGATranslationMultiTask.setup_task(cfg)


def task_samples(task):
    """Yield stock batches of one epoch after the other."""
    task.load_dataset("train")
    data = task.dataset("train")
    options = {"max_sentences": ROWS, "disable_iterator_cache": True}
    for epoch in itertools.count(1):
        iterator = task.get_batch_iterator(data, epoch=epoch, **options)
        yield from iterator.next_epoch_itr(shuffle=True)


def accuracy_by_pair(model, task):
    """Return the share of validation sentences translated without an error."""
    task.load_dataset("valid")
    generator = task.build_generator([model], Namespace(iter_decode_max_iter=0))
    correct = {}
    iterator = task.get_batch_iterator(task.dataset("valid"), max_sentences=200)
    for sample in iterator.next_epoch_itr(shuffle=False):
        output = task.inference_step(generator, [model], sample)
        for hypotheses, target in zip(output, sample["target"]):
            expected = target[target.ne(builders.PAD)].tolist()[:-1]
            is_correct = hypotheses[0]["tokens"].tolist() == expected
            correct.setdefault(sample["pair"], []).append(is_correct)
    return {pair: np.mean(flags) for pair, flags in correct.items()}


@pytest.mark.slow
def test_the_same_prompts_learn_two_pairs(frozen, two_pairs):
    torch.manual_seed(3)
    options = SGAConfig(prompt_length=16, ctc_upsample=1, no_denoising=True)
    model = SGAModel(frozen, options, builders.BOS, builders.MASK)

    criterion = SGACTCCriterion(two_pairs, SGACTCConfig(sentence_avg=False))
    assert_learned(train_sga(model, criterion, task_samples(two_pairs)))

    accuracies = accuracy_by_pair(model, two_pairs)
    assert sorted(accuracies) == ["de-en", "en-de"]
    assert min(accuracies.values()) >= 0.6, accuracies
