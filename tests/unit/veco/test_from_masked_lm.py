"""VECO from a masked LM: where every tensor comes from, what stays random, and what is refused."""

import shutil

import pytest
import torch

from fairseq_plugins.checkpoints import write_masked_lm
from tests import builders, veco_builders
from tests.veco_builders import KINDS, LAYERS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def mlm(tmp_path_factory):
    """A folder with a random masked LM of four layers, and its tensors."""
    folder = tmp_path_factory.mktemp("mlm")
    module = builders.masked_lm(1, layers=LAYERS)
    write_masked_lm(folder, module.sizes, module.state_dict(), dtype=torch.float32)
    return folder, {name: tensor.detach() for name, tensor in module.state_dict().items()}


def compare(model, tensors, encoder, decoder, words):
    """Every tensor but those of cross-attention is bit-equal to the one it must come from."""
    start, unseen = "sentence_encoder.", set()
    for name, tensor in model.state_dict().items():
        side, _, suffix = name.partition(".")
        if suffix == "mask_row":  # of the data's dictionary
            assert len(tensor) == builders.MASK
            continue
        if side == "lm_head":
            source = tensors[name if suffix != "weight" else f"{start}embed_tokens.weight"]
        elif suffix.startswith("layers."):
            _, number, part = suffix.split(".", 2)
            if part.startswith("encoder_attn"):
                unseen.add(name)
                continue
            source = tensors[f"{start}layers.{(encoder if side == 'encoder' else decoder)[int(number)]}.{part}"]
        elif suffix == "version":
            continue
        else:
            source = tensors[start + suffix.replace("output_projection", "embed_tokens")]
        if suffix in ("embed_tokens.weight", "output_projection.weight"):
            source = source[words]
        assert torch.equal(tensor, source), name
    assert len(unseen) == 10 * len(decoder)


@pytest.mark.parametrize("kind", KINDS)
def test_pretraining_takes_everything_but_cross_attention(mlm, kind, caplog):
    caplog.set_level("INFO")
    args = veco_builders.arguments(kind, init_from_mlm=str(mlm[0]))
    model = veco_builders.pretrainer(args)
    compare(model, mlm[1], [0, 1, 2, 3], [0, 1, 2, 3], slice(None))
    assert (args.init_from_mlm, args.initialised_from) == (None, str(mlm[0]))
    assert "random: cross-attention of 4 layers; of the file dropped 0" in caplog.text
    again = veco_builders.pretrainer(args)  # a checkpoint's options name no file
    assert not torch.equal(again.lm_head.dense.weight, model.lm_head.dense.weight)


@torch.no_grad()
def test_pretraining_starts_as_the_masked_lm(mlm):
    model = veco_builders.pretrainer(init_from_mlm=str(mlm[0])).eval()
    lm = builders.masked_lm(1, layers=LAYERS).eval()
    sample = veco_builders.batch()["net_input"]
    expected = lm(sample["src_tokens"], select=sample["masked"])
    logits = model(**sample, objectives=("is",))["is_mlm"]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "encoder", "decoder"),
    [
        ({"keep_decoder_layers": "1,3"}, [0, 1, 2, 3], [1, 3]),
        ({"keep_encoder_layers": "0,3", "keep_decoder_layers": "every:3"}, [0, 3], [0, 3]),
        ({"decoder_layers": 3}, [0, 1, 2, 3], [1, 2, 3]),  # the last ones where nothing says which
    ],
)
def test_translation_takes_the_chosen_layers(mlm, options, encoder, decoder, caplog):
    caplog.set_level("INFO")
    args = veco_builders.arguments(init_from_mlm=str(mlm[0]), **options)
    model = veco_builders.translator(args)
    compare(model, mlm[1], encoder, decoder, slice(0, -1))  # the dictionary has no <mask>
    assert args.no_scale_embedding is True  # as XLM-R was trained
    assert model.encoder.embed_scale == 1.0
    assert f"random: cross-attention of {len(decoder)} layers" in caplog.text
    assert "lm_head.dense.weight" in caplog.text
    assert "encoder.embed_tokens.weight: without the last row, <mask>" in caplog.text


