"""Test transformer_adapter: start, mixed batches, decoding, trained parameters, bad input."""

import argparse

import pytest
import torch
from fairseq import models
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.sequence_generator import SequenceGenerator

from fairseq_plugins.baselines.adapter_layers import Adapter
from tests import adapter_builders as small
from tests import builders

MIXED = (["de", "fr", "de", "fr"], ["en", "en", "fr", "de"])
ALL_LANGUAGES = dict(encoder_adapters="de,en,fr", decoder_adapters="de,en,fr")


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    return small.write_backbone(tmp_path_factory.mktemp("adapter") / "backbone.pt")


def logits(model, data):
    with torch.no_grad():
        return model(**data)[0]


def write_edited(path, target, edit):
    content = torch.load(path, weights_only=False)
    edit(content)
    torch.save(content, target)
    return target


@pytest.mark.parametrize("norm", [False, True])
def test_at_the_start_it_is_the_backbone_exactly(tmp_path, norm):
    options = dict(encoder_normalize_before=norm, decoder_normalize_before=norm)
    path = small.write_backbone(tmp_path / "backbone.pt", **options)
    model = small.build(path, **options, **ALL_LANGUAGES).eval()
    data = small.net_input(*MIXED)
    assert torch.equal(logits(model, data), logits(small.stock(path), data))
    assert not torch.allclose(
        logits(small.randomise_adapters(model), data), logits(small.stock(path), data)
    )


def test_only_adapters_train_and_the_backbone_stays_bit_equal(backbone):
    model = small.build(backbone, **ALL_LANGUAGES).train()
    parameters = dict(model.named_parameters())
    expected = {
        f"{side}.layers.{layer}.adapters.of.{language}.{name}.{kind}"
        for side in ("encoder", "decoder")
        for layer in range(2)
        for language in small.LANGS
        for name in ("layer_norm", "down", "up")
        for kind in ("weight", "bias")
    }
    assert {name for name in parameters if parameters[name].requires_grad} == expected
    criterion = LabelSmoothedCrossEntropyCriterion(small.task(), False, 0.1)
    data = small.net_input(["de", "de"], ["en", "en"])
    sample = {"net_input": data, "target": data["prev_output_tokens"].roll(-1, 1), "ntokens": 9}
    # The first step moves what follows the zeros, the second everything else.
    changed = builders.moved(model, lambda: criterion(model, sample)[0], steps=2)
    used = {"encoder": ".de.", "decoder": ".en."}
    assert changed == {name for name in expected if used[name.split(".")[0]] in name}


def test_a_mixed_batch_gives_what_each_language_gives_alone(backbone):
    model = small.randomise_adapters(small.build(backbone, **ALL_LANGUAGES))
    data = small.net_input(*MIXED)
    together = logits(model, data)
    for row in range(4):
        alone = logits(model, small.rows_of(data, [row]))[0]
        mask = data["prev_output_tokens"][row].ne(builders.PAD)
        torch.testing.assert_close(together[row][mask], alone[mask], rtol=1e-5, atol=1e-5)


@pytest.mark.cases(
    "key side language rows",
    ("target", "encoder", "de", [0, 2]),
    ("target", "encoder", "en", []),
    ("target", "decoder", "en", [0, 1]),
    ("target", "decoder", "fr", [2]),
    ("encoder", "decoder", "fr", [1, 3]),
)
def test_an_adapter_changes_only_the_rows_of_its_language(backbone, key, side, language, rows):
    model = small.build(backbone, decoder_adapter_language=key, **ALL_LANGUAGES).eval()
    data = small.net_input(*MIXED)
    before = logits(model, data)
    after = logits(
        small.randomise_adapters(model, only=f"{side}.layers.1.adapters.of.{language}."), data
    )
    assert [row for row in range(4) if not torch.equal(before[row], after[row])] == rows


@pytest.mark.parametrize("key", ["target", "encoder"])
def test_incremental_decoding_is_full_decoding(backbone, key):
    model = small.randomise_adapters(
        small.build(backbone, decoder_adapter_language=key, **ALL_LANGUAGES)
    )
    data = small.net_input(*MIXED)
    tokens, state = data["prev_output_tokens"], {}
    full = logits(model, data)
    with torch.no_grad():
        encoder_out = model.encoder(data["src_tokens"], data["src_lengths"])
        for step in range(tokens.size(1)):
            options = {"encoder_out": encoder_out, "incremental_state": state}
            last = model.decoder(tokens[:, : step + 1], **options)[0][:, -1]
            mask = tokens[:, step].ne(builders.PAD)
            torch.testing.assert_close(last[mask], full[mask, step], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("key", ["target", "encoder"])
def test_beam_search_of_a_mixed_batch_equals_that_of_each_sentence(backbone, key):
    """The generator reorders and drops rows; each keeps its language."""
    model = small.randomise_adapters(
        small.build(backbone, decoder_adapter_language=key, **ALL_LANGUAGES)
    )
    generator = SequenceGenerator([model], small.dictionary(), beam_size=3, max_len_b=7)
    data = small.net_input(["fr", "de", "fr", "de"], ["en", "fr", "de", "en"])
    prefix = data["prev_output_tokens"][:, 1:2]
    inputs = {name: data[name] for name in ("src_tokens", "src_lengths")}
    together = generator.generate([model], {"net_input": inputs}, prefix_tokens=prefix)
    for row, beam in enumerate(together):
        sample = {"net_input": small.rows_of(inputs, [row])}
        (alone,) = generator.generate([model], sample, prefix_tokens=prefix[row : row + 1])
        assert len(beam) == len(alone)
        for hypothesis, expected in zip(beam, alone):
            assert hypothesis["tokens"].tolist() == expected["tokens"].tolist()
            assert float(hypothesis["score"]) == pytest.approx(float(expected["score"]), abs=1e-4)


def test_adapters_are_for_the_languages_of_the_pairs_unless_listed(backbone):
    def languages(task=None, **options):
        model = small.build(backbone, task, **options)
        return tuple(sorted(side.layers[1].adapters.of) for side in (model.encoder, model.decoder))

    assert languages() == (["de", "fr"], ["en"])
    assert languages(decoder_adapter_language="encoder") == (["de", "fr"], ["de", "fr"])
    lists = {"encoder_adapters": "fr,de,en", "decoder_adapters": "en, de"}
    assert languages(**lists) == (["de", "en", "fr"], ["de", "en"])
    extra_pairs = small.task(["de-en"], extra_lang_pairs={"others": "fr-en,en-fr"})
    assert languages(extra_pairs) == (["de", "en", "fr"], ["en", "fr"])


def test_sizes_of_the_paper():
    """50M parameters per pair: adapters of width 1,024 after 12 + 12 blocks of width 1,024."""
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in Adapter(1024, 1024).parameters())
    assert 24 * size == 50_429_952
    args = argparse.Namespace()
    models.ARCH_CONFIG_REGISTRY["transformer_adapter"](args)
    assert (args.encoder_layers, args.decoder_layers) == (12, 12)
    assert (args.encoder_embed_dim, args.adapter_width, args.dropout) == (1024, 1024, 0.3)


