"""Raw sentences without text: nothing comes of them, whatever is in their batch."""

from argparse import Namespace

import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_plugins.compat.empty_sentences import EmptySentences, translates
from tests import builders

EMPTY = []


class Copying:
    """A model and a generator in one: every source comes back as it is; notes the sizes of its batches."""

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
    words = [str(path), "--task", "sga_translation", "--path", "model.pt", "-s", "de", "-t", "en"]
    args = options.parse_args_and_arch(options.get_generation_parser(), words)
    return tasks.setup_task(convert_namespace_to_omegaconf(args).task)


def translate(task, model, rows, **inputs):
    """Translate rows of pieces in one batch, as the hub interface and fairseq-interactive do."""
    tokens = [torch.tensor([*row, builders.EOS]) for row in rows]
    dataset = task.build_dataset_for_inference(tokens, [len(row) for row in tokens])
    batches = task.get_batch_iterator(dataset, max_sentences=8, disable_iterator_cache=True)
    hypotheses = {}
    for batch in batches.next_epoch_itr(shuffle=False):
        for number, best in zip(batch["id"].tolist(), task.inference_step(model, [model], batch, **inputs)):
            hypotheses[number] = best[0]["tokens"].tolist()
    return [hypotheses[number] for number in range(len(rows))]


def test_empty_lines_stay_empty_and_never_reach_the_model(task):
    model = Copying()
    rows = [EMPTY, [5, 6], EMPTY, [7]]
    expected = [[builders.EOS], [5, 6, builders.EOS], [builders.EOS], [7, builders.EOS]]
    assert translate(task, model, rows, prefix_tokens=torch.arange(4)[:, None]) == expected
    assert translate(task, model, [EMPTY, EMPTY]) == [[builders.EOS]] * 2
    assert model.batch_sizes == [2]


def test_sentences_of_a_data_bin_are_decoded_as_they_are():
    task, model = builders.task(), Copying()
    EmptySentences(task)
    source = torch.tensor([[builders.BOS, builders.EOS]])
    sample = {"net_input": {"src_tokens": source, "src_lengths": torch.tensor([2])}}
    assert task.inference_step(model, [model], sample)[0][0]["tokens"].tolist() == [builders.EOS]
    assert model.batch_sizes == [1]


@pytest.mark.parametrize("cfg", [Namespace(truncate_source=False), Namespace(data="bin")])
def test_which_tasks_translate(cfg):
    assert translates(cfg) == hasattr(cfg, "truncate_source")
