"""Tiny vectors and lexicons for the tests of the lexicon verbs."""

import numpy as np

from data_prep.vector_text import WordVectors, write_vectors

DIMENSION = 10


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def vectors(prefix, words=200, seed=1):
    """Random vectors in clusters of the words ``prefix0``, ``prefix1`` ..."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(12, DIMENSION))
    rows = centres[np.arange(words) % 12] + 0.7 * draw.normal(size=(words, DIMENSION))
    scale = np.linspace(2.0, 0.4, DIMENSION)
    return WordVectors([f"{prefix}{number}" for number in range(words)], (rows * scale).astype(np.float32))


def turned(side, prefix, seed=2):
    """The same vectors after a rotation, in another order: word ``a7`` becomes ``prefix7``."""
    draw = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(draw.normal(size=(DIMENSION, DIMENSION)))
    order = draw.permutation(len(side.words))
    return WordVectors([f"{prefix}{number}" for number in order], (side.vectors[order] @ turn).astype(np.float32))


def two_sides(folder):
    """Files of vectors that a rotation brings together: a7 belongs to b7."""
    first = vectors("a")
    paths = folder / "a.vec", folder / "b.vec"
    write_vectors(paths, "--output", [first, turned(first, "b")])
    return paths


def mates(words):
    return {word: [f"b{word[1:]}"] for word in words}
