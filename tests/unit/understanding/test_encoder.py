"""TextEncoder equals the encoders of transformers, of stock fairseq and of this package, layer by layer."""

import pytest
import torch

from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.layouts import FAMILIES, family_layout
from fairseq_plugins.understanding.encoder import TextEncoder, load_text_encoder
from tests import nlu_builders

PAD = nlu_builders.PAD
TOLERANCE = 1e-5
ROWS = 4 + len(nlu_builders.PIECES) + len(nlu_builders.LANGUAGES) + 1


@pytest.fixture
def hf():
    """The package, imported by the tests that need it: that takes seconds."""
    import transformers

    return transformers


def encoder(family):
    layout = family_layout(family, vocab_size=ROWS, layers=3, embed_dim=16, ffn_dim=24, heads=2, max_positions=30)
    return nlu_builders.randomise(TextEncoder(layout), 3)


def assert_layers_equal(found, expected, tokens, atol=TOLERANCE):
    """Equal at every token of every layer, where the layers are far from equal to each other."""
    kept = tokens.ne(PAD)
    assert len(found) == len(expected) == nlu_builders.LAYERS + 1
    for number, (ours, theirs) in enumerate(zip(found, expected)):
        assert theirs[kept].std(0).mean() > 0.1
        torch.testing.assert_close(ours[kept], theirs[kept], rtol=0, atol=atol, msg=f"layer {number}")
    assert all((a[kept] - b[kept]).abs().max() > 0.1 for a, b in zip(expected, expected[1:]))


@pytest.mark.parametrize("kind", ["xlmr", "mbart", "nllb"])
@torch.no_grad()
def test_equals_transformers(tmp_path, hf, kind):
    model = nlu_builders.huggingface(hf, kind, tmp_path, ROWS)
    tokens = nlu_builders.tokens(ROWS)
    mask = tokens.ne(PAD).long()
    base = model.roberta if kind == "xlmr" else model.get_encoder()
    theirs = base(tokens, attention_mask=mask, output_hidden_states=True)
    expected = [*theirs.hidden_states[:-1], theirs.last_hidden_state]
    ours = load_text_encoder(tmp_path)
    assert ours.layout.family == kind
    assert_layers_equal(ours(tokens), expected, tokens)
    assert_layers_equal([*ours(tokens)[:-1], ours.features(tokens)], expected, tokens)


@torch.no_grad()
def test_equals_transformers_bert_and_its_rows_are_a_dictionarys(tmp_path, hf):
    """Sentence pairs, whose second half has another token type; tokens in the order of a fairseq dictionary."""
    entries = nlu_builders.write_vocab(tmp_path)
    model = nlu_builders.huggingface(hf, "bert", tmp_path, len(entries))
    found = read_encoder(tmp_path)
    theirs_of = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
    order = torch.tensor([entries.index(theirs_of.get(entry, entry)) for entry in found.entries])
    assert sorted(order.tolist()) == list(range(len(entries))) and order.tolist() != sorted(order.tolist())
    tokens = nlu_builders.tokens(len(entries), lengths=(12, 7, 9), pairs=True)
    theirs = order[tokens]
    types = (theirs.eq(entries.index("[SEP]")).cumsum(1) - theirs.eq(entries.index("[SEP]")).long()).clamp(max=1)
    output = model.bert(theirs, attention_mask=tokens.ne(PAD).long(), token_type_ids=types, output_hidden_states=True)
    ours = load_text_encoder(tmp_path)
    assert ours.layout.epsilon == 1e-12 and ours.layout.segments == 2
    assert_layers_equal(ours(tokens), list(output.hidden_states), tokens)


@pytest.mark.parametrize(
    "options",
    [{}, {"encoder_normalize_before": False}, {"no_scale_embedding": True}, {"layernorm_embedding": False}],
    ids=["cc25", "post-norm", "unscaled", "no-embedding-norm"],
)
@torch.no_grad()
def test_equals_fairseqs_own_mbart_exactly(tmp_path, options):
    stock = nlu_builders.mbart_cc25(tmp_path, **options)
    tokens = nlu_builders.tokens(ROWS)
    theirs = stock.encoder(tokens, return_all_hiddens=True)
    expected = [state.transpose(0, 1) for state in (*theirs["encoder_states"][:-1], *theirs["encoder_out"])]
    assert_layers_equal(load_text_encoder(tmp_path)(tokens), expected, tokens, atol=0)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_padding_changes_nothing(family, device):
    model = encoder(family).to(device)
    tokens = nlu_builders.tokens(ROWS, pairs=True).to(device)
    wider = torch.cat([tokens, torch.full((len(tokens), 5), PAD, device=device)], 1)
    for alone, batched, padded in zip(model(tokens[1:2, :4]), model(tokens), model(wider)):
        torch.testing.assert_close(batched[1, :4], alone[0], rtol=0, atol=TOLERANCE)
        torch.testing.assert_close(padded[1, :4], alone[0], rtol=0, atol=TOLERANCE)


def test_segments_begin_behind_the_first_end():
    tokens = torch.tensor([[0, 5, 2, 6, 2, PAD], [0, 7, 8, 9, 2, PAD], [0, 5, 2, 6, 2, 7]])
    assert encoder("bert").segment_types(tokens).tolist() == [[0, 0, 0, 1, 1, 0], [0] * 6, [0, 0, 0, 1, 1, 1]]
