"""SGA under the stock commands, each in a subprocess."""

import re
import sys
from pathlib import Path

import pytest
import torch
from sacrebleu import corpus_chrf

from fairseq_plugins.models.sga import SGAModel
from fairseq_plugins.scoring.meteor import Meteor
from fairseq_plugins.scoring.rouge import Rouge

from .commands import checkpoint, hydra, hypotheses, largest_difference, last_line, logged, model_of, records
from .conftest import write_random_masked_lm

TRAINED = ("encoder_prompts.", "alignment_prompts.", "denoiser_prompts.", "semantic.")


def train_arguments(world, user_dir, save_dir, *more):
    """The command line of a tiny training run; a text is cut at its spaces."""
    line = f"""{world.data} --user-dir {user_dir} --task sga_translation -s en -t de --arch sga_tiny --criterion sga_ctc
        --pretrained-mlm {world.masked_lm} --prompt-length 4 --optimizer adam --lr 0.01 --max-sentences 8 --save-dir {save_dir}
        --log-format json --log-interval 1 --num-workers 0 --seed 5 --cpu --max-tokens-valid 400"""
    return [*line.split(), *(word for words in more for word in str(words).split())]


def decoding(world, user_dir, path, more=""):
    line = f"{world.data} --user-dir {user_dir} --task sga_translation -s en -t de --cpu --path {path} {more}"
    return line.split()


@pytest.fixture(scope="module")
def trained(world, run_cli, user_dir, tmp_path_factory):
    """A run of two epochs with BLEU validation, gradient accumulation and EMA; every epoch kept."""
    save_dir = tmp_path_factory.mktemp("trained")
    more = "--max-epoch 2 --update-freq 2 --store-ema --ema-decay 0.9 --eval-bleu --best-checkpoint-metric bleu"
    more += ' --maximize-best-checkpoint-metric --keep-best-checkpoints 2 --eval-bleu-args {"iter_decode_max_iter":2}'
    result = run_cli("train", *train_arguments(world, user_dir, save_dir, more))
    (save_dir / "train.log").write_text(result.stderr + result.stdout)
    return save_dir


def test_training_logs_losses_bleu_and_unalignable_targets(trained):
    valid = [record for record in records((trained / "train.log").read_text()) if "valid_loss" in record]
    assert len(valid) == 2
    assert {"valid_alignment_loss", "valid_denoising_loss", "valid_bleu", "valid_unalignable"} <= valid[-1].keys()
    assert float(valid[1]["valid_loss"]) < float(valid[0]["valid_loss"])


def test_checkpoints_hold_the_trained_part_only(trained):
    model = model_of(trained / "checkpoint_best.pt")
    assert all(key.startswith(TRAINED) for key, value in model.items() if value.numel())
    (marker,) = [key for key, value in model.items() if not value.numel()]
    assert re.fullmatch(r"frozen\.fingerprint\.[0-9a-f]{32,}", marker)
    assert checkpoint(trained)["extra_state"]["ema"].keys() == model.keys()


def test_resume_equals_an_uninterrupted_run(trained, world, run_cli, user_dir, tmp_path):
    more = "--update-freq 2 --store-ema --ema-decay 0.9 --disable-validation --max-epoch"
    for epoch in (1, 2):
        run_cli("train", *train_arguments(world, user_dir, tmp_path, more, epoch))
    assert largest_difference(trained / "checkpoint2.pt", tmp_path / "checkpoint2.pt") == 0.0


def test_resume_with_another_frozen_model_is_refused(trained, world, run_cli, user_dir, tmp_path):
    other = write_random_masked_lm(tmp_path / "other", world.pieces + 5, 2, world.root / "dict.txt")
    arguments = train_arguments(world, user_dir, trained, "--max-epoch 3 --pretrained-mlm", other)
    assert "another frozen model" in last_line(run_cli("train", *arguments, check=False))


def score_line(done):
    """The line "Generate test with beam=...: SCORE", the hypotheses and the references."""
    found, references = hypotheses(done), hypotheses(done, "T")
    line = next(line for line in reversed(done.stdout.splitlines()) if line.startswith("Generate test with beam="))
    return line, list(found.values()), [references[key] for key in found]


def test_generate_history_steps_and_moved_model(trained, world, run_cli, user_dir, tmp_path):
    (tmp_path / "moved").symlink_to(world.masked_lm)
    averaged = tmp_path / "average.pt"
    run_cli("fairseq_plugins.checkpoints.average", "--directory", trained, "--best", 2, "--output", averaged)
    base = decoding(world, user_dir, averaged, "--max-sentences 5")
    overrides = ["--model-overrides", str({"pretrained_mlm": str(tmp_path / "moved")})]
    full = run_cli(
        "generate", *base, *overrides, *"--iter-decode-max-iter 3 --retain-iter-history --print-step".split()
    )
    assert len(hypotheses(full)) == 12  # no sentence is lost
    steps = {key: int(value) for key, value in hypotheses(full, "I").items()}
    assert set(steps) == set(hypotheses(full)) and all(1 <= step <= 3 for step in steps.values())
    history = hypotheses(full, "E")
    assert len(history) == sum(step + 1 for step in steps.values())

    alone = run_cli("generate", *base, *"--iter-decode-max-iter 0 --scoring rouge --rouge-tokens char".split())
    assert hypotheses(alone) == {key: history[f"{key}_0"] for key in steps}  # the alignment alone
    line, texts, references = score_line(alone)
    assert Rouge("L", tokens="char").corpus_score(texts, [references]).format() in line and "tok:words-char|" in line

    missing = ["--model-overrides", str({"pretrained_mlm": str(tmp_path / "nowhere")})]
    refused = run_cli("generate", *base, *missing, check=False)
    assert "--model-overrides" in last_line(refused) and "nowhere" in refused.stderr


