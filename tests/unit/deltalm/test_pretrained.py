"""Test that a DeltaLM starts from a masked LM: the source of every tensor, and bad input."""

import pytest
import torch

from tests import builders
from tests.deltalm_builders import ATTENTION, KINDS, LAYERS, arguments, build, state_of, write_mlm
from tests.unit.checkpoints import builders as files

# Decoder block -> layer of its self-attention and bottom FFN, layer of its cross-attention and top
# FFN ("odd" and "even" in the paper, which counts from 1).
BLOCKS_OF_4 = {0: (0, 1), 1: (2, 3)}
BLOCKS_OF_12 = {0: (0, 1), 1: (2, 3), 2: (4, 5), 3: (6, 7), 4: (8, 9), 5: (10, 11)}
ATTENTIONS = [f"self_attn.{name}" for name in ATTENTION]
LAYER = ["self_attn_layer_norm", "fc1", "fc2", "final_layer_norm", *ATTENTIONS]
BOTTOM = dict(zip(["self_attn_layer_norm", "fc3", "fc4", "ffn_layer_norm", *ATTENTIONS], LAYER))
CROSS = [name.replace("self", "encoder") for name in ATTENTIONS]
TOP = dict(zip(["encoder_attn_layer_norm", "fc1", "fc2", "final_layer_norm", *CROSS], LAYER))
EMBEDDINGS = ("embed_tokens.weight", "embed_positions.weight")
EMBEDDINGS += ("layernorm_embedding.weight", "layernorm_embedding.bias")


def sources(blocks):
    """Name in the model -> name in the masked LM, of every weight of an interleaved model."""
    table = {"decoder.output_projection.weight": "embed_tokens.weight"}
    table.update({f"{side}.{name}": name for side in ("encoder", "decoder") for name in EMBEDDINGS})
    for kind in ("weight", "bias"):
        for layer in range(2 * len(blocks)):
            for name in LAYER:
                table[f"encoder.layers.{layer}.{name}.{kind}"] = f"layers.{layer}.{name}.{kind}"
        for block, (odd, even) in blocks.items():
            for parts, layer in ((BOTTOM, odd), (TOP, even)):
                for part, name in parts.items():
                    source = f"layers.{layer}.{name}.{kind}"
                    table[f"decoder.layers.{block}.{part}.{kind}"] = source
    return table


def assert_equal_to_sources(state, mlm, table):
    assert [
        name for name, source in table.items() if not torch.equal(state[name], mlm[source])
    ] == []


@pytest.fixture(scope="module")
def mlm(tmp_path_factory):
    """Write a random masked LM of four layers. Returns its folder and its tensors."""
    folder = tmp_path_factory.mktemp("mlm")
    return folder, write_mlm(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_four_layers_become_two_blocks_and_nothing_stays_random(mlm, kind):
    args = arguments(kind, init_from_mlm=str(mlm[0]))
    model = build(args)
    table = sources(BLOCKS_OF_4)
    assert set(state_of(model)) == set(table)
    assert_equal_to_sources(state_of(model), mlm[1], table)
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight
    assert model.decoder.embed_positions.weight is not model.encoder.embed_positions.weight
    assert (args.init_from_mlm, args.initialised_from) == (None, str(mlm[0]))


SIZES_OF_12 = {
    "max_source_positions": 10,
    "max_target_positions": 10,
    **builders.side("encoder", 12, 8, 12, 2),
    **builders.side("decoder", 6, 8, 12, 2),
}


def test_layer_numbers_of_one_and_two_digits(tmp_path):
    tensors = files.masked_lm_tensors()
    path = files.write_fairseq(tmp_path / "model.pt", files.current_state(tensors))
    symbols = dict(pieces=files.SIZES["vocab_size"] - 5)
    state = state_of(build(symbols=symbols, init_from_mlm=str(path), **SIZES_OF_12))
    start, table = "sentence_encoder.", sources(BLOCKS_OF_12)
    mlm = {name[len(start) :]: tensors[name] for name in tensors if name.startswith(start)}
    assert set(state) == set(table)
    assert_equal_to_sources(state, mlm, table)


@torch.no_grad()
def test_a_block_computes_two_layers_of_the_masked_lm(mlm):
    """A block whose cross-attention sees its own states is two layers of the masked LM."""
    lm = builders.masked_lm(1, layers=LAYERS).eval()
    model = build(init_from_mlm=str(mlm[0])).eval()
    tokens = builders.source_rows([7])[0][None]
    hidden = [state.transpose(0, 1) for state in lm.sentence_encoder(tokens)]
    encoder_out = model.encoder(tokens, src_lengths=None, return_all_hiddens=True)
    for layer in range(LAYERS):
        encoded = encoder_out["encoder_states"][layer + 1]
        torch.testing.assert_close(encoded, hidden[layer], rtol=0, atol=1e-4)
    start = model.encoder.forward_embedding(tokens)[0].transpose(0, 1)
    for block, states in ((0, start), (1, hidden[1])):
        middle, expected = hidden[2 * block : 2 * block + 2]
        output = model.decoder.layers[block](states, middle)[0]
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-4)
        assert float((output - states).abs().max()) > 0.1


