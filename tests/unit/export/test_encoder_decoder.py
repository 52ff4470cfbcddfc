"""Models that write from left to right: the modules behind the graphs compute what fairseq does, and what they lack is refused."""

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

BART = dict.fromkeys(("encoder_normalize_before", "decoder_normalize_before"), True)
NARROW = builders.side("decoder", 2, 12, 20, 3)
TRANSFORMERS = {
    "behind": {},
    "before": {**BART, **builders.XLMR_WIRING, "share_all_embeddings": True, "no_scale_embedding": True},
    "no_final_norm": {**BART, "no_decoder_final_norm": True, "activation_fn": "gelu"},
    "unlike_sides": {**NARROW, "decoder_output_dim": 14, "activation_fn": "gelu_accurate"},
    "tied": {"share_decoder_input_output_embed": True, "activation_fn": "relu_squared", "encoder_learned_pos": True},
    "without_positions": {"no_token_positional_embeddings": True, "activation_fn": "tanh"},
}
SOURCES = [[4, 9, 7, 12, 2], [6, 2], [8, 8, 5, 2]]


def build(arch, **options):
    """A random model in evaluation mode, over the dictionary of ``builders``."""
    sizes = deltalm_builders.SIZES if arch.startswith("deltalm") else builders.SIDES
    made = veco_builders.task(mask=True) if arch.startswith("veco") else builders.task_of(builders.dictionary())
    sizes = veco_builders.SIZES if arch.startswith("veco") else sizes
    model = models.build_model(Namespace(arch=arch, **{**sizes, **options}), made)
    deltalm_builders.randomise(model, 5)
    return model.eval()


def sources():
    return builders.pad([torch.tensor(row) for row in SOURCES])


@pytest.mark.cases(
    "arch options",
    *(("transformer", options) for options in TRANSFORMERS.values()),
    ("mbart_large", {"share_all_embeddings": True, "max_source_positions": 40}),
    ("deltalm_tiny", {"share_all_embeddings": True}),
    ("deltalm_tiny", {"decoder_block": "vanilla", **BART}),
    ("transformer_from_xlmr_tiny", {}),
    ("veco_tiny", {"decoder_layers": 2}),
)
@torch.no_grad()
def test_steps_give_the_log_probabilities_of_full_decoding(arch, options):
    model = build(arch, **options)
    encoder_decoder.check(model)
    source, beams = sources(), 2
    with_start = model.encoder.with_start(source) if arch.startswith("transformer_from") else source
    tokens = torch.randint(4, 20, (3, beams, 6), generator=torch.Generator().manual_seed(1))
    encoded = model.encoder(source, source.ne(builders.PAD).sum(1))
    expected = [model.decoder(tokens[:, beam], encoder_out=encoded)[0].log_softmax(-1) for beam in range(beams)]
    encoder, step = EncoderGraph(model, 20).eval(), StepGraph(model, 20).eval()
    cross = encoder(with_start)
    layers, width = len(cross) // 2, torch.zeros(builders.VOCAB)
    heads, size = step.attentions[0].compute.heads, step.attentions[0].compute.width
    caches = [torch.zeros(3, heads, 0, size) for _ in cross]
    order = torch.arange(3)[:, None].repeat(1, beams)
    penalty = torch.linspace(-1, 1, builders.VOCAB)
    for place in range(tokens.size(2)):
        forced = tokens[:, :, (place + 1) % 6]
        inputs = (tokens[:, :, place], order, forced, penalty, width, with_start)
        best, ids, score, *caches = step(
            *inputs, *(list(cross[:layers]), list(cross[layers:])), caches[:layers], caches[layers:]
        )
        wanted = torch.stack([one[:, place] for one in expected], 1) + penalty
        torch.testing.assert_close(torch.zeros_like(best).scatter(2, ids, best), wanted, rtol=0, atol=1e-4)
        torch.testing.assert_close(score, wanted.gather(2, forced[..., None])[..., 0], rtol=0, atol=1e-4)
        assert bool((best.diff(dim=2) <= 0).all())
        # The rows of the caches change places: sentence by sentence the beams stand the other way round.
        flipped = torch.arange(6).view(3, beams).flip(1)
        tokens, expected, order = tokens.flip(1), expected[::-1], flipped


