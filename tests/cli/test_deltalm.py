"""DeltaLM under the stock commands, each in a subprocess: the authors' command line plus --user-dir, and tiny sizes."""

import json
import re
import shlex
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import pytest
import torch
from fairseq import options

from fairseq_plugins.checkpoints import export
from fairseq_plugins.models.deltalm import DeltaLMModel

from .conftest import World

Run = Callable[..., Any]
WIDTH, FFN, POSITIONS = 16, 32, 64
SIZES = {"encoder_layers": 2, "decoder_layers": 1}
for _side in ("encoder", "decoder"):
    SIZES.update({f"{_side}_embed_dim": WIDTH, f"{_side}_ffn_embed_dim": FFN, f"{_side}_attention_heads": 2})
SEED = 5
UNNAMED = 96  # rows of the released files beyond the entries of their dictionary: 250,104 and 250,008
PAGE = Path(__file__).resolve().parents[2] / "examples" / "deltalm" / "README.md"


class Trained(NamedTuple):
    """Two epochs from a released file, which was deleted after the first.

    Attributes:
        save_dir: with checkpoint1.pt (before the file was deleted) and checkpoint2.pt.
        released: a copy of the file, for other tests.
        log: what the two runs wrote.
    """

    save_dir: Path
    released: Path
    log: str


def write_released(path: Path, rows: int) -> Path:
    """A random model of SIZES in the layout of the authors' release."""
    generator = torch.Generator().manual_seed(11)
    tensors: Dict[str, torch.Tensor] = {}

    def norm(name: str) -> None:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = torch.ones(WIDTH), torch.zeros(WIDTH)

    def linear(name: str, inputs: int, outputs: int) -> None:
        tensors[f"{name}.weight"] = 0.2 * torch.randn(outputs, inputs, generator=generator)
        tensors[f"{name}.bias"] = torch.zeros(outputs)

    def attention(name: str) -> None:
        for projection in ("k_proj", "v_proj", "q_proj", "out_proj"):
            linear(f"{name}.{projection}", WIDTH, WIDTH)
        norm(f"{name}_layer_norm")

    def ffn(name: str, norm_name: str) -> None:
        linear(f"{name}.fc1", WIDTH, FFN)
        linear(f"{name}.fc2", FFN, WIDTH)
        norm(norm_name)

    words = 0.3 * torch.randn(rows, WIDTH, generator=generator)
    for side in ("src_embedding", "tgt_embedding"):
        tensors[f"{side}.embed_tokens.weight"] = words.clone()
        tensors[f"{side}.embed_positions.weight"] = 0.1 * torch.randn(POSITIONS + 2, WIDTH, generator=generator)
        norm(f"{side}.emb_layer_norm")
    for layer in range(SIZES["encoder_layers"]):
        attention(f"encoder.layers.{layer}.self_attn")
        ffn(f"encoder.layers.{layer}.ffn", f"encoder.layers.{layer}.final_layer_norm")
    for block in range(SIZES["decoder_layers"]):
        attention(f"decoder.layers.{block}.self_attn")
        ffn(f"decoder.layers.{block}.ffn_1", f"decoder.layers.{block}.ffn_layer_norm")
        attention(f"decoder.layers.{block}.encoder_attn")
        ffn(f"decoder.layers.{block}.ffn_2", f"decoder.layers.{block}.final_layer_norm")
    torch.save({"weights": tensors}, path)
    return path


def command_line(world: World, user_dir: str, save_dir: Path, pretrained: Path, *more: Any) -> List[Any]:
    """The page's command for a released file, with other numbers behind it: sizes, CPU."""
    written = PAGE.read_text(encoding="utf-8").split("```bash\n")[1].split("```")[0]
    names = {"DATA": str(world.data), "fairseq_plugins": user_dir, "deltalm-base.pt": str(pretrained)}
    words = shlex.split(written.replace("\\\n", " "))
    page = [names.get(word, word) for word in words if word not in ("fairseq-train", "--fp16")]
    assert set(names.values()) <= set(page)
    sizes = [text for name, value in SIZES.items() for text in ("--" + name.replace("_", "-"), value)]
    return [
        *page, "--save-dir", save_dir, "--max-source-positions", POSITIONS, "--max-target-positions", POSITIONS, "--lr", "0.01",
        "--warmup-init-lr", "1e-07", "--stop-min-lr", "1e-09", "--warmup-updates", 4, "--max-tokens", 256,
        "--update-freq", 1, "--seed", SEED, "--log-format", "json", "--skip-invalid-size-inputs-valid-test", "--cpu",
        "--num-workers", 0, *sizes, *more,
    ]  # fmt: skip


def state_of(path: Path) -> Dict[str, torch.Tensor]:
    """The model part of a checkpoint."""
    return torch.load(path, weights_only=False)["model"]


def assert_same_weights(first: Path, second: Path) -> None:
    left, right = state_of(first), state_of(second)
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


