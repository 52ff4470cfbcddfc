"""Test the graphs of SGA and ``nat_ctc``: onnxruntime computes what the model does."""

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

NAT_SIZES = {
    "encoder_layers": 1,
    "decoder_layers": 2,
    "embed_dim": 16,
    "ffn_embed_dim": 24,
    "attention_heads": 2,
}
PROMPT_SCALE = 1.7
BATCHES = [[7, 4, 2, 5], [3]]
"""Lengths of the sources of each batch."""


def build_sga(**options):
    """Build a random SGA model whose learned scale of prompts is not 1."""
    model = builders.sga_model(**options)
    for name, parameter in model.named_parameters():
        if name.endswith("scale"):
            parameter.data.fill_(PROMPT_SCALE)
    return model


def build_nat(**options):
    model = NATCTCModel.build_model(NATCTCConfig(**{**NAT_SIZES, **options}), builders.task())
    builders.randomise(model, seed=5)
    return model.eval()


def model_units(model):
    """Return a function of tokens, guidance and lengths by unit: the model's own states."""
    if not isinstance(model, slots.SGAModel):
        return {"alignment": lambda _, guidance, lengths: model.align(guidance, lengths)}
    prompts = {"alignment": model.alignment_prompts, "denoising": model.denoiser_prompts}

    def make_unit(unit_prompts):
        return lambda tokens, guidance, lengths: model.run_unit(
            tokens, lengths, unit_prompts, guidance
        )

    return {name: make_unit(part) for name, part in prompts.items() if part is not None}


@torch.no_grad()
def check_graphs(model, graphs, run, penalty=0.0):
    """Compare every graph with the model; ``run(name, inputs)`` returns the outputs by name."""
    assert list(graphs) == ["encoder", *model_units(model)]
    for sizes in BATCHES:
        source = builders.pad(builders.source_rows(sizes))
        guidance = model.encode(source)
        lengths = source.ne(builders.PAD).sum(1) * model.upsample
        states = run("encoder", {"source": source})
        length_log_probs = getattr(guidance, "length_log_probs", None)
        assert ("length_log_probs" in states) is (length_log_probs is not None)
        if length_log_probs is not None:
            actual = states.pop("length_log_probs")
            torch.testing.assert_close(actual, length_log_probs, rtol=0, atol=1e-4)
        tokens = torch.randint(0, builders.VOCAB, (len(sizes), int(lengths.max())))
        for name, unit in model_units(model).items():
            inputs = {"tokens": tokens, "lengths": lengths, "source": source, **states}
            outputs = run(name, {key: inputs[key] for key in graphs[name].inputs})
            by_ctc = name == "denoising" or getattr(model, "length_predictor", None) is None
            projection = model.ctc_projection(penalty) if by_ctc else model.projection
            hidden = unit(tokens, guidance, lengths)
            expected = linear_best_path(hidden, *projection, lengths, model.blank)
            assert torch.equal(outputs["best"], expected.tokens)
            torch.testing.assert_close(
                outputs["log_probs"], expected.log_probs, rtol=1e-3, atol=1e-4
            )
            if "pieces" in outputs:
                assert torch.equal(outputs["pieces"], expected.pieces)


@pytest.mark.parametrize(
    ("build", "penalty", "graphs_with_pieces"),
    [
        (lambda: build_sga(), 0.0, []),
        (
            lambda: build_sga(prompt_scale=True, fill_blanks=True),
            5.0,
            ["alignment", "denoising"],
        ),
        (lambda: build_sga(blank=builders.PAD, no_denoising=True, prompt_length=0), 0.0, []),
        (lambda: build_sga(lora_rank=2, ctc_blank_bias=9.0), 5.0, []),
        (lambda: build_sga(guidance_start="tlm", slot_positions="continue"), 0.0, []),
        (
            lambda: build_sga(alignment="mask_predict", fill_blanks=True, ctc_blank_bias=9.0),
            5.0,
            ["denoising"],
        ),
        (
            lambda: build_sga(alignment="mask_predict", no_denoising=True, length_from="bos"),
            5.0,
            [],
        ),
        (lambda: build_nat(), 5.0, []),
        (lambda: build_nat(normalize_before=True, ctc_upsample=3), 0.0, []),
    ],
    ids=[
        "ctc",
        "filled",
        "short",
        "low_rank",
        "from_tlm",
        "mask_predict",
        "mask_predict_short",
        "nat",
        "nat_before",
    ],
)
def test_modules_compute_what_the_model_does(build, penalty, graphs_with_pieces):
    model = build()
    graphs = slots.graphs(model, penalty)
    names = [name for name, graph in graphs.items() if "pieces" in graph.outputs]
    assert names == graphs_with_pieces

    def run(name, inputs):
        outputs = graphs[name].module(**inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return dict(zip(graphs[name].outputs, outputs))

    check_graphs(model, graphs, run, penalty)


@pytest.fixture(scope="module")
def _export_each_graph_once():
    """Share torch's exports, which take seconds, between float32 and int8."""
    exports, export = {}, graph_files.export_graph

    def export_once(graph):
        if id(graph) not in exports:
            exports[id(graph)] = graph, onnx_ir.to_proto(export(graph))
        return onnx_ir.from_proto(exports[id(graph)][1])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graph_files, "export_graph", export_once)
        yield


