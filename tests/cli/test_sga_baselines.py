"""Test the comparison systems of SGA under the stock commands."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq import models
from fairseq.data import Dictionary

from fairseq_plugins.__main__ import main
from tests import builders
from tests.adapter_builders import SIZES

from .commands import hypotheses, last_line, logged, model_of, transformer

COUNTS = {
    "train": {"de-en": 24, "fr-en": 16},
    "valid": {"de-en": 24, "fr-en": 16},
    "test": {"de-en": 9, "fr-en": 9},
}
TAGGED = """--task translation_multi_simple_epoch --lang-pairs de-en,fr-en --langs de,en,fr
    --encoder-langtok src --decoder-langtok"""
PAIR = "--task translation -s de -t en"
SMOOTHED = "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"


@pytest.fixture(scope="module")
def data(path):
    """Write a data-bin with two pairs, whose validation set is the training set."""
    (path / "bin").mkdir()
    for split, counts in COUNTS.items():
        for seed, (pair, count) in enumerate(counts.items(), start=split == "test"):
            builders.write_pair(path / "bin", split, *pair.split("-"), count=count, seed=seed)
    return path / "bin"


def sizes(sides="encoder decoder", ffn=32):
    return " ".join(transformer(2, ffn=ffn, sides=sides))


def write_backbone(path):
    dictionary = Dictionary()
    pieces = [f"p{number}" for number in range(builders.PIECES)]
    for symbol in [*pieces, "__de__", "__en__", "__fr__"]:
        dictionary.add_symbol(symbol)
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = models.build_model(Namespace(arch="transformer", **SIZES), task)
    args = Namespace(langs=["de", "en", "fr"], **SIZES)
    torch.save({"args": args, "model": model.state_dict()}, path)


def test_adapters_train_resume_and_decode(data, train, decode, run_cli, tmp_path):
    """Train on mixed data; delete the backbone's file before the second epoch."""
    backbone, run = tmp_path / "backbone.pt", tmp_path / "run"
    write_backbone(backbone)
    before = model_of(backbone)
    line = f"""{sizes(ffn=24)} {SMOOTHED} {TAGGED} --share-all-embeddings --adapter-width 8
        --arch transformer_adapter_tiny --adapter-backbone {backbone} --dropout 0.1 --max-epoch"""
    first = logged(train(data, run, f"{line} 1"), "valid_loss")
    backbone.unlink()
    second = logged(train(data, run, f"{line} 2"), "valid_loss")
    assert second[-1] < first[-1]
    after = model_of(run)
    assert set(after) - set(before) == {name for name in after if ".adapters." in name}
    assert [name for name in before if not torch.equal(before[name], after[name])] == []

    pair = f"{TAGGED} -s fr -t en --batch-size 5 --beam 3"
    generated = decode(data, run / "checkpoint_last.pt", pair)
    source = {key: text.replace("__fr__ ", "") for key, text in hypotheses(generated, "S").items()}
    assert len(source) == 9
    translate = ["fairseq_plugins", "translate", run, "--beam", 3, "--cpu"]
    message = last_line(run_cli(*translate, check=False))
    assert "--source-lang and --target-lang" in message
    assert "de-en,fr-en" in message
    stdin = "\n".join([*source.values(), ""])
    lines = run_cli(*translate, "-s", "fr", "-t", "en", stdin=stdin).stdout.splitlines()
    assert dict(zip(source, lines)) == hypotheses(generated)


def test_msp_prompts_a_stock_language_model(data, train, decode, tmp_path):
    text, lm, run = tmp_path / "text", tmp_path / "lm", tmp_path / "run"
    words = (data / "dict.en.txt").read_bytes()
    for folder in (text, lm, tmp_path):
        folder.mkdir(exist_ok=True)
        (folder / "dict.txt").write_bytes(words)
    for name in ("train.bin", "train.idx", "valid.bin", "valid.idx"):
        (text / name).write_bytes((data / name.replace(".", ".de-en.en.")).read_bytes())
    line = f"""--task language_modeling --arch transformer_lm {sizes("decoder")} --max-epoch 1
        --decoder-normalize-before --decoder-input-dim 16 --decoder-output-dim 16
        --decoder-learned-pos --no-scale-embedding --activation-fn gelu --tokens-per-sample 64
        --share-decoder-input-output-embed --sample-break-mode eos --criterion cross_entropy"""
    train(text, lm, line)
    line = f"""{PAIR} {SMOOTHED} --arch gpt_msp_tiny --prompt-length 4 --max-epoch 2
        --pretrained-gpt {lm / "checkpoint_last.pt"} --keep-best-checkpoints 2"""
    losses = logged(train(data, run, line), "valid_loss")
    assert losses[1] < losses[0]
    state = model_of(run)
    assert len(state) == 10
    assert len([name for name in state if state[name].numel()]) == 9

    average, moved = tmp_path / "average.pt", tmp_path / "moved.pt"
    main(["average", "--directory", str(run), "--best", "2", "--output", str(average)])
    (lm / "checkpoint_last.pt").rename(moved)
    overrides = ["--model-overrides", str({"pretrained_gpt": str(moved)})]
    decoded = decode(data, average, f"{PAIR} --batch-size 4 --beam 3", *overrides)
    assert len(hypotheses(decoded)) == 9
