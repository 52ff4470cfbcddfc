"""Free generation with SGA under the stock commands, each in a subprocess."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from fairseq.data import data_utils

from tests import data_bins

from .conftest import World
from .test_sga_commands import hypotheses, largest_difference, model_of, train_arguments

FREE = ["--alignment", "mask_predict", "--criterion", "sga_mask_predict"]


@pytest.mark.slow
def test_free_generation_trains_averages_and_decodes(
    world: World, run_cli: Callable[..., Any], user_dir: str, tmp_path: Path
) -> None:
    more = ["--max-epoch", 2, "--eval-bleu", "--eval-bleu-args", '{"iter_decode_max_iter": 2}', "--length-beam", 2]
    more += ["--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric", "--keep-best-checkpoints", 2]
    result = run_cli("train", *train_arguments(world, user_dir, tmp_path, *FREE, *more))
    for name in ("alignment", "length", "denoising"):
        assert f'"train_{name}_loss": "' in result.stderr + result.stdout
        assert f'"valid_{name}_loss": "' in result.stderr + result.stdout
    averaged = tmp_path / "average.pt"
    run_cli("fairseq_plugins.checkpoints.average", "--directory", tmp_path, "--best", 2, "--output", averaged)
    weights = [key for key, value in model_of(averaged).items() if value.numel()]
    assert {key.split(".")[0] for key in weights} == {
        "encoder_prompts", "alignment_prompts", "denoiser_prompts", "semantic", "length_predictor"
    }  # fmt: skip

    base = [world.data, "--user-dir", user_dir, "--task", "sga_translation", "-s", "en", "-t", "de", "--cpu"]
    base += ["--path", averaged, "--max-sentences", 5]
    options = ["--mask-predict-iterations", 3, "--length-beam", 2]
    full = run_cli("generate", *base, *options, "--iter-decode-max-iter", 2, "--retain-iter-history", "--print-step")
    history, steps = hypotheses(full.stdout, "E"), hypotheses(full.stdout, "I")
    assert len(hypotheses(full.stdout)) == 12  # no sentence is lost
    assert len(history) == sum(int(step) + 1 for step in steps.values())
    assert {int(step) for step in steps.values()} <= {1, 2}
    alone = run_cli("generate", *base, *options, "--iter-decode-max-iter", 0)
    assert hypotheses(alone.stdout) == {key: history[f"{key}_0"] for key in steps}  # mask-predict alone

    refused = run_cli("generate", *base, "--mask-predict-iterations", 0, check=False)
    assert "--mask-predict-iterations must be at least 1" in refused.stderr.splitlines()[-1]
    assert "H-" not in refused.stdout


@pytest.mark.slow
def test_pairs_are_decoded_whatever_the_length_of_their_references(
    world: World, run_cli: Callable[..., Any], user_dir: str, repo_root: Path, tmp_path: Path
) -> None:
    """The model writes 48 tokens at most; no sentence is lost, and none before it, because a reference has 60."""
    more = [
        "--max-update",
        1,
        "--eval-bleu",
        "--eval-bleu-args",
        '{"iter_decode_max_iter": 0}',
        "--no-epoch-checkpoints",
    ]
    more += ["--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric", "--keep-best-checkpoints", 1]
    run_cli("train", *train_arguments(world, user_dir, tmp_path / "sga", *FREE, *more))
    shutil.copytree(world.data, tmp_path / "bin")
    target = "test.en-de.de"
    references = data_utils.load_indexed_dataset(str(world.data / target))
    rows = [references[number].tolist()[:-1] for number in range(len(references))]
    data_bins.write_side(tmp_path / "bin", "test", "en-de", "de", [*rows[:5], (rows[5] * 60)[:60], *rows[6:]])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    languages = {"SOURCE": "en", "TARGET": "de"}
    done = subprocess.run(
        ["bash", "examples/sga/generate_free.sh", "pairs", str(tmp_path), "sga", "1", "--cpu"],
        env={**os.environ, "PATH": path, "PYTHON": sys.executable, "POSITIONS": "96", "PASSES": "0", **languages},
        cwd=repo_root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "sga" / "1-0.de").read_text(encoding="utf-8").splitlines()) == len(rows)
    assert "invalid sizes" not in (tmp_path / "sga" / "generate-1-0.err").read_text(encoding="utf-8")


def test_the_options_of_the_authors_under_argparse_and_hydra(
    world: World, run_cli: Callable[..., Any], user_dir: str, tmp_path: Path
) -> None:
    """Both train the same; a checkpoint decodes with the length it was trained to read, and with no other."""
    more = ["--length-from", "bos", "--label-smoothing", 0.1, "--min-mask-ratio", 0.2, "--denoise-all-positions"]
    more += ["--max-update", 1, "--disable-validation"]
    run_cli("train", *train_arguments(world, user_dir, tmp_path / "argparse", *FREE, *more))
    config = f"""
