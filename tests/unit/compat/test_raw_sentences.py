"""Raw sentences that a task is handed: empty ones, long ones, and how their lines are numbered."""

import io
import sys
from argparse import Namespace

import pytest
import torch

from fairseq_plugins.compat.raw_sentences import RawSentences, read_lines
from tests import builders

EMPTY = []


class Copying:
    """A model and a generator in one: every source comes back as it is. Notes what it was given."""

    def __init__(self, longest=40):
        self.longest, self.sources = longest, []

    def max_positions(self):
        return (self.longest, self.longest)

    def generate(self, models, sample, prefix_tokens=None, **unused):
        source = sample["net_input"]["src_tokens"]
        assert models == [self] and len(sample["net_input"]["src_lengths"]) == len(source)
        assert prefix_tokens is None or len(prefix_tokens) == len(source)
        self.sources.append(len(source))
        return [[{"tokens": row[row != builders.PAD][1:]}] for row in source]


def in_front(model, **options):
    """What translates rows of pieces in one batch, as the hub interface and fairseq-interactive do; returns rows."""
    task = builders.task()
    for name, value in options.items():
        setattr(task.cfg, name, value)
    task.build_generator = lambda models, args: model
    RawSentences(task)

    def translate(rows, interactive=False, **given):
        task.build_generator([model], Namespace())
        tokens = [torch.tensor([*row, builders.EOS]) for row in rows]
        lengths = torch.tensor([len(row) for row in tokens])
        if interactive:
            lines = [" ".join(f"p{piece - builders.FIRST_PIECE}" for piece in row) for row in rows]
            tokens, lengths = task.get_interactive_tokens_and_lengths(lines, lambda line: line)
        limits = {"max_sentences": 8, "max_positions": model.max_positions(), "disable_iterator_cache": True}
        batches = task.get_batch_iterator(task.build_dataset_for_inference(tokens, lengths), **limits)
        found = {}
        for batch in batches.next_epoch_itr(shuffle=False):
            for number, best in zip(batch["id"].tolist(), task.inference_step(model, [model], batch, **given)):
                found[number] = best[0]["tokens"].tolist()
        return [found[number] for number in range(len(rows))]

    return translate


def test_empty_lines_stay_empty_and_never_reach_the_model():
    model = Copying()
    translate = in_front(model)
    expected = [[builders.EOS], [5, 6, builders.EOS], [builders.EOS], [7, builders.EOS]]
    assert translate([EMPTY, [5, 6], EMPTY, [7]], prefix_tokens=torch.arange(4)[:, None]) == expected
    assert translate([EMPTY, EMPTY]) == [[builders.EOS]] * 2
    assert model.sources == [2]


def test_a_line_is_numbered_from_1_in_each_call_and_over_the_buffers_of_interactive():
    translate = in_front(Copying(4))
    for _ in range(2):
        with pytest.raises(ValueError, match="source line 2 has 5 tokens; valid: at most 4"):
            translate([[5], [5, 6, 7]])
    assert len(translate([[5], [6], [7]], interactive=True)) == 3
    with pytest.raises(ValueError, match="source line 5 has 5 tokens"):
        translate([[5], [5, 6, 7]], interactive=True)


def test_lines_that_are_too_long_are_cut_and_named(caplog):
    """``<s>``, which the task adds, and ``</s>`` count; fairseq-interactive's lines are counted through its buffers."""
    translate, cut = in_front(Copying(5), truncate_source=True), [5, 6, 7, builders.EOS]
    assert translate([[5, 6, 7], [5, 6, 7, 8, 9]], interactive=True) == [cut, cut]
    assert translate([[9], *6 * [[5, 6, 7, 8]]], interactive=True) == [[9, builders.EOS], *6 * [cut]]
    assert in_front(Copying(3), truncate_source=True)([[5, 6]]) == [[5, builders.EOS]]
    said = [record.message for record in caplog.records if "cut" in record.message]
    said = [message.removeprefix("longer than ").replace(" tokens and cut:", "") for message in said]
    assert said == ["4 line 2", "4 lines 4, 5, 6, 7, 8, …", "2 line 1"]


def test_a_line_that_is_not_utf8_is_named(tmp_path, monkeypatch):
    content = "ä\u2028\n\nb\r\n".encode() + "ü\n".encode("latin-1") + b"c\n"
    (tmp_path / "text").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))
    for name in ("-", str(tmp_path / "text")):
        lines = read_lines(name)
        assert [next(lines) for _ in range(3)] == ["ä\u2028", "", "b"]
        with pytest.raises(ValueError, match=f"--input {name}: line 4 is not UTF-8"):
            next(lines)


def test_text_of_another_vocabulary_is_told_once(caplog):
    translate = in_front(Copying())
    for rows, told in (([list(range(5, 9))] * 13, 0), ([[builders.UNK, 5]], 1), ([[builders.UNK, 5]], 1)):
        translate(rows)
        assert caplog.text.count("(33.3 %) are <unk>") == caplog.text.count("are <unk>") == told
