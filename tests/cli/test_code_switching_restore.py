"""Restore and fine-tuning under the stock commands: two commands, one run, a killed one, hydra. Each in a subprocess."""

import json
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
import torch

from tests import csr_bins

Run = Callable[..., Any]
SIZES = [
    *("--encoder-layers", 1, "--decoder-layers", 1, "--encoder-embed-dim", 16, "--decoder-embed-dim", 16),
    *("--encoder-ffn-embed-dim", 24, "--decoder-ffn-embed-dim", 24, "--encoder-attention-heads", 2),
    *("--decoder-attention-heads", 2, "--max-source-positions", 64, "--max-target-positions", 64),
]
TRAINING = [
    *(
        "--arch",
        "mbart_base",
        *SIZES,
        "--share-all-embeddings",
        "--dropout",
        0.1,
        "--criterion",
        "label_smoothed_cross_entropy",
    ),
    *(
        "--label-smoothing",
        0.2,
        "--optimizer",
        "adam",
        "--adam-betas",
        "(0.9, 0.98)",
        "--lr",
        0.01,
        "--max-sentences",
        8,
    ),
    *("--seed", 5, "--cpu", "--no-epoch-checkpoints", "--log-format", "json", "--log-interval", 1),
]
STOCK = ["--task", "translation_from_pretrained_bart", "-s", "en", "-t", "de", "--langs", csr_bins.LANGS]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> csr_bins.Bin:
    """Data-bin, lexicons and model."""
    return csr_bins.write(tmp_path_factory.mktemp("csr"))


def train(
    run_cli: Run, user_dir: str, made: csr_bins.Bin, save_dir: Path, updates: int, *more: Any, **options: Any
) -> Any:
    """A tiny run of an mBART up to an update."""
    common = [made.data, "--user-dir", user_dir, "--save-dir", save_dir, "--max-update", updates, *TRAINING]
    return run_cli("train", *common, *more, **options)


def records(result: Any) -> List[Dict[str, Any]]:
    """What a run logged as JSON."""
    lines = (result.stderr + result.stdout).splitlines()
    return [json.loads(line[line.index(' | {"') + 3 :]) for line in lines if ' | {"' in line]


def state(folder: Path, name: str = "checkpoint_last.pt") -> Dict[str, Any]:
    """A checkpoint."""
    return dict(torch.load(folder / name, weights_only=False))


def difference(first: Path, second: Path) -> float:
    """The largest one between parameters, and between moments, of two runs."""
    left, right = state(first), state(second)
    pairs = [(left["model"][key], right["model"][key]) for key in left["model"]]
    states = [content["last_optimizer_state"]["state"] for content in (left, right)]
    assert states[0].keys() == states[1].keys()
    pairs += [(states[0][key]["exp_avg"], states[1][key]["exp_avg"]) for key in states[0]]
    return max(float((one.double() - other.double()).abs().max()) for one, other in pairs)


