"""Test that a cut checkpoint is the same model on fewer rows and loads in stock fairseq."""

import argparse
import json
import os
import random
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.models.bart import BARTModel
from fairseq.models.bart.model import bart_large_architecture

import fairseq_plugins  # noqa: F401  makes stock fairseq read checkpoints with options
from data_prep.io import read_json
from data_prep.pieces import cut_vocabulary, spm
from data_prep.pieces.encode import apply_files
from data_prep.pieces.manifest import check_manifest
from fairseq_plugins.checkpoints import read_checkpoint
from tests import builders, nlu_builders, veco_builders
from tests.nlu_builders import PIECES
from tests.unit.checkpoints import builders as masked_lms
from tests.unit.data_prep.files import assert_refused, interrupt, read_lines
from tests.veco_builders import WORDS as VECO_WORDS

ENTRIES = 30
WORDS = "encoder.embed_tokens.weight"
EXTRA = ("[en_XX]", "[de_DE]", "<mask>")
SIZES = {"layers": 1, "embed_dim": 8, "ffn_embed_dim": 12, "attention_heads": 2}
USED = (3, 4, 7, 20, 29)  # pieces of the corpus
TAG = 11  # a tag in dict.txt, not in the corpus
USED_ROWS = [0, 1, 2, 3, *sorted(4 + i for i in (*USED, TAG))]  # rows after dict.txt stay, too


def piece(number):
    return "<2de>" if number == TAG else f"p{number}"


@pytest.fixture
def files(tmp_path):
    """Write dict.txt and a corpus that holds some of its pieces."""
    dictionary = "".join(f"{piece(i)} {100 - i}\n" for i in range(ENTRIES))
    (tmp_path / "dict.txt").write_text(dictionary)
    (tmp_path / "pieces").write_text("".join(f"p{i} p{USED[0]}\n" for i in USED))
    return tmp_path


def cut(folder, checkpoint, *more):
    line = ["--checkpoint", str(checkpoint), "--dict", f"{folder}/dict.txt"]
    corpus = [] if "--text" in more else ["--pieces", f"{folder}/pieces"]
    cut_vocabulary.main([*line, "--output", f"{folder}/out", *corpus, *more])
    return folder / "out"


def save(folder, tensors):
    torch.save({"model": tensors}, folder / "x.pt")
    return folder / "x.pt"


def load_dictionary(path):
    dictionary = Dictionary.load(str(path))
    for symbol in EXTRA:
        dictionary.add_symbol(symbol)
    return dictionary


def build_bart(dictionary):
    args = argparse.Namespace(arch="bart_large", task="translation", optimizer="adam")
    args.criterion, args.lr_scheduler = "label_smoothed_cross_entropy", "fixed"
    args.dropout = args.attention_dropout = args.activation_dropout = 0.0
    args.max_source_positions = args.max_target_positions = 20
    args.share_all_embeddings = True
    for side in ("encoder", "decoder"):
        for name, size in SIZES.items():
            setattr(args, f"{side}_{name}", size)
    bart_large_architecture(args)
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    return BARTModel.build_model(args, task).eval(), args


@torch.no_grad()
def test_a_stock_model_gives_the_same_logits(files):
    dictionary = load_dictionary(files / "dict.txt")
    model, args = build_bart(dictionary)
    builders.randomise(model, seed=5)
    before = model.state_dict()
    history = {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 3}
    ema = {name: tensor.clone() for name, tensor in before.items()}
    state = {
        "args": args,
        "model": before,
        "last_optimizer_state": {"m": torch.zeros(len(dictionary), 8)},
        "optimizer_history": [history],
        "extra_state": {"train_iterator": {"epoch": 1}, "ema": ema},
    }
    torch.save(state, files / "model.pt")
    out = cut(files, files / "model.pt")

    rows = [*USED_ROWS, *range(34, 34 + len(EXTRA))]
    dictionary = load_dictionary(out / "dict.txt")
    assert dictionary.symbols[4:] == ["p3", "p4", "p7", "<2de>", "p20", "p29", *EXTRA]
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(out / "model.pt"))
    cut_model, _ = build_bart(dictionary)
    assert cut_model.load_state_dict(loaded["model"], strict=True).missing_keys == []
    tokens = torch.tensor([[0, 4, 8, len(dictionary) - 1, 9, 7, 2], [0, 5, 6, 2, 1, 1, 1]])
    old_tokens = torch.tensor(rows)[tokens]
    lengths = torch.tensor([7, 7])
    logits = cut_model(tokens, lengths, tokens.roll(1, 1))[0]
    expected = model(old_tokens, lengths, old_tokens.roll(1, 1))[0]
    torch.testing.assert_close(logits, expected[..., rows], rtol=0, atol=1e-5)
    assert torch.equal(loaded["extra_state"]["ema"][WORDS], before[WORDS][rows])
    assert not loaded.get("last_optimizer_state")
    tied = {WORDS, "decoder.embed_tokens.weight", "decoder.output_projection.weight"}
    assert len({loaded["model"][name].data_ptr() for name in tied}) == 1
    assert_rows(loaded["model"], before, tied, rows)


