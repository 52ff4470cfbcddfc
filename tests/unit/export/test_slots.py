"""SGA and ``nat_ctc`` as graphs: onnxruntime computes what the model does, for other sizes than those they are made with."""

import functools
import json
from pathlib import Path

import onnx
import onnx_ir
import pytest
import torch

from fairseq_plugins.baselines.nat_ctc import NATCTCConfig, NATCTCModel
from fairseq_plugins.export import folder, slots
from fairseq_plugins.export import graphs as graph_files
from fairseq_plugins.ops.ctc import linear_best_path
from fairseq_plugins_runtime.sessions import open_session
from tests import builders

NAT_SIZES = {"encoder_layers": 1, "decoder_layers": 2, "embed_dim": 16, "ffn_embed_dim": 24, "attention_heads": 2}
PROMPT_SCALE = 1.7
BATCHES = [[7, 4, 2, 5], [3]]
"""Lengths of the sources of a batch."""


def sga(**options):
    """A random SGA model; a learned scale of prompts is not 1."""
    model = builders.sga_model(**options)
    for name, parameter in model.named_parameters():
        if name.endswith("scale"):
            parameter.data.fill_(PROMPT_SCALE)
    return model


def nat(**options):
    model = NATCTCModel.build_model(NATCTCConfig(**{**NAT_SIZES, **options}), builders.task())
    builders.randomise(model, seed=5)
    return model.eval()


def units(model):
    """Name -> a function of tokens, guidance and lengths that gives the model's own states."""
    if not isinstance(model, slots.SGAModel):
        return {"alignment": lambda _, guidance, lengths: model.align(guidance, lengths)}
    prompts = {"alignment": model.alignment_prompts, "denoising": model.denoiser_prompts}

    def unit(own):
        return lambda tokens, guidance, lengths: model.run_unit(tokens, lengths, own, guidance)

    return {name: unit(own) for name, own in prompts.items() if own is not None}


@torch.no_grad()
def check(model, graphs, run, tolerance=1e-4, penalty=0.0):
    """Compare every graph with the model; ``run`` (name, inputs) gives the outputs by name."""
    assert list(graphs) == ["encoder", *units(model)]
    for sizes in BATCHES:
        source = builders.pad(builders.source_rows(sizes))
        guidance, lengths = model.encode(source), source.ne(builders.PAD).sum(1) * model.upsample
        states = run("encoder", {"source": source})
        predicted = getattr(guidance, "length_log_probs", None)
        assert ("length_log_probs" in states) is (predicted is not None)
        if predicted is not None:
            torch.testing.assert_close(states.pop("length_log_probs"), predicted, rtol=0, atol=tolerance)
        tokens = torch.randint(0, builders.VOCAB, (len(sizes), int(lengths.max())))
        for name, unit in units(model).items():
            given = {"tokens": tokens, "lengths": lengths, "source": source, **states}
            found = run(name, {key: given[key] for key in graphs[name].inputs})
            by_ctc = name == "denoising" or getattr(model, "length_predictor", None) is None
            projection = model.ctc_projection(penalty) if by_ctc else model.projection
            expected = linear_best_path(unit(tokens, guidance, lengths), *projection, lengths, model.blank)
            assert torch.equal(found["best"], expected.tokens)
            torch.testing.assert_close(found["log_probs"], expected.log_probs, rtol=1e-3, atol=tolerance)
            if "pieces" in found:
                assert torch.equal(found["pieces"], expected.pieces)


@pytest.mark.parametrize(
    ("model", "pieces"),
    [
        (lambda: sga(), []),
        (lambda: sga(prompt_scale=True, fill_blanks=True), ["alignment", "denoising"]),
        (lambda: sga(blank=builders.PAD, no_denoising=True, prompt_length=0), []),
        (lambda: sga(lora_rank=2, ctc_blank_bias=9.0), []),
        (lambda: sga(alignment="mask_predict", fill_blanks=True, ctc_blank_bias=9.0), ["denoising"]),
        (lambda: sga(alignment="mask_predict", no_denoising=True, length_from="bos"), []),
        (lambda: nat(), []),
        (lambda: nat(normalize_before=True, ctc_upsample=3), []),
    ],
    ids=["ctc", "filled", "short", "low_rank", "mask_predict", "mask_predict_short", "nat", "nat_before"],
)
@pytest.mark.parametrize("penalty", [0.0, 5.0])
def test_the_modules_compute_what_the_model_does(model, pieces, penalty):
    made = model()
    graphs = slots.graphs(made, penalty)
    assert [name for name, graph in graphs.items() if "pieces" in graph.outputs] == pieces

    def run(name, inputs):
        found = graphs[name].module(**inputs)
        return dict(zip(graphs[name].outputs, found if isinstance(found, tuple) else (found,)))

    check(made, graphs, run, penalty=penalty)


