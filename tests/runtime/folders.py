"""A model folder made by hand: a model that copies words through a table, whose passes move every word one step further."""

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
WORDS = ["eins", "zwei", "drei", "vier", "one", "two", "three", "four", "<mask>"]
SYMBOLS = SPECIAL + WORDS
SIZE = len(SYMBOLS)
FINGERPRINT = "0123456789abcdef"
BLANK, PAD, EOS, UNK = range(4)
MASK = SIZE - 1
SOURCE, SLOTS, STATES = ["B", "S"], ["B", "T"], [1, "B", 1, "S", 1]


def table(**moves):
    """A symbol for each symbol: itself, but for ``moves``; special ones become the blank."""
    found = np.arange(SIZE)
    found[: len(SPECIAL)] = BLANK
    for symbol, other in moves.items():
        found[SYMBOLS.index(symbol)] = SYMBOLS.index(other)
    return found


TRANSLATE = table(eins="one", zwei="two", drei="three", vier="four")


def write_folder(path, passes=None, alignment=TRANSLATE, stamp=FINGERPRINT, **changes):
    """Write a folder of kind ``slots`` for de-en; slot 2 i holds source token i.

    Args:
        passes: the table of the denoiser; None: no denoiser.
        stamp: the fingerprint in the graphs.
        changes: entries of ``model.json``; None: left out.
    """
    path = Path(path)
    path.mkdir()
    graphs = {"encoder": _encoder(), "alignment": _alignment(alignment)}
    if passes is not None:
        graphs["denoising"] = _denoising(passes)
    for name, nodes in graphs.items():
        _save(path / f"{name}.onnx", stamp, *nodes)
    (path / "vocabulary.txt").write_text("".join(f"{symbol}\n" for symbol in SYMBOLS), encoding="utf-8")
    model = {
        "format": 1,
        "written_by": {"fairseq_plugins": "0.1.0"},
        "kind": "slots",
        "architecture": "sga",
        "fingerprint": FINGERPRINT,
        "precision": "float32",
        "quantised": [],
        "graphs": {name: f"{name}.onnx" for name in graphs},
        "files": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(path.iterdir())},
        "vocabulary": {"source": "vocabulary.txt", "target": "vocabulary.txt"},
        "pieces": None,
        "symbols": {"bos": BLANK, "pad": PAD, "eos": EOS, "unk": UNK},
        "pairs": [
            {"source": "de", "target": "en", "source_prefix": [BLANK], "source_suffix": [EOS], "target_prefix": []}
        ],
        "limits": {"source_tokens": 8, "target_tokens": 16},
        "ignored": [BLANK, PAD, EOS, MASK],
        "search": {"max_iter": 10, "adaptive": True, "mask_predict_iterations": 4, "length_beam": 1},
        "slots": {
            "upsample": 2,
            "blank": BLANK,
            "mask": MASK,
            "denoiser": passes is not None,
            "fill_blanks": False,
            "alignment": "ctc",
            "lengths": None,
        },
    }
    model.update(changes)
    kept = {name: value for name, value in model.items() if value is not None or name == "pieces"}
    (path / "model.json").write_text(json.dumps(kept), encoding="utf-8")
    return path


def _save(path, stamp, nodes, inputs, outputs, constants):
    """Write a graph; inputs and outputs: name -> (type, shape)."""
    values = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in side.items()]
        for side in (inputs, outputs)
    ]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, path.stem, *values, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    helper.set_model_props(model, {"fingerprint": stamp})
    onnx.save(model, path)


def _encoder():
    nodes = [
        helper.make_node("Unsqueeze", ["source", "axes"], ["wide"]),
        helper.make_node("Cast", ["wide"], ["keys"], to=TensorProto.FLOAT),
        helper.make_node("Neg", ["keys"], ["values"]),
    ]
    states = dict.fromkeys(("keys", "values"), (TensorProto.FLOAT, STATES))
    return nodes, {"source": (TensorProto.INT64, SOURCE)}, states, {"axes": np.array([0, 2, 4])}


def _scores():
    """log_probs: -0.5 everywhere."""
    return [
        helper.make_node("Cast", ["best"], ["as_float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["as_float", "zero"], ["nothing"]),
        helper.make_node("Sub", ["nothing", "half"], ["log_probs"]),
    ], {"zero": np.float32(0), "half": np.float32(0.5)}


INPUTS = {
    "lengths": (TensorProto.INT64, ["B"]),
    "source": (TensorProto.INT64, SOURCE),
    "keys": (TensorProto.FLOAT, STATES),
    "values": (TensorProto.FLOAT, STATES),
}
OUTPUTS = {"best": (TensorProto.INT64, SLOTS), "log_probs": (TensorProto.FLOAT, SLOTS)}


def _alignment(moves):
    scores, constants = _scores()
    nodes = [
        helper.make_node("Unsqueeze", ["source", "axes"], ["wide"]),
        helper.make_node("Mul", ["wide", "none"], ["blanks"]),
        helper.make_node("Concat", ["wide", "blanks"], ["pairs"], axis=2),
        helper.make_node("Reshape", ["pairs", "shape"], ["slots"]),
        helper.make_node("Gather", ["moves", "slots"], ["best"]),
    ]
    own = {"axes": np.array([2]), "none": np.int64(0), "shape": np.array([0, -1]), "moves": moves}
    return [*nodes, *scores], INPUTS, OUTPUTS, {**constants, **own}


def _denoising(moves):
    scores, constants = _scores()
    nodes = [helper.make_node("Gather", ["moves", "tokens"], ["best"])]
    return [*nodes, *scores], {**INPUTS, "tokens": OUTPUTS["best"]}, OUTPUTS, {**constants, "moves": moves}
