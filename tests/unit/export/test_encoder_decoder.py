"""Test models that write from left to right: graphs compute what fairseq does, or are refused."""

import json
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq import models, options, tasks
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask

from fairseq_plugins.export import encoder_decoder, folder
from fairseq_plugins.export.stock_graphs import EncoderGraph, StepGraph
from fairseq_plugins.translate import Translator
from fairseq_plugins_runtime import ModelError, beam, load
from tests import adapter_builders, builders, deltalm_builders, veco_builders

PRE_NORM = dict.fromkeys(("encoder_normalize_before", "decoder_normalize_before"), True)
NARROW = builders.side("decoder", 2, 12, 20, 3)
TRANSFORMERS = {
    "post_norm": {},
    "pre_norm": {
        **PRE_NORM,
        **builders.XLMR_WIRING,
        "share_all_embeddings": True,
        "no_scale_embedding": True,
    },
    "no_final_norm": {**PRE_NORM, "no_decoder_final_norm": True, "activation_fn": "gelu"},
    "unlike_sides": {**NARROW, "decoder_output_dim": 14, "activation_fn": "gelu_accurate"},
    "tied": {
        "share_decoder_input_output_embed": True,
        "activation_fn": "relu_squared",
        "encoder_learned_pos": True,
    },
    "without_positions": {"no_token_positional_embeddings": True, "activation_fn": "tanh"},
}
SOURCES = [[4, 9, 7, 12, 2], [6, 2], [8, 8, 5, 2]]


def build(arch, **options):
    """Build a random model in evaluation mode, over the dictionary of ``builders``."""
    if arch.startswith("veco"):
        sizes, task = veco_builders.SIZES, veco_builders.task(mask=True)
    else:
        sizes = deltalm_builders.SIZES if arch.startswith("deltalm") else builders.SIDES
        task = builders.task_of(builders.dictionary())
    model = models.build_model(Namespace(arch=arch, **{**sizes, **options}), task)
    deltalm_builders.randomise(model, 5)
    return model.eval()


@pytest.mark.cases(
    "arch options",
    *(("transformer", options) for options in TRANSFORMERS.values()),
    ("mbart_large", {"share_all_embeddings": True, "max_source_positions": 40}),
    ("deltalm_tiny", {"share_all_embeddings": True}),
    ("deltalm_tiny", {"decoder_block": "vanilla", **PRE_NORM}),
    ("transformer_from_xlmr_tiny", {}),
    ("veco_tiny", {"decoder_layers": 2}),
)
@torch.no_grad()
def test_steps_give_the_log_probabilities_of_full_decoding(arch, options):
    model = build(arch, **options)
    encoder_decoder.check(model)
    source, beams = builders.pad([torch.tensor(row) for row in SOURCES]), 2
    tokens = torch.randint(4, 20, (3, beams, 6), generator=torch.Generator().manual_seed(1))
    encoded = model.encoder(source, source.ne(builders.PAD).sum(1))
    full = [
        model.decoder(tokens[:, place], encoder_out=encoded)[0].log_softmax(-1)
        for place in range(beams)
    ]
    encoder, step = EncoderGraph(model, 20).eval(), StepGraph(model, 20).eval()
    if arch.startswith("transformer_from"):
        source = model.encoder.with_start(source)
    cross = encoder(source)
    layers = len(cross) // 2
    attention = step.attentions[0].compute
    caches = [torch.zeros(3, attention.heads, 0, attention.width) for _ in cross]
    order = torch.arange(3)[:, None].repeat(1, beams)
    penalty = torch.linspace(-1, 1, builders.VOCAB)
    for position in range(tokens.size(2)):
        forced = tokens[:, :, (position + 1) % 6]
        scores, ids, forced_scores, *caches = step(
            tokens[:, :, position],
            order,
            forced,
            penalty,
            torch.zeros(builders.VOCAB),
            source,
            list(cross[:layers]),
            list(cross[layers:]),
            caches[:layers],
            caches[layers:],
        )
        expected = torch.stack([rows[:, position] for rows in full], 1) + penalty
        actual = torch.zeros_like(scores).scatter(2, ids, scores)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)
        expected_forced = expected.gather(2, forced[..., None])[..., 0]
        torch.testing.assert_close(forced_scores, expected_forced, rtol=0, atol=1e-4)
        assert bool((scores.diff(dim=2) <= 0).all())
        # Exchange the two beams of each sentence: the caches must follow.
        order = torch.arange(6).view(3, beams).flip(1)
        tokens, full = tokens.flip(1), full[::-1]