def write_model(model, graphs, place, int8=False):
    """Write a model without text; return its description and a function that runs its graphs."""
    content = folder.Content("slots", slots.architecture(model), model, graphs)
    description = folder.write(place, content, int8)
    sessions = {name: open_session(place / file, 1) for name, file in description["graphs"].items()}

    def run(name, inputs):
        arrays = {key: tensor.numpy() for key, tensor in inputs.items()}
        outputs = sessions[name].run(graphs[name].outputs, arrays)
        return dict(zip(graphs[name].outputs, map(torch.from_numpy, outputs)))

    return description, run


@functools.lru_cache
def build_with_graphs(architecture):
    """Build a model that has all outputs; return it with its graphs."""
    if architecture == "sga":
        options = {"alignment": "mask_predict", "prompt_scale": True, "fill_blanks": True}
        model = build_sga(module=builders.masked_lm(layers=1), **options)
    else:
        model = build_nat(decoder_layers=1, max_source_positions=20)
    return model, slots.graphs(model)


@pytest.mark.usefixtures("_export_each_graph_once")
@pytest.mark.parametrize("architecture", ["sga", "nat_ctc"])
def test_onnxruntime_computes_what_the_model_does(architecture, tmp_path):
    model, graphs = build_with_graphs(architecture)
    place = tmp_path / "model"
    description, run = write_model(model, graphs, place)
    check_graphs(model, graphs, run)
    assert (description["architecture"], description["precision"]) == (architecture, "float32")
    assert description["quantised"] == []
    for file in description["graphs"].values():
        graph = onnx.load(str(place / file), load_external_data=False)
        properties = {entry.key: entry.value for entry in graph.metadata_props}
        assert properties == {"fingerprint": description["fingerprint"]}
        assert str(Path(folder.__file__).parent).encode() not in graph.SerializeToString()
    # Weights that several graphs read are written once.
    size = 4 * sum(parameter.numel() for parameter in model.parameters())
    assert (place / "weights.bin").stat().st_size < 1.5 * size


@pytest.mark.usefixtures("_export_each_graph_once")
def test_int8_changes_states_little_and_lists_the_rounded_weights(tmp_path):
    model, graphs = build_with_graphs("sga")
    description, run = write_model(model, graphs, tmp_path / "model", int8=True)
    source = builders.pad(builders.source_rows(BATCHES[0]))
    with torch.no_grad():
        exact = graphs["encoder"].module(source)[0]
    rounded = run("encoder", {"source": source})["keys"]
    is_token = source.ne(builders.PAD)[None, :, None, None].expand_as(exact)
    assert 0.001 < (rounded - exact)[is_token].norm() / exact[is_token].norm() < 0.05
    # Every row of an input has its own scale, so the rest of a batch changes nothing.
    size = BATCHES[0][2]
    single = run("encoder", {"source": source[2:3, :size]})["keys"]
    torch.testing.assert_close(single, rounded[..., :size][:, 2:3], rtol=0, atol=1e-4)
    assert description["precision"] == "int8"
    names = ["attentions.0.qkv", "attentions.0.out", "widen.0", "narrow.0", "tokens", "places"]
    in_layers = [f"layers.{name}" for name in names]
    expected = {
        f"encoder: {name}.weight" for name in [*in_layers, "semantic.key", "semantic.value"]
    }
    for unit in ("alignment", "denoising"):
        expected |= {f"{unit}: {name}.weight" for name in [*in_layers, "head.dense"]}
    listed = {
        entry.replace("head.weight", "layers.tokens.weight") for entry in description["quantised"]
    }
    assert {entry for entry in listed if "lengths" not in entry} == expected


def test_a_folder_is_written_completely_or_not_at_all(tmp_path, monkeypatch):
    files = {"vocabulary.txt": "a\nb\n"}
    content = folder.Content("slots", "nat_ctc", build_nat(), {}, files, {"pieces": None})
    target = tmp_path / "model"
    target.mkdir()

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(folder.json, "dumps", fail)
        with pytest.raises(OSError, match=r"No space left on device \([\d,]+ bytes free there\)"):
            folder.write(target, content)
    assert list(tmp_path.rglob("*")) == [target]
    description = folder.write(target, content)
    assert json.loads((target / "model.json").read_text()) == description
    assert sorted(description["files"]) == ["vocabulary.txt", "weights.bin"]
    names = sorted(path.name for path in target.iterdir())
    assert names == ["model.json", "vocabulary.txt", "weights.bin"]
    for path, message in (
        (target, "has a model already"),
        (target / "model.json", "is a file"),
    ):
        with pytest.raises(ValueError, match=f"FOLDER {path}: {message}"):
            folder.write(path, content)
