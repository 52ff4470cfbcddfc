"""DeltaLM from a masked LM: where every tensor comes from, what stays random (nothing), and what is refused."""

import re

import pytest
import torch

from tests import builders
from tests.deltalm_builders import ATTENTION, KINDS, LAYERS, arguments, build, state_of, write_mlm
from tests.unit.checkpoints import builders as files

# Decoder block -> layer of its self-attention and bottom FFN, layer of its cross-attention and top FFN ("odd" and "even"
# in the paper, which counts from 1).
BLOCKS_OF_4 = {0: (0, 1), 1: (2, 3)}
BLOCKS_OF_12 = {0: (0, 1), 1: (2, 3), 2: (4, 5), 3: (6, 7), 4: (8, 9), 5: (10, 11)}
ATTENTIONS = [f"self_attn.{name}" for name in ATTENTION]
LAYER = dict(zip(*2 * [["self_attn_layer_norm", "fc1", "fc2", "final_layer_norm", *ATTENTIONS]]))
BOTTOM = dict(zip(["self_attn_layer_norm", "fc3", "fc4", "ffn_layer_norm", *ATTENTIONS], LAYER))
CROSS = [name.replace("self", "encoder") for name in ATTENTIONS]
TOP = dict(zip(["encoder_attn_layer_norm", "fc1", "fc2", "final_layer_norm", *CROSS], LAYER))


def sources(blocks):
    """Name in the model -> name in the masked LM, of every weight of an interleaved model with tied embeddings."""
    found = {"decoder.output_projection.weight": "embed_tokens.weight"}
    for side in ("encoder", "decoder"):
        for name in ("embed_tokens.weight", "embed_positions.weight"):
            found[f"{side}.{name}"] = name
        for kind in ("weight", "bias"):
            found[f"{side}.layernorm_embedding.{kind}"] = f"layernorm_embedding.{kind}"
    for kind in ("weight", "bias"):
        for layer in range(2 * len(blocks)):
            for name in LAYER:
                found[f"encoder.layers.{layer}.{name}.{kind}"] = f"layers.{layer}.{name}.{kind}"
        for block, (odd, even) in blocks.items():
            for parts, layer in ((BOTTOM, odd), (TOP, even)):
                for ours, theirs in parts.items():
                    found[f"decoder.layers.{block}.{ours}.{kind}"] = f"layers.{layer}.{theirs}.{kind}"
    return found


def assert_taken_over(model, mlm, table):
    """Every weight of the model is bit-equal to its source, and no weight is missing in the table."""
    state = state_of(model)
    assert set(state) == set(table)
    assert [name for name, source in table.items() if not torch.equal(state[name], mlm[source])] == []


@pytest.fixture(scope="module")
def mlm(tmp_path_factory):
    """A folder with a random masked LM of four layers, and its tensors."""
    folder = tmp_path_factory.mktemp("mlm")
    return folder, write_mlm(folder)


# ---- Where everything comes from. ----


@pytest.mark.parametrize("kind", KINDS)
def test_four_layers_become_two_blocks(mlm, kind):
    args = arguments(kind, init_from_mlm=str(mlm[0]))
    model = build(args)
    assert_taken_over(model, mlm[1], sources(BLOCKS_OF_4))
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight
    assert model.decoder.embed_positions.weight is not model.encoder.embed_positions.weight
    assert (args.init_from_mlm, args.initialised_from) == (None, str(mlm[0]))


def test_nothing_is_random(mlm):
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        states.append(state_of(build(init_from_mlm=str(mlm[0]))))
    assert [name for name in states[0] if not torch.equal(states[0][name], states[1][name])] == []
    torch.manual_seed(2)
    random = state_of(build())
    assert sum(not torch.equal(random[name], tensor) for name, tensor in states[0].items()) == len(random)


SIZES_OF_12 = {"encoder_layers": 12, "decoder_layers": 6}
for _side in ("encoder", "decoder"):
    SIZES_OF_12.update({f"{_side}_embed_dim": 8, f"{_side}_ffn_embed_dim": 12, f"{_side}_attention_heads": 2})
SIZES_OF_12.update(max_source_positions=10, max_target_positions=10)


