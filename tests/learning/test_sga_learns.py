"""SGA learns to translate: a tiny masked LM is pre-trained on pairs, frozen, and prompted into a translator.

The language pair is a word-for-word code of twelve words; sentences have two to five different words, and those that are
tested were never trained on. One slot per source token is enough, and keeps the test short.
"""

import itertools
from argparse import Namespace
from typing import List, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_plugins import checkpoints
from fairseq_plugins.criterions.sga_ctc import SGACTCConfig, SGACTCCriterion
from fairseq_plugins.criterions.sga_mask_predict import SGAMaskPredictConfig, SGAMaskPredictCriterion
from fairseq_plugins.data.tlm_dataset import MaskingConfig, TLMDataset
from fairseq_plugins.generators.sga_generator import IterationOptions, SGAGenerator
from fairseq_plugins.generators.sga_mask_predict_generator import MaskPredictOptions, SGAMaskPredictGenerator
from fairseq_plugins.models.sga import SGAConfig, SGAModel
from fairseq_plugins.modules.frozen import Frozen
from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes
from fairseq_plugins.tasks.sga_translation_multi import SGATranslationMultiConfig, SGATranslationMultiTask
from tests import builders

WORDS = 12
PRETRAINING, UPDATES, ROWS = 600, 300, 32
EOS = torch.tensor([builders.EOS])
BOS = torch.tensor([builders.BOS])


class Corpus(NamedTuple):
    """Sentences that end with </s>; the target is the source with every word moved by WORDS."""

    source: List[Tensor]
    target: List[Tensor]


