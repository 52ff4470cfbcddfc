"""A cut checkpoint is the same model on the rows that stay, in every layout, and loads in stock fairseq."""

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
from data_prep.pieces import cut_vocabulary as verb
from data_prep.pieces import spm
from data_prep.pieces.encode import apply_files
from data_prep.pieces.manifest import check_manifest
from fairseq_plugins import checkpoints
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
KEPT = [0, 1, 2, 3, *sorted(4 + i for i in (*USED, TAG))]  # and every row after dict.txt


def piece(number):
    return "<2de>" if number == TAG else f"p{number}"


@pytest.fixture
def files(tmp_path):
    """dict.txt and a corpus of pieces that holds some of them."""
    (tmp_path / "dict.txt").write_text("".join(f"{piece(i)} {100 - i}\n" for i in range(ENTRIES)))
    (tmp_path / "pieces").write_text("".join(f"p{i} p{USED[0]}\n" for i in USED))
    return tmp_path


def cut(folder, checkpoint, *more):
    line = ["--checkpoint", str(checkpoint), "--dict", f"{folder}/dict.txt", "--output", f"{folder}/out"]
    verb.main([*line, *([] if "--text" in more else ["--pieces", f"{folder}/pieces"]), *more])
    return folder / "out"


def save(folder, tensors):
    torch.save({"model": tensors}, folder / "x.pt")
    return folder / "x.pt"


def dictionary(path):
    result = Dictionary.load(str(path))
    for symbol in EXTRA:
        result.add_symbol(symbol)
    return result


def bart(symbols):
    sizes = {f"{side}_{name}": count for side in ("encoder", "decoder") for name, count in SIZES.items()}
    off = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0)
    names = dict(arch="bart_large", task="translation", criterion="label_smoothed_cross_entropy", optimizer="adam")
    positions = dict.fromkeys(("max_source_positions", "max_target_positions"), 20)
    args = argparse.Namespace(**sizes, **off, **names, **positions, lr_scheduler="fixed", share_all_embeddings=True)
    bart_large_architecture(args)
    task = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
    return BARTModel.build_model(args, task).eval(), args


