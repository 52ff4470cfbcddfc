"""VECO's fine-tuning under the stock commands: the authors' command lines plus --user-dir, and tiny sizes."""

import re
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import pytest
import torch

from .conftest import World

pytestmark = pytest.mark.slow  # four commands, about 45 seconds of one core

Run = Callable[..., Any]
LAYERS, WIDTH, FFN, POSITIONS = 6, 16, 32, 64
SPARE = 7
"""Entries of the pretrained dictionary that the data's does not have."""

UNNAMED = ["--missing-language-tag", "unk"]
"""What the authors' code does where the dictionary has no [en]."""

AUTHORS_TRAIN = """
--task=translation_from_pretrained_veco --criterion=label_smoothed_cross_entropy --label-smoothing=0.2 --arch=veco_large
--share-all-embeddings --source-lang=en --target-lang=de --layernorm-embedding --dataset-impl=mmap --num-workers=16
--max-tokens=4096 --update-freq=2 --lr-scheduler=polynomial_decay --lr=1e-4 --min-lr=-1 --warmup-updates=16000
--total-num-update=100000 --patience=30 --optimizer=adam --adam-eps=1e-08 --clip-norm=0.1 --weight-decay=0.01 --dropout=0.3
--attention-dropout=0.1 --max-target-positions=512 --max-source-positions=512 --reset-optimizer --reset-meters
--reset-dataloader --reset-lr-scheduler --save-interval=5 --save-interval-updates=5000 --keep-interval-updates=10
--no-save-optimizer-state --keep-best-checkpoints=1 --seed=222 --log-format=simple --log-interval=100 --ddp-backend=no_c10d
"""


class Trained(NamedTuple):
    """A run of two parts.

    Attributes:
        folder: with the checkpoints.
        dict_map: of ``--resized-dict-map``.
        logs: what each part wrote.
        states: checkpoint_last.pt after each part.
        model: the pretrained state.
    """

    folder: Path
    dict_map: Path
    logs: List[str]
    states: List[Dict[str, Any]]
    model: Dict[str, torch.Tensor]


def write_released(path: Path, rows: int) -> Dict[str, torch.Tensor]:
    """A random stack in the released fairseq layout: equal encoder and decoder layers, cross-attention, and a row for <mask>."""
    generator = torch.Generator().manual_seed(11)
    tensors: Dict[str, torch.Tensor] = {}

    def draw(*shape: int) -> torch.Tensor:
        return 0.2 * torch.randn(shape, generator=generator)

    def norm(name: str) -> None:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = torch.ones(WIDTH), 0.1 * draw(WIDTH)

    def linear(name: str, inputs: int, outputs: int) -> None:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = draw(outputs, inputs), draw(outputs)

    def attention(name: str) -> None:
        for projection in ("k_proj", "v_proj", "q_proj", "out_proj"):
            linear(f"{name}.{projection}", WIDTH, WIDTH)
        norm(f"{name}_layer_norm")

    tensors["encoder.embed_tokens.weight"] = draw(rows, WIDTH)
    tensors["encoder.embed_positions.weight"] = draw(512 + 2, WIDTH)
    norm("encoder.layernorm_embedding")
    for layer in range(LAYERS):
        name = f"encoder.layers.{layer}"
        attention(f"{name}.self_attn")
        linear(f"{name}.fc1", WIDTH, FFN)
        linear(f"{name}.fc2", FFN, WIDTH)
        norm(f"{name}.final_layer_norm")
    for name in list(tensors):
        tensors[name.replace("encoder.", "decoder.", 1)] = tensors[name].clone()
    for layer in range(LAYERS):
        attention(f"decoder.layers.{layer}.encoder_attn")
    tensors["decoder.output_projection.weight"] = tensors["encoder.embed_tokens.weight"].clone()
    args = {"arch": "veco_large", "task": "translation_from_pretrained_veco"}
    state = {
        "args": None,
        "cfg": {"model": args, "task": args},
        "model": tensors,
        "optimizer_history": [{"num_updates": 9, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}],
        "extra_state": {"train_iterator": {"epoch": 3, "iterations_in_epoch": 1}},
        "last_optimizer_state": {},
    }
    torch.save(state, path)
    return tensors


