"""Test SGA under the stock commands."""

import re

import pytest
import torch
from sacrebleu import corpus_chrf

from fairseq_plugins.scoring.meteor import Meteor
from fairseq_plugins.scoring.rouge import Rouge

from .commands import (
    checkpoint,
    hypotheses,
    largest_difference,
    logged,
    model_of,
    output_of,
    records,
)
from .conftest import write_random_masked_lm

TASK = "--task sga_translation -s en -t de"
TRAINED = ("encoder_prompts.", "alignment_prompts.", "denoiser_prompts.", "semantic.")


def sga(world, more):
    return f"""{TASK} --arch sga_tiny --criterion sga_ctc --pretrained-mlm {world.masked_lm}
        --prompt-length 4 --max-tokens-valid 400 {more}"""


@pytest.fixture(scope="module")
def trained(world, train, path):
    """Train two epochs with BLEU validation, gradient accumulation and EMA; keep both."""
    more = """--max-epoch 2 --update-freq 2 --store-ema --ema-decay 0.9 --eval-bleu
        --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 2
        --eval-bleu-args {"iter_decode_max_iter":2}"""
    process = train(world.data, path, sga(world, more))
    first, second = [record for record in records(process) if "valid_loss" in record]
    assert float(second["valid_loss"]) < float(first["valid_loss"])
    for name in ("alignment_loss", "denoising_loss", "bleu", "unalignable"):
        assert f"valid_{name}" in second
    return path


def test_checkpoints_hold_only_trained_parameters(trained):
    model = model_of(trained / "checkpoint_best.pt")
    assert all(key.startswith(TRAINED) for key, tensor in model.items() if tensor.numel())
    (marker,) = [key for key, tensor in model.items() if not tensor.numel()]
    assert re.fullmatch(r"frozen\.fingerprint\.[0-9a-f]{32,}", marker)
    assert checkpoint(trained)["extra_state"]["ema"].keys() == model.keys()


def test_resume_equals_an_uninterrupted_run_and_needs_the_same_frozen_model(
    trained, world, train, tmp_path
):
    line = sga(world, "--update-freq 2 --store-ema --ema-decay 0.9 --disable-validation")
    for epoch in (1, 2):
        train(world.data, tmp_path, f"{line} --max-epoch {epoch}")
    assert largest_difference(trained / "checkpoint2.pt", tmp_path / "checkpoint2.pt") == 0.0
    words = world.root / "dict.txt"
    masked_lm = write_random_masked_lm(tmp_path / "masked_lm", world.pieces + 5, 2, words)
    line = f"{line} --max-epoch 3 --pretrained-mlm {masked_lm}"
    process = train(world.data, tmp_path, line, check=False)
    assert process.returncode != 0
    assert "another frozen model" in process.stderr


def score_line(process):
    """Return the line "Generate test with beam=...", the hypotheses and the references."""
    lines = process.stdout.splitlines()
    line = [text for text in lines if text.startswith("Generate test with beam=")][-1]
    texts, references = hypotheses(process), hypotheses(process, "T")
    return line, list(texts.values()), [references[key] for key in texts]


def test_generate_with_history_an_averaged_checkpoint_and_a_moved_masked_lm(
    trained, world, run_cli, decode, tmp_path
):
    moved, average = tmp_path / "moved", tmp_path / "average.pt"
    moved.symlink_to(world.masked_lm)
    run_cli("fairseq_plugins", "average", "--directory", trained, "--best", 2, "--output", average)

    line = f"{TASK} --max-sentences 5 --iter-decode-max-iter"
    overrides = ["--model-overrides", str({"pretrained_mlm": str(moved)})]
    three_passes = f"{line} 3 --retain-iter-history --print-step"
    full = decode(world.data, average, three_passes, *overrides)
    assert len(hypotheses(full)) == 12
    steps = {key: int(step) for key, step in hypotheses(full, "I").items()}
    assert set(steps) == set(hypotheses(full))
    assert all(1 <= step <= 3 for step in steps.values())
    history = hypotheses(full, "E")
    assert len(history) == sum(step + 1 for step in steps.values())

    aligned = decode(world.data, average, f"{line} 0 --scoring rouge --rouge-tokens char")
    assert hypotheses(aligned) == {key: history[f"{key}_0"] for key in steps}
    line, texts, references = score_line(aligned)
    assert Rouge("L", tokens="char").corpus_score(texts, [references]).format() in line
    assert "tok:words-char|" in line