@torch.no_grad()
def test_a_stock_model_gives_the_same_logits(files):
    symbols = dictionary(files / "dict.txt")
    model, args = bart(symbols)
    builders.randomise(model, seed=5)
    before = model.state_dict()
    state = {"args": args, "model": before, "last_optimizer_state": {"m": torch.zeros(len(symbols), 8)}}
    state["optimizer_history"] = [{"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 3}]
    ema = {name: tensor.clone() for name, tensor in before.items()}
    torch.save({**state, "extra_state": {"train_iterator": {"epoch": 1}, "ema": ema}}, files / "model.pt")
    out = cut(files, files / "model.pt")

    kept = [*KEPT, *range(34, 34 + len(EXTRA))]
    symbols = dictionary(out / "dict.txt")
    assert symbols.symbols[4:] == ["p3", "p4", "p7", "<2de>", "p20", "p29", *EXTRA]
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(out / "model.pt"))
    smaller, _ = bart(symbols)
    assert smaller.load_state_dict(loaded["model"], strict=True).missing_keys == []
    new = torch.tensor([[0, 4, 8, len(symbols) - 1, 9, 7, 2], [0, 5, 6, 2, 1, 1, 1]])
    both = (smaller, new), (model, torch.tensor(kept)[new])
    found, expected = (one(rows, torch.tensor([7, 7]), rows.roll(1, 1))[0] for one, rows in both)
    torch.testing.assert_close(found, expected[..., kept], rtol=0, atol=1e-5)
    assert torch.equal(loaded["extra_state"]["ema"][WORDS], before[WORDS][kept])
    assert not loaded.get("last_optimizer_state")
    tied = {WORDS, "decoder.embed_tokens.weight", "decoder.output_projection.weight"}
    assert len({loaded["model"][name].data_ptr() for name in tied}) == 1
    for name, tensor in loaded["model"].items():
        assert torch.equal(tensor, before[name][kept] if name in tied else before[name])


def test_files_beside_the_checkpoint(files, monkeypatch):
    out = cut(files, save(files, {WORDS: torch.randn(35, 8)}))
    assert read_lines(out / "dict.txt") == [f"{piece(i)} {100 - i}" for i in (3, 4, 7, TAG, 20, 29)]
    # The format that the authors of VECO read: a line per piece of the old dict.txt; the four symbols and <mask> stay.
    flags = read_lines(out / "resized_dict_map.txt")
    assert [4 + i for i, flag in enumerate(flags) if int(flag)] == KEPT[4:] and len(flags) == ENTRIES
    assert check_manifest(out) == 4
    monkeypatch.setattr(verb, "write_manifest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cut(files, files / "x.pt", "--keep", "p9")
    assert not (out / "cut_vocabulary.json").exists(), "no manifest of before stands beside new files"


def test_released_deltalm_and_veco_names(files):
    words, bias = (35, 8), (35,)
    deltalm = {f"{side}_embedding.embed_tokens.weight": words for side in ("src", "tgt")}
    veco = {f"{s}.{n}.weight": words for s in ("encoder", "decoder") for n in ("embed_tokens", "output_projection")}
    heads = {"lm_head.decoder.bias": bias, "lm_head.bias": bias, "lm_head.decoder.weight": words}
    understanding = {"roberta.embeddings.word_embeddings.weight": words, **heads}
    roberta = {"encoder.sentence_encoder.embed_tokens.weight": words, "encoder.lm_head.weight": words}
    roberta["encoder.lm_head.bias"] = bias
    for shapes, top in ((deltalm, "weights"), (veco, "model"), (roberta, "model"), (understanding, None)):
        content = {name: torch.randn(shape).half() for name, shape in shapes.items()}
        content["encoder.layers.0.fc1.weight"] = torch.randn(12, 8)
        torch.save({top: content} if top else content, files / "x.pt")
        read = checkpoints.read_checkpoint(cut(files, files / "x.pt") / "x.pt")
        read = read[top] if top else read
        assert read.keys() == content.keys()
        for name, tensor in content.items():
            assert torch.equal(read[name], tensor[[*KEPT, 34]] if name in shapes else tensor)
            assert read[name].dtype == tensor.dtype


def test_text_with_its_sentencepiece_model(tmp_path):
    rng = random.Random(1)
    words = ["".join(rng.choices(["ka", "lo", "mi", "tu"], k=3)) for _ in range(40)]
    for name, known, count in (("all", words, 200), ("some", words[:3], 20)):
        (tmp_path / name).write_text("".join(" ".join(rng.choices(known, k=6)) + "\n" for _ in range(count)))
    model = ["--model", f"{tmp_path}/m"]
    spm.main(["train", "--inputs", f"{tmp_path}/all", *model, "--dict", f"{tmp_path}/dict.txt", "--vocab-size", "40"])
    path = save(tmp_path, {WORDS: torch.randn(42, 4)})
    out = cut(tmp_path, path, "--text", f"{tmp_path}/some", *model)
    assert (out / "sentencepiece.bpe.model").read_bytes() == (tmp_path / "m").read_bytes()
    assert 1 < len(read_lines(out / "dict.txt")) < 37
    counts = apply_files("spm", tmp_path / "m", [tmp_path / "some"], [tmp_path / "p"], out / "dict.txt")["p"]
    assert counts["unknown"] == 0


def test_rare_pieces_and_wanted_ones(files):
    path = save(files, {WORDS: torch.randn(34, 4)})
    (files / "pieces").write_text("p3 p3 p3 p4 p4 p4\n" * 3 + "p7\n")
    out = cut(files, path, "--min-count", "2", "--keep", "p9")
    assert [line.split()[0] for line in read_lines(out / "dict.txt")] == ["p3", "p4", "p9", "<2de>"]
    assert read_json(out / "cut_vocabulary.json")["counts"]["unknown"] == 1
    (files / "pieces").write_text("p3 zz\n")
    assert_refused(["1 of 2 pieces ", "(50.0 %) would become <unk>; valid: at most --max-unknown"], cut, files, path)
    assert_refused("the corpus holds none of its pieces", cut, files, path, "--min-count", "2")


def test_what_is_not_known_is_refused_and_nothing_written(files):
    for shapes, message in (
        ({"encoder.fc.weight": (3, 4)}, "no tensor with a row for each symbol; valid: the layouts of XLM-R"),
        ({WORDS: (35, 4), "decoder.embed_tokens.weight": (36, 4)}, "different numbers of rows: "),
        ({WORDS: (35, 4), "decoder.copy.weight": (4, 35)}, "not known: decoder.copy.weight (4, 35)"),
        ({WORDS: (33, 4)}, "the checkpoint has 33 rows; valid: as many rows, or up to"),
        ({WORDS: (350, 4)}, "the checkpoint has 350 rows; valid: as many rows, or up to"),
    ):
        assert_refused(message, cut, files, save(files, {name: torch.zeros(shape) for name, shape in shapes.items()}))
        assert not (files / "out").exists()


def test_untrusted_checkpoints_are_refused(files):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(files / "trap"),)

    torch.save({"model": {WORDS: torch.zeros(35, 4)}, "x": Trap()}, files / "x.pt")
    assert_refused("could run code", cut, files, files / "x.pt")
    assert not (files / "trap").exists()


def test_what_is_wrong_is_said_before_anything_is_read(files, monkeypatch):
    def read(*_):
        raise AssertionError("was read")

    monkeypatch.setattr(verb, "count_corpus", read)
    monkeypatch.setattr(verb, "open_checkpoint", read)
    (files / "x.pt").write_bytes(b"tensors")
    (files / "full").mkdir()
    (files / "full" / "config.json").write_text(json.dumps({"vocab_size": 50}))
    (files / "full" / "model.safetensors").write_bytes(b"tensors")
    full = str(files / "full")
    for more, message in (
        (["--text", "x"], "--model: valid: a sentencepiece model together with --text"),
        (["--checkpoint", "nowhere.pt"], "--checkpoint nowhere.pt: no such file"),
        (["--output", str(files)], ": would overwrite --dict"),
        (["--output", full], "full: holds files without a cut_vocabulary.json"),
        (["--checkpoint", full], "the checkpoint has 50 rows; valid: "),
        (["--checkpoint", full, "--output", full], ": would overwrite --checkpoint"),
    ):
        assert_refused(message, cut, files, files / "x.pt", "--max-extra-rows", "10", *more)


VECO_USED = (1, 2, 5, 12)


def cut_veco(folder, checkpoint, pieces):
    """Run the verb; returns the folder of its output, and the old rows that stay: with that of ``<mask>``, the last one."""
    nlu_builders.write_dict(folder / "own" / "dict.txt", PIECES[:pieces])
    (folder / "pieces").write_text("".join(f"p{number} p1\n" for number in VECO_USED))
    line = ["--checkpoint", checkpoint, "--dict", folder / "own" / "dict.txt", "--output", folder / "out"]
    verb.main([str(item) for item in [*line, "--pieces", folder / "pieces"]])
    assert [line.split()[0] for line in read_lines(folder / "out" / "dict.txt")] == [f"p{number}" for number in VECO_USED]
    return folder / "out", [0, 1, 2, 3, *(4 + number for number in VECO_USED), 4 + pieces]


def assert_rows(found, state, names, kept):
    """These names have the kept rows, bit for bit; everything else is untouched."""
    assert set(found) == set(state)
    for name, tensor in state.items():
        assert torch.equal(found[name], tensor[kept] if name in names else tensor), name


def test_one_that_was_pretrained_here(tmp_path):
    file = tmp_path / "in" / "checkpoint_last.pt"
    model = veco_builders.pretrained(file, last_optimizer_state={"moment": torch.zeros(25, 16)})
    state = veco_builders.pretrained_state(model)
    out, kept = cut_veco(tmp_path, file, 20)
    content = read_checkpoint(out / "checkpoint_last.pt")
    assert "last_optimizer_state" not in content
    words = [f"{name}.weight" for name in VECO_WORDS]
    assert content["model"]["lm_head.mask_row"].shape == (len(kept) - 1, 0)
    state["lm_head.mask_row"] = torch.empty(len(kept) - 1, 0)
    assert_rows(content["model"], state, [*words, "lm_head.bias"], kept)
    assert len({content["model"][name].data_ptr() for name in words}) == 1
    assert sorted(read_json(out / "cut_vocabulary.json")["options"]["tensors"]) == sorted([*words, "lm_head.bias"])


def test_the_folder(tmp_path):
    state = veco_builders.folder_state()
    names = ["roberta.embeddings.word_embeddings.weight", "lm_head.bias"]
    more = {"lm_head.decoder.weight": state[names[0]], "lm_head.decoder.bias": state[names[1]]}
    state, names = {**state, **more}, [*names, *more]
    path = veco_builders.write_folder(tmp_path / "in", state, add_cross_attention=True)
    out, kept = cut_veco(tmp_path, path, 18)
    assert_rows(read_checkpoint(out / "model.safetensors"), state, names, kept)
    config = json.loads((out / "config.json").read_text())
    assert config == {**masked_lms.CONFIG, "add_cross_attention": True, "vocab_size": len(kept)}
