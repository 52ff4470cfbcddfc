"""Question answering and ranking under the stock commands: trained in some languages, validated in another."""

import sys
from pathlib import Path

import pytest
from fairseq import checkpoint_utils

from tests import nlu_bins as builders
from tests.reference.question_loops import best_answer, ndcg_loop, plain_exact, plain_f1

from .commands import checkpoint, logged, records

TRAINING = """--arch nlu_encoder --encoder-family xlmr --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16
    --encoder-heads 2 --max-source-positions 24 --max-positions 24 --optimizer adam --lr 0.01 --max-tokens 300 --seed 3 --cpu
    --num-workers 0 --log-format json --log-interval 1 --maximize-best-checkpoint-metric --max-epoch 2"""
GRADES = ["3", "0", "1"]


def trained(path):
    """Model and task of a run."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path / "checkpoint_last.pt")])
    return models[0].eval().requires_grad_(False), task


def validated(run_cli, user_dir, data, run, subset, task):
    """The last line of fairseq-validate."""
    line = f"""{data} --user-dir {user_dir} --path {run / "checkpoint_last.pt"} --valid-subset {subset} --max-tokens 300 --cpu
        --log-format json --task {task}"""
    return records(run_cli("validate", *line.split()))[-1]


def slow_scores(model, task, subset, longest):
    """F1 and exact match in percent, window by window and span by span."""
    task.load_dataset(subset)
    dataset, f1, exact = task.dataset(subset), 0.0, 0
    for index, entry in enumerate(dataset.questions.entries):
        rows = []
        for row in dataset[index]["rows"]:
            logits, _ = model(row["tokens"][None], features_only=True, classification_head_name="span_head")
            rows.append((logits[0].tolist(), *row["passage"]))
        _, first, last = best_answer(rows, longest)
        words = dataset.questions.passages[entry.passage].split()
        gold = [answer.text for answer in entry.answers]
        f1 += plain_f1(" ".join(words[first : last + 1]), gold)
        exact += plain_exact(" ".join(words[first : last + 1]), gold)
    return [pytest.approx(100 * total / len(dataset), abs=0.006) for total in (f1, exact)]


@pytest.mark.slow
def test_question_answering_in_two_processes(run_cli, user_dir, tmp_path):
    """Two languages in one run; validation shares the questions among the processes, one of them with a batch less."""
    data, run = tmp_path / "bin", tmp_path / "run"
    for seed, (name, count) in enumerate(
        {"train.en": 24, "train.de": 12, "valid.en": 25, "test.zh": 17}.items(), start=1
    ):
        builders.write_questions(data, name, *builders.random_questions(count, seed))
    line = f"""{data} --user-dir {user_dir} --task span_qa --criterion span_qa {TRAINING} --max-question 5 --window-stride 8
        --max-answer 3 --train-subset train.en,train.de --valid-subset valid.en --best-checkpoint-metric f1 --save-dir {run}"""
    command = [Path(sys.executable).with_name("fairseq-train"), *line.split()]
    done = run_cli("torch.distributed.run", "--standalone", "--nproc_per_node", 2, *command)
    assert logged(done, "train_f1") == []
    found = [logged(done, f"valid.en_{score}") for score in ("f1", "em")]
    assert len(found[0]) == 2 and 0 < found[0][-1] < 100
    model, task = trained(run)
    assert [values[-1] for values in found] == slow_scores(model, task, "valid.en", longest=3)
    assert checkpoint(run / "checkpoint_best.pt")["extra_state"]["best"] == max(found[0])
    other = validated(run_cli, user_dir, data, run, "test.zh", "span_qa")
    assert [float(other[f"test.zh_{score}"]) for score in ("f1", "em")] == slow_scores(
        model, task, "test.zh", longest=3
    )


@pytest.mark.slow
def test_ranking(run_cli, user_dir, tmp_path):
    data, run = tmp_path / "bin", tmp_path / "run"
    for seed, (name, queries) in enumerate([("train.en", 20), ("valid.en", 8), ("test.de", 11)], start=1):
        builders.write_ranking(data, name, builders.random_ranking(queries, seed, GRADES), GRADES)
    line = f"""{data} --user-dir {user_dir} --task relevance_ranking --criterion relevance_ranking --ndcg-k 4 {TRAINING}
        --train-subset train.en --valid-subset valid.en --best-checkpoint-metric ndcg --save-dir {run}"""
    done = run_cli("train", *line.split())
    assert len(logged(done, "valid.en_ndcg")) == 2 and logged(done, "train_ndcg") == []
    other = validated(run_cli, user_dir, data, run, "test.de", "relevance_ranking")

    model, task = trained(run)
    task.load_dataset("test.de")
    dataset, values, right = task.dataset("test.de"), [], []
    for index in range(len(dataset)):
        scores, grades = [], []
        for row in dataset[index]["rows"]:
            logits, _ = model(row["tokens"][None], features_only=True, classification_head_name="ranking_head")
            chances = logits[0].double().softmax(0).tolist()
            scores.append(sum(chance * int(grade) for chance, grade in zip(chances, GRADES)))
            grades.append(int(GRADES[row["target"]]))
            right.append(logits.argmax().item() == row["target"])
        values.append(ndcg_loop(scores, grades, k=4))
    kept = [value for value in values if value is not None]
    assert len(kept) < len(values)
    assert float(other["test.de_ndcg"]) == pytest.approx(100 * sum(kept) / len(kept), abs=0.006)
    assert float(other["test.de_accuracy"]) == pytest.approx(100 * sum(right) / len(right), abs=0.006)
    assert int(other["test.de_queries_left_out"]) == len(values) - len(kept)
