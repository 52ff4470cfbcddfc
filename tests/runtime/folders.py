"""Write a model folder by hand: its model copies words through tables, one for each pass."""

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
GERMAN, ENGLISH = ("eins", "zwei", "drei", "vier"), ("one", "two", "three", "four")
SYMBOLS = [*SPECIAL, *GERMAN, *ENGLISH, "<mask>"]
SIZE = len(SYMBOLS)
FINGERPRINT = "0123456789abcdef"
BLANK, PAD, EOS, UNK = range(4)
MASK = SIZE - 1
AFFIXES = {"source_prefix": [BLANK], "source_suffix": [EOS], "target_prefix": []}
SOURCE, SLOTS, STATES = ["B", "S"], ["B", "T"], [1, "B", 1, "S", 1]


def make_table(**moves):
    """Map each symbol to itself, but for ``moves``; special symbols become the blank."""
    table = np.arange(SIZE)
    table[: len(SPECIAL)] = BLANK
    for symbol, image in moves.items():
        table[SYMBOLS.index(symbol)] = SYMBOLS.index(image)
    return table


TRANSLATE = make_table(**dict(zip(GERMAN, ENGLISH)))


def write_folder(path, passes=None, alignment=TRANSLATE, stamp=FINGERPRINT, **changes):
    """Write a folder of kind ``slots`` for de-en; slot 2 i holds source token i.

    Args:
        passes: the table of the denoiser; None: no denoiser.
        alignment: the table of the alignment.
        stamp: the fingerprint in the graphs.
        changes: entries of ``model.json``; None: left out.
    """
    path = Path(path)
    path.mkdir()
    graphs = {"encoder": _encoder(), "alignment": _alignment(alignment)}
    if passes is not None:
        graphs["denoising"] = _denoising(passes)
    for name, parts in graphs.items():
        write_graph(path / f"{name}.onnx", *parts, stamp)
    vocabulary = "".join(f"{symbol}\n" for symbol in SYMBOLS)
    (path / "vocabulary.txt").write_text(vocabulary, encoding="utf-8")
    description = {
        "format": 1,
        "written_by": {"fairseq_plugins": "0.1.0"},
        "kind": "slots",
        "architecture": "sga",
        "fingerprint": FINGERPRINT,
        "precision": "float32",
        "quantised": [],
        "graphs": {name: f"{name}.onnx" for name in graphs},
        "files": {file.name: sha256(file.read_bytes()) for file in sorted(path.iterdir())},
        "vocabulary": {"source": "vocabulary.txt", "target": "vocabulary.txt"},
        "pieces": None,
        "symbols": {"bos": BLANK, "pad": PAD, "eos": EOS, "unk": UNK},
        "pairs": [{"source": "de", "target": "en", **AFFIXES}],
        "limits": {"source_tokens": 8, "target_tokens": 16},
        "ignored": [BLANK, PAD, EOS, MASK],
        "search": {
            "max_iter": 10,
            "adaptive": True,
            "mask_predict_iterations": 4,
            "length_beam": 1,
        },
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
    description.update(changes)
    for name in [name for name in changes if changes[name] is None]:
        del description[name]
    write_description(path, description)
    return path


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def read_description(folder):
    return json.loads((folder / "model.json").read_text(encoding="utf-8"))


def write_description(folder, description):
    (folder / "model.json").write_text(json.dumps(description), encoding="utf-8")


def write_graph(path, nodes, inputs, outputs, constants, stamp=FINGERPRINT):
    """Write a graph; inputs and outputs: name -> (type, shape)."""
    values = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in side.items()]
        for side in (inputs, outputs)
    ]
    weights = [
        numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()
    ]
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


INPUTS = {
    "lengths": (TensorProto.INT64, ["B"]),
    "source": (TensorProto.INT64, SOURCE),
    "keys": (TensorProto.FLOAT, STATES),
    "values": (TensorProto.FLOAT, STATES),
}
OUTPUTS = {"best": (TensorProto.INT64, SLOTS), "log_probs": (TensorProto.FLOAT, SLOTS)}
CONSTANTS = {"zero": np.float32(0), "half": np.float32(0.5)}


def _log_probs():
    """Make the nodes of log-probabilities that are -0.5 everywhere."""
    return [
        helper.make_node("Cast", ["best"], ["as_float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["as_float", "zero"], ["nothing"]),
        helper.make_node("Sub", ["nothing", "half"], ["log_probs"]),
    ]


def _alignment(table):
    nodes = [
        helper.make_node("Unsqueeze", ["source", "axes"], ["wide"]),
        helper.make_node("Mul", ["wide", "none"], ["blanks"]),
        helper.make_node("Concat", ["wide", "blanks"], ["pairs"], axis=2),
        helper.make_node("Reshape", ["pairs", "shape"], ["slots"]),
        helper.make_node("Gather", ["table", "slots"], ["best"]),
    ]
    constants = {
        "axes": np.array([2]),
        "none": np.int64(0),
        "shape": np.array([0, -1]),
        "table": table,
    }
    return [*nodes, *_log_probs()], INPUTS, OUTPUTS, {**CONSTANTS, **constants}


def _denoising(table):
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["best"]), *_log_probs()]
    return nodes, {**INPUTS, "tokens": OUTPUTS["best"]}, OUTPUTS, {**CONSTANTS, "table": table}
