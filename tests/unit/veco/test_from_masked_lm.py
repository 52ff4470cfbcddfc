"""Test VECO from a masked LM: the source of every tensor, random parts, refusals."""

import shutil

import pytest
import torch

from fairseq_plugins.checkpoints import write_masked_lm
from tests import builders, veco_builders
from tests.veco_builders import KINDS, LAYERS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

WORDS = "sentence_encoder.embed_tokens.weight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a random masked LM of four layers."""
    folder = tmp_path_factory.mktemp("mlm")
    module = builders.masked_lm(1, layers=LAYERS)
    write_masked_lm(folder, module.sizes, module.state_dict(), dtype=torch.float32)
    return folder


@pytest.fixture
def tensors():
    """The tensors of that masked LM."""
    return builders.masked_lm(1, layers=LAYERS).state_dict()


def source_of(name, encoder_layers, decoder_layers):
    """Name in the masked LM of the tensor that fills a tensor of VECO; None = it is random."""
    side, suffix = name.split(".", 1)
    if side == "lm_head":
        return WORDS if suffix == "weight" else name
    if suffix.startswith("layers."):
        _, number, part = suffix.split(".", 2)
        if part.startswith("encoder_attn"):
            return None
        layers = encoder_layers if side == "encoder" else decoder_layers
        return f"sentence_encoder.layers.{layers[int(number)]}.{part}"
    return "sentence_encoder." + suffix.replace("output_projection", "embed_tokens")


def assert_filled(model, tensors, encoder_layers, decoder_layers, rows):
    """Compare every tensor except those of cross-attention with its source, bit for bit."""
    random = 0
    for name, tensor in model.state_dict().items():
        if name == "lm_head.mask_row" or name.endswith(".version"):
            continue
        source = source_of(name, encoder_layers, decoder_layers)
        if source is None:
            random += 1
        else:
            expected = tensors[source][:rows] if source == WORDS else tensors[source]
            assert torch.equal(tensor, expected), name
    assert random == 10 * len(decoder_layers)


@pytest.mark.parametrize("kind", KINDS)
def test_pretraining_takes_everything_but_cross_attention(folder, tensors, kind, caplog):
    caplog.set_level("INFO")
    args = veco_builders.arguments(kind, init_from_mlm=str(folder))
    model = veco_builders.pretrainer(args)
    assert_filled(model, tensors, range(4), range(4), builders.VOCAB)
    assert len(model.lm_head.mask_row) == builders.MASK
    assert (args.init_from_mlm, args.initialised_from) == (None, str(folder))
    assert "random: cross-attention of 4 layers; of the file dropped 0" in caplog.text
    decoder = veco_builders.pretrainer(args)  # a checkpoint's options name no file
    assert not torch.equal(decoder.lm_head.dense.weight, model.lm_head.dense.weight)


@pytest.mark.cases(
    "options encoder decoder",
    ({"keep_encoder_layers": "0,3", "keep_decoder_layers": "every:3"}, [0, 3], [0, 3]),
    ({"keep_decoder_layers": "1,3"}, [0, 1, 2, 3], [1, 3]),
    ({"decoder_layers": 3}, [0, 1, 2, 3], [1, 2, 3]),  # by default the last ones
)
def test_translation_takes_the_chosen_layers(folder, tensors, options, encoder, decoder, caplog):
    caplog.set_level("INFO")
    args = veco_builders.arguments(init_from_mlm=str(folder), **options)
    model = veco_builders.translator(args)  # whose dictionary has no <mask>
    assert_filled(model, tensors, encoder, decoder, builders.MASK)
    assert args.no_scale_embedding is True and model.encoder.embed_scale == 1.0
    assert f"random: cross-attention of {len(decoder)} layers" in caplog.text
    assert "lm_head.dense.weight" in caplog.text
    assert "encoder.embed_tokens.weight: without the last row, <mask>" in caplog.text


def test_more_entries_extend_head_and_embedding(folder, tensors):
    """``<mask>`` must stay the file's last row in pre-training."""
    options = {"init_from_mlm": str(folder), "embedding_mismatch": "extend"}
    symbols = {"tags": ("[en]",)}
    model = veco_builders.translator(symbols=symbols, decoder_layers=2, **options)
    assert torch.equal(model.encoder.embed_tokens.weight[:29], tensors[WORDS][:29])
    head = veco_builders.pretrainer(symbols=symbols, **options).lm_head
    assert torch.equal(head.bias[:30], tensors["lm_head.bias"]) and float(head.bias[30]) == 0.0


@pytest.mark.cases(
    "options message",
    ({"encoder_layers": 6}, "4 layers; --encoder-layers 6"),
    ({"decoder_layers": 5}, "--decoder-layers 5"),
    ({"encoder_ffn_embed_dim": 32}, r"--encoder-ffn-embed-dim 32 \(valid here: 24\)"),
    ({"encoder_attention_heads": 4}, r"--encoder-attention-heads 4 \(valid here: 2\)"),
    ({"max_source_positions": 50}, "--max-source-positions 50: .* 40 learned positions"),
    ({"symbols": {"pieces": 27}}, "--embedding-mismatch is error; valid here: extend"),
)
def test_other_sizes_are_refused_by_option(folder, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        veco_builders.translator(init_from_mlm=str(folder), **options)
    assert f"--init-from-mlm {folder}" in str(caught.value)


# ---- A dictionary map. ----


KEPT_ROWS = [number % 3 == 1 for number in range(builders.PIECES)]


def test_a_dictionary_map_chooses_rows(folder, tensors):
    symbols = {"pieces": sum(KEPT_ROWS), "kept_rows": KEPT_ROWS, "tags": ("[en]", "[de]")}
    options = {"init_from_mlm": str(folder), "keep_decoder_layers": "last:2"}
    model = veco_builders.translator(symbols=symbols, embedding_mismatch="extend", **options)
    rows = [0, 1, 2, 3, *(4 + number for number, is_kept in enumerate(KEPT_ROWS) if is_kept)]
    for name in ("encoder.embed_tokens", "decoder.output_projection"):
        assert torch.equal(model.state_dict()[f"{name}.weight"][:-2], tensors[WORDS][rows])
    symbols["kept_rows"] = KEPT_ROWS[:-1]
    with pytest.raises(ValueError, match="--resized-dict-map has 24 lines, .* 30 rows"):
        veco_builders.translator(symbols=symbols, init_from_mlm=str(folder))


def test_a_dictionary_map_is_compared_with_the_dictionary_beside_the_file(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "mlm")
    entries = [f"q{number}" for number in range(builders.PIECES)]
    for index, number in enumerate(number for number, is_kept in enumerate(KEPT_ROWS) if is_kept):
        entries[number] = f"p{index}"

    def build(entries):
        builders.write_symbols(tmp_path / "mlm" / "dict.txt", entries)
        symbols = {"pieces": sum(KEPT_ROWS), "kept_rows": KEPT_ROWS}
        veco_builders.translator(symbols=symbols, init_from_mlm=str(tmp_path / "mlm"))

    build(entries)
    with pytest.raises(ValueError, match="'q2' as entry 4, the data's dictionary 'p0'"):
        build([entries[0], entries[2], entries[1], *entries[3:]])
    with pytest.raises(ValueError, match="--resized-dict-map has 25 lines; valid: 24"):
        build(entries[:-1])