def test_sentences_without_language_token_or_pieces_are_refused(backbone):
    model, data = small.build(backbone).eval(), small.net_input(["de", "fr"], ["en", "en"])
    for side, name in (("encoder", "src_tokens"), ("decoder", "prev_output_tokens")):
        bare = {**data, name: data[name].masked_fill(data[name].ge(min(small.TAG.values())), 5)}
        with pytest.raises(ValueError, match=f"{side}: .* no language token.*--{side}-langtok"):
            model(**bare)
    with pytest.raises(ValueError, match="1 of the 2 source sentences .* row 2"):
        model(**small.net_input(["de", "fr"], ["en", "en"], lengths=(5, 0)))


@pytest.mark.cases(
    "options task_options message",
    ({"adapter_width": 0}, {}, "--adapter-width .* got 0"),
    ({"decoder_adapter_language": "source"}, {}, "target, encoder; got source"),
    ({"encoder_adapters": "de,xx"}, {}, "adapters de,xx: .* --langs"),
    ({"encoder_adapters": "de,en"}, {}, "adapters de,en: no adapters for fr"),
    ({}, {"encoder_langtok": None}, "--encoder-langtok src or tgt"),
    ({}, {"decoder_langtok": False}, "--decoder-adapter-language target .*--decoder-langtok"),
    ({"encoder_layers": 1}, {}, r"--encoder-layers 1 \(valid here: 2\)"),
    ({"activation_fn": "gelu"}, {}, r"--activation-fn gelu \(valid here: relu\)"),
    ({}, {"encoder_langtok": "tgt"}, r"--encoder-langtok tgt \(valid here: src\)"),
    ({}, {"langs": ["en", "de", "fr"]}, "--langs en,de,fr: .* de,en,fr"),
)
def test_bad_options_are_refused(backbone, options, task_options, message):
    with pytest.raises(ValueError, match=message):
        small.build(backbone, small.task(**task_options), **options)


def test_learned_positions_are_those_of_the_backbone(backbone, tmp_path):
    small.build(backbone, max_source_positions=32, max_target_positions=32)
    for side, option in (("encoder", "source"), ("decoder", "target")):
        options = {f"{side}_learned_pos": True}
        path = small.write_backbone(tmp_path / "backbone.pt", **options)
        model, data = small.build(path, **options, **ALL_LANGUAGES).eval(), small.net_input(*MIXED)
        assert torch.equal(logits(model, data), logits(small.stock(path), data))
        with pytest.raises(ValueError, match=rf"--max-{option}-positions 32 \(valid here: 64\)"):
            small.build(path, **options, **{f"max_{option}_positions": 32})


def test_bad_backbones_are_refused(backbone, tmp_path):
    with pytest.raises(ValueError, match="--adapter-backbone is needed"):
        small.build(None)
    with pytest.raises(ValueError, match="--task translation_multi_simple_epoch"):
        small.build(backbone, builders.task())
    path = small.write_backbone(tmp_path / "two.pt", langs=["de", "en"])
    write_edited(path, path, lambda content: delattr(content["args"], "langs"))
    with pytest.raises(ValueError, match="19 entries .*two.pt 18 rows"):
        small.build(path)
    adapter = {"encoder.layers.0.adapters.of.de.up.bias": torch.ones(1)}
    for edit, message in (
        (lambda content: content["model"].update(adapter), "has adapters"),
        (lambda content: content["model"].pop("decoder.layers.1.fc2.bias"), r"decoder.*fc2\.bias"),
    ):
        path = write_edited(backbone, tmp_path / "b.pt", edit)
        with pytest.raises(ValueError, match=message):
            small.build(path)
    path = small.write_backbone(tmp_path / "b.pt")
    builders.write_symbols(tmp_path / "dict.txt", ["p0", "p2", "p1"])
    with pytest.raises(ValueError, match="'p2' as entry 5, the data's dictionary 'p1'"):
        small.build(path)
