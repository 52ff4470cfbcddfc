"""Question answering under the stock commands: trained in two languages by two processes, validated in another."""

import sys
from pathlib import Path

import pytest
from fairseq import checkpoint_utils

from tests import nlu_bins as builders
from tests.reference.question_loops import best_answer, plain_exact, plain_f1

from .commands import checkpoint, logged

TRAINING = """--arch nlu_encoder --encoder-family xlmr --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16
    --encoder-heads 2 --max-source-positions 24 --max-positions 24 --optimizer adam --lr 0.01 --max-tokens 300 --seed 3 --cpu
    --num-workers 0 --log-format json --log-interval 1 --maximize-best-checkpoint-metric --max-epoch 2"""
BATCHES = "--max-tokens 300 --log-format json"


def slow_scores(model, task, subset, longest):
    """F1 and exact match in percent, window by window and span by span."""
    task.load_dataset(subset)
    dataset, f1, exact = task.dataset(subset), 0.0, 0
    for index, entry in enumerate(dataset.questions.entries):
        rows = []
        for row in dataset[index]["rows"]:
            logits, _ = model(row["tokens"][None], features_only=True, classification_head_name="span_head")
            rows.append((logits[0].tolist(), *row["window"]))
        _, first, last = best_answer(rows, longest)
        words = dataset.questions.passages[entry.passage].split()
        gold = [answer.text for answer in entry.answers]
        f1 += plain_f1(" ".join(words[first : last + 1]), gold)
        exact += plain_exact(" ".join(words[first : last + 1]), gold)
    return [pytest.approx(100 * total / len(dataset), abs=0.006) for total in (f1, exact)]


@pytest.mark.slow
def test_question_answering_in_two_processes(run_cli, user_dir, decode, tmp_path):
    """Two languages in one run; validation shares the questions among the processes, one of them with a batch less."""
    data, run = tmp_path / "bin", tmp_path / "run"
    counts = {"train.en": 24, "train.de": 12, "valid.en": 25, "test.zh": 17}
    for seed, (name, count) in enumerate(counts.items(), start=1):
        builders.write_questions(data, name, *builders.random_questions(count, seed))
    line = f"""{data} --user-dir {user_dir} --task span_qa --criterion span_qa {TRAINING} --max-question 5 --window-stride 8
        --max-answer 3 --train-subset train.en,train.de --valid-subset valid.en --best-checkpoint-metric f1 --save-dir {run}"""
    command = [Path(sys.executable).with_name("fairseq-train"), *line.split()]
    done = run_cli("torch.distributed.run", "--standalone", "--nproc_per_node", 2, *command)
    assert logged(done, "train_f1") == []
    found = [logged(done, f"valid.en_{score}") for score in ("f1", "em")]
    assert len(found[0]) == 2 and 0 < found[0][-1] < 100
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(run / "checkpoint_last.pt")])
    model.eval().requires_grad_(False)
    assert [values[-1] for values in found] == slow_scores(model, task, "valid.en", longest=3)
    assert checkpoint(run / "checkpoint_best.pt")["extra_state"]["best"] == max(found[0])
    line = f"--task span_qa --valid-subset test.zh {BATCHES}"
    other = decode(data, run / "checkpoint_last.pt", line, command="validate")
    found = [logged(other, f"test.zh_{score}") for score in ("f1", "em")]
    assert [values[-1] for values in found] == slow_scores(model, task, "test.zh", longest=3)