@pytest.fixture(scope="module")
def trained(world: World, run_cli: Run, user_dir: str, tmp_path_factory: Any) -> Trained:
    """One epoch; the pretrained file is deleted; the same command resumes for a second epoch."""
    root = tmp_path_factory.mktemp("deltalm")
    released = write_released(root / "released.pt", world.pieces + 4 + UNNAMED)
    moving = root / "deleted" / "deltalm-base.pt"
    moving.parent.mkdir()
    moving.write_bytes(released.read_bytes())
    arguments = command_line(world, user_dir, root / "run", moving)
    first = run_cli("train", *arguments, "--max-epoch", 1)
    moving.unlink()
    moving.parent.rmdir()
    second = run_cli("train", *arguments, "--max-epoch", 2)
    return Trained(root / "run", released, first.stdout + first.stderr + second.stdout + second.stderr)


def test_rows_without_an_entry_are_left_out_and_said(trained: Trained, world: World) -> None:
    """The page's command, with the relation of the released files."""
    entries = world.pieces + 4
    words = state_of(trained.save_dir / "checkpoint1.pt")["encoder.embed_tokens.weight"]
    assert words.size(0) == entries
    assert f"the first {entries:,} of {entries + UNNAMED:,} rows (--embedding-mismatch truncate)" in trained.log


def valid_losses(log: str) -> List[float]:
    records = [json.loads(line[line.index(' | {"') + 3 :]) for line in log.splitlines() if ' | {"' in line]
    return [float(record["valid_loss"]) for record in records if "valid_loss" in record]


def test_the_authors_command_line_trains_and_resumes_without_the_file(trained: Trained) -> None:
    losses = valid_losses(trained.log)
    assert len(losses) == 2 and losses[1] < losses[0]
    first, second = (torch.load(trained.save_dir / f"checkpoint{n}.pt", weights_only=False) for n in (1, 2))
    updates = [state["optimizer_history"][-1]["num_updates"] for state in (first, second)]
    assert updates[1] == 2 * updates[0] > 0
    args = vars(first["cfg"]["model"]) if not isinstance(first["cfg"]["model"], dict) else first["cfg"]["model"]
    assert {name: args[name] for name in SIZES} == SIZES
    assert args["pretrained_deltalm_checkpoint"] is None
    assert str(args["initialised_from"]).endswith("deltalm-base.pt")
    assert first["model"]["encoder.embed_positions.weight"].shape == (POSITIONS + 2, WIDTH)


def hypotheses(stdout: str) -> Dict[str, str]:
    """Lines "D-3<TAB>score<TAB>text" -> {"3": text}."""
    rows = [line.split("\t") for line in stdout.splitlines() if line.startswith("D-")]
    return {row[0][2:]: row[-1] for row in rows}