@pytest.fixture(scope="module")
def exported_once():
    """torch's exporter takes seconds a graph: float32 and int8 are made of the same."""
    known, export = {}, graph_files.export_graph

    def exported(graph):
        if id(graph) not in known:
            known[id(graph)] = graph, onnx_ir.to_proto(export(graph))
        return onnx_ir.from_proto(known[id(graph)][1])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graph_files, "export_graph", exported)
        yield


def write(model, graphs, place, int8=False):
    """Write a model without text; its description, and a function that runs the graphs."""
    content = folder.Content("slots", slots.architecture(model), model, graphs)
    described = folder.write(place, content, int8)
    sessions = {name: open_session(place / file, 1) for name, file in described["graphs"].items()}

    def run(name, inputs):
        outputs = graphs[name].outputs
        found = sessions[name].run(outputs, {key: value.numpy() for key, value in inputs.items()})
        return dict(zip(outputs, map(torch.from_numpy, found)))

    return described, run


@functools.lru_cache
def model_and_graphs(architecture):
    """A model that has all outputs, and its graphs."""
    if architecture == "sga":
        options = {"alignment": "mask_predict", "prompt_scale": True, "fill_blanks": True}
        made = sga(module=builders.masked_lm(layers=1), **options)
    else:
        made = nat(decoder_layers=1, max_source_positions=20)
    return made, slots.graphs(made)


@pytest.mark.parametrize("architecture", ["sga", "nat_ctc"])
def test_onnxruntime_computes_what_the_model_does(architecture, tmp_path, exported_once):
    model, graphs = model_and_graphs(architecture)
    described, run = write(model, graphs, tmp_path / "model")
    check(model, graphs, run)
    assert (described["architecture"], described["precision"]) == (architecture, "float32")
    assert described["quantised"] == []
    for file in described["graphs"].values():
        graph = onnx.load(str(tmp_path / "model" / file), load_external_data=False)
        assert {one.key: one.value for one in graph.metadata_props} == {"fingerprint": described["fingerprint"]}
        assert str(Path(folder.__file__).parent).encode() not in graph.SerializeToString()
    size = 4 * sum(part.numel() for part in model.parameters())
    assert (tmp_path / "model" / "weights.bin").stat().st_size < 1.5 * size  # what several graphs read is there once


def test_int8_changes_little_and_says_what_it_changed(tmp_path, exported_once):
    model, graphs = model_and_graphs("sga")
    described, run = write(model, graphs, tmp_path / "model", int8=True)
    source = builders.pad(builders.source_rows(BATCHES[0]))
    with torch.no_grad():
        exact = graphs["encoder"].module(source)[0]
    found = run("encoder", {"source": source})["keys"]
    kept = source.ne(builders.PAD)[None, :, None, None].expand_as(exact)
    assert 0.001 < (found - exact)[kept].norm() / exact[kept].norm() < 0.05
    # What else is in a batch does not matter: every row of an input has a scale of its own.
    size = BATCHES[0][2]
    alone = run("encoder", {"source": source[2:3, :size]})["keys"]
    torch.testing.assert_close(alone, found[..., :size][:, 2:3], rtol=0, atol=1e-4)
    assert described["precision"] == "int8"
    listed = [f"layers.{name}" for name in ("attentions.0.qkv", "attentions.0.out", "widen.0", "narrow.0")]
    both = ["layers.tokens", "layers.places", *listed]
    expected = {f"encoder: {name}.weight" for name in [*both, "semantic.key", "semantic.value"]}
    expected |= {f"{unit}: {name}.weight" for unit in ("alignment", "denoising") for name in [*both, "head.dense"]}
    named = {entry.replace("head.weight", "layers.tokens.weight") for entry in described["quantised"]}
    assert {entry for entry in named if "lengths" not in entry} == expected


def test_a_folder_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    content = folder.Content("slots", "nat_ctc", nat(), {}, {"vocabulary.txt": "a\nb\n"}, {"pieces": None})
    target = tmp_path / "model"
    target.mkdir()  # an empty one is filled

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(folder.json, "dumps", fail)
        with pytest.raises(OSError, match=r"No space left on device \([\d,]+ bytes free there\)"):
            folder.write(target, content)
    assert list(tmp_path.rglob("*")) == [target]
    described = folder.write(target, content)
    assert json.loads((target / "model.json").read_text()) == described
    assert (
        sorted(described["files"])
        == ["vocabulary.txt", "weights.bin"]
        == sorted(path.name for path in target.iterdir())[1:]
    )
    for taken, message in ((target, "has a model already"), (target / "model.json", "is a file")):
        with pytest.raises(ValueError, match=f"FOLDER {taken}: {message}.*; valid: a new or empty folder"):
            folder.write(taken, content)
