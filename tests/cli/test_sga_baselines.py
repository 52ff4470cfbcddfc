"""The comparison systems of SGA under the stock commands, each in a subprocess."""

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

COUNTS = {"train": {"de-en": 24, "fr-en": 16}, "valid": {"de-en": 24, "fr-en": 16}, "test": {"de-en": 9, "fr-en": 9}}
TAGGED = "--task translation_multi_simple_epoch --lang-pairs de-en,fr-en --langs de,en,fr --encoder-langtok src --decoder-langtok"
PAIR = "--task translation -s de -t en"
SMOOTHED = "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"


@pytest.fixture(scope="module")
def root(path):
    """A data-bin with two pairs, whose validation set is the training set."""
    (path / "bin").mkdir()
    for split, counts in COUNTS.items():
        for seed, (pair, count) in enumerate(counts.items(), start=split == "test"):
            builders.write_pair(path / "bin", split, *pair.split("-"), count=count, seed=seed)
    return path


def sizes(sides="encoder decoder", ffn=32):
    return " ".join(transformer(2, ffn=ffn, sides=sides))


def write_backbone(path):
    tagged = Dictionary()
    for symbol in [f"p{number}" for number in range(builders.PIECES)] + ["__de__", "__en__", "__fr__"]:
        tagged.add_symbol(symbol)
    task = SimpleNamespace(source_dictionary=tagged, target_dictionary=tagged)
    model = models.build_model(Namespace(arch="transformer", **SIZES), task)
    torch.save({"args": Namespace(langs=["de", "en", "fr"], **SIZES), "model": model.state_dict()}, path)


def test_adapters_train_resume_and_decode(root, train, decode, run_cli, tmp_path):
    """On mixed data; the backbone's file is deleted before the second epoch."""
    backbone, run = tmp_path / "backbone.pt", tmp_path / "run"
    write_backbone(backbone)
    before = model_of(backbone)
    more = f"""{sizes(ffn=24)} {SMOOTHED} {TAGGED} --share-all-embeddings --arch transformer_adapter_tiny
        --adapter-backbone {backbone} --adapter-width 8 --dropout 0.1 --max-epoch"""
    first = logged(train(root / "bin", run, f"{more} 1"), "valid_loss")
    backbone.unlink()
    second = logged(train(root / "bin", run, f"{more} 2"), "valid_loss")
    after = model_of(run)
    assert {name for name in after if name not in before} == {name for name in after if ".adapters." in name}
    assert [name for name in before if not torch.equal(before[name], after[name])] == []
    assert second[-1] < first[-1]
    done = decode(root / "bin", run / "checkpoint_last.pt", f"{TAGGED} -s fr -t en --batch-size 5 --beam 3")
    source = {key: text.replace("__fr__ ", "") for key, text in hypotheses(done, "S").items()}
    assert len(source) == 9
    translate = ["fairseq_plugins", "translate", run, "--beam", 3, "--cpu"]
    last = last_line(run_cli(*translate, check=False))
    assert last.endswith("--source-lang and --target-lang are needed, it was trained on de-en,fr-en")
    found = run_cli(*translate, "-s", "fr", "-t", "en", stdin="\n".join(source.values()) + "\n").stdout.splitlines()
    assert dict(zip(source, found)) == hypotheses(done)


def test_msp_from_a_stock_language_model(root, train, decode, tmp_path):
    text, lm, run = tmp_path / "text", tmp_path / "lm", tmp_path / "run"
    words = (root / "bin" / "dict.en.txt").read_bytes()
    for folder in (text, lm):
        folder.mkdir()
        (folder / "dict.txt").write_bytes(words)
    for name in ("train.bin", "train.idx", "valid.bin", "valid.idx"):
        (text / name).write_bytes((root / "bin" / name.replace(".", ".de-en.en.")).read_bytes())
    more = f"""--task language_modeling --arch transformer_lm {sizes("decoder")} --decoder-normalize-before --max-epoch 1
        --decoder-input-dim 16 --decoder-output-dim 16 --decoder-learned-pos --no-scale-embedding --activation-fn gelu
        --share-decoder-input-output-embed --tokens-per-sample 64 --sample-break-mode eos --criterion cross_entropy"""
    train(text, lm, more)
    more = f"""{PAIR} {SMOOTHED} --arch gpt_msp_tiny --prompt-length 4 --pretrained-gpt {lm / "checkpoint_last.pt"}
        --keep-best-checkpoints 2 --max-epoch 2"""
    losses = logged(train(root / "bin", run, more), "valid_loss")
    assert losses[1] < losses[0]
    state = model_of(run)
    assert len([name for name in state if state[name].numel()]) == 9 and len(state) == 10
    main(["average", "--directory", str(run), "--best", "2", "--output", str(tmp_path / "a.pt")])
    moved = (lm / "checkpoint_last.pt").rename(tmp_path / "moved.pt")
    (tmp_path / "dict.txt").write_bytes(words)
    override = ["--model-overrides", str({"pretrained_gpt": str(moved)})]
    assert len(hypotheses(decode(root / "bin", tmp_path / "a.pt", f"{PAIR} --batch-size 4 --beam 3", *override))) == 9
