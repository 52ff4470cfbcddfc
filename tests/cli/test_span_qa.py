"""Question answering and ranking under the stock commands: trained in some languages, validated in another."""

import json
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest
import torch
from fairseq import checkpoint_utils

from tests import question_builders as builders
from tests.reference.question_loops import best_answer, ndcg_loop, plain_exact, plain_f1

Run = Callable[..., Any]
SIZES = ["--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--encoder-heads", 2]
MODEL = ["--arch", "nlu_encoder", "--encoder-family", "xlmr", *SIZES, "--max-source-positions", 24]
LEARNING = ["--optimizer", "adam", "--lr", 0.01, "--max-tokens", 300, "--seed", 3, "--cpu", "--num-workers", 0]
LOG = ["--log-format", "json", "--log-interval", 1]
GRADES = ["3", "0", "1"]


def records(text: str) -> List[Dict[str, Any]]:
    """What a run logged as JSON."""
    return [json.loads(line[line.index(' | {"') + 3 :]) for line in text.splitlines() if ' | {"' in line]


def trained(path: Path) -> Tuple[Any, Any]:
    """Model and task of a checkpoint."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    return models[0].eval().requires_grad_(False), task


def validated(run_cli: Run, user_dir: str, data: Path, checkpoint: Path, subset: str, task: str) -> Dict[str, Any]:
    """The last line of fairseq-validate."""
    common = [
        "--user-dir",
        user_dir,
        "--path",
        checkpoint,
        "--valid-subset",
        subset,
        "--max-tokens",
        300,
        "--cpu",
        *LOG,
    ]
    done = run_cli("validate", data, *common, "--task", task)
    return records(done.stderr + done.stdout)[-1]


def slow_scores(model: Any, task: Any, subset: str, longest: int) -> Tuple[float, float]:
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
    return 100 * f1 / len(dataset), 100 * exact / len(dataset)


@pytest.mark.slow
def test_question_answering_in_two_processes(run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    """Two languages in one run; validation shares the questions among the processes, one of them with a batch less."""
    data, save_dir = tmp_path / "bin", tmp_path / "run"
    for seed, (name, count) in enumerate(
        [("train.en", 24), ("train.de", 12), ("valid.en", 25), ("test.zh", 17)], start=1
    ):
        builders.write_questions(data, name, *builders.random_questions(count, seed))
    windows = ["--max-positions", 24, "--max-question", 5, "--window-stride", 8, "--max-answer", 3]
    command = [Path(sys.executable).with_name("fairseq-train"), data, "--user-dir", user_dir, "--task", "span_qa"]
    command += ["--criterion", "span_qa", *windows, "--train-subset", "train.en,train.de", "--valid-subset", "valid.en"]
    command += ["--best-checkpoint-metric", "f1", "--maximize-best-checkpoint-metric", "--max-epoch", 2]
    command += [*MODEL, *LEARNING, *LOG, "--save-dir", save_dir]
    done = run_cli("torch.distributed.run", "--standalone", "--nproc_per_node", 2, *command)
    found = records(done.stderr + done.stdout)
    assert not any("train_f1" in record for record in found)
    valid = [record for record in found if "valid.en_f1" in record]
    assert len(valid) == 2
    model, task = trained(save_dir / "checkpoint_last.pt")
    f1, exact = slow_scores(model, task, "valid.en", longest=3)
    assert 0 < f1 < 100
    assert float(valid[-1]["valid.en_f1"]) == pytest.approx(f1, abs=0.006)
    assert float(valid[-1]["valid.en_em"]) == pytest.approx(exact, abs=0.006)
    best = torch.load(save_dir / "checkpoint_best.pt", weights_only=False)["extra_state"]["best"]
    assert best == max(float(record["valid.en_f1"]) for record in valid)

    other = validated(run_cli, user_dir, data, save_dir / "checkpoint_last.pt", "test.zh", "span_qa")
    f1, exact = slow_scores(model, task, "test.zh", longest=3)
    assert float(other["test.zh_f1"]) == pytest.approx(f1, abs=0.006)
    assert float(other["test.zh_em"]) == pytest.approx(exact, abs=0.006)


@pytest.mark.slow
def test_ranking(run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    data, save_dir = tmp_path / "bin", tmp_path / "run"
    for seed, (name, queries) in enumerate([("train.en", 20), ("valid.en", 8), ("test.de", 11)], start=1):
        builders.write_ranking(data, name, builders.random_ranking(queries, seed, GRADES), GRADES)
    ranking = ["--task", "relevance_ranking", "--criterion", "relevance_ranking", "--ndcg-k", 4, "--max-positions", 24]
    subsets = ["--train-subset", "train.en", "--valid-subset", "valid.en", "--best-checkpoint-metric", "ndcg"]
    done = run_cli(
        "train", data, "--user-dir", user_dir, *ranking, *subsets, "--maximize-best-checkpoint-metric", "--max-epoch", 2,
        *MODEL, *LEARNING, *LOG, "--save-dir", save_dir,
    )  # fmt: skip
    found = records(done.stderr + done.stdout)
    assert len([record for record in found if "valid.en_ndcg" in record]) == 2
    assert not any("train_ndcg" in record for record in found)
    other = validated(run_cli, user_dir, data, save_dir / "checkpoint_last.pt", "test.de", "relevance_ranking")

    model, task = trained(save_dir / "checkpoint_last.pt")
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
