"""Test question answering under the stock commands: two processes, two languages, zero-shot."""

import pytest
from fairseq import checkpoint_utils

from tests import nlu_bins
from tests.reference.question_loops import best_answer, plain_exact, plain_f1

from .commands import checkpoint, logged

TRAINING = """--task span_qa --criterion span_qa --arch nlu_encoder --encoder-family xlmr
    --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --encoder-heads 2
    --max-source-positions 24 --max-positions 24 --max-question 5 --window-stride 8 --max-answer 3
    --optimizer adam --lr 0.01 --max-tokens 300 --seed 3 --cpu --num-workers 0 --log-format json
    --log-interval 1 --best-checkpoint-metric f1 --maximize-best-checkpoint-metric --max-epoch 2
    --train-subset train.en,train.de --valid-subset valid.en"""
COUNTS = {"train.en": 24, "train.de": 12, "valid.en": 25, "test.zh": 17}


def slow_scores(model, task, subset, longest):
    """Compute F1 and exact match in percent, window by window and span by span."""
    task.load_dataset(subset)
    dataset, f1, exact = task.dataset(subset), 0.0, 0
    for index, entry in enumerate(dataset.questions.entries):
        windows = []
        for row in dataset[index]["rows"]:
            inputs = {"features_only": True, "classification_head_name": "span_head"}
            logits, _ = model(row["tokens"][None], **inputs)
            windows.append((logits[0].tolist(), *row["window"]))
        _, first, last = best_answer(windows, longest)
        words = dataset.questions.passages[entry.passage].split()
        answer = " ".join(words[first : last + 1])
        gold = [answer.text for answer in entry.answers]
        f1 += plain_f1(answer, gold)
        exact += plain_exact(answer, gold)
    return [pytest.approx(100 * total / len(dataset), abs=0.006) for total in (f1, exact)]


@pytest.mark.slow
def test_question_answering_in_two_processes(torchrun, user_dir, decode, tmp_path):
    """Validation shares the questions between the processes, one of them with a batch less."""
    data, run = tmp_path / "bin", tmp_path / "run"
    for seed, (name, count) in enumerate(COUNTS.items(), start=1):
        nlu_bins.write_questions(data, name, *nlu_bins.random_questions(count, seed))
    line = f"{data} --user-dir {user_dir} --save-dir {run} {TRAINING}"
    log = torchrun(2, *line.split())
    assert logged(log, "train_f1") == []
    f1, exact = logged(log, "valid.en_f1"), logged(log, "valid.en_em")
    assert len(f1) == 2
    assert 0 < f1[-1] < 100
    assert checkpoint(run / "checkpoint_best.pt")["extra_state"]["best"] == max(f1)

    last = run / "checkpoint_last.pt"
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(last)])
    model.eval().requires_grad_(False)
    assert [f1[-1], exact[-1]] == slow_scores(model, task, "valid.en", longest=3)
    line = "--task span_qa --valid-subset test.zh --max-tokens 300 --log-format json"
    log = decode(data, last, line, command="validate")
    scores = [logged(log, f"test.zh_{name}")[-1] for name in ("f1", "em")]
    assert scores == slow_scores(model, task, "test.zh", longest=3)