def test_interactive_translate_and_runtime_equal_generate(
    trained, world, run_cli, decode, tmp_path
):
    source = (world.root / "test.en").read_text(encoding="utf-8")
    best, line = trained / "checkpoint_best.pt", f"{TASK} --iter-decode-max-iter 2"
    batches = "--buffer-size 20 --max-sentences 7"
    interactive = decode(world.data, best, f"{line} {batches}", command="interactive", stdin=source)
    scoring = "--scoring meteor_stem --meteor-prefix 2"
    generated = decode(world.data, best, f"{line} --max-sentences 3 {scoring}")
    assert hypotheses(interactive) == hypotheses(generated)
    line, texts, references = score_line(generated)
    assert Meteor(prefix=2).corpus_score(texts, [references]).format() in line

    # Empty lines stay; long lines are cut with a warning.
    text = f"\n{source}{'the ' * 60}\n"
    options = "--cpu --iter-decode-max-iter 2 --max-tokens 64".split()
    translated = run_cli("fairseq_plugins", "translate", trained, *options, stdin=text)
    empty, *lines, cut_line = translated.stdout.split("\n")[:-1]
    assert lines == [hypotheses(generated)[str(number)] for number in range(12)]
    assert empty == ""
    assert cut_line
    assert any(line.endswith("cut: line 14") for line in translated.stderr.splitlines())

    folder = tmp_path / "exported"
    run_cli("fairseq_plugins", "export", trained, folder, "--iter-decode-max-iter", 2)
    runtime = run_cli("fairseq_plugins_runtime.__main__", "translate", folder, stdin=text)
    assert runtime.stdout == translated.stdout


def test_a_full_checkpoint_decodes_without_the_pretrained_file(world, train, decode, tmp_path):
    words = world.root / "dict.txt"
    masked_lm = write_random_masked_lm(tmp_path / "masked_lm", world.pieces + 5, 1, words)
    more = f"""--max-update 2 --save-full-model --pretrained-mlm {masked_lm} --no-denoising
        --disable-validation"""
    train(world.data, tmp_path, sga(world, more))
    for path in masked_lm.iterdir():
        path.unlink()
    process = decode(world.data, tmp_path / "checkpoint_last.pt", f"{TASK} --scoring chrf")
    line, texts, references = score_line(process)
    assert len(texts) == 12
    assert line.endswith(corpus_chrf(texts, [references]).format())  # the scorer of fairseq


def test_hydra_trains_the_same_weights(trained, world, hydra, tmp_path):
    config = f"""
task: {{_name: sga_translation, data: {world.data}, source_lang: en, target_lang: de}}
model: {{_name: sga_tiny, pretrained_mlm: {world.masked_lm}, prompt_length: 4}}
criterion: {{_name: sga_ctc}}
optimization: {{max_epoch: 1, update_freq: [2]}}
dataset: {{disable_validation: true, max_tokens_valid: 400}}
"""
    run = hydra(tmp_path, config)
    assert largest_difference(trained / "checkpoint1.pt", run / "checkpoint1.pt") == 0.0


@pytest.mark.slow
def test_two_processes_that_resume_equal_one_with_accumulation(world, train, torchrun, tmp_path):
    """The second process receives the state from the first one when they resume."""
    more = sga(world, "--disable-validation --denoise-noise 0")
    single = train(world.data, tmp_path / "single", f"{more} --max-update 3 --update-freq 2")
    line = [*single.args[3:], "--save-dir", tmp_path / "pair", "--update-freq", 1, "--max-update"]
    for updates, message in ((1, "training on 2 devices"), (3, "(epoch 1 @ 1 updates)")):
        log = output_of(torchrun(2, *line, updates))
        assert log.count(message) == 1  # only the first process writes its log
    assert largest_difference(tmp_path / "pair", tmp_path / "single") < 1e-4


def test_bf16_trains(world, train, tmp_path):
    line = sga(world, "--max-update 2 --bf16 --disable-validation")
    losses = logged(train(world.data, tmp_path, line), "loss")
    assert all(loss == loss for loss in losses)
    weight = model_of(tmp_path)["semantic.key.weight"]  # fairseq writes bf16 as float32
    assert torch.equal(weight, weight.bfloat16().float())
