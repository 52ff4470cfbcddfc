"""SGA under the stock commands, each in a subprocess."""

import json
import re
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest
import torch
from sacrebleu import corpus_chrf

from fairseq_plugins.scoring.meteor import Meteor
from fairseq_plugins.scoring.rouge import Rouge

from .conftest import World, write_random_masked_lm

Run = Callable[..., Any]


def train_arguments(world: World, user_dir: str, save_dir: Path, *more: Any) -> List[Any]:
    """The command line of a tiny training run."""
    return [
        world.data, "--user-dir", user_dir, "--task", "sga_translation", "-s", "en", "-t", "de", "--arch", "sga_tiny",
        "--criterion", "sga_ctc", "--pretrained-mlm", world.masked_lm, "--prompt-length", 4, "--optimizer", "adam",
        "--lr", "0.01", "--max-sentences", 8, "--save-dir", save_dir, "--log-format", "json", "--log-interval", 1,
        "--num-workers", 0, "--seed", 5, "--cpu", "--max-tokens-valid", 400, *more,
    ]  # fmt: skip


def model_of(path: Path) -> Dict[str, torch.Tensor]:
    """The model part of a checkpoint."""
    return torch.load(path, weights_only=False)["model"]


def largest_difference(first: Path, second: Path) -> float:
    """Over all tensors of two checkpoints with equal keys."""
    left, right = model_of(first), model_of(second)
    assert left.keys() == right.keys()
    return max((left[key] - right[key]).abs().max().item() for key in left if left[key].numel())


@pytest.fixture(scope="module")
def trained(world: World, run_cli: Run, user_dir: str, tmp_path_factory: Any) -> Path:
    """A run of two epochs with BLEU validation, gradient accumulation and EMA; every epoch kept."""
    save_dir = tmp_path_factory.mktemp("trained")
    more = ["--max-epoch", 2, "--update-freq", 2, "--store-ema", "--ema-decay", 0.9, "--eval-bleu", "--eval-bleu-args"]
    more += ['{"iter_decode_max_iter": 2}', "--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"]
    result = run_cli("train", *train_arguments(world, user_dir, save_dir, *more, "--keep-best-checkpoints", 2))
    (save_dir / "train.log").write_text(result.stderr + result.stdout)
    return save_dir


def test_training_logs_losses_bleu_and_unalignable_targets(trained: Path) -> None:
    records = [
        json.loads(line[line.index(' | {"') + 3 :])
        for line in (trained / "train.log").read_text().splitlines()
        if ' | {"' in line
    ]
    valid = [record for record in records if "valid_loss" in record]
    assert len(valid) == 2
    assert {"valid_alignment_loss", "valid_denoising_loss", "valid_bleu", "valid_unalignable"} <= valid[-1].keys()
    assert float(valid[1]["valid_loss"]) < float(valid[0]["valid_loss"])


def test_checkpoints_hold_the_trained_part_only(trained: Path) -> None:
    model = model_of(trained / "checkpoint_best.pt")
    weights = [key for key, value in model.items() if value.numel()]
    assert all(
        key.startswith(("encoder_prompts.", "alignment_prompts.", "denoiser_prompts.", "semantic.")) for key in weights
    )
    markers = [key for key, value in model.items() if not value.numel()]
    assert len(markers) == 1
    assert re.fullmatch(r"frozen\.fingerprint\.[0-9a-f]{32,}", markers[0])
    ema = torch.load(trained / "checkpoint_last.pt", weights_only=False)["extra_state"]["ema"]
    assert ema.keys() == model.keys()


