"""DeltaLM under the stock commands, each in a subprocess: the authors' command line plus --user-dir, and tiny sizes."""

import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from fairseq import options

from fairseq_plugins.checkpoints import export
from fairseq_plugins.models.deltalm import DeltaLMModel

from .commands import checkpoint, hydra, hypotheses, largest_difference, last_line, logged

WIDTH, FFN, POSITIONS = 16, 32, 64
SIZES = {"encoder_layers": 2, "decoder_layers": 1}
for _side in ("encoder", "decoder"):
    SIZES.update({f"{_side}_embed_dim": WIDTH, f"{_side}_ffn_embed_dim": FFN, f"{_side}_attention_heads": 2})
SEED = 5
UNNAMED = 96  # rows of the released files beyond the entries of their dictionary: 250,104 and 250,008
PAGE = Path(__file__).resolve().parents[2] / "examples" / "deltalm" / "README.md"


class Trained(NamedTuple):
    """Two epochs from a released file, which was deleted after the first; ``released`` is a copy of it."""

    save_dir: Path
    released: Path
    log: str


def write_released(path, rows):
    """A random model of SIZES in the layout of the authors' release, under which translations differ."""
    generator = torch.Generator().manual_seed(11)
    tensors = {}

    def draw(name, scale, *shape):
        tensors[f"{name}.weight"] = scale * torch.randn(shape, generator=generator)

    def part(layer, name, norm=""):
        linears = {f"{projection}_proj": (WIDTH, WIDTH) for projection in ("k", "v", "q", "out")}
        for linear, shape in ({"fc1": (FFN, WIDTH), "fc2": (WIDTH, FFN)} if "ffn" in name else linears).items():
            draw(f"{layer}.{name}.{linear}", 0.2, *shape)
            tensors[f"{layer}.{name}.{linear}.bias"] = torch.zeros(shape[0])
        set_norm(f"{layer}.{norm or name + '_layer_norm'}")

    def set_norm(name):
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = torch.ones(WIDTH), torch.zeros(WIDTH)

    draw("src_embedding.embed_tokens", 0.3, rows, WIDTH)
    for side in ("src_embedding", "tgt_embedding"):
        tensors[f"{side}.embed_tokens.weight"] = tensors["src_embedding.embed_tokens.weight"].clone()
        draw(f"{side}.embed_positions", 0.1, POSITIONS + 2, WIDTH)
        set_norm(f"{side}.emb_layer_norm")
    for number in range(SIZES["encoder_layers"]):
        part(f"encoder.layers.{number}", "self_attn")
        part(f"encoder.layers.{number}", "ffn", "final_layer_norm")
    for number in range(SIZES["decoder_layers"]):
        part(f"decoder.layers.{number}", "self_attn")
        part(f"decoder.layers.{number}", "ffn_1", "ffn_layer_norm")
        part(f"decoder.layers.{number}", "encoder_attn")
        part(f"decoder.layers.{number}", "ffn_2", "final_layer_norm")
    torch.save({"weights": tensors}, path)
    return path


def command_line(world, user_dir, save_dir, pretrained, *more):
    """The page's command for a released file, with other numbers behind it: sizes, CPU."""
    written = PAGE.read_text(encoding="utf-8").split("```bash\n")[1].split("```")[0]
    names = {"DATA": str(world.data), "fairseq_plugins": user_dir, "deltalm-base.pt": str(pretrained)}
    words = shlex.split(written.replace("\\\n", " "))
    page = [names.get(word, word) for word in words if word not in ("fairseq-train", "--fp16")]
    assert set(names.values()) <= set(page)
    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items()]
    line = f"""--save-dir {save_dir} --max-source-positions {POSITIONS} --max-target-positions {POSITIONS} --lr 0.01
        --warmup-init-lr 1e-07 --stop-min-lr 1e-09 --warmup-updates 4 --max-tokens 256 --update-freq 1 --seed {SEED}
        --log-format json --skip-invalid-size-inputs-valid-test --cpu --num-workers 0"""
    return [*page, *line.split(), *sizes, *more]


@pytest.fixture(scope="module")
def trained(world, run_cli, user_dir, tmp_path_factory):
    """One epoch; the pretrained file is deleted; the same command resumes for a second epoch."""
    root = tmp_path_factory.mktemp("deltalm")
    released = write_released(root / "released.pt", world.pieces + 4 + UNNAMED)
    moving = root / "deltalm-base.pt"
    moving.write_bytes(released.read_bytes())
    arguments = command_line(world, user_dir, root / "run", moving)
    first = run_cli("train", *arguments, "--max-epoch", 1)
    moving.unlink()
    second = run_cli("train", *arguments, "--max-epoch", 2)
    return Trained(root / "run", released, first.stdout + first.stderr + second.stdout + second.stderr)


def test_the_authors_command_line_trains_and_resumes_without_the_file(trained, world):
    """With the relation of the released files: rows without an entry are left out, and that is logged."""
    losses = logged(trained.log, "valid_loss")
    assert len(losses) == 2 and losses[1] < losses[0]
    first, second = (checkpoint(trained.save_dir / f"checkpoint{number}.pt") for number in (1, 2))
    updates = [state["optimizer_history"][-1]["num_updates"] for state in (first, second)]
    assert updates[1] == 2 * updates[0] > 0
    args = vars(first["cfg"]["model"]) if not isinstance(first["cfg"]["model"], dict) else first["cfg"]["model"]
    assert {name: args[name] for name in SIZES} == SIZES
    assert args["pretrained_deltalm_checkpoint"] is None
    assert str(args["initialised_from"]).endswith("deltalm-base.pt")
    assert first["model"]["encoder.embed_positions.weight"].shape == (POSITIONS + 2, WIDTH)
    entries = world.pieces + 4
    assert first["model"]["encoder.embed_tokens.weight"].size(0) == entries
    assert f"the first {entries:,} of {entries + UNNAMED:,} rows (--embedding-mismatch truncate)" in trained.log


