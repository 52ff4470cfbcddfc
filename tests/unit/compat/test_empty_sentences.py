"""Test raw sentences without text: their translation is empty, whatever is in their batch."""

from argparse import Namespace

import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_plugins.compat.empty_sentences import EmptySentences, translates
from tests import builders

EOS = builders.EOS


class CopyingModel:
    """A model and a generator in one: returns every source, and records the sizes of batches."""

    def __init__(self):
        self.batch_sizes = []

    def generate(self, models, sample, prefix_tokens=None, **unused):
        source = sample["net_input"]["src_tokens"]
        assert models == [self] and len(sample["net_input"]["src_lengths"]) == len(source)
        assert prefix_tokens is None or len(prefix_tokens) == len(source)
        self.batch_sizes.append(len(source))
        return [[{"tokens": row[row != builders.PAD][1:]}] for row in source]


@pytest.fixture(scope="module")
def task(path):
    builders.write_pair(path, "test", "de", "en", count=3)
    line = f"{path} --task sga_translation --path model.pt -s de -t en"
    args = options.parse_args_and_arch(options.get_generation_parser(), line.split())
    return tasks.setup_task(convert_namespace_to_omegaconf(args).task)


def translate(task, model, rows, **inputs):
    """Translate rows of pieces in one batch, as the hub interface and fairseq-interactive do."""
    tokens = [torch.tensor([*row, EOS]) for row in rows]
    dataset = task.build_dataset_for_inference(tokens, [len(row) for row in tokens])
    iterator = task.get_batch_iterator(dataset, max_sentences=8, disable_iterator_cache=True)
    (batch,) = iterator.next_epoch_itr(shuffle=False)
    hypotheses = task.inference_step(model, [model], batch, **inputs)
    by_number = dict(zip(batch["id"].tolist(), hypotheses))
    return [by_number[number][0]["tokens"].tolist() for number in range(len(rows))]


def test_empty_lines_stay_empty_and_never_reach_the_model(task):
    model = CopyingModel()
    prefixes = torch.arange(4)[:, None]
    actual = translate(task, model, [[], [5, 6], [], [7]], prefix_tokens=prefixes)
    assert actual == [[EOS], [5, 6, EOS], [EOS], [7, EOS]]
    assert translate(task, model, [[], []]) == [[EOS], [EOS]]
    assert model.batch_sizes == [2]


def test_empty_sentences_of_a_data_bin_are_decoded():
    task, model = builders.task(), CopyingModel()
    EmptySentences(task)
    source = torch.tensor([[builders.BOS, EOS]])
    sample = {"net_input": {"src_tokens": source, "src_lengths": torch.tensor([2])}}
    assert task.inference_step(model, [model], sample)[0][0]["tokens"].tolist() == [EOS]
    assert model.batch_sizes == [1]


def test_tasks_that_truncate_their_source_translate():
    assert translates(Namespace(truncate_source=False))
    assert not translates(Namespace(data="bin"))
