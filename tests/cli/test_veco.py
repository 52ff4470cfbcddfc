"""VECO's fine-tuning under the stock commands: the authors' command lines plus --user-dir, and tiny sizes."""

import re
from collections import namedtuple

import pytest
import torch

from tests import builders, veco_builders

from .commands import checkpoint, hypotheses, transformer

pytestmark = pytest.mark.slow  # four commands, about 45 seconds of one core

LAYERS = 6
SPARE = 7  # entries of the pretrained dictionary that the data's does not have
UNNAMED = ["--missing-language-tag", "unk"]  # what the authors' code does where the dictionary has no [en]
AUTHORS_TRAIN = """
--task=translation_from_pretrained_veco --criterion=label_smoothed_cross_entropy --label-smoothing=0.2 --arch=veco_large
--share-all-embeddings --source-lang=en --target-lang=de --layernorm-embedding --dataset-impl=mmap --num-workers=16
--max-tokens=4096 --update-freq=2 --lr-scheduler=polynomial_decay --lr=1e-4 --min-lr=-1 --warmup-updates=16000
--total-num-update=100000 --patience=30 --optimizer=adam --adam-eps=1e-08 --clip-norm=0.1 --weight-decay=0.01 --dropout=0.3
--attention-dropout=0.1 --max-target-positions=512 --max-source-positions=512 --reset-optimizer --reset-meters
--reset-dataloader --reset-lr-scheduler --save-interval=5 --save-interval-updates=5000 --keep-interval-updates=10
--no-save-optimizer-state --keep-best-checkpoints=1 --seed=222 --log-format=simple --log-interval=100 --ddp-backend=no_c10d
"""
Trained = namedtuple("Trained", "folder logs states model rows")


def write_released(path, rows):
    """A random stack in the released fairseq layout, with a row for <mask>."""
    tensors = veco_builders.stock_state(LAYERS, rows, seed=11)
    positions = 0.2 * torch.randn(512 + 2, builders.WIDTH)
    tensors["encoder.embed_positions.weight"] = tensors["decoder.embed_positions.weight"] = positions
    args = {"arch": "veco_large", "task": "translation_from_pretrained_veco"}
    history = [{"num_updates": 9, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}]
    place = {"train_iterator": {"epoch": 3, "iterations_in_epoch": 1}}
    state = {"args": None, "cfg": {"model": args, "task": args}, "model": tensors, "last_optimizer_state": {}}
    torch.save({**state, "optimizer_history": history, "extra_state": place}, path)
    return tensors


def write_map(path, pieces):
    """Spare entries all over the pretrained dictionary; returns the rows that stay, the four special ones first."""
    lines = [0 if number in range(0, 2 * SPARE, 2) else 1 for number in range(pieces + SPARE)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return [0, 1, 2, 3, *(4 + number for number, line in enumerate(lines) if line)]


@pytest.fixture(scope="module")
def trained(world, run_cli, user_dir, path):
    """The authors' command line, stopped after three updates and started again unchanged, until the seventh: logs and states of
    both parts, the pretrained tensors and the rows that stay."""
    model = write_released(path / "model.pt", 4 + world.pieces + SPARE + 1)
    rows = write_map(path / "map.txt", world.pieces)
    line = [world.data, *AUTHORS_TRAIN.split(), "--adam-betas=(0.9, 0.999)", *UNNAMED]
    line += [text for text in transformer(LAYERS, builders.WIDTH, builders.FFN) if "decoder-layers" not in text]
    line += f"""--restore-file={path / "model.pt"} --save-dir={path / "run"} --resized-dict-map={path / "map.txt"}
        --keep-decoder-layers=1,4,5 --user-dir {user_dir} --num-workers=0 --max-tokens=192 --cpu""".split()
    logs, states = [], []
    for updates in (3, 7):
        done = run_cli("train", *line, "--max-update", updates)
        logs.append(done.stdout + done.stderr)
        states.append(checkpoint(path / "run"))
    return Trained(path / "run", logs, states, model, rows)


def test_the_authors_command_line_trains_from_the_chosen_layers(trained, world):
    state = trained.states[0]["model"]
    assert len(trained.rows) == len(state["encoder.embed_tokens.weight"]) == world.pieces + 4
    assert {int(name.split(".")[2]) for name in state if name.startswith("decoder.layers.")} == {0, 1, 2}
    # Three updates of a warm-up of 16,000 hardly move a weight: each is still nearest to its source.
    for place, source in enumerate((1, 4, 5)):
        for part in ("self_attn.q_proj.weight", "encoder_attn.v_proj.weight", "fc1.weight"):
            found = state[f"decoder.layers.{place}.{part}"]
            torch.testing.assert_close(found, trained.model[f"decoder.layers.{source}.{part}"], rtol=0, atol=1e-4)
    words = trained.model["encoder.embed_tokens.weight"][trained.rows]
    torch.testing.assert_close(state["encoder.embed_tokens.weight"], words, rtol=0, atol=1e-4)
    assert "no entry [de] for --target-lang de: <unk> stands" in trained.logs[0]


def test_a_restarted_job_continues(trained):
    """At the update, in the schedule and at the place in the data where it stopped, though the optimizer was not saved."""
    first, second = trained.states
    assert "last_optimizer_state" not in first
    assert [state["optimizer_history"][-1]["num_updates"] for state in (first, second)] == [3, 7]
    places = [state["extra_state"]["train_iterator"] for state in (first, second)]
    assert len({(place["epoch"], place["iterations_in_epoch"]) for place in places}) == 2
    assert "learning rate 1.875e-08)" in trained.logs[1]  # 3 / 16,000 of 1e-4
    drift = (second["model"]["encoder.layers.0.fc1.weight"] - first["model"]["encoder.layers.0.fc1.weight"]).abs().max()
    assert 0 < float(drift) < 1e-5


def test_the_authors_command_line_decodes(trained, world, run_cli, decode):
    file, options = trained.folder / "checkpoint_last.pt", "--beam 5 --remove-bpe sentencepiece --max-len-b 8"
    line = f"""--task translation_from_pretrained_veco --resized-dict-map {trained.folder.parent / "map.txt"} --source-lang en
        --target-lang de --gen-subset test --num-workers 0 {" ".join(UNNAMED)} {options}"""
    found = decode(world.data, file, f"{line} --batch-size 128 --sacrebleu")
    assert re.search(r"Generate test with beam=5: BLEU = \d", found.stdout)  # sacreBLEU's form; stock's is "BLEU4 = "
    texts = hypotheses(found)
    assert len(texts) == 12
    source = (world.root / "test.en").read_text(encoding="utf-8")
    batches = "--buffer-size 20 --batch-size 7"
    again = decode(world.data, file, f"{line} {batches}", command="interactive", stdin=source)
    assert hypotheses(again) == texts
    written = run_cli("fairseq_plugins", "translate", file, "--cpu", *options.split(), stdin=f"{source}\n").stdout
    assert {str(number): text for number, text in enumerate(written.splitlines())} == {**texts, "12": ""}