def decoding(world: World, user_dir: str, path: Path) -> List[Any]:
    return [
        world.data, "--user-dir", user_dir, "--task", "translation", "-s", "en", "-t", "de", "--path", path, "--beam", 5,
        "--cpu",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def translations(trained: Trained, world: World, run_cli: Run, user_dir: str) -> Dict[str, str]:
    """fairseq-generate, without the pretrained file."""
    line = decoding(world, user_dir, trained.save_dir / "checkpoint_best.pt")
    return hypotheses(run_cli("generate", *line, "--max-sentences", 5).stdout)


def test_interactive_equals_generate(
    trained: Trained, translations: Dict[str, str], world: World, run_cli: Run, user_dir: str
) -> None:
    assert len(translations) == 12
    assert len(set(translations.values())) > 1 and all(translations.values())
    source = (world.root / "test.en").read_text(encoding="utf-8")
    line = decoding(world, user_dir, trained.save_dir / "checkpoint_best.pt")
    found = run_cli("interactive", *line, "--buffer-size", 20, "--max-sentences", 7, stdin=source)
    assert hypotheses(found.stdout) == translations
    more = line[line.index("--path") + 2 :]
    texts = run_cli("fairseq_plugins", "translate", trained.save_dir, *more, stdin=source).stdout.splitlines()
    assert {str(number): text for number, text in enumerate(texts)} == translations


def test_a_damaged_pretrained_file_is_not_opened_to_decode(
    trained: Trained, translations: Dict[str, str], world: World, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    """Also of a checkpoint whose options still name it, as those of the authors' code do."""
    damaged = tmp_path / "deltalm-base.pt"
    damaged.write_bytes(b"no checkpoint")
    content = torch.load(trained.save_dir / "checkpoint_best.pt", weights_only=False)
    content["cfg"]["model"].pretrained_deltalm_checkpoint = str(damaged)
    torch.save(content, tmp_path / "theirs.pt")
    line = decoding(world, user_dir, tmp_path / "theirs.pt")
    assert hypotheses(run_cli("generate", *line, "--max-sentences", 5).stdout) == translations
    checked = [world.data, "--user-dir", user_dir, "--task", "translation", "--cpu", "--path", tmp_path / "theirs.pt"]
    run_cli("validate", *checked, "--batch-size", 12)


def translated(folder: Path, name: str, world: World) -> Dict[str, str]:
    """The three lines of Python that a user writes, on the sentences of the test set."""
    sentences = (world.root / "test.en").read_text(encoding="utf-8").splitlines()
    model = DeltaLMModel.from_pretrained(str(folder), name, str(world.data), tokenizer="space")
    found = model.translate(sentences)
    assert model.translate(sentences[1]) == found[1]
    return {str(number): text for number, text in enumerate(found)}


def test_three_lines_of_python(trained: Trained, translations: Dict[str, str], world: World) -> None:
    assert translated(trained.save_dir, "checkpoint_best.pt", world) == translations


def test_export_and_import_give_the_same_translations(
    trained: Trained, translations: Dict[str, str], world: World, run_cli: Run, tmp_path: Path
) -> None:
    best, back = trained.save_dir / "checkpoint_best.pt", tmp_path / "back.pt"
    run_cli("fairseq_plugins.checkpoints.export", best, tmp_path / "folder")
    config = json.loads((tmp_path / "folder" / "config.json").read_text(encoding="utf-8"))
    assert set(config["tied"]) == {"decoder.embed_tokens.weight", "decoder.output_projection.weight"}
    assert export.main(["import", str(tmp_path / "folder"), str(back)]) == 0
    assert_same_weights(best, back)
    assert translated(tmp_path, "back.pt", world) == translations


def test_hydra_builds_and_trains_what_argparse_does(
    trained: Trained, world: World, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    """Bit-equal weights after an epoch: the same sizes, the same start, the same logits."""
    sizes = ", ".join(f"{name}: {value}" for name, value in SIZES.items())
    positions = f"max_source_positions: {POSITIONS}, max_target_positions: {POSITIONS}"
    config = f"""
common: {{user_dir: {user_dir}, cpu: true, seed: {SEED}, log_format: json}}
task: {{_name: translation, data: {world.data}, {positions}}}
model:
  {{_name: deltalm_base, pretrained_deltalm_checkpoint: {trained.released}, share_all_embeddings: true, {positions}, {sizes},
   embedding_mismatch: truncate}}
criterion: {{_name: label_smoothed_linear_cross_entropy, label_smoothing: 0.1}}
optimizer: {{_name: adam, adam_betas: "(0.9, 0.98)"}}
lr_scheduler: {{_name: inverse_sqrt, warmup_updates: 4, warmup_init_lr: 1e-07}}
optimization: {{lr: [0.01], max_epoch: 1, stop_min_lr: 1e-09}}
dataset: {{max_tokens: 256, num_workers: 0, skip_invalid_size_inputs_valid_test: true}}
checkpoint: {{save_dir: {tmp_path / "hydra"}}}
"""
    (tmp_path / "deltalm.yaml").write_text(config)
    run_cli("hydra_train", "--config-dir", tmp_path, "--config-name", "deltalm", cwd=tmp_path)
    assert_same_weights(trained.save_dir / "checkpoint1.pt", tmp_path / "hydra" / "checkpoint1.pt")
    args = torch.load(tmp_path / "hydra" / "checkpoint1.pt", weights_only=False)["cfg"]["model"]
    assert args["pretrained_deltalm_checkpoint"] is None
    assert args["initialised_from"] == str(trained.released)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--max-source-positions", 65], rf"ValueError: .*--max-source-positions .*65.*\b{POSITIONS}\b"),
        (
            ["--pretrained-deltalm-checkpoint", "nowhere.pt"],
            r"ValueError: .*--pretrained-deltalm-checkpoint nowhere\.pt",
        ),
    ],
    ids=["positions", "absent"],
)
def test_bad_input_ends_with_a_message(
    trained: Trained, world: World, run_cli: Run, user_dir: str, tmp_path: Path, more: List[Any], message: str
) -> None:
    """It is the last line that a user sees, and nothing was trained. Other bad input: tests/unit/models/."""
    arguments = command_line(world, user_dir, tmp_path, trained.released, "--max-update", 1, *more)
    result = run_cli("train", *arguments, check=False)
    assert result.returncode != 0
    last = result.stderr.strip().splitlines()[-1]
    assert re.search(message, last), last
    assert not list(tmp_path.glob("checkpoint*.pt"))


@pytest.mark.parametrize("option", ["--decoder-block", "--embedding-mismatch"])
def test_choices_are_those_of_the_command_line(option: str, capsys: pytest.CaptureFixture) -> None:
    line = ["data", "--task", "translation", "--arch", "deltalm_base", option, "sandwich"]
    with pytest.raises(SystemExit) as stopped:
        options.parse_args_and_arch(options.get_training_parser(), line)
    assert stopped.value.code == 2
    assert re.search(rf"argument {option}: invalid choice: 'sandwich'", capsys.readouterr().err)
