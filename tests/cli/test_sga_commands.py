"""SGA under the stock commands, each in a subprocess."""

import re
import sys
from pathlib import Path

import pytest
import torch
from sacrebleu import corpus_chrf

from fairseq_plugins.scoring.meteor import Meteor
from fairseq_plugins.scoring.rouge import Rouge

from .commands import checkpoint, hypotheses, largest_difference, logged, model_of, records
from .conftest import write_random_masked_lm

TASK = "--task sga_translation -s en -t de"
TRAINED = ("encoder_prompts.", "alignment_prompts.", "denoiser_prompts.", "semantic.")


def sga(world, more):
    return f"""{TASK} --arch sga_tiny --criterion sga_ctc --pretrained-mlm {world.masked_lm} --prompt-length 4
        --max-tokens-valid 400 {more}"""


@pytest.fixture(scope="module")
def trained(world, train, path):
    """A run of two epochs with BLEU validation, gradient accumulation and EMA; every epoch kept."""
    more = """--max-epoch 2 --update-freq 2 --store-ema --ema-decay 0.9 --eval-bleu --best-checkpoint-metric bleu
        --maximize-best-checkpoint-metric --keep-best-checkpoints 2 --eval-bleu-args {"iter_decode_max_iter":2}"""
    done = train(world.data, path, sga(world, more))
    valid = [record for record in records(done) if "valid_loss" in record]
    assert len(valid) == 2
    assert {"valid_alignment_loss", "valid_denoising_loss", "valid_bleu", "valid_unalignable"} <= valid[-1].keys()
    assert float(valid[1]["valid_loss"]) < float(valid[0]["valid_loss"])
    return path


def test_checkpoints_hold_the_trained_part_only(trained):
    model = model_of(trained / "checkpoint_best.pt")
    assert all(key.startswith(TRAINED) for key, value in model.items() if value.numel())
    (marker,) = [key for key, value in model.items() if not value.numel()]
    assert re.fullmatch(r"frozen\.fingerprint\.[0-9a-f]{32,}", marker)
    assert checkpoint(trained)["extra_state"]["ema"].keys() == model.keys()


def test_resume_equals_an_uninterrupted_run_and_needs_the_same_frozen_model(trained, world, train, tmp_path):
    more = "--update-freq 2 --store-ema --ema-decay 0.9 --disable-validation"
    for epoch in (1, 2):
        train(world.data, tmp_path, sga(world, f"{more} --max-epoch {epoch}"))
    assert largest_difference(trained / "checkpoint2.pt", tmp_path / "checkpoint2.pt") == 0.0
    other = write_random_masked_lm(tmp_path / "other", world.pieces + 5, 2, world.root / "dict.txt")
    done = train(world.data, tmp_path, sga(world, f"{more} --max-epoch 3 --pretrained-mlm {other}"), check=False)
    assert done.returncode != 0 and "another frozen model" in done.stderr  # above fairseq's own error


def score_line(done):
    """The line "Generate test with beam=...: SCORE", the hypotheses and the references."""
    found, references = hypotheses(done), hypotheses(done, "T")
    line = next(line for line in reversed(done.stdout.splitlines()) if line.startswith("Generate test with beam="))
    return line, list(found.values()), [references[key] for key in found]


def test_generate_history_steps_and_moved_model(trained, world, run_cli, decode, tmp_path):
    (tmp_path / "moved").symlink_to(world.masked_lm)
    averaged = tmp_path / "average.pt"
    run_cli("fairseq_plugins", "average", "--directory", trained, "--best", 2, "--output", averaged)

    def generate(more, overrides="{}"):
        return decode(world.data, averaged, f"{TASK} --max-sentences 5 {more} --model-overrides", overrides)

    more = "--iter-decode-max-iter 3 --retain-iter-history --print-step"
    full = generate(more, str({"pretrained_mlm": str(tmp_path / "moved")}))
    assert len(hypotheses(full)) == 12  # no sentence is lost
    steps = {key: int(value) for key, value in hypotheses(full, "I").items()}
    assert set(steps) == set(hypotheses(full)) and all(1 <= step <= 3 for step in steps.values())
    history = hypotheses(full, "E")
    assert len(history) == sum(step + 1 for step in steps.values())
    alone = generate("--iter-decode-max-iter 0 --scoring rouge --rouge-tokens char")
    assert hypotheses(alone) == {key: history[f"{key}_0"] for key in steps}  # the alignment alone
    line, texts, references = score_line(alone)
    assert Rouge("L", tokens="char").corpus_score(texts, [references]).format() in line and "tok:words-char|" in line


