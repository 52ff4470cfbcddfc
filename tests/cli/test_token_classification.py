"""Tagging with the stock commands: two processes train in two languages, one validates in others; scores by a slow loop."""

import json
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
import torch
from fairseq import checkpoint_utils

from tests import nlu_bins
from tests.reference import span_loops

LIMIT = 11
"""--max-positions: some sentences lose words."""

OPTIONS = [
    "--task", "token_classification", "--criterion", "token_classification", "--arch", "nlu_encoder", "--encoder-family", "xlmr",
    "--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--encoder-heads", 2, "--dropout", 0,
    "--max-positions", LIMIT, "--optimizer", "adam", "--lr", 0.01, "--batch-size", 8, "--seed", 3, "--num-workers", 0, "--cpu",
]  # fmt: skip
SETS = {
    "train.en": nlu_bins.tagged_sentences(80, 1),
    "train.de": nlu_bins.tagged_sentences(24, 2, shift=5),
    "valid.en": nlu_bins.tagged_sentences(30, 3),
    "valid.de": nlu_bins.tagged_sentences(20, 4, shift=5),
    "test.fr": [
        [(pieces, None if tag == "B-LOC" else tag) for pieces, tag in words]
        for words in nlu_bins.tagged_sentences(20, 5, shift=8)
    ],
}


def records(result: Any) -> List[Dict[str, Any]]:
    """What a command logged as JSON."""
    lines = (result.stderr + result.stdout).splitlines()
    return [json.loads(line[line.index(' | {"') + 3 :]) for line in lines if ' | {"' in line]


def values(found: List[Dict[str, Any]], name: str) -> List[float]:
    """All values that were logged under a name."""
    return [float(record[name]) for record in found if name in record]


def by_hand(checkpoint: Path, name: str) -> Dict[str, float]:
    """Scores of a checkpoint's own predictions, one sentence after the other."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)])
    task.load_dataset(name)
    data, predicted, gold = task.dataset(name), [], []
    for row, words in enumerate(SETS[name]):
        net_input = data.collater([data[row]])["net_input"]
        with torch.no_grad():
            logits, _ = model.eval()(**net_input, classification_head_name="token_classification_head")
        predicted.append([task.labels[number] for number in logits.argmax(-1)])
        gold.append([tag for _, tag in words][: len(predicted[-1])])
        pieces = [len(pieces) for pieces, _ in words]
        kept = sum(sum(pieces[:number]) < LIMIT - 2 for number in range(len(words)))
        assert len(predicted[-1]) == kept
    assert sum(map(len, gold)) < sum(map(len, SETS[name])), "some words are cut off"
    return span_loops.scores(predicted, gold)


@pytest.mark.slow
def test_best_f1_in_two_processes_and_scores_in_other_languages(
    run_cli: Callable[..., Any], user_dir: str, tmp_path: Path
) -> None:
    data, save_dir = tmp_path / "bin", tmp_path / "run"
    for name, sentences in SETS.items():
        nlu_bins.write_tagged(data, name, sentences)
    done = run_cli(
        "torch.distributed.run", "--standalone", "--nproc_per_node", 2, Path(sys.executable).with_name("fairseq-train"),
        data, "--user-dir", user_dir, *OPTIONS, "--save-dir", save_dir, "--train-subset", "train.en,train.de",
        "--valid-subset", "valid.en,valid.de", "--max-epoch", 4, "--no-epoch-checkpoints", "--log-format", "json",
        "--best-checkpoint-metric", "f1", "--maximize-best-checkpoint-metric", "--sampling-temperature", 2,
    )  # fmt: skip
    trained = records(done)
    scores = values(trained, "valid.en_f1")
    assert len(scores) == len(values(trained, "train_f1")) == len(values(trained, "valid.de_precision")) == 4
    assert 30 < max(scores) and len(set(scores)) > 1
    best = torch.load(save_dir / "checkpoint_best.pt", weights_only=False)["extra_state"]
    assert best["best"] == best["val_loss"] == max(scores) == values(trained, "valid.en_best_f1")[-1]

    for checkpoint, names in (("checkpoint_last.pt", ["valid.en", "valid.de"]), ("checkpoint_best.pt", ["test.fr"])):
        done = run_cli(
            "validate", data, "--user-dir", user_dir, "--task", "token_classification", "--path", save_dir / checkpoint,
            "--valid-subset", ",".join(names), "--batch-size", 7, "--cpu", "--log-format", "json", "--num-workers", 0,
        )  # fmt: skip
        found = records(done)
        for name in names:
            wanted = by_hand(save_dir / checkpoint, name)
            assert 0 < wanted["f1"] < 100
            for score, value in wanted.items():
                assert values(found, f"{name}_{score}") == [pytest.approx(value, abs=0.0051)]
                if checkpoint == "checkpoint_last.pt":
                    assert values(trained, f"{name}_{score}")[-1:] == values(found, f"{name}_{score}")
    unseen = sum(tag is None for words in SETS["test.fr"] for _, tag in words)
    assert 0 < unseen and "words have a tag that label/dict.txt lacks: they are left out" in done.stderr + done.stdout
    assert "more are cut off with their pieces" in done.stderr + done.stdout