common: {{user_dir: {user_dir}, cpu: true, seed: 5}}
task: {{_name: sga_translation, data: {world.data}, source_lang: en, target_lang: de}}
model: {{_name: sga_tiny, pretrained_mlm: {world.masked_lm}, prompt_length: 4, alignment: mask_predict, length_from: bos}}
criterion: {{_name: sga_mask_predict, label_smoothing: 0.1, min_mask_ratio: 0.2, denoise_all_positions: true}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.01], max_update: 1}}
dataset: {{batch_size: 8, num_workers: 0, disable_validation: true, max_tokens_valid: 400}}
checkpoint: {{save_dir: {tmp_path / "hydra"}}}
"""
    (tmp_path / "free.yaml").write_text(config)
    run_cli("hydra_train", "--config-dir", tmp_path, "--config-name", "free", cwd=tmp_path)
    made = tmp_path / "argparse" / "checkpoint_last.pt"
    assert largest_difference(made, tmp_path / "hydra" / "checkpoint_last.pt") == 0.0
    assert "length_predictor.bos_projection.weight" in model_of(made)

    base = [world.data, "--user-dir", user_dir, "--task", "sga_translation", "-s", "en", "-t", "de", "--cpu"]
    base += ["--path", made, "--iter-decode-max-iter", 0]
    assert len(hypotheses(run_cli("generate", *base).stdout)) == 12
    refused = run_cli("generate", *base, "--model-overrides", "{'length_from': 'mean'}", check=False)
    assert "trained with --length-from bos; valid: bos" in refused.stderr.splitlines()[-1]


def test_a_criterion_of_the_other_alignment_is_refused_before_the_first_batch(
    world: World, run_cli: Callable[..., Any], user_dir: str, tmp_path: Path
) -> None:
    result = run_cli("train", *train_arguments(world, user_dir, tmp_path, *FREE[:2]), check=False)
    assert result.returncode != 0
    assert "--criterion sga_ctc trains models with --alignment ctc" in result.stderr.splitlines()[-1]
    assert "--criterion sga_mask_predict" in result.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_questions_keep_their_answers_within_the_slots_of_ctc(repo_root: Path, tmp_path: Path) -> None:
    """prepare_free.sh with 64 positions: 32 source tokens, whatever the alignment; passages lose their end, never the answer."""
    passages = [
        f"house {number} is red . " + "a dog runs in the park . " * 12 + "the end is blue ." for number in range(40)
    ]
    questions = [[("what is red ?", f"house {number}"), ("what is blue ?", "the end")] for number in range(40)]
    data = [
        {
            "title": f"T{number}",
            "paragraphs": [
                {
                    "context": passage,
                    "qas": [
                        {"question": text, "answers": [{"text": answer, "answer_start": passage.index(answer)}]}
                        for text, answer in asked
                    ],
                }
            ],
        }
        for number, (passage, asked) in enumerate(zip(passages, questions))
    ]
    (tmp_path / "xquad.en.json").write_text(json.dumps({"data": data}), encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "examples/sga/prepare_free.sh", "question_generation", str(tmp_path), str(tmp_path / "out")],
        env={**os.environ, "PATH": path, "PYTHON": sys.executable, "POSITIONS": "64"},
        cwd=repo_root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = 0
    for split in ("train", "valid", "test"):
        rows = (tmp_path / "out" / "text" / f"{split}.passage").read_text(encoding="utf-8").splitlines()
        for row in rows:
            passage, _, answer = row.partition(" [S] ")
            assert passage.startswith(answer + " is red .") and not passage.endswith("blue .")
        prefix = str(tmp_path / "out" / "bin" / f"{split}.passage-question.passage")
        dataset = data_utils.load_indexed_dataset(prefix)  # its sizes are a view of the open file
        sizes = dataset.sizes.tolist()
        assert len(sizes) == len(rows)
        assert all(28 <= size + 1 <= 32 for size in sizes)  # </s> is counted, <s> not yet
        kept += len(rows)
    assert kept == 40  # the questions about the end are gone
