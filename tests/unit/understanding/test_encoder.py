"""Test that TextEncoder equals encoders of transformers and of stock fairseq, layer by layer."""

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
    """transformers, imported only by the tests that need it: that takes seconds."""
    import transformers

    return transformers


def random_encoder(family):
    sizes = {"layers": 3, "embed_dim": 16, "ffn_dim": 24, "heads": 2, "max_positions": 30}
    layout = family_layout(family, vocab_size=ROWS, **sizes)
    return nlu_builders.randomise(TextEncoder(layout), 3)


def assert_layers_equal(actual, expected, tokens, atol=TOLERANCE):
    """Compare every token of every layer; the layers must be far from equal to each other."""
    is_token = tokens.ne(PAD)
    assert len(actual) == len(expected) == nlu_builders.LAYERS + 1
    for number, (ours, theirs) in enumerate(zip(actual, expected)):
        assert theirs[is_token].std(0).mean() > 0.1
        torch.testing.assert_close(
            ours[is_token], theirs[is_token], rtol=0, atol=atol, msg=f"layer {number}"
        )
    for lower, upper in zip(expected, expected[1:]):
        assert (lower[is_token] - upper[is_token]).abs().max() > 0.1


@pytest.mark.parametrize("kind", ["xlmr", "mbart", "nllb"])
@torch.no_grad()
def test_the_encoder_equals_transformers(tmp_path, hf, kind):
    model = nlu_builders.huggingface(hf, kind, tmp_path, ROWS)
    tokens = nlu_builders.tokens(ROWS)
    base = model.roberta if kind == "xlmr" else model.get_encoder()
    theirs = base(tokens, attention_mask=tokens.ne(PAD).long(), output_hidden_states=True)
    expected = [*theirs.hidden_states[:-1], theirs.last_hidden_state]
    ours = load_text_encoder(tmp_path)
    assert ours.layout.family == kind
    assert_layers_equal(ours(tokens), expected, tokens)
    assert_layers_equal([*ours(tokens)[:-1], ours.features(tokens)], expected, tokens)


@torch.no_grad()
def test_bert_equals_transformers_on_sentence_pairs(tmp_path, hf):
    """The second half of a pair has another token type; our rows are in fairseq's order."""
    entries = nlu_builders.write_vocab(tmp_path)
    model = nlu_builders.huggingface(hf, "bert", tmp_path, len(entries))
    renamed = {
        "<s>": "[CLS]",
        "<pad>": "[PAD]",
        "</s>": "[SEP]",
        "<unk>": "[UNK]",
        "<mask>": "[MASK]",
    }
    order = [entries.index(renamed.get(entry, entry)) for entry in read_encoder(tmp_path).entries]
    assert sorted(order) == list(range(len(entries))) != order
    tokens = nlu_builders.tokens(len(entries), lengths=(12, 7, 9), pairs=True)
    ids = torch.tensor(order)[tokens]
    is_separator = ids.eq(entries.index("[SEP]")).long()
    types = (is_separator.cumsum(1) - is_separator).clamp(max=1)
    theirs = model.bert(
        ids,
        attention_mask=tokens.ne(PAD).long(),
        token_type_ids=types,
        output_hidden_states=True,
    )
    ours = load_text_encoder(tmp_path)
    assert ours.layout.epsilon == 1e-12 and ours.layout.segments == 2
    assert_layers_equal(ours(tokens), theirs.hidden_states, tokens)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"encoder_normalize_before": False},
        {"no_scale_embedding": True},
        {"layernorm_embedding": False},
    ],
    ids=["cc25", "post-norm", "unscaled", "no-embedding-norm"],
)
@torch.no_grad()
def test_the_encoder_equals_fairseqs_mbart_exactly(tmp_path, options):
    stock = nlu_builders.mbart_cc25(tmp_path, **options)
    tokens = nlu_builders.tokens(ROWS)
    theirs = stock.encoder(tokens, return_all_hiddens=True)
    states = (*theirs["encoder_states"][:-1], *theirs["encoder_out"])
    expected = [state.transpose(0, 1) for state in states]
    assert_layers_equal(load_text_encoder(tmp_path)(tokens), expected, tokens, atol=0)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_neither_padding_nor_other_sentences_change_a_state(family, device):
    model = random_encoder(family).to(device)
    tokens = nlu_builders.tokens(ROWS, pairs=True).to(device)
    padding = torch.full((len(tokens), 5), PAD, device=device)
    wider = torch.cat([tokens, padding], 1)
    for single, batched, padded in zip(model(tokens[1:2, :4]), model(tokens), model(wider)):
        torch.testing.assert_close(batched[1, :4], single[0], rtol=0, atol=TOLERANCE)
        torch.testing.assert_close(padded[1, :4], single[0], rtol=0, atol=TOLERANCE)