@pytest.mark.parametrize("blocks", [2, LAYERS])
def test_vanilla_takes_self_attention_and_ffn_and_leaves_cross_attention_random(mlm, blocks):
    table = sources(BLOCKS_OF_4)
    table = {name: table[name] for name in table if not name.startswith("decoder.layers.")}
    for layer in range(blocks):
        for part in LAYER:
            for kind in ("weight", "bias"):
                name = f"layers.{layer}.{part}.{kind}"
                table[f"decoder.{name}"] = name
    options = {"decoder_block": "vanilla", "decoder_layers": blocks}
    model = build(init_from_mlm=str(mlm[0]), **options)
    state = state_of(model)
    cross_attention = {name for name in state if "encoder_attn" in name}
    assert len(cross_attention) == 10 * blocks
    assert set(state) == cross_attention | set(table)
    assert_equal_to_sources(state, mlm[1], table)
    for name in cross_attention:
        if name.endswith("proj.weight"):
            same_shape = [tensor for tensor in mlm[1].values() if tensor.shape == state[name].shape]
            assert not any(torch.equal(state[name], tensor) for tensor in same_shape)


VANILLA_OF_5 = {"decoder_block": "vanilla", "decoder_layers": 5}


@pytest.mark.cases(
    "options message",
    ({"encoder_layers": 2}, r"--encoder-layers 2 \(valid here: 4\)"),
    ({"decoder_layers": 1}, r"--decoder-layers 1 \(valid here: 2\)"),
    ({"decoder_ffn_embed_dim": 32}, r"--decoder-ffn-embed-dim 32 \(valid here: 24\)"),
    ({"decoder_attention_heads": 4}, r"--decoder-attention-heads 4 \(valid here: 2\)"),
    (VANILLA_OF_5, "has 4 layers, --decoder-layers 5"),
    # A kind of model that the file does not fill, or not completely.
    ({"layernorm_embedding": False}, "layernorm[-_]embedding"),
    ({"encoder_learned_pos": False}, "encoder[-_]learned[-_]pos|encoder.embed_positions"),
    ({"encoder_normalize_before": True}, "normalize[-_]before|layer_norm"),
    ({"pretrained_deltalm_checkpoint": "file"}, "--init-from-mlm exclude each other"),
)
def test_options_that_do_not_fit_the_file_are_refused(mlm, options, message):
    with pytest.raises(ValueError, match=message) as error:
        build(kind="omegaconf", init_from_mlm=str(mlm[0]), **options)
    assert "exclude" in message or str(mlm[0]) in str(error.value)


def test_an_odd_number_of_layers_is_refused(tmp_path):
    write_mlm(tmp_path, layers=3)
    with pytest.raises(ValueError, match=r"--init-from-mlm .*\b3 layers"):
        build(init_from_mlm=str(tmp_path), encoder_layers=3, decoder_layers=1)
