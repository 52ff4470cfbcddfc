"""Test DeltaLM under the stock commands: the authors' command line with tiny sizes."""

import json
import shlex
from collections import namedtuple

import fairseq
import pytest
import torch

from fairseq_plugins.__main__ import main
from fairseq_plugins.deltalm.model import DeltaLMModel
from tests import builders, deltalm_builders
from tests.conftest import ROOT

from .commands import checkpoint, hypotheses, largest_difference, logged, output_of

SIZES = {**deltalm_builders.SIZES, "encoder_layers": 2, "decoder_layers": 1}
UNNAMED = 96
"""Rows of the authors' checkpoint beyond its dictionary: 250,104 rows, 250,008 entries."""

PAGE = ROOT / "docs" / "methods" / "deltalm.md"
DECODING = "--task translation -s en -t de"
Trained = namedtuple("Trained", "save_dir released log")


def command_line(world, user_dir, save_dir, pretrained):
    """Read the page's command for a released file; append tiny sizes and --cpu."""
    blocks = PAGE.read_text(encoding="utf-8").split("```bash\n")
    commands = [block.split("```")[0] for block in blocks]
    (command,) = [text for text in commands if "--pretrained-deltalm-checkpoint" in text]
    names = {
        "DATA": str(world.data),
        "fairseq_plugins": user_dir,
        "deltalm-base.pt": str(pretrained),
    }
    words = shlex.split(command.replace("\\\n", " "))
    page = [names.get(word, word) for word in words if word not in ("fairseq-train", "--fp16")]
    assert set(names.values()) <= set(page)
    sizes = [f"--{name.replace('_', '-')}={size}" for name, size in SIZES.items()]
    line = f"""--save-dir {save_dir} --lr 0.01 --warmup-init-lr 1e-07 --stop-min-lr 1e-09
        --warmup-updates 4 --max-tokens 256 --update-freq 1 --seed 5 --log-format json
        --skip-invalid-size-inputs-valid-test --cpu --num-workers 0"""
    return [*page, *line.split(), *sizes]


@pytest.fixture(scope="module")
def trained(world, run_cli, user_dir, path):
    """Train an epoch, delete the pretrained file, resume with the same command for another one."""
    tensors = deltalm_builders.released_tensors(rows=world.pieces + 4 + UNNAMED, layers=2, blocks=1)
    for name, tensor in tensors.items():  # so that translations differ
        if "layer_norm" in name:
            tensors[name] = torch.full_like(tensor, name.endswith("weight"))
        else:
            tensors[name] = 0.6 * tensor
    released = deltalm_builders.write_released(path / "released.pt", tensors)
    pretrained = path / "deltalm-base.pt"
    pretrained.write_bytes(released.read_bytes())
    line = command_line(world, user_dir, path / "run", pretrained)
    first = run_cli("train", *line, "--max-epoch", 1)
    pretrained.unlink()
    second = run_cli("train", *line, "--max-epoch", 2)
    return Trained(path / "run", released, output_of(first) + output_of(second))


def test_the_authors_command_line_trains_and_resumes_without_the_file(trained, world):
    losses = logged(trained.log, "valid_loss")
    assert len(losses) == 2
    assert losses[1] < losses[0]
    first, second = (checkpoint(trained.save_dir / f"checkpoint{number}.pt") for number in (1, 2))
    updates = [state["optimizer_history"][-1]["num_updates"] for state in (first, second)]
    assert updates[1] == 2 * updates[0] > 0
    args = vars(first["cfg"]["model"])
    assert {name: args[name] for name in SIZES} == SIZES
    assert args["pretrained_deltalm_checkpoint"] is None
    assert str(args["initialised_from"]).endswith("deltalm-base.pt")
    entries = world.pieces + 4
    assert first["model"]["encoder.embed_tokens.weight"].size(0) == entries
    truncated = f"the first {entries:,} of {entries + UNNAMED:,} rows"
    assert f"{truncated} (--embedding-mismatch truncate)" in trained.log


@pytest.fixture(scope="module")
def translations(trained, world, decode):
    """Run fairseq-generate without the pretrained file."""
    best = trained.save_dir / "checkpoint_best.pt"
    return hypotheses(decode(world.data, best, f"{DECODING} --max-sentences 5"))


def test_interactive_and_translate_equal_generate(trained, translations, world, run_cli, decode):
    assert len(translations) == 12
    assert len(set(translations.values())) > 1
    assert all(translations.values())
    source = (world.root / "test.en").read_text(encoding="utf-8")
    best = trained.save_dir / "checkpoint_best.pt"
    line = f"{DECODING} --buffer-size 20 --max-sentences 7"
    interactive = decode(world.data, best, line, command="interactive", stdin=source)
    assert hypotheses(interactive) == translations
    translate = ["fairseq_plugins", "translate", trained.save_dir, "--cpu"]
    lines = run_cli(*translate, stdin=source).stdout.splitlines()
    assert {str(number): text for number, text in enumerate(lines)} == translations


def translate_in_python(folder, name, world):
    """Translate the test set with the three lines of Python that a user writes."""
    sentences = (world.root / "test.en").read_text(encoding="utf-8").splitlines()
    model = DeltaLMModel.from_pretrained(str(folder), name, str(world.data), tokenizer="space")
    texts = model.translate(sentences)
    assert model.translate(sentences[1]) == texts[1]
    return {str(number): text for number, text in enumerate(texts)}


def test_python_export_and_import_give_the_same_translations(
    trained, translations, world, run_cli, tmp_path
):
    best, imported = trained.save_dir / "checkpoint_best.pt", tmp_path / "imported.pt"
    assert translate_in_python(trained.save_dir, "checkpoint_best.pt", world) == translations
    run_cli("fairseq_plugins", "export", "--format", "safetensors", best, tmp_path / "folder")
    config = json.loads((tmp_path / "folder" / "config.json").read_text(encoding="utf-8"))
    tied = {"decoder.embed_tokens.weight", "decoder.output_projection.weight"}
    assert set(config["tied"]) == tied
    assert main(["import", str(tmp_path / "folder"), str(imported)]) == 0
    assert largest_difference(best, imported) == 0.0
    assert translate_in_python(tmp_path, "imported.pt", world) == translations


@pytest.mark.skipif(
    fairseq.__version__ == "0.12.2",
    reason="fairseq 0.12.2 fails at the first checkpoint of a hydra run whose model has no "
    "dataclass (trainer.py: base_layers)",
)
def test_hydra_trains_the_same_weights(trained, world, hydra, tmp_path):
    sizes = ", ".join(f"{name}: {size}" for name, size in SIZES.items())
    config = f"""
task:
  {{_name: translation, data: {world.data}, max_source_positions: {builders.POSITIONS},
   max_target_positions: {builders.POSITIONS}}}
model:
  {{_name: deltalm_base, pretrained_deltalm_checkpoint: {trained.released},
   share_all_embeddings: true, {sizes}, embedding_mismatch: truncate}}
criterion: {{_name: label_smoothed_linear_cross_entropy, label_smoothing: 0.1}}
optimizer: {{_name: adam, adam_betas: "(0.9, 0.98)"}}
lr_scheduler: {{_name: inverse_sqrt, warmup_updates: 4, warmup_init_lr: 1e-07}}
optimization: {{max_epoch: 1, stop_min_lr: 1e-09}}
dataset: {{batch_size: null, max_tokens: 256, skip_invalid_size_inputs_valid_test: true}}
"""
    hydra_checkpoint = hydra(tmp_path, config) / "checkpoint1.pt"
    assert largest_difference(trained.save_dir / "checkpoint1.pt", hydra_checkpoint) == 0.0