REFUSED = {
    "adaptive softmax": {"adaptive_softmax_cutoff": "5,10", "decoder_output_dim": builders.WIDTH},
    "quant noise": {"quant_noise_pq": 0.1},
    "cross_self_attention": {"cross_self_attention": True, "no_cross_attention": True},
    "no_cross_attention": {"no_cross_attention": True},
    "scale_heads": {"scale_heads": True},
    "scale_fc": {"scale_fc": True},
}


@pytest.mark.cases("what options", *REFUSED.items())
def test_refuses_what_the_graphs_do_not_have(what, options):
    with pytest.raises(ValueError, match=f"TransformerModel cannot be exported with .*{what}"):
        encoder_decoder.check(build("transformer", **options))


def test_refuses_other_layers_and_alignment_heads(tmp_path):
    adapted = adapter_builders.build(adapter_builders.write_backbone(tmp_path / "backbone.pt"))
    with pytest.raises(ValueError, match="with encoder AdapterEncoder, decoder AdapterDecoder"):
        encoder_decoder.check(adapted)
    aligned = build("transformer")
    aligned.alignment_heads = 1
    aligned.decoder.project_in_dim = torch.nn.Linear(4, builders.WIDTH)
    with pytest.raises(ValueError, match="alignment heads, an embedding of another width"):
        encoder_decoder.check(aligned)


@pytest.mark.cases(
    "option what",
    ({"temperature": 0.5}, "--temperature"),
    ({"sampling": True}, "search Sampling"),
    ({"no_repeat_ngram_size": 2}, "ngram"),
)
def test_refuses_other_searches(option, what):
    made = bart()
    generator = FairseqTask.build_generator(made.task, [made.model], Namespace(**option))
    with pytest.raises(ValueError, match=f"{what}.*beam search alone"):
        encoder_decoder.search(generator)


# ---- The way through a folder. ----


def bart(**options):
    """A translator of mBART's task: behind the source and in front of the target stands a language's tag, which also ends it."""
    symbols = [builders.of_symbols(builders.piece_names()) for _ in range(2)]
    args = Namespace(
        langs="de,en", source_lang="de", target_lang="en", max_source_positions=20, max_target_positions=20
    )
    task = TranslationFromPretrainedBARTTask(args, *symbols)
    arguments = builders.options_of(
        "argparse", "deltalm_tiny", {**deltalm_builders.SIZES, "encoder_layers": 1, "decoder_layers": 1}
    )
    arguments.share_all_embeddings = True
    model = models.build_model(arguments, task)
    deltalm_builders.randomise(model, 5)
    generation = GenerationConfig(beam=3, max_len_a=1.0, max_len_b=6, lenpen=1.5, unkpen=0.5)
    cfg = SimpleNamespace(tokenizer=None, bpe=None, generation=generation)
    return Translator(cfg, task, model.eval(), task.build_generator([model], generation), [])


MULTI = "--task translation_multi_temperature --lang-pairs de-en,fr-en --langs de,en,fr -s de -t en --path model.pt"
MORE = (
    "--encoder-langtok src --decoder-langtok",
    "--encoder-langtok tgt",
    "--decoder-langtok --lang-tok-replacing-bos-eos",
)


