"""A VECO cut to a corpus: kept rows bit-equal, what is tied stays tied, the same logits on the rows that stay."""

import json

import pytest
import torch

from data_prep import cut_vocabulary as verb
from data_prep.io import read_json
from fairseq_plugins.checkpoints import load, read_checkpoint, read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes
from tests import nlu_builders, veco_builders
from tests.nlu_builders import PIECES
from tests.unit.checkpoints import builders as masked_lms
from tests.unit.data_prep.files import lines
from tests.veco_builders import WORDS

USED = (1, 2, 5, 12)


def cut(folder, checkpoint, pieces):
    """Run the verb; returns the folder of its output, and the old rows that stay: with that of ``<mask>``, the last one."""
    nlu_builders.write_dict(folder / "own" / "dict.txt", PIECES[:pieces])
    (folder / "pieces").write_text("".join(f"p{number} p1\n" for number in USED))
    line = ["--checkpoint", checkpoint, "--dict", folder / "own" / "dict.txt", "--output", folder / "out"]
    verb.main([str(item) for item in [*line, "--pieces", folder / "pieces"]])
    assert [line.split()[0] for line in lines(folder / "out" / "dict.txt")] == [f"p{number}" for number in USED]
    return folder / "out", [0, 1, 2, 3, *(4 + number for number in USED), 4 + pieces]


def assert_rows(found, state, names, kept):
    """These names have the kept rows, bit for bit; everything else is untouched."""
    assert set(found) == set(state)
    for name, tensor in state.items():
        assert torch.equal(found[name], tensor[kept] if name in names else tensor), name


@torch.no_grad()
def logits(path, tokens):
    """Of the encoder with its head."""
    found = read_masked_lm(path)
    module = MaskedLM(MaskedLMSizes(**found.sizes)).eval()
    load(module, found.tensors)
    return module(tokens)


def assert_same_function(before, after, kept):
    new = torch.tensor([[0, *range(4, len(kept)), 2], [0, 5, len(kept) - 1, 4, 2, *[1] * (len(kept) - 7)]])
    expected = logits(before, torch.tensor(kept)[new])[..., kept]
    torch.testing.assert_close(logits(after, new), expected, rtol=0, atol=1e-5)
    words = "embed_tokens.weight"
    assert torch.equal(read_encoder(after).tensors[words], read_encoder(before).tensors[words][kept])


def test_one_that_was_pretrained_here(tmp_path):
    file = tmp_path / "in" / "checkpoint_last.pt"
    state = veco_builders.pretrained_state(
        veco_builders.pretrained(file, last_optimizer_state={"moment": torch.zeros(25, 16)})
    )
    out, kept = cut(tmp_path, file, 20)
    content = read_checkpoint(out / "checkpoint_last.pt")
    assert "last_optimizer_state" not in content
    words = [f"{name}.weight" for name in WORDS]
    assert content["model"]["lm_head.mask_row"].shape == (len(kept) - 1, 0)
    state["lm_head.mask_row"] = torch.empty(len(kept) - 1, 0)
    assert_rows(content["model"], state, [*words, "lm_head.bias"], kept)
    assert len({content["model"][name].data_ptr() for name in words}) == 1
    assert_same_function(file, out / "checkpoint_last.pt", kept)
    assert sorted(read_json(out / "cut_vocabulary.json")["options"]["tensors"]) == sorted([*words, "lm_head.bias"])


@pytest.mark.parametrize("copies", [False, True])
def test_the_folder(tmp_path, copies):
    state = veco_builders.folder_state()
    names = ["roberta.embeddings.word_embeddings.weight", "lm_head.bias"]
    if copies:
        more = {"lm_head.decoder.weight": state[names[0]], "lm_head.decoder.bias": state[names[1]]}
        state, names = {**state, **more}, [*names, *more]
    path = veco_builders.write_folder(tmp_path / "in", state, add_cross_attention=True)
    out, kept = cut(tmp_path, path, 18)
    assert_rows(read_checkpoint(out / "model.safetensors"), state, names, kept)
    config = json.loads((out / "config.json").read_text())
    assert config == {**masked_lms.CONFIG, "add_cross_attention": True, "vocab_size": len(kept)}
    assert_same_function(path, out, kept)