def test_interactive_translate_and_runtime_equal_generate(trained, world, run_cli, decode, tmp_path):
    source = (world.root / "test.en").read_text(encoding="utf-8")
    best, common = trained / "checkpoint_best.pt", f"{TASK} --iter-decode-max-iter 2"
    batches = "--buffer-size 20 --max-sentences 7"
    interactive = decode(world.data, best, f"{common} {batches}", command="interactive", stdin=source)
    generated = decode(world.data, best, f"{common} --max-sentences 3 --scoring meteor_stem --meteor-prefix 2")
    assert hypotheses(interactive) == hypotheses(generated)
    line, texts, references = score_line(generated)
    assert Meteor(prefix=2).corpus_score(texts, [references]).format() in line

    # Text in, text out: empty lines and the order stay, long lines are cut with a note, nothing else is said.
    text = f"\n{source}{'the ' * 60}\n"
    options = "--cpu --iter-decode-max-iter 2 --max-tokens 64".split()
    translated = run_cli("fairseq_plugins", "translate", trained, *options, stdin=text)
    empty, *found, cut = translated.stdout.split("\n")[:-1]
    assert found == [hypotheses(generated)[str(number)] for number in range(12)]
    assert (empty, bool(cut)) == ("", True)
    assert any(line.endswith("cut: line 14") for line in translated.stderr.splitlines())

    run_cli("fairseq_plugins", "export", trained, tmp_path / "exported", "--iter-decode-max-iter", 2)
    runtime = run_cli("fairseq_plugins_runtime.__main__", "translate", tmp_path / "exported", stdin=text)
    assert runtime.stdout == translated.stdout


def test_full_checkpoint_decodes_without_the_pretrained_file(world, train, decode, tmp_path):
    other = write_random_masked_lm(tmp_path / "copy", world.pieces + 5, 1, world.root / "dict.txt")
    more = f"--max-update 2 --save-full-model --pretrained-mlm {other} --no-denoising --disable-validation"
    train(world.data, tmp_path, sga(world, more))
    for path in other.iterdir():
        path.unlink()
    line, texts, references = score_line(decode(world.data, tmp_path / "checkpoint_last.pt", f"{TASK} --scoring chrf"))
    assert len(texts) == 12
    assert line.endswith(corpus_chrf(texts, [references]).format())  # fairseq's own scorer


def test_hydra_builds_what_argparse_builds(trained, world, hydra, tmp_path):
    config = f"""
task: {{_name: sga_translation, data: {world.data}, source_lang: en, target_lang: de}}
model: {{_name: sga_tiny, pretrained_mlm: {world.masked_lm}, prompt_length: 4}}
criterion: {{_name: sga_ctc}}
optimization: {{max_epoch: 1, update_freq: [2]}}
dataset: {{disable_validation: true, max_tokens_valid: 400}}
"""
    made = hydra(tmp_path, config)
    assert largest_difference(trained / "checkpoint1.pt", made / "checkpoint1.pt") == 0.0


@pytest.mark.slow
def test_two_processes_that_resume_equal_one_with_accumulation(world, train, run_cli, user_dir, tmp_path):
    """torchrun on the CPU, twice: the state reaches the second process as an object that the first one sends."""
    more = sga(world, "--disable-validation --denoise-noise 0")
    done = train(world.data, tmp_path / "one", f"{more} --max-update 3 --update-freq 2")
    command = [Path(sys.executable).with_name("fairseq-train"), *done.args[3:], "--save-dir", tmp_path / "two"]
    for updates, log in ((1, "training on 2 devices"), (3, "(epoch 1 @ 1 updates)")):
        line = ["--standalone", "--nproc_per_node", 2, *command, "--update-freq", 1, "--max-update", updates]
        done = run_cli("torch.distributed.run", *line)
        assert (done.stdout + done.stderr).count(log) == 1  # only the first process writes its log
    assert largest_difference(tmp_path / "two", tmp_path / "one") < 1e-4


def test_bf16_trains(world, train, tmp_path):
    done = train(world.data, tmp_path, sga(world, "--max-update 2 --bf16 --disable-validation"))
    assert all(loss == loss for loss in logged(done, "loss"))
    weight = model_of(tmp_path)["semantic.key.weight"]  # fairseq writes bf16 as float32
    assert torch.equal(weight, weight.bfloat16().float())