def test_more_entries_extend_head_and_embedding(mlm):
    """A dictionary of translation with tags; in pre-training ``<mask>`` must stay the file's last row."""
    model = veco_builders.translator(
        symbols={"tags": ("[en]",)}, init_from_mlm=str(mlm[0]), decoder_layers=2, embedding_mismatch="extend"
    )
    assert torch.equal(model.encoder.embed_tokens.weight[:29], mlm[1]["sentence_encoder.embed_tokens.weight"][:29])
    longer = {"tags": ("[en]",)}
    pre = veco_builders.pretrainer(symbols=longer, init_from_mlm=str(mlm[0]), embedding_mismatch="extend")
    assert torch.equal(pre.lm_head.bias[:30], mlm[1]["lm_head.bias"]) and float(pre.lm_head.bias[30]) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder_layers": 6}, r"has 4 layers; --encoder-layers 6: valid is as many"),
        ({"decoder_layers": 5}, r"--decoder-layers 5: valid: at most as many"),
        ({"encoder_ffn_embed_dim": 32}, r"--encoder-ffn-embed-dim 32 \(valid here: 24\)"),
        ({"encoder_attention_heads": 4}, r"--encoder-attention-heads 4 \(valid here: 2\)"),
        ({"max_source_positions": 50}, r"--max-source-positions 50: .* 40 learned positions"),
        ({"symbols": {"pieces": 27}}, r"--embedding-mismatch is error; valid here: extend"),
    ],
)
def test_what_does_not_fit_is_refused_by_option(mlm, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        veco_builders.translator(init_from_mlm=str(mlm[0]), **options)
    assert f"--init-from-mlm {mlm[0]}" in str(caught.value)


def test_a_dictionary_map_chooses_rows_of_the_masked_lm(mlm):
    map_rows = [number % 3 == 1 for number in range(builders.PIECES)]
    symbols = {"pieces": sum(map_rows), "kept_rows": map_rows, "tags": ("[en]", "[de]")}
    model = veco_builders.translator(
        symbols=symbols, init_from_mlm=str(mlm[0]), keep_decoder_layers="last:2", embedding_mismatch="extend"
    )
    rows = [0, 1, 2, 3, *(4 + number for number, stays in enumerate(map_rows) if stays)]
    words = mlm[1]["sentence_encoder.embed_tokens.weight"][rows]
    for name in ("encoder.embed_tokens", "decoder.output_projection"):
        assert torch.equal(model.state_dict()[f"{name}.weight"][:-2], words)
    symbols["kept_rows"] = map_rows[:-1]
    with pytest.raises(ValueError, match="--resized-dict-map has 24 lines, .* --init-from-mlm .* 30 rows"):
        veco_builders.translator(symbols=symbols, init_from_mlm=str(mlm[0]))


def test_a_dictionary_map_is_compared_with_the_dictionary_beside_the_file(mlm, tmp_path):
    folder = tmp_path / "mlm"
    shutil.copytree(mlm[0], folder)
    map_rows = [number % 3 == 1 for number in range(builders.PIECES)]
    symbols = {"pieces": sum(map_rows), "kept_rows": map_rows}
    text = [f"p{sum(map_rows[:number])} 1" if map_rows[number] else f"q{number} 1" for number in range(builders.PIECES)]
    (folder / "dict.txt").write_text("\n".join(text) + "\n")
    veco_builders.translator(symbols=symbols, init_from_mlm=str(folder))
    text[1], text[2] = text[2], text[1]  # an entry that stays is elsewhere
    (folder / "dict.txt").write_text("\n".join(text) + "\n")
    with pytest.raises(ValueError, match="has 'q2' as entry 4, the data's dictionary 'p0'"):
        veco_builders.translator(symbols=symbols, init_from_mlm=str(folder))
    (folder / "dict.txt").write_text("\n".join(text[:-1]) + "\n")
    with pytest.raises(ValueError, match="--resized-dict-map has 25 lines; valid: 24, one for each entry"):
        veco_builders.translator(symbols=symbols, init_from_mlm=str(folder))