@pytest.mark.slow
def test_two_commands(made: csr_bins.Bin, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    """Restore, killed inside its second epoch and continued with two workers; fine-tuning with the stock task; decoding."""
    whole, parts, tuned = (tmp_path / name for name in ("whole", "parts", "tuned"))
    done = train(run_cli, user_dir, made, whole, 26, *made.options())
    found = records(done)
    shares = [float(record["train_switched"]) for record in found if "train_switched" in record]
    assert len(shares) == 3 and all(0.3 < share < 0.4 for share in shares[:2])
    valid = [record for record in found if "valid_loss" in record]
    assert len({record["valid_switched"] for record in valid}) == 1 and valid[0]["valid_coverage"] == "1"
    assert "train en: 48 sentences" in done.stderr + done.stdout
    train(run_cli, user_dir, made, parts, 15, *made.options(), "--disable-validation")
    train(run_cli, user_dir, made, parts, 26, *made.options(), "--disable-validation", "--num-workers", 2)
    assert difference(whole, parts) == 0.0

    train(run_cli, user_dir, made, tuned, 6, *STOCK, "--finetune-from-model", whole / "checkpoint_last.pt")
    decoding = ["--user-dir", user_dir, "--cpu", "--path", tuned / "checkpoint_last.pt", "--max-len-b", 15, "--beam", 2]
    outputs = [
        run_cli("generate", made.data, *decoding, *task).stdout
        for task in (STOCK, ["--task", "code_switching_restore", *STOCK[2:]])
    ]
    lines = [[line for line in output.splitlines() if line[:2] in ("S-", "T-", "H-", "D-")] for output in outputs]
    assert lines[0] == lines[1] and len(lines[0]) == 4 * 8
    rows = [line.split("\t") for line in lines[0]]
    source = {row[0][2:]: row[1].replace(" [en]", "") for row in rows if row[0].startswith("S-")}
    expected = {row[0][2:]: row[2] for row in rows if row[0].startswith("D-")}
    more = [tuned, "--max-len-b", 15, "--beam", 2, "--cpu"]
    found = run_cli("fairseq_plugins", "translate", *more, stdin="\n" + "\n".join(source.values()) + "\n")
    assert found.stdout.splitlines()[0] == "" and dict(zip(source, found.stdout.splitlines()[1:])) == expected


@pytest.mark.slow
def test_both_stages_in_one_run(made: csr_bins.Bin, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    """12 restore batches an epoch, 6 of translation, 2 an update: 6 updates, 2 more, then 3 an epoch. The continued runs begin
    inside the epoch that is cut, and exactly at the switch."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = [*made.options(), "--restore-updates", 8, "--update-freq", 2]
    found = records(train(run_cli, user_dir, made, whole, 16, *options))
    ends = [int(record["train_num_updates"]) for record in found if "train_num_updates" in record]
    assert ends == [6, 8, 11, 14, 16]
    inner = [record for record in found if "num_updates" in record]
    switched = [int(record["num_updates"]) for record in inner if record.get("switched") is not None]
    assert len(inner) == 16 and switched == list(range(1, 9))
    assert not any("valid_switched" in record for record in found), "validation is translation throughout"
    # Adam counts its steps, and begins anew with update 9.
    for updates, steps in ((7, 7), (8, 8), (16, 8)):
        train(run_cli, user_dir, made, parts, updates, *options, "--disable-validation")
        moments = state(parts)["last_optimizer_state"]["state"]
        assert {int(value["step"]) for value in moments.values()} == {steps}, updates
    assert difference(whole, parts) == 0.0


@pytest.mark.slow
def test_hydra_and_bad_input(made: csr_bins.Bin, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    sizes = "".join(f", {name[2:].replace('-', '_')}: {value}" for name, value in zip(SIZES[::2], SIZES[1::2]))
    (tmp_path / "csr.yaml").write_text(
        f"""
common: {{user_dir: {user_dir}, cpu: true}}
task: {{_name: code_switching_restore, data: {made.data}, source_lang: en, target_lang: de, langs: 'en,de', lexicon: {made.lexicon},
  sentencepiece_model: {made.model}, restore_updates: 5}}
model: {{_name: transformer, share_all_embeddings: true{sizes}}}
criterion: {{_name: label_smoothed_cross_entropy}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.01], update_freq: [2], max_update: 8}}
dataset: {{batch_size: 8}}
checkpoint: {{save_dir: {tmp_path / "run"}}}
"""
    )
    run_cli("hydra_train", "--config-dir", tmp_path, "--config-name", "csr", cwd=tmp_path)
    moments = state(tmp_path / "run")["last_optimizer_state"]["state"]
    assert {int(value["step"]) for value in moments.values()} == {3}
    for options, message in (
        (["--lexicon", tmp_path], "ValueError: --lexicon"),
        (["--langs", "de,fr"], "ValueError: --source-lang en: the dictionary has no [en]"),
    ):
        done = train(run_cli, user_dir, made, tmp_path / "none", 1, *made.options(), *options, check=False)
        assert done.returncode != 0 and done.stderr.strip().splitlines()[-1].startswith(message)
        assert not list((tmp_path / "none").glob("*.pt"))