def assert_rows(tensors, before, cut_names, rows):
    """Assert that tensors of these names have only these rows, and all others are unchanged."""
    assert set(tensors) == set(before)
    for name, tensor in before.items():
        assert torch.equal(tensors[name], tensor[rows] if name in cut_names else tensor), name
        assert tensors[name].dtype == tensor.dtype


def test_files_beside_the_checkpoint(files, monkeypatch):
    out = cut(files, save(files, {WORDS: torch.randn(35, 8)}))
    lines = [f"{piece(i)} {100 - i}" for i in (3, 4, 7, TAG, 20, 29)]
    assert read_lines(out / "dict.txt") == lines
    # VECO's authors read one flag per line of the old dict.txt; special symbols always stay.
    flags = read_lines(out / "resized_dict_map.txt")
    assert len(flags) == ENTRIES
    assert [4 + i for i, flag in enumerate(flags) if int(flag)] == USED_ROWS[4:]
    assert check_manifest(out) == 4
    monkeypatch.setattr(cut_vocabulary, "write_manifest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cut(files, files / "x.pt", "--keep", "p9")
    assert not (out / "cut_vocabulary.json").exists(), "an old manifest beside new files"


@pytest.mark.cases(
    "key names",
    ("weights", ["src_embedding.embed_tokens.weight", "tgt_embedding.embed_tokens.weight"]),
    ("model", [WORDS, "decoder.embed_tokens.weight", "decoder.output_projection.weight"]),
    (
        "model",
        [
            "encoder.sentence_encoder.embed_tokens.weight",
            "encoder.lm_head.weight",
            "encoder.lm_head.bias",
        ],
    ),
    (None, ["roberta.embeddings.word_embeddings.weight", "lm_head.decoder.bias", "lm_head.bias"]),
)
def test_released_deltalm_and_veco_names(files, key, names):
    tensors = {name: torch.randn(35 if "bias" in name else (35, 8)).half() for name in names}
    tensors["encoder.layers.0.fc1.weight"] = torch.randn(12, 8)
    torch.save({key: tensors} if key else tensors, files / "x.pt")
    content = read_checkpoint(cut(files, files / "x.pt") / "x.pt")
    assert_rows(content[key] if key else content, tensors, names, [*USED_ROWS, 34])


def test_text_with_its_sentencepiece_model(tmp_path):
    rng = random.Random(1)
    words = ["".join(rng.choices(["ka", "lo", "mi", "tu"], k=3)) for _ in range(40)]
    for name, vocabulary, count in (("all", words, 200), ("some", words[:3], 20)):
        lines = [" ".join(rng.choices(vocabulary, k=6)) + "\n" for _ in range(count)]
        (tmp_path / name).write_text("".join(lines))
    model = ["--model", f"{tmp_path}/m"]
    files = f"--inputs {tmp_path}/all --dict {tmp_path}/dict.txt --vocab-size 40"
    spm.main(["train", *model, *files.split()])
    path = save(tmp_path, {WORDS: torch.randn(42, 4)})
    out = cut(tmp_path, path, "--text", f"{tmp_path}/some", *model)
    assert (out / "sentencepiece.bpe.model").read_bytes() == (tmp_path / "m").read_bytes()
    assert 1 < len(read_lines(out / "dict.txt")) < 37
    source, target = [tmp_path / "some"], [tmp_path / "p"]
    counts = apply_files("spm", tmp_path / "m", source, target, out / "dict.txt")["p"]
    assert counts["unknown"] == 0


def test_rare_pieces_go_and_named_ones_stay(files):
    path = save(files, {WORDS: torch.randn(34, 4)})
    (files / "pieces").write_text("p3 p3 p3 p4 p4 p4\n" * 3 + "p7\n")
    out = cut(files, path, "--min-count", "2", "--keep", "p9")
    pieces = [line.split()[0] for line in read_lines(out / "dict.txt")]
    assert pieces == ["p3", "p4", "p9", "<2de>"]
    assert read_json(out / "cut_vocabulary.json")["counts"]["unknown"] == 1
    (files / "pieces").write_text("p3 zz\n")
    assert_refused(["1 of 2 pieces ", "(50.0 %)", "--max-unknown"], cut, files, path)
    assert_refused("none of its pieces", cut, files, path, "--min-count", "2")


def test_unknown_layouts_are_refused_and_nothing_written(files):
    for shapes, message in (
        ({"encoder.fc.weight": (3, 4)}, "no tensor with a row for each symbol"),
        ({WORDS: (35, 4), "decoder.embed_tokens.weight": (36, 4)}, "different numbers of rows"),
        ({WORDS: (35, 4), "decoder.copy.weight": (4, 35)}, "decoder.copy.weight (4, 35)"),
        ({WORDS: (33, 4)}, "the checkpoint has 33 rows"),
        ({WORDS: (350, 4)}, "the checkpoint has 350 rows"),
    ):
        tensors = {name: torch.zeros(shape) for name, shape in shapes.items()}
        assert_refused(message, cut, files, save(files, tensors))
        assert not (files / "out").exists()


def test_checkpoints_that_could_run_code_are_refused(files):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(files / "trap"),)

    torch.save({"model": {WORDS: torch.zeros(35, 4)}, "x": Trap()}, files / "x.pt")
    assert_refused("could run code", cut, files, files / "x.pt")
    assert not (files / "trap").exists()