UNSUPPORTED = {
    "adaptive softmax": {
        "adaptive_softmax_cutoff": "5,10",
        "decoder_output_dim": builders.WIDTH,
    },
    "quant noise": {"quant_noise_pq": 0.1},
    "cross_self_attention": {"cross_self_attention": True, "no_cross_attention": True},
    "no_cross_attention": {"no_cross_attention": True},
    "scale_heads": {"scale_heads": True},
    "scale_fc": {"scale_fc": True},
}


@pytest.mark.cases("part options", *UNSUPPORTED.items())
def test_parts_without_a_graph_are_refused(part, options):
    with pytest.raises(ValueError, match=f"TransformerModel .*{part}"):
        encoder_decoder.check(build("transformer", **options))


def test_other_layers_alignment_heads_and_projections_are_refused(tmp_path):
    backbone = adapter_builders.write_backbone(tmp_path / "backbone.pt")
    with pytest.raises(ValueError, match="encoder AdapterEncoder, decoder AdapterDecoder"):
        encoder_decoder.check(adapter_builders.build(backbone))
    model = build("transformer")
    model.alignment_heads = 1
    model.decoder.project_in_dim = torch.nn.Linear(4, builders.WIDTH)
    with pytest.raises(ValueError, match="alignment heads, an embedding of another width"):
        encoder_decoder.check(model)


@pytest.mark.cases(
    "options option",
    ({"temperature": 0.5}, "--temperature"),
    ({"sampling": True}, "search Sampling"),
    ({"no_repeat_ngram_size": 2}, "ngram"),
)
def test_searches_other_than_beam_search_are_refused(options, option):
    translator = build_bart()
    generator = FairseqTask.build_generator(
        translator.task, [translator.model], Namespace(**options)
    )
    with pytest.raises(ValueError, match=option):
        encoder_decoder.search(generator)


# ---- Exported folders. ----


def build_bart():
    """Build a translator of mBART's task.

    A language's tag follows the source; another begins the target and also ends it.
    """
    dictionaries = [builders.of_symbols(builders.piece_names()) for _ in range(2)]
    args = Namespace(
        langs="de,en",
        source_lang="de",
        target_lang="en",
        max_source_positions=20,
        max_target_positions=20,
    )
    task = TranslationFromPretrainedBARTTask(args, *dictionaries)
    sizes = {**deltalm_builders.SIZES, "encoder_layers": 1, "decoder_layers": 1}
    model_options = builders.options_of("argparse", "deltalm_tiny", sizes)
    model_options.share_all_embeddings = True
    model = models.build_model(model_options, task)
    deltalm_builders.randomise(model, 5)
    generation = GenerationConfig(beam=3, max_len_a=1.0, max_len_b=6, lenpen=1.5, unkpen=0.5)
    return make_translator(task, model, generation)


def make_translator(task, model, generation):
    cfg = SimpleNamespace(tokenizer=None, bpe=None, generation=generation)
    return Translator(cfg, task, model.eval(), task.build_generator([model], generation), [])


MULTI = (
    "--task translation_multi_temperature --lang-pairs de-en,fr-en --langs de,en,fr "
    "-s de -t en --path model.pt"
)


