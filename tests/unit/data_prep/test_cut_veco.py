"""A VECO of every layout cut to a corpus: kept rows bit-equal, what is tied stays tied, the same logits on the rows that stay."""

import json

import pytest
import torch
from fairseq import models
from omegaconf import OmegaConf

from data_prep import cut_vocabulary as verb
from data_prep.io import read_json
from fairseq_plugins.checkpoints import load, read_checkpoint, read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes
from tests import nlu_builders, veco_builders
from tests.nlu_builders import PIECES
from tests.unit.checkpoints import builders as masked_lms
from tests.veco_builders import WORDS

USED = (1, 2, 5, 12)
KEPT = [0, 1, 2, 3, *(4 + number for number in USED), 24]
"""Old rows: the special ones, the pieces of the corpus, and ``<mask>``, which dict.txt does not list."""


def cut(folder, checkpoint, pieces=20):
    """Run the verb; returns the folder of its output, whose lists say what stays."""
    nlu_builders.write_dict(folder / "own" / "dict.txt", PIECES[:pieces])
    (folder / "pieces").write_text("".join(f"p{number} p1\n" for number in USED))
    line = ["--checkpoint", checkpoint, "--dict", folder / "own" / "dict.txt", "--output", folder / "out"]
    verb.main([str(item) for item in [*line, "--pieces", folder / "pieces"]])
    lines = (folder / "out" / "dict.txt").read_text().split("\n")[:-1]
    assert [line.split()[0] for line in lines] == [f"p{number}" for number in USED]
    # The format that the authors of VECO read: a line for each entry of the old dict.txt, and no other.
    flags = (folder / "out" / "resized_dict_map.txt").read_text()
    assert flags == "".join(f"{int(number in USED)}\n" for number in range(pieces))
    return folder / "out"


def assert_rows(found, state, names, kept):
    """These names have the kept rows, bit for bit; everything else is untouched."""
    assert set(found) == set(state)
    for name, tensor in state.items():
        assert torch.equal(found[name], tensor[kept] if name in names else tensor), name


def tokens_of(new):
    """Padded sentences of every row."""
    return torch.tensor([[0, *range(4, new), 2], [0, 5, new - 1, 4, 2, *[1] * (new - 7)]])


@torch.no_grad()
def test_the_released_layout(tmp_path):
    model = veco_builders.released(tmp_path / "in")
    state = veco_builders.released_state(model)
    out = cut(tmp_path, tmp_path / "in" / "model.pt")
    content = read_checkpoint(out / "model.pt")
    names = [*(f"{name}.weight" for name in WORDS[:3]), "encoder.output_projection.weight"]
    assert_rows(content["model"], state, names, KEPT)
    symbols = [*(f"p{number}" for number in USED), "<mask>"]
    options = OmegaConf.create({**model.options, "arch": None, "_name": "transformer"})
    smaller = models.build_model(options, nlu_builders.task_of(symbols)).eval()
    extra = ("encoder.output_projection", "classification_heads")
    smaller.load_state_dict({name: one for name, one in content["model"].items() if not name.startswith(extra)})
    new = tokens_of(len(KEPT))
    old = torch.tensor(KEPT)[new]
    found, expected = (one(rows, None, rows.roll(1, 1))[0] for one, rows in ((smaller, new), (model, old)))
    torch.testing.assert_close(found, expected[..., KEPT], rtol=0, atol=1e-5)
    encoder = read_encoder(out)
    assert encoder.entries == ("<s>", "<pad>", "</s>", "<unk>", *symbols)
    assert torch.equal(encoder.tensors["embed_tokens.weight"], model.encoder.embed_tokens.weight[KEPT])


def masked_lm_logits(path, tokens):
    """Of the encoder with its head."""
    found = read_masked_lm(path)
    module = MaskedLM(MaskedLMSizes(**found.sizes)).eval()
    load(module, found.tensors)
    with torch.no_grad():
        return module(tokens)


def test_one_that_was_pretrained_here(tmp_path):
    file = tmp_path / "in" / "checkpoint_last.pt"
    model = veco_builders.pretrained(file, last_optimizer_state={"moment": torch.zeros(25, 16)})
    state = veco_builders.pretrained_state(model)
    out = cut(tmp_path, file)
    content = read_checkpoint(out / "checkpoint_last.pt")
    assert "last_optimizer_state" not in content
    words = [f"{name}.weight" for name in WORDS]
    assert content["model"]["lm_head.mask_row"].shape == (len(KEPT) - 1, 0)
    state["lm_head.mask_row"] = torch.empty(len(KEPT) - 1, 0)
    assert_rows(content["model"], state, [*words, "lm_head.bias"], KEPT)
    assert len({content["model"][name].data_ptr() for name in words}) == 1
    assert content["model"]["lm_head.bias"].data_ptr() != content["model"][words[0]].data_ptr()
    new = tokens_of(len(KEPT))
    old = torch.tensor(KEPT)[new]
    found, expected = masked_lm_logits(out / "checkpoint_last.pt", new), masked_lm_logits(file, old)
    torch.testing.assert_close(found, expected[..., KEPT], rtol=0, atol=1e-5)
    manifest = read_json(out / "cut_vocabulary.json")
    assert sorted(manifest["options"]["tensors"]) == sorted([*words, "lm_head.bias"])


@pytest.mark.parametrize("copies", [False, True])
def test_the_folder(tmp_path, copies):
    state = veco_builders.folder_state()
    names = ["roberta.embeddings.word_embeddings.weight", "lm_head.bias"]
    if copies:
        more = {"lm_head.decoder.weight": state[names[0]], "lm_head.decoder.bias": state[names[1]]}
        state, names = {**state, **more}, [*names, *more]
    path = veco_builders.write_folder(tmp_path / "in", state, add_cross_attention=True)
    kept = [*KEPT[:-1], 22]
    out = cut(tmp_path, path, pieces=18)
    assert_rows(read_checkpoint(out / "model.safetensors"), state, names, kept)
    config = json.loads((out / "config.json").read_text())
    assert config == {**masked_lms.CONFIG, "add_cross_attention": True, "vocab_size": len(kept)}
    new = tokens_of(len(kept))
    old = torch.tensor(kept)[new]
    torch.testing.assert_close(masked_lm_logits(out, new), masked_lm_logits(path, old)[..., kept], rtol=0, atol=1e-4)
    assert torch.equal(
        read_encoder(out).tensors["embed_tokens.weight"], read_encoder(path).tensors["embed_tokens.weight"][kept]
    )