@pytest.mark.parametrize("more", MORE)
def test_each_pair_has_the_tags_that_the_task_gives_it(more, tmp_path):
    for language in adapter_builders.LANGS:
        builders.write_symbols(tmp_path / f"dict.{language}.txt", builders.piece_names())
    line = [str(tmp_path), *MULTI.split(), *more.split()]
    task = tasks.setup_task(options.parse_args_and_arch(options.get_generation_parser(), line))
    model = models.build_model(Namespace(arch="transformer", **builders.SIDES), task)
    generation = GenerationConfig()
    cfg = SimpleNamespace(tokenizer=None, bpe=None, generation=generation)
    translator = Translator(cfg, task, model.eval(), task.build_generator([model], generation), [])
    pairs = encoder_decoder.content(translator, [("de", "en"), ("fr", "en")]).description["pairs"]
    tag = {language: task.target_dictionary.index(f"__{language}__") for language in adapter_builders.LANGS}
    for pair, source in zip(pairs, ("de", "fr")):
        assert (pair["source"], pair["target"]) == (source, "en") and "eos" not in pair
        assert pair["source_prefix"] == ([tag[source if "src" in more else "en"]] if "encoder" in more else [])
        assert pair["source_suffix"] == [builders.EOS]
        written = [tag["en"]] if "decoder" in more else []
        assert pair["target_prefix"] == (written if "replacing" in more else [builders.EOS, *written])


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    translator = bart()
    place = tmp_path_factory.mktemp("exported") / "model"
    folder.write(place, encoder_decoder.content(translator, [("de", "en")]))
    return translator, place


def test_a_folder_gives_what_fairseq_finds(exported):
    translator, place = exported
    task, model = translator.task, load(place, threads=1)
    tag = task.target_dictionary.index("[en]")
    described = json.loads((place / "model.json").read_text())
    (pair,) = described["pairs"]
    assert (pair["source_suffix"], pair["target_prefix"], pair["eos"]) == (
        [2, task.source_dictionary.index("[de]")],
        [tag],
        tag,
    )
    assert tag in described["ignored"] and described["architecture"] == "deltalm"
    lines = ["p3 p4 p5 p9", "p1", "p20 p2", "", "p7 p8 p9 p7 p8 p9", "p11 p12"]
    found = model.translations(lines)
    for line, ours in zip(lines, found):
        if not line:
            assert ours.text == ""
            continue
        ids = task.source_dictionary.encode_line(line, add_if_not_exist=False, append_eos=True).long()
        batch = task.build_dataset_for_inference([ids], [len(ids)])
        theirs = task.inference_step(translator.generator, [translator.model], batch.collater([batch[0]]))[0]
        best = theirs[0]["tokens"].tolist()
        assert ours.tokens == best and len(best) > 2
        assert ours.text == task.target_dictionary.string(best, extra_symbols_to_ignore={tag})
        np.testing.assert_allclose(ours.score, float(theirs[0]["score"]), atol=1e-4)


def test_large_batches_are_decoded_in_parts(exported, monkeypatch):
    model = load(exported[1], threads=1)
    lines = ["p3 p4 p5 p9", "p1 p1 p8 p2", "p20 p2 p7 p3"]
    whole, sizes, stock = model.translate(lines), [], beam.BeamDecoder.hypotheses

    def counted(decoder, source, pair):
        sizes.append(len(source))
        return stock(decoder, source, pair)

    monkeypatch.setattr(beam.BeamDecoder, "hypotheses", counted)
    monkeypatch.setattr(beam, "MOST_SCORES", 2 * 3 * len(exported[0].task.target_dictionary))
    assert model.translate(lines) == whole
    assert sizes == [2, 1]


@pytest.mark.cases(
    "name value what",
    ("search", {"beam": 0}, "beam 0"),
    ("search", {"min_len": 30}, "min_len 30"),
    ("search", {"normalize": 1}, "normalize 1"),
    ("limits", {"target_tokens": 1}, "target_tokens 1"),
    ("pairs", {"target_prefix": []}, "target_prefix"),
    ("pairs", {"target_prefix": [2, 1]}, "target_prefix .*padding"),
    ("pairs", {"target_prefix": [2, 2], "eos": 2}, "target_prefix .*no end"),
    ("pairs", {"eos": 1000}, "eos 1000"),
)
def test_a_description_that_is_not_valid_is_named(exported, tmp_path, name, value, what):
    place = tmp_path / "model"
    place.mkdir()
    for file in exported[1].iterdir():
        (place / file.name).symlink_to(file)
    described = json.loads((place / "model.json").read_text())
    (described[name][0] if name == "pairs" else described[name]).update(value)
    (place / "model.json").unlink()
    (place / "model.json").write_text(json.dumps(described))
    with pytest.raises(ModelError, match=what):
        load(place, threads=1)