def test_layer_numbers_of_one_and_two_digits(tmp_path):
    tensors = files.masked_lm_tensors()
    path = files.write_fairseq(tmp_path / "model.pt", files.current_state(tensors))
    model = build(symbols=dict(pieces=files.SIZES["vocab_size"] - 5), init_from_mlm=str(path), **SIZES_OF_12)
    start = "sentence_encoder."
    plain = {name[len(start) :]: tensor for name, tensor in tensors.items() if name.startswith(start)}
    assert_taken_over(model, plain, sources(BLOCKS_OF_12))


@torch.no_grad()
def test_a_block_computes_two_layers_of_the_masked_lm(mlm):
    """The point of the interleaved block: where its cross-attention sees its own states, it is two encoder layers."""
    lm = builders.masked_lm(1, layers=LAYERS).eval()
    model = build(init_from_mlm=str(mlm[0])).eval()
    tokens = builders.source_rows([7])[0][None]
    hidden = [state.transpose(0, 1) for state in lm.sentence_encoder(tokens)]
    encoded = model.encoder(tokens, src_lengths=None, return_all_hiddens=True)["encoder_states"]
    for layer in range(LAYERS):
        torch.testing.assert_close(encoded[layer + 1], hidden[layer], rtol=0, atol=1e-4)
    start = model.encoder.forward_embedding(tokens)[0].transpose(0, 1)
    for block, states, between, expected in ((0, start, hidden[0], hidden[1]), (1, hidden[1], hidden[2], hidden[3])):
        found = model.decoder.layers[block](states, between)[0]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
        assert float((found - states).abs().max()) > 0.1


@pytest.mark.parametrize("blocks", [2, 4])
def test_vanilla_takes_self_attention_and_ffn_and_leaves_cross_attention_random(mlm, blocks):
    table = {name: source for name, source in sources(BLOCKS_OF_4).items() if not name.startswith("decoder.layers.")}
    for layer in range(blocks):
        for kind in ("weight", "bias"):
            table.update({f"decoder.layers.{layer}.{n}.{kind}": f"layers.{layer}.{n}.{kind}" for n in LAYER})
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model = build(init_from_mlm=str(mlm[0]), decoder_block="vanilla", decoder_layers=blocks)
        states.append(state_of(model))
    cross = {name for name in states[0] if "encoder_attn" in name}
    assert len(cross) == 10 * blocks
    assert set(states[0]) == cross | set(table)
    for state in states:
        assert [name for name, source in table.items() if not torch.equal(state[name], mlm[1][source])] == []
    for name in cross:
        if name.endswith("proj.weight"):
            assert not torch.equal(states[0][name], states[1][name])
            assert not any(torch.equal(states[0][name], t) for t in mlm[1].values() if t.shape == states[0][name].shape)


# ---- The report. ----


# ---- What is refused. ----


def test_an_odd_number_of_layers_is_refused(tmp_path):
    write_mlm(tmp_path, layers=3)
    with pytest.raises(ValueError, match=r"--init-from-mlm .*\b3\b.*(odd|even)"):
        build(init_from_mlm=str(tmp_path), encoder_layers=3, decoder_layers=1)


@pytest.mark.parametrize(
    ("option", "value", "in_the_file"),
    [
        ("encoder_layers", 2, 4),
        ("decoder_layers", 1, 2),
        ("decoder_ffn_embed_dim", 32, builders.FFN),
        ("decoder_attention_heads", 4, builders.HEADS),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_other_sizes_are_refused_by_option(mlm, option, value, in_the_file, kind):
    with pytest.raises(ValueError) as error:
        build(kind=kind, init_from_mlm=str(mlm[0]), **{option: value})
    message = str(error.value)
    assert "--" + option.replace("_", "-") in message
    assert re.search(rf"\b{value}\b", message) and re.search(rf"\b{in_the_file}\b", message)
    assert str(mlm[0]) in message


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"layernorm_embedding": False}, "layernorm[-_]embedding"),
        ({"encoder_learned_pos": False}, "encoder[-_]learned[-_]pos|encoder.embed_positions"),
        ({"encoder_normalize_before": True}, "normalize[-_]before|layer_norm"),
    ],
)
def test_another_kind_of_model_is_refused(mlm, options, name):
    """Tensors of the file that the model has no place for, or the other way round, are never left out silently."""
    with pytest.raises(ValueError, match=name):
        build(kind="omegaconf", init_from_mlm=str(mlm[0]), **options)