def test_bad_options_are_refused_before_anything_is_read(files, monkeypatch):
    def read(*_):
        raise AssertionError("was read")

    monkeypatch.setattr(cut_vocabulary, "count_corpus", read)
    monkeypatch.setattr(cut_vocabulary, "open_checkpoint", read)
    (files / "x.pt").write_bytes(b"tensors")
    (files / "full").mkdir()
    (files / "full" / "config.json").write_text(json.dumps({"vocab_size": 50}))
    (files / "full" / "model.safetensors").write_bytes(b"tensors")
    full = str(files / "full")
    for options, message in (
        (["--text", "x"], "--model: valid: a sentencepiece model together with --text"),
        (["--checkpoint", "nowhere.pt"], "--checkpoint nowhere.pt: no such file"),
        (["--output", str(files)], ": would overwrite --dict"),
        (["--output", full], "full: holds files without a cut_vocabulary.json"),
        (["--checkpoint", full], "the checkpoint has 50 rows"),
        (["--checkpoint", full, "--output", full], ": would overwrite --checkpoint"),
    ):
        more = ["--max-extra-rows", "10", *options]
        assert_refused(message, cut, files, files / "x.pt", *more)


VECO_USED = (1, 2, 5, 12)


def cut_veco(folder, checkpoint, pieces):
    """Run the verb; return its output folder and the rows that stay, with ``<mask>`` the last."""
    nlu_builders.write_dict(folder / "in" / "dict.txt", PIECES[:pieces])
    (folder / "pieces").write_text("".join(f"p{number} p1\n" for number in VECO_USED))
    files = ["--checkpoint", checkpoint, "--dict", folder / "in" / "dict.txt"]
    line = [*files, "--pieces", folder / "pieces", "--output", folder / "out"]
    cut_vocabulary.main([str(word) for word in line])
    symbols = [line.split()[0] for line in read_lines(folder / "out" / "dict.txt")]
    assert symbols == [f"p{number}" for number in VECO_USED]
    return folder / "out", [0, 1, 2, 3, *(4 + number for number in VECO_USED), 4 + pieces]


def test_a_checkpoint_of_our_veco_pretraining(tmp_path):
    file = tmp_path / "in" / "checkpoint_last.pt"
    optimizer_state = {"moment": torch.zeros(25, 16)}
    model = veco_builders.pretrained(file, last_optimizer_state=optimizer_state)
    out, rows = cut_veco(tmp_path, file, 20)
    content = read_checkpoint(out / "checkpoint_last.pt")
    assert "last_optimizer_state" not in content
    words = [f"{name}.weight" for name in VECO_WORDS]
    expected = veco_builders.pretrained_state(model)
    expected["lm_head.mask_row"] = torch.empty(len(rows) - 1, 0)
    assert_rows(content["model"], expected, [*words, "lm_head.bias"], rows)
    assert len({content["model"][name].data_ptr() for name in words}) == 1
    tensors = read_json(out / "cut_vocabulary.json")["options"]["tensors"]
    assert sorted(tensors) == sorted([*words, "lm_head.bias"])


def test_a_folder_of_veco(tmp_path):
    state = veco_builders.folder_state()
    words, bias = "roberta.embeddings.word_embeddings.weight", "lm_head.bias"
    state.update({"lm_head.decoder.weight": state[words], "lm_head.decoder.bias": state[bias]})
    path = veco_builders.write_folder(tmp_path / "in", state, add_cross_attention=True)
    out, rows = cut_veco(tmp_path, path, 18)
    names = [words, bias, "lm_head.decoder.weight", "lm_head.decoder.bias"]
    assert_rows(read_checkpoint(out / "model.safetensors"), state, names, rows)
    config = json.loads((out / "config.json").read_text())
    assert config == {**masked_lms.CONFIG, "add_cross_attention": True, "vocab_size": len(rows)}