@pytest.mark.cases(
    "tag_options source_tag target_prefix",
    ("--encoder-langtok src --decoder-langtok", "source", ["</s>", "__en__"]),
    ("--encoder-langtok tgt", "target", ["</s>"]),
    ("--decoder-langtok --lang-tok-replacing-bos-eos", None, ["__en__"]),
)
def test_each_pair_has_the_tags_of_its_task(tag_options, source_tag, target_prefix, tmp_path):
    for language in adapter_builders.LANGS:
        builders.write_symbols(tmp_path / f"dict.{language}.txt", builders.piece_names())
    words = [str(tmp_path), *MULTI.split(), *tag_options.split()]
    args = options.parse_args_and_arch(options.get_generation_parser(), words)
    task = tasks.setup_task(args)
    model = models.build_model(Namespace(arch="transformer", **builders.SIDES), task)
    translator = make_translator(task, model, GenerationConfig())
    content = encoder_decoder.content(translator, [("de", "en"), ("fr", "en")])
    index = task.target_dictionary.index
    for pair, language in zip(content.description["pairs"], ("de", "fr")):
        tag = {"source": f"__{language}__", "target": "__en__", None: None}[source_tag]
        assert pair == {
            "source": language,
            "target": "en",
            "source_prefix": [index(tag)] if tag else [],
            "source_suffix": [builders.EOS],
            "target_prefix": [index(symbol) for symbol in target_prefix],
        }


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A translator of mBART's task, and its exported folder."""
    translator = build_bart()
    place = tmp_path_factory.mktemp("exported") / "model"
    folder.write(place, encoder_decoder.content(translator, [("de", "en")]))
    return translator, place


def test_an_exported_folder_translates_as_fairseq_does(exported):
    translator, place = exported
    task, model = translator.task, load(place, threads=1)
    tag = task.target_dictionary.index("[en]")
    description = json.loads((place / "model.json").read_text())
    (pair,) = description["pairs"]
    assert pair["source_suffix"] == [builders.EOS, task.source_dictionary.index("[de]")]
    assert (pair["target_prefix"], pair["eos"]) == ([tag], tag)
    assert tag in description["ignored"] and description["architecture"] == "deltalm"
    lines = ["p3 p4 p5 p9", "p1", "p20 p2", "", "p7 p8 p9 p7 p8 p9", "p11 p12"]
    for line, translation in zip(lines, model.translations(lines)):
        if not line:
            assert translation.text == ""
            continue
        encode_line = task.source_dictionary.encode_line
        ids = encode_line(line, add_if_not_exist=False, append_eos=True).long()
        dataset = task.build_dataset_for_inference([ids], [len(ids)])
        sample = dataset.collater([dataset[0]])
        hypotheses = task.inference_step(translator.generator, [translator.model], sample)[0]
        tokens = hypotheses[0]["tokens"].tolist()
        assert translation.tokens == tokens and len(tokens) > 2
        text = task.target_dictionary.string(tokens, extra_symbols_to_ignore={tag})
        assert translation.text == text
        np.testing.assert_allclose(translation.score, float(hypotheses[0]["score"]), atol=1e-4)


def test_large_batches_are_decoded_in_parts(exported, monkeypatch):
    translator, place = exported
    model = load(place, threads=1)
    lines = ["p3 p4 p5 p9", "p1 p1 p8 p2", "p20 p2 p7 p3"]
    expected = model.translate(lines)
    sizes, decode = [], beam.BeamDecoder.hypotheses

    def count_and_decode(decoder, source, pair):
        sizes.append(len(source))
        return decode(decoder, source, pair)

    monkeypatch.setattr(beam.BeamDecoder, "hypotheses", count_and_decode)
    monkeypatch.setattr(beam, "MOST_SCORES", 2 * 3 * len(translator.task.target_dictionary))
    assert model.translate(lines) == expected
    assert sizes == [2, 1]


@pytest.mark.cases(
    "entry changes message",
    ("search", {"beam": 0}, "beam 0"),
    ("search", {"min_len": 30}, "min_len 30"),
    ("search", {"normalize": 1}, "normalize 1"),
    ("limits", {"target_tokens": 1}, "target_tokens 1"),
    ("pairs", {"target_prefix": []}, "target_prefix"),
    ("pairs", {"target_prefix": [2, 1]}, "target_prefix .*padding"),
    ("pairs", {"target_prefix": [2, 2], "eos": 2}, "target_prefix .*no end"),
    ("pairs", {"eos": 1000}, "eos 1000"),
)
def test_an_invalid_description_is_refused(exported, tmp_path, entry, changes, message):
    place = tmp_path / "model"
    place.mkdir()
    for file in exported[1].iterdir():
        if file.name != "model.json":
            (place / file.name).symlink_to(file)
    description = json.loads((exported[1] / "model.json").read_text())
    section = description[entry][0] if entry == "pairs" else description[entry]
    section.update(changes)
    (place / "model.json").write_text(json.dumps(description))
    with pytest.raises(ModelError, match=message):
        load(place, threads=1)