def corpus(count, seed):
    """Two to five different words a sentence."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 6, (count,), generator=generator).tolist()
    words = [torch.randperm(WORDS, generator=generator)[:length] + builders.FIRST_PIECE for length in lengths]
    return Corpus([torch.cat([row, EOS]) for row in words], [torch.cat([row + WORDS, EOS]) for row in words])


def unseen(train, test):
    """The sentences of ``test`` that ``train`` lacks."""
    known = {tuple(row.tolist()) for row in train.source}
    kept = [n for n, row in enumerate(test.source) if tuple(row.tolist()) not in known]
    return Corpus([test.source[n] for n in kept], [test.target[n] for n in kept])


def _updates(parameters, learning_rate, count):
    optimizer = torch.optim.Adam(parameters, lr=learning_rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=count)
    for _ in range(count):
        yield optimizer
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()


def pretrain(train):
    """Mostly translation LM with one side masked: the masked LM learns to look across."""
    sizes = [np.array([len(row) for row in side]) for side in train]
    data = TLMDataset(list(train), sizes, builders.dictionary(), MaskingConfig(0.15, 0.8, seed=1))
    lm = MaskedLM(MaskedLMSizes(builders.VOCAB, layers=2, embed_dim=48, ffn_dim=96, heads=4, max_positions=20))
    lm.reset_parameters()
    for epoch, _ in enumerate(_updates(list(lm.parameters()), 3e-3, PRETRAINING)):
        data.set_epoch(epoch + 1)
        batch = data.collater([data[index] for index in torch.randint(len(data), (ROWS,)).tolist()])
        masked = batch["target"].ne(builders.PAD)
        logits = lm(batch["net_input"]["src_tokens"], batch["net_input"]["positions"], masked)
        F.cross_entropy(logits, batch["target"][masked]).backward()
    return lm


def batches(train):
    """Random rows, without end."""
    while True:
        rows = torch.randint(len(train.source), (ROWS,)).tolist()
        sources = [torch.cat([BOS, train.source[row]]) for row in rows]
        yield builders.batch(sources, [train.target[row] for row in rows])


def train_sga(model, criterion, samples, updates=UPDATES):
    """Nats a token, by update."""
    losses = []
    model.train()
    for _ in _updates([p for p in model.parameters() if p.requires_grad], 5e-2, updates):
        loss, size, _ = criterion(model, next(samples))
        (loss / size).backward()
        losses.append(loss.item() / size)
    return losses


def exact(model, test, max_iter):
    """Share of sentences translated without an error."""
    sample = builders.batch([torch.cat([BOS, row]) for row in test.source])
    found = SGAGenerator(builders.dictionary(), IterationOptions(max_iter)).generate([model], sample)
    right = [s[0]["tokens"].tolist() == row[:-1].tolist() for s, row in zip(found, test.target)]
    return sum(right) / len(right)


def repaired(model, test):
    """Share of sentences that one denoising pass makes right after one word was replaced by another one."""
    sample = builders.batch([torch.cat([BOS, row]) for row in test.source])["net_input"]
    with torch.no_grad():
        guidance, slots = model.encode(sample["src_tokens"]), model.slot_lengths(sample["src_lengths"])
        path = model.best_path(model.align(guidance, slots), slots)
        rows, place = torch.arange(len(slots)), (path.tokens != model.blank).int().argmax(1)
        damaged = path.tokens.clone()
        first = builders.FIRST_PIECE + WORDS
        damaged[rows, place] = (damaged[rows, place] - first + 5) % WORDS + first
        result = model.best_path(model.denoise(damaged, guidance, slots), slots).tokens
    assert bool((damaged != path.tokens).any(1).all())
    return float((result == path.tokens).all(1).float().mean())


@pytest.fixture(scope="module")
def text():
    """For training, and for tests."""
    train = corpus(4000, seed=1)
    test = unseen(train, corpus(150, seed=2))
    assert len(test.source) >= 50
    return train, test


@pytest.fixture(scope="module")
def frozen(text):
    """A masked LM that knows both languages."""
    lm = pretrain(text[0])
    return Frozen(lm, checkpoints.fingerprint(dict(lm.named_parameters())), "learning test")


@pytest.mark.slow
def test_prompts_turn_a_frozen_masked_lm_into_a_translator(text, frozen):
    train, test = text
    before = {name: tensor.clone() for name, tensor in frozen.module.state_dict().items()}
    model = SGAModel(frozen, SGAConfig(prompt_length=16, ctc_upsample=1), builders.BOS, builders.MASK)
    assert exact(model, test, max_iter=3) <= 0.05

    criterion = SGACTCCriterion(builders.task(), SGACTCConfig(sentence_avg=False))
    losses = train_sga(model, criterion, batches(train))

    assert losses[-1] < 0.15 * losses[0]
    assert exact(model, test, max_iter=0) >= 0.7
    assert exact(model, test, max_iter=3) >= 0.7
    assert repaired(model, test) >= 0.3
    assert [name for name, tensor in frozen.module.state_dict().items() if not torch.equal(tensor, before[name])] == []


# ---- Mask-predict. ----


def written(model, test, max_iter):
    """What is generated for the test sentences."""
    sample = builders.batch([torch.cat([BOS, row]) for row in test.source])
    generator = SGAMaskPredictGenerator(builders.dictionary(), IterationOptions(max_iter), MaskPredictOptions())
    return [found[0]["tokens"].tolist() for found in generator.generate([model], sample)]


@pytest.mark.slow
def test_mask_predict_learns_lengths_and_words(text, frozen):
    torch.manual_seed(2)
    train, test = text
    targets = [row[:-1].tolist() for row in test.target]
    model = SGAModel(frozen, SGAConfig(prompt_length=16, alignment="mask_predict"), builders.BOS, builders.MASK)

    criterion = SGAMaskPredictCriterion(builders.task(), SGAMaskPredictConfig(sentence_avg=False))
    losses = train_sga(model, criterion, batches(train))

    assert np.mean(losses[-10:]) < 0.3 * np.mean(losses[:3])
    aligned = written(model, test, max_iter=0)
    assert np.mean([len(found) == len(row) for found, row in zip(aligned, targets)]) >= 0.9
    assert np.mean([found == row for found, row in zip(aligned, targets)]) >= 0.6
    assert np.mean([found == row for found, row in zip(written(model, test, max_iter=3), targets)]) >= 0.6


# ---- One set of prompts for two pairs. ----


@pytest.fixture
def both_ways(text, tmp_path):
    """The code in both directions: what is right depends on the language of the source alone."""
    for split, (source, target) in zip(("train", "valid"), text):
        for pair in ("de-en", "en-de"):
            for language, side in zip(("de", "en"), (source, target)):
                builders.write_side(tmp_path, split, pair, language, [row[:-1].tolist() for row in side])
                builders.write_dictionary(tmp_path, language)
    shared = {
        "dataset_impl": "mmap",
        "required_seq_len_multiple": 1,
        "train_subset": "train",
        "seed": 3,
    }
    cfg = SGATranslationMultiConfig(**shared, data=str(tmp_path), lang_pairs="de-en,en-de")
    return SGATranslationMultiTask.setup_task(cfg)


def sampled(task):
    """Stock batches of one epoch after the other."""
    task.load_dataset("train")
    for epoch in itertools.count(1):
        stock = task.get_batch_iterator(
            task.dataset("train"), max_sentences=ROWS, epoch=epoch, disable_iterator_cache=True
        )
        yield from stock.next_epoch_itr(shuffle=True)


def exact_by_pair(model, task):
    """Share of the validation sentences translated without an error."""
    task.load_dataset("valid")
    generator = task.build_generator([model], Namespace(iter_decode_max_iter=0))
    right = {}
    for sample in task.get_batch_iterator(task.dataset("valid"), max_sentences=200).next_epoch_itr(shuffle=False):
        targets = [row[row.ne(builders.PAD)].tolist()[:-1] for row in sample["target"]]
        found = [one[0]["tokens"].tolist() for one in task.inference_step(generator, [model], sample)]
        right.setdefault(sample["pair"], []).extend(out == target for out, target in zip(found, targets))
    return {pair: sum(values) / len(values) for pair, values in right.items()}


@pytest.mark.slow
def test_one_set_of_prompts_learns_both_pairs(frozen, both_ways):
    torch.manual_seed(3)
    options = SGAConfig(prompt_length=16, ctc_upsample=1, no_denoising=True)
    model = SGAModel(frozen, options, builders.BOS, builders.MASK)

    criterion = SGACTCCriterion(both_ways, SGACTCConfig(sentence_avg=False))
    losses = train_sga(model, criterion, sampled(both_ways))

    assert np.mean(losses[-10:]) < 0.3 * np.mean(losses[:3])
    found = exact_by_pair(model, both_ways)
    assert sorted(found) == ["de-en", "en-de"] and min(found.values()) >= 0.6, found