def decoding(world, user_dir, path):
    return f"{world.data} --user-dir {user_dir} --task translation -s en -t de --cpu --beam 5 --path {path}".split()


@pytest.fixture(scope="module")
def translations(trained, world, run_cli, user_dir):
    """fairseq-generate, without the pretrained file."""
    line = decoding(world, user_dir, trained.save_dir / "checkpoint_best.pt")
    return hypotheses(run_cli("generate", *line, "--max-sentences", 5))


def test_interactive_and_translate_equal_generate(trained, translations, world, run_cli, user_dir):
    assert len(translations) == 12 and len(set(translations.values())) > 1 and all(translations.values())
    source = (world.root / "test.en").read_text(encoding="utf-8")
    line = decoding(world, user_dir, trained.save_dir / "checkpoint_best.pt")
    found = run_cli("interactive", *line, "--buffer-size", 20, "--max-sentences", 7, stdin=source)
    assert hypotheses(found) == translations
    texts = run_cli(
        "fairseq_plugins", "translate", trained.save_dir, "--beam", 5, "--cpu", stdin=source
    ).stdout.splitlines()
    assert {str(number): text for number, text in enumerate(texts)} == translations


def test_a_damaged_pretrained_file_is_not_opened_to_decode(trained, translations, world, run_cli, user_dir, tmp_path):
    """Also of a checkpoint whose options still name it, as those of the authors' code do."""
    damaged = tmp_path / "deltalm-base.pt"
    damaged.write_bytes(b"no checkpoint")
    content = checkpoint(trained.save_dir / "checkpoint_best.pt")
    content["cfg"]["model"].pretrained_deltalm_checkpoint = str(damaged)
    torch.save(content, tmp_path / "theirs.pt")
    line = decoding(world, user_dir, tmp_path / "theirs.pt")
    assert hypotheses(run_cli("generate", *line, "--max-sentences", 5)) == translations
    checked = (
        f"{world.data} --user-dir {user_dir} --task translation --cpu --batch-size 12 --path {tmp_path / 'theirs.pt'}"
    )
    run_cli("validate", *checked.split())


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
    run_cli("fairseq_plugins.checkpoints.export", best, tmp_path / "folder")
    config = json.loads((tmp_path / "folder" / "config.json").read_text(encoding="utf-8"))
    assert set(config["tied"]) == {"decoder.embed_tokens.weight", "decoder.output_projection.weight"}
    assert export.main(["import", str(tmp_path / "folder"), str(back)]) == 0
    assert largest_difference(best, back) == 0.0
    assert translated(tmp_path, "back.pt", world) == translations


def test_hydra_builds_and_trains_what_argparse_does(trained, world, run_cli, user_dir, tmp_path):
    """Bit-equal weights after an epoch: the same sizes, the same start, the same logits."""
    sizes = ", ".join(f"{name}: {value}" for name, value in SIZES.items())
    positions = f"max_source_positions: {POSITIONS}, max_target_positions: {POSITIONS}"
    config = f"""
common: {{user_dir: {user_dir}, seed: {SEED}, log_format: json}}
task: {{_name: translation, data: {world.data}, {positions}}}
model:
  {{_name: deltalm_base, pretrained_deltalm_checkpoint: {trained.released}, share_all_embeddings: true, {positions}, {sizes},
   embedding_mismatch: truncate}}
criterion: {{_name: label_smoothed_linear_cross_entropy, label_smoothing: 0.1}}
optimizer: {{_name: adam, adam_betas: "(0.9, 0.98)"}}
lr_scheduler: {{_name: inverse_sqrt, warmup_updates: 4, warmup_init_lr: 1e-07}}
optimization: {{lr: [0.01], max_epoch: 1, stop_min_lr: 1e-09}}
dataset: {{max_tokens: 256, skip_invalid_size_inputs_valid_test: true}}
"""
    made = hydra(run_cli, tmp_path, config) / "checkpoint1.pt"
    assert largest_difference(trained.save_dir / "checkpoint1.pt", made) == 0.0
    args = checkpoint(made)["cfg"]["model"]
    assert args["pretrained_deltalm_checkpoint"] is None and args["initialised_from"] == str(trained.released)


def test_bad_input_ends_with_a_message(trained, world, run_cli, user_dir, tmp_path):
    """It is the last line that a user sees, and nothing was trained. Other bad input: tests/unit/models/."""
    arguments = command_line(
        world, user_dir, tmp_path, trained.released, "--max-update=1", f"--max-source-positions={POSITIONS + 1}"
    )
    last = last_line(run_cli("train", *arguments, check=False))
    assert re.search(rf"ValueError: .*--max-source-positions .*{POSITIONS + 1}.*\b{POSITIONS}\b", last), last
    assert not list(tmp_path.glob("checkpoint*.pt"))


@pytest.mark.parametrize("option", ["--decoder-block", "--embedding-mismatch"])
def test_choices_are_those_of_the_command_line(option, capsys):
    line = ["data", "--task", "translation", "--arch", "deltalm_base", option, "sandwich"]
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(options.get_training_parser(), line)
    assert f"argument {option}: invalid choice: 'sandwich'" in capsys.readouterr().err
