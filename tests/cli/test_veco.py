"""Test VECO's fine-tuning under the stock commands: the authors' command line with tiny sizes."""

import re
from collections import namedtuple

import pytest
import torch

from tests import builders, veco_builders

from .commands import checkpoint, hypotheses, output_of, transformer

pytestmark = pytest.mark.slow

LAYERS = 6
SPARE = 7  # entries of the pretrained dictionary that the data's does not have
UNNAMED = ["--missing-language-tag", "unk"]  # what the authors' code does without an entry [en]
AUTHORS_TRAIN = """
--task=translation_from_pretrained_veco --criterion=label_smoothed_cross_entropy
--label-smoothing=0.2 --arch=veco_large --share-all-embeddings --source-lang=en --target-lang=de
--layernorm-embedding --dataset-impl=mmap --num-workers=16 --max-tokens=4096 --update-freq=2
--lr-scheduler=polynomial_decay --lr=1e-4 --min-lr=-1 --warmup-updates=16000
--total-num-update=100000 --patience=30 --optimizer=adam --adam-eps=1e-08 --clip-norm=0.1
--weight-decay=0.01 --dropout=0.3 --attention-dropout=0.1 --max-target-positions=512
--max-source-positions=512 --reset-optimizer --reset-meters --reset-dataloader
--reset-lr-scheduler --save-interval=5 --save-interval-updates=5000 --keep-interval-updates=10
--no-save-optimizer-state --keep-best-checkpoints=1 --seed=222 --log-format=simple
--log-interval=100 --ddp-backend=no_c10d
"""
Trained = namedtuple("Trained", "folder logs states pretrained rows")


def write_released(path, rows):
    """Write a random stack in the released fairseq layout, with a row for <mask>."""
    tensors = veco_builders.stock_state(LAYERS, rows, seed=11)
    positions = 0.2 * torch.randn(512 + 2, builders.WIDTH)
    for side in ("encoder", "decoder"):
        tensors[f"{side}.embed_positions.weight"] = positions
    args = {"arch": "veco_large", "task": "translation_from_pretrained_veco"}
    optimizer = {"optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}
    state = {
        "args": None,
        "cfg": {"model": args, "task": args},
        "model": tensors,
        "last_optimizer_state": {},
        "optimizer_history": [{"num_updates": 9, **optimizer}],
        "extra_state": {"train_iterator": {"epoch": 3, "iterations_in_epoch": 1}},
    }
    torch.save(state, path)
    return tensors


def write_map(path, pieces):
    """Spread spare entries over the pretrained dictionary; return the rows that are kept.

    The four special symbols are the first rows and not in the map.
    """
    spare = range(0, 2 * SPARE, 2)
    flags = [0 if number in spare else 1 for number in range(pieces + SPARE)]
    path.write_text("".join(f"{flag}\n" for flag in flags))
    return [0, 1, 2, 3, *(4 + number for number, flag in enumerate(flags) if flag)]


@pytest.fixture(scope="module")
def trained(world, run_cli, user_dir, path):
    """Run the authors' command line until the third update, and again until the seventh."""
    tensors = write_released(path / "model.pt", 4 + world.pieces + SPARE + 1)
    rows = write_map(path / "map.txt", world.pieces)
    sizes = transformer(LAYERS, builders.WIDTH, builders.FFN)
    line = [world.data, *AUTHORS_TRAIN.split(), "--adam-betas=(0.9, 0.999)", *UNNAMED]
    line += [option for option in sizes if "decoder-layers" not in option]
    line += f"""--restore-file={path / "model.pt"} --save-dir={path / "run"} --cpu --num-workers=0
        --resized-dict-map={path / "map.txt"} --keep-decoder-layers=1,4,5 --user-dir {user_dir}
        --max-tokens=192""".split()
    logs, states = [], []
    for updates in (3, 7):
        logs.append(output_of(run_cli("train", *line, "--max-update", updates)))
        states.append(checkpoint(path / "run"))
    return Trained(path / "run", logs, states, tensors, rows)


def assert_near(tensor, expected):
    """Compare with a pretrained tensor: early in the warm-up an update hardly moves a weight."""
    torch.testing.assert_close(tensor, expected, rtol=0, atol=1e-4)


def test_the_authors_command_line_trains_from_the_chosen_layers(trained, world):
    state = trained.states[0]["model"]
    embeddings = state["encoder.embed_tokens.weight"]
    assert len(trained.rows) == len(embeddings) == world.pieces + 4
    layers = {int(name.split(".")[2]) for name in state if name.startswith("decoder.layers.")}
    assert layers == {0, 1, 2}
    for layer, source in enumerate((1, 4, 5)):
        for part in ("self_attn.q_proj.weight", "encoder_attn.v_proj.weight", "fc1.weight"):
            expected = trained.pretrained[f"decoder.layers.{source}.{part}"]
            assert_near(state[f"decoder.layers.{layer}.{part}"], expected)
    assert_near(embeddings, trained.pretrained["encoder.embed_tokens.weight"][trained.rows])
    assert "no entry [de] for --target-lang de" in trained.logs[0]


def test_a_restarted_job_continues(trained):
    """Update, schedule and place in the data continue, though the optimizer was not saved."""
    first, second = trained.states
    assert "last_optimizer_state" not in first
    assert [state["optimizer_history"][-1]["num_updates"] for state in (first, second)] == [3, 7]
    places = [state["extra_state"]["train_iterator"] for state in (first, second)]
    assert len({(place["epoch"], place["iterations_in_epoch"]) for place in places}) == 2
    assert "learning rate 1.875e-08)" in trained.logs[1]  # 3 / 16,000 of 1e-4
    name = "encoder.layers.0.fc1.weight"
    drift = (second["model"][name] - first["model"][name]).abs().max()
    assert 0 < float(drift) < 1e-5


def test_the_authors_command_line_decodes(trained, world, run_cli, decode):
    file = trained.folder / "checkpoint_last.pt"
    beam = "--beam 5 --remove-bpe sentencepiece --max-len-b 8"
    line = f"""--task translation_from_pretrained_veco --source-lang en --target-lang de
        --resized-dict-map {trained.folder.parent / "map.txt"} --gen-subset test --num-workers 0
        {" ".join(UNNAMED)} {beam}"""
    generated = decode(world.data, file, f"{line} --batch-size 128 --sacrebleu")
    # The form of sacreBLEU; that of the stock scorer is "BLEU4 = ".
    assert re.search(r"Generate test with beam=5: BLEU = \d", generated.stdout)
    texts = hypotheses(generated)
    assert len(texts) == 12
    source = (world.root / "test.en").read_text(encoding="utf-8")
    line = f"{line} --buffer-size 20 --batch-size 7"
    interactive = decode(world.data, file, line, command="interactive", stdin=source)
    assert hypotheses(interactive) == texts
    translate = ["fairseq_plugins", "translate", file, "--cpu", *beam.split()]
    lines = run_cli(*translate, stdin=f"{source}\n").stdout.splitlines()
    assert {str(number): text for number, text in enumerate(lines)} == {**texts, "12": ""}