def write_map(path: Path, pieces: int) -> List[int]:
    """Spare entries all over the pretrained dictionary; returns the rows that stay, the four special ones first."""
    places = [*range(0, 2 * SPARE, 2)]
    lines = [0 if number in places else 1 for number in range(pieces + SPARE)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return [0, 1, 2, 3, *(4 + number for number, line in enumerate(lines) if line)]


@pytest.fixture(scope="module")
def trained(world: World, run_cli: Run, user_dir: str, tmp_path_factory: Any) -> Trained:
    """The authors' command line, stopped after three updates and started again unchanged, until the seventh."""
    root = tmp_path_factory.mktemp("veco")
    model = write_released(root / "model.pt", 4 + world.pieces + SPARE + 1)
    write_map(root / "map.txt", world.pieces)
    sizes = [f"--{side}-{name}={value}" for side in ("encoder", "decoder") for name, value in SIDES.items()]
    line = [
        world.data, *AUTHORS_TRAIN.split(), *UNNAMED, "--adam-betas=(0.9, 0.999)", "--keep-decoder-layers=1,4,5",
        f"--encoder-layers={LAYERS}", f"--restore-file={root / 'model.pt'}", f"--save-dir={root / 'run'}",
        f"--resized-dict-map={root / 'map.txt'}", "--user-dir", user_dir, *sizes, "--num-workers=0", "--max-tokens=192", "--cpu",
    ]  # fmt: skip
    logs, states = [], []
    for updates in (3, 7):
        done = run_cli("train", *line, "--max-update", updates)
        logs.append(done.stdout + done.stderr)
        states.append(torch.load(root / "run" / "checkpoint_last.pt", weights_only=False))
    return Trained(root / "run", root / "map.txt", logs, states, model)


SIDES = {"embed-dim": WIDTH, "ffn-embed-dim": FFN, "attention-heads": 2}


def test_the_authors_command_line_trains_from_the_chosen_layers(trained: Trained, world: World) -> None:
    state, rows = trained.states[0]["model"], write_map(trained.dict_map, world.pieces)
    assert len(rows) == len(state["encoder.embed_tokens.weight"]) == world.pieces + 4
    assert {int(name.split(".")[2]) for name in state if name.startswith("decoder.layers.")} == {0, 1, 2}
    # Three updates of a warm-up of 16,000 hardly move a weight: each is still nearest to its source.
    for place, source in enumerate((1, 4, 5)):
        for part in ("self_attn.q_proj.weight", "encoder_attn.v_proj.weight", "fc1.weight"):
            found = state[f"decoder.layers.{place}.{part}"]
            torch.testing.assert_close(found, trained.model[f"decoder.layers.{source}.{part}"], rtol=0, atol=1e-4)
    words = trained.model["encoder.embed_tokens.weight"][rows]
    torch.testing.assert_close(state["encoder.embed_tokens.weight"], words, rtol=0, atol=1e-4)
    log = trained.logs[0]
    assert "decoder.layers.{0,1,2}.fc1.weight from decoder.layers.{1,4,5}.fc1.weight" in log
    assert "(--resized-dict-map), without that of <mask>" in log
    assert "no entry [de] for --target-lang de: <unk> stands for it" in log
    assert trained.states[0]["cfg"]["optimization"]["stop_min_lr"] == -1.0  # --min-lr
    assert trained.states[0]["cfg"]["model"].no_scale_embedding is False


def test_a_restarted_job_continues(trained: Trained) -> None:
    """At the update, in the schedule and at the place in the data where it stopped, though the optimizer was not saved."""
    first, second = trained.states
    assert "last_optimizer_state" not in first
    assert [state["optimizer_history"][-1]["num_updates"] for state in (first, second)] == [3, 7]
    places = [state["extra_state"]["train_iterator"] for state in (first, second)]
    assert (places[0]["epoch"], places[0]["iterations_in_epoch"]) < (
        places[1]["epoch"],
        places[1]["iterations_in_epoch"],
    )
    assert "continuing" in trained.logs[1] and "checkpoint_last.pt" in trained.logs[1]
    assert "going on at update 3 of the schedule" in trained.logs[1]
    assert re.search(r"learning rate 1\.875e-08\)", trained.logs[1])  # 3 / 16,000 of 1e-4
    assert "continuing" not in trained.logs[0]
    drift = (second["model"]["encoder.layers.0.fc1.weight"] - first["model"]["encoder.layers.0.fc1.weight"]).abs().max()
    assert 0 < float(drift) < 1e-5
    assert "pretrained state" not in trained.logs[1]


def texts(stdout: str) -> Dict[str, str]:
    """Lines "D-3<TAB>score<TAB>text" -> {"3": text}."""
    rows = [line.split("\t") for line in stdout.splitlines() if line.startswith("D-")]
    return {row[0][2:]: row[-1] for row in rows}


def test_the_authors_command_line_decodes(trained: Trained, world: World, run_cli: Run, user_dir: str) -> None:
    averaged = trained.folder / "averaged.pt"
    averaged.write_bytes((trained.folder / "checkpoint_last.pt").read_bytes())
    line = [
        world.data, "--path", averaged, "--task", "translation_from_pretrained_veco", *UNNAMED,
        "--resized-dict-map", trained.dict_map,
        "--source-lang", "en", "--target-lang", "de", "--gen-subset", "test", "--beam", 5, "--remove-bpe",
        "sentencepiece", "--user-dir", user_dir, "--cpu", "--max-len-b", 8, "--num-workers", 0,
    ]  # fmt: skip
    found = run_cli("generate", *line, "--batch-size", 128, "--sacrebleu")
    assert re.search(r"Generate test with beam=5: BLEU = \d", found.stdout)  # sacreBLEU's form; stock's is "BLEU4 = "
    assert len(texts(found.stdout)) == 12
    source = (world.root / "test.en").read_text(encoding="utf-8")
    again = run_cli("interactive", *line, "--buffer-size", 20, "--batch-size", 7, stdin=source)
    assert texts(again.stdout) == texts(found.stdout)
    options = ["--beam", 5, "--remove-bpe", "sentencepiece", "--cpu", "--max-len-b", 8]
    written = run_cli("fairseq_plugins", "translate", averaged, *options, stdin=f"{source}\n").stdout.splitlines()
    assert {str(number): text for number, text in enumerate(written)} == {**texts(found.stdout), "12": ""}