def test_resume_equals_an_uninterrupted_run(
    trained: Path, world: World, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    more = ["--update-freq", 2, "--store-ema", "--ema-decay", 0.9, "--disable-validation", "--max-epoch"]
    run_cli("train", *train_arguments(world, user_dir, tmp_path, *more, 1))
    run_cli("train", *train_arguments(world, user_dir, tmp_path, *more, 2))
    assert largest_difference(trained / "checkpoint2.pt", tmp_path / "checkpoint2.pt") == 0.0


def test_resume_with_another_frozen_model_is_refused(
    trained: Path, world: World, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    other = write_random_masked_lm(tmp_path / "other", world.pieces + 5, 2, world.root / "dict.txt")
    arguments = train_arguments(world, user_dir, trained, "--max-epoch", 3, "--pretrained-mlm", other)
    result = run_cli("train", *arguments, check=False)
    assert result.returncode != 0
    assert "another frozen model" in result.stderr.splitlines()[-1]


def hypotheses(stdout: str, kind: str = "D") -> Dict[str, str]:
    """Lines "D-3<TAB>score<TAB>text" -> {"3": text}."""
    rows = [line.split("\t") for line in stdout.splitlines() if line.startswith(kind + "-")]
    return {row[0][len(kind) + 1 :]: row[-1] for row in rows}


def last_line_and_texts(stdout: str) -> Tuple[str, List[str], List[str]]:
    """The line "Generate test with beam=...: SCORE", the hypotheses and the references."""
    found, references = hypotheses(stdout), hypotheses(stdout, "T")
    line = next(line for line in reversed(stdout.splitlines()) if line.startswith("Generate test with beam="))
    return line, list(found.values()), [references[key] for key in found]


def test_generate_history_steps_and_moved_model(
    trained: Path, world: World, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    moved.symlink_to(world.masked_lm)
    averaged = tmp_path / "average.pt"
    run_cli("fairseq_plugins.checkpoints.average", "--directory", trained, "--best", 2, "--output", averaged)
    base = [world.data, "--user-dir", user_dir, "--task", "sga_translation", "-s", "en", "-t", "de", "--cpu"]
    base += ["--max-sentences", 5, "--path", averaged]
    overrides = ["--model-overrides", str({"pretrained_mlm": str(moved)})]
    full = run_cli("generate", *base, *overrides, "--iter-decode-max-iter", 3, "--retain-iter-history", "--print-step")
    assert len(hypotheses(full.stdout)) == 12  # no sentence is lost
    steps = {key: int(value) for key, value in hypotheses(full.stdout, "I").items()}
    assert set(steps) == set(hypotheses(full.stdout))
    assert all(1 <= step <= 3 for step in steps.values())
    history = hypotheses(full.stdout, "E")
    assert len(history) == sum(step + 1 for step in steps.values())

    alone = run_cli("generate", *base, "--iter-decode-max-iter", 0, "--scoring", "rouge", "--rouge-tokens", "char")
    assert hypotheses(alone.stdout) == {key: history[f"{key}_0"] for key in steps}  # the alignment alone
    line, texts, references = last_line_and_texts(alone.stdout)
    assert Rouge("L", tokens="char").corpus_score(texts, [references]).format() in line
    assert "tok:words-char|" in line

    missing = ["--model-overrides", str({"pretrained_mlm": str(tmp_path / "nowhere")})]
    result = run_cli("generate", *base, *missing, check=False)
    assert "--model-overrides" in result.stderr.splitlines()[-1]
    assert "nowhere" in result.stderr


def test_interactive_equals_generate(trained: Path, world: World, run_cli: Run, user_dir: str) -> None:
    source = (world.root / "test.en").read_text(encoding="utf-8")
    common = [world.data, "--user-dir", user_dir, "--task", "sga_translation", "-s", "en", "-t", "de", "--cpu"]
    common += ["--path", trained / "checkpoint_best.pt", "--iter-decode-max-iter", 2]
    interactive = run_cli("interactive", *common, "--buffer-size", 20, "--max-sentences", 7, stdin=source)
    scoring = ["--scoring", "meteor_stem", "--meteor-prefix", 2, "--meteor-gamma", 0.25]
    generated = run_cli("generate", *common, "--max-sentences", 3, *scoring)
    assert hypotheses(interactive.stdout) == hypotheses(generated.stdout)
    line, texts, references = last_line_and_texts(generated.stdout)
    assert Meteor(prefix=2, gamma=0.25).corpus_score(texts, [references]).format() in line
    assert "stem:prefix2|" in line and "gamma:0.25|" in line

    # Text in, text out: empty lines and the order stay, long lines are cut with a note, nothing else is said.
    options = ["--cpu", "--iter-decode-max-iter", 2, "--max-tokens", 64]
    text = f"\n{source}{'the ' * 60}\n"
    translated = run_cli("fairseq_plugins", "translate", trained, *options, stdin=text)
    empty, *found, cut = translated.stdout.split("\n")[:-1]
    assert found == [hypotheses(generated.stdout)[str(number)] for number in range(12)]
    assert (empty, bool(cut)) == ("", True)
    assert "cut: line 14\n" in translated.stderr
    assert all(" | " in line for line in translated.stderr.splitlines())
    assert len(translated.stderr.splitlines()) <= 8


def test_full_checkpoint_decodes_without_the_pretrained_file(
    world: World, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    other = write_random_masked_lm(tmp_path / "copy", world.pieces + 5, 1, world.root / "dict.txt")
    arguments = train_arguments(
        world, user_dir, tmp_path, "--max-update", 2, "--save-full-model", "--pretrained-mlm", other
    )
    run_cli("train", *arguments, "--no-denoising", "--disable-validation")
    for path in other.iterdir():
        path.unlink()
    base = [world.data, "--user-dir", user_dir, "--task", "sga_translation", "-s", "en", "-t", "de", "--cpu"]
    result = run_cli("generate", *base, "--path", tmp_path / "checkpoint_last.pt", "--scoring", "chrf")
    line, texts, references = last_line_and_texts(result.stdout)
    assert len(texts) == 12
    assert line.endswith(corpus_chrf(texts, [references]).format())  # fairseq's own scorer


def test_hydra_builds_what_argparse_builds(
    trained: Path, world: World, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    config = f"""
common: {{user_dir: {user_dir}, cpu: true, seed: 5}}
task: {{_name: sga_translation, data: {world.data}, source_lang: en, target_lang: de}}
model: {{_name: sga_tiny, pretrained_mlm: {world.masked_lm}, prompt_length: 4}}
criterion: {{_name: sga_ctc}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.01], max_epoch: 1, update_freq: [2]}}
dataset: {{batch_size: 8, num_workers: 0, disable_validation: true, max_tokens_valid: 400}}
checkpoint: {{save_dir: {tmp_path / "hydra"}}}
"""
    (tmp_path / "sga.yaml").write_text(config)
    run_cli("hydra_train", "--config-dir", tmp_path, "--config-name", "sga", cwd=tmp_path)
    assert largest_difference(trained / "checkpoint1.pt", tmp_path / "hydra" / "checkpoint1.pt") == 0.0


def test_two_processes_equal_one_with_accumulation(world: World, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    more = ["--max-update", 3, "--disable-validation", "--denoise-noise", 0]
    train = Path(sys.executable).with_name("fairseq-train")
    arguments = train_arguments(world, user_dir, tmp_path / "two", *more)
    run_cli("torch.distributed.run", "--standalone", "--nproc_per_node", 2, train, *arguments)
    run_cli("train", *train_arguments(world, user_dir, tmp_path / "one", *more, "--update-freq", 2))
    assert largest_difference(tmp_path / "two/checkpoint_last.pt", tmp_path / "one/checkpoint_last.pt") < 1e-4


def test_bf16_trains(world: World, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    arguments = train_arguments(world, user_dir, tmp_path, "--max-update", 2, "--bf16", "--disable-validation")
    result = run_cli("train", *arguments)
    assert "nan" not in result.stderr.lower().replace("nanoseconds", "")
    weight = model_of(tmp_path / "checkpoint_last.pt")["semantic.key.weight"]  # fairseq writes bf16 as float32
    assert torch.equal(weight, weight.bfloat16().float())


def test_three_lines_of_python(trained: Path, world: World) -> None:
    from fairseq_plugins.models.sga import SGAModel

    model = SGAModel.from_pretrained(str(trained), "checkpoint_best.pt", str(world.data))
    sentences = (world.root / "test.en").read_text(encoding="utf-8").splitlines()[:3]
    translations = model.translate(sentences)
    assert len(translations) == 3
    assert all(isinstance(text, str) and text for text in translations)
    assert translations[1] == model.translate(sentences[1])  # what else is in the batch does not matter
