"""DeltaLM under the stock commands, each in a subprocess: the authors' command line plus --user-dir, and tiny sizes."""

import json
import shlex
from collections import namedtuple
from pathlib import Path

import fairseq
import pytest
import torch

from fairseq_plugins.__main__ import main
from fairseq_plugins.deltalm.model import DeltaLMModel
from tests import builders, deltalm_builders

from .commands import checkpoint, hypotheses, largest_difference, logged

SIZES = {**deltalm_builders.SIZES, "encoder_layers": 2, "decoder_layers": 1}
POSITIONS = builders.POSITIONS
UNNAMED = 96  # rows of the released files beyond the entries of their dictionary: 250,104 and 250,008
PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods" / "deltalm.md"
DECODING = "--task translation -s en -t de"
Trained = namedtuple("Trained", "save_dir released log")


def command_line(world, user_dir, save_dir, pretrained, *more):
    """The page's command for a released file, with other numbers behind it: sizes, CPU."""
    blocks = PAGE.read_text(encoding="utf-8").split("```bash\n")
    (written,) = [block.split("```")[0] for block in blocks if "--pretrained-deltalm-checkpoint" in block]
    names = {"DATA": str(world.data), "fairseq_plugins": user_dir, "deltalm-base.pt": str(pretrained)}
    words = shlex.split(written.replace("\\\n", " "))
    page = [names.get(word, word) for word in words if word not in ("fairseq-train", "--fp16")]
    assert set(names.values()) <= set(page)
    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items()]
    line = f"""--save-dir {save_dir} --lr 0.01 --warmup-init-lr 1e-07 --stop-min-lr 1e-09 --warmup-updates 4 --max-tokens 256
        --update-freq 1 --seed 5 --log-format json --skip-invalid-size-inputs-valid-test --cpu --num-workers 0"""
    return [*page, *line.split(), *sizes, *more]


@pytest.fixture(scope="module")
def trained(world, run_cli, user_dir, path):
    """One epoch; the pretrained file is deleted (``released`` is a copy); the same command resumes for a second epoch."""
    tensors = deltalm_builders.released_tensors(rows=world.pieces + 4 + UNNAMED, layers=2, blocks=1)
    for name, tensor in tensors.items():  # translations differ
        tensors[name] = torch.full_like(tensor, name.endswith("weight")) if "layer_norm" in name else 0.6 * tensor
    released = deltalm_builders.write_released(path / "released.pt", tensors)
    moving = path / "deltalm-base.pt"
    moving.write_bytes(released.read_bytes())
    arguments = command_line(world, user_dir, path / "run", moving)
    first = run_cli("train", *arguments, "--max-epoch", 1)
    moving.unlink()
    second = run_cli("train", *arguments, "--max-epoch", 2)
    return Trained(path / "run", released, first.stdout + first.stderr + second.stdout + second.stderr)


def test_the_authors_command_line_trains_and_resumes_without_the_file(trained, world):
    """With the relation of the released files: rows without an entry are left out, and that is logged."""
    losses = logged(trained.log, "valid_loss")
    assert len(losses) == 2 and losses[1] < losses[0]
    first, second = (checkpoint(trained.save_dir / f"checkpoint{number}.pt") for number in (1, 2))
    updates = [state["optimizer_history"][-1]["num_updates"] for state in (first, second)]
    assert updates[1] == 2 * updates[0] > 0
    args = vars(first["cfg"]["model"])
    assert {name: args[name] for name in SIZES} == SIZES
    assert args["pretrained_deltalm_checkpoint"] is None
    assert str(args["initialised_from"]).endswith("deltalm-base.pt")
    entries = world.pieces + 4
    assert first["model"]["encoder.embed_tokens.weight"].size(0) == entries
    assert f"the first {entries:,} of {entries + UNNAMED:,} rows (--embedding-mismatch truncate)" in trained.log


@pytest.fixture(scope="module")
def translations(trained, world, decode):
    """fairseq-generate, without the pretrained file."""
    return hypotheses(decode(world.data, trained.save_dir / "checkpoint_best.pt", f"{DECODING} --max-sentences 5"))


def test_interactive_and_translate_equal_generate(trained, translations, world, run_cli, decode):
    assert len(translations) == 12 and len(set(translations.values())) > 1 and all(translations.values())
    source = (world.root / "test.en").read_text(encoding="utf-8")
    best, batches = trained.save_dir / "checkpoint_best.pt", "--buffer-size 20 --max-sentences 7"
    found = decode(world.data, best, f"{DECODING} {batches}", command="interactive", stdin=source)
    assert hypotheses(found) == translations
    texts = run_cli("fairseq_plugins", "translate", trained.save_dir, "--cpu", stdin=source).stdout.splitlines()
    assert {str(number): text for number, text in enumerate(texts)} == translations


def translated(folder, name, world):
    """The three lines of Python that a user writes, on the sentences of the test set."""
    sentences = (world.root / "test.en").read_text(encoding="utf-8").splitlines()
    model = DeltaLMModel.from_pretrained(str(folder), name, str(world.data), tokenizer="space")
    found = model.translate(sentences)
    assert model.translate(sentences[1]) == found[1]
    return {str(number): text for number, text in enumerate(found)}


def test_python_export_and_import_give_the_same_translations(trained, translations, world, run_cli, tmp_path):
    best, back = trained.save_dir / "checkpoint_best.pt", tmp_path / "back.pt"
    assert translated(trained.save_dir, "checkpoint_best.pt", world) == translations
    run_cli("fairseq_plugins", "export", "--format", "safetensors", best, tmp_path / "folder")
    config = json.loads((tmp_path / "folder" / "config.json").read_text(encoding="utf-8"))
    assert set(config["tied"]) == {"decoder.embed_tokens.weight", "decoder.output_projection.weight"}
    assert main(["import", str(tmp_path / "folder"), str(back)]) == 0
    assert largest_difference(best, back) == 0.0
    assert translated(tmp_path, "back.pt", world) == translations


@pytest.mark.skipif(
    fairseq.__version__ == "0.12.2",
    reason="fairseq 0.12.2 fails at the first checkpoint of a hydra run whose model has no dataclass (trainer.py: base_layers)",
)
def test_hydra_builds_and_trains_what_argparse_does(trained, world, hydra, tmp_path):
    """Bit-equal weights after an epoch: the same sizes, the same start, the same logits."""
    sizes = ", ".join(f"{name}: {value}" for name, value in SIZES.items())
    config = f"""
task: {{_name: translation, data: {world.data}, max_source_positions: {POSITIONS}, max_target_positions: {POSITIONS}}}
model:
  {{_name: deltalm_base, pretrained_deltalm_checkpoint: {trained.released}, share_all_embeddings: true, {sizes},
   embedding_mismatch: truncate}}
criterion: {{_name: label_smoothed_linear_cross_entropy, label_smoothing: 0.1}}
optimizer: {{_name: adam, adam_betas: "(0.9, 0.98)"}}
lr_scheduler: {{_name: inverse_sqrt, warmup_updates: 4, warmup_init_lr: 1e-07}}
optimization: {{max_epoch: 1, stop_min_lr: 1e-09}}
dataset: {{batch_size: null, max_tokens: 256, skip_invalid_size_inputs_valid_test: true}}
"""
    made = hydra(tmp_path, config) / "checkpoint1.pt"
    assert largest_difference(trained.save_dir / "checkpoint1.pt", made) == 0.0