def test_interactive_and_translate_equal_generate(trained, world, run_cli, user_dir):
    source = (world.root / "test.en").read_text(encoding="utf-8")
    common = decoding(world, user_dir, trained / "checkpoint_best.pt", "--iter-decode-max-iter 2")
    interactive = run_cli("interactive", *common, "--buffer-size", 20, "--max-sentences", 7, stdin=source)
    scoring = "--max-sentences 3 --scoring meteor_stem --meteor-prefix 2 --meteor-gamma 0.25"
    generated = run_cli("generate", *common, *scoring.split())
    assert hypotheses(interactive) == hypotheses(generated)
    line, texts, references = score_line(generated)
    assert Meteor(prefix=2, gamma=0.25).corpus_score(texts, [references]).format() in line
    assert "stem:prefix2|" in line and "gamma:0.25|" in line

    # Text in, text out: empty lines and the order stay, long lines are cut with a note, nothing else is said.
    text = f"\n{source}{'the ' * 60}\n"
    options = "--cpu --iter-decode-max-iter 2 --max-tokens 64".split()
    translated = run_cli("fairseq_plugins", "translate", trained, *options, stdin=text)
    empty, *found, cut = translated.stdout.split("\n")[:-1]
    assert found == [hypotheses(generated)[str(number)] for number in range(12)]
    assert (empty, bool(cut)) == ("", True)
    lines = translated.stderr.splitlines()
    assert any(line.endswith("cut: line 14") for line in lines)
    assert all(" | " in line for line in lines) and len(lines) <= 8


def test_full_checkpoint_decodes_without_the_pretrained_file(world, run_cli, user_dir, tmp_path):
    other = write_random_masked_lm(tmp_path / "copy", world.pieces + 5, 1, world.root / "dict.txt")
    more = f"--max-update 2 --save-full-model --pretrained-mlm {other} --no-denoising --disable-validation"
    run_cli("train", *train_arguments(world, user_dir, tmp_path, more))
    for path in other.iterdir():
        path.unlink()
    done = run_cli("generate", *decoding(world, user_dir, tmp_path / "checkpoint_last.pt", "--scoring chrf"))
    line, texts, references = score_line(done)
    assert len(texts) == 12
    assert line.endswith(corpus_chrf(texts, [references]).format())  # fairseq's own scorer


def test_hydra_builds_what_argparse_builds(trained, world, run_cli, user_dir, tmp_path):
    config = f"""
common: {{user_dir: {user_dir}, seed: 5}}
task: {{_name: sga_translation, data: {world.data}, source_lang: en, target_lang: de}}
model: {{_name: sga_tiny, pretrained_mlm: {world.masked_lm}, prompt_length: 4}}
criterion: {{_name: sga_ctc}}
optimization: {{lr: [0.01], max_epoch: 1, update_freq: [2]}}
dataset: {{batch_size: 8, disable_validation: true, max_tokens_valid: 400}}
"""
    made = hydra(run_cli, tmp_path, config)
    assert largest_difference(trained / "checkpoint1.pt", made / "checkpoint1.pt") == 0.0


def test_two_processes_equal_one_with_accumulation(world, run_cli, user_dir, tmp_path):
    more = "--max-update 3 --disable-validation --denoise-noise 0"
    train = Path(sys.executable).with_name("fairseq-train")
    arguments = train_arguments(world, user_dir, tmp_path / "two", more)
    run_cli("torch.distributed.run", "--standalone", "--nproc_per_node", 2, train, *arguments)
    run_cli("train", *train_arguments(world, user_dir, tmp_path / "one", more, "--update-freq 2"))
    assert largest_difference(tmp_path / "two", tmp_path / "one") < 1e-4


def test_bf16_trains(world, run_cli, user_dir, tmp_path):
    done = run_cli("train", *train_arguments(world, user_dir, tmp_path, "--max-update 2 --bf16 --disable-validation"))
    assert all(loss == loss for loss in logged(done, "loss"))
    weight = model_of(tmp_path)["semantic.key.weight"]  # fairseq writes bf16 as float32
    assert torch.equal(weight, weight.bfloat16().float())


def test_three_lines_of_python(trained, world):
    model = SGAModel.from_pretrained(str(trained), "checkpoint_best.pt", str(world.data))
    sentences = (world.root / "test.en").read_text(encoding="utf-8").splitlines()[:3]
    translations = model.translate(sentences)
    assert len(translations) == 3 and all(isinstance(text, str) and text for text in translations)
    assert translations[1] == model.translate(sentences[1])  # what else is in the batch does not matter
