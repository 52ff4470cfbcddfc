"""Test CKA and singular values: equality with numpy and the operation, pairings, bad input."""

import numpy as np
import pytest
import torch

from fairseq_plugins.analysis import cka
from fairseq_plugins.analysis.singular_values import MATRICES, compare, layer_matrices
from fairseq_plugins.analysis.vectors import LayerVectors
from fairseq_plugins.checkpoints.layouts import expected_shapes, family_layout
from fairseq_plugins.ops.cka import linear_cka
from tests.unit.analysis.commands import read_refusal, run, write_lines

SIZES = dict(vocab_size=9, layers=3, embed_dim=6, ffn_dim=10, heads=2, max_positions=5)
MODELS = ["A", "B"]


def make_tensors(seed=1, **changes):
    generator = torch.Generator().manual_seed(seed)
    shapes = expected_shapes(family_layout("mbart", **{**SIZES, **changes}))
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def make_matrices(seed=1, **changes):
    return layer_matrices(make_tensors(seed, **changes), f"model {seed}")


def test_norms_and_distances_of_two_models_equal_numpy():
    first, second = make_tensors(1), make_tensors(2)
    rows = compare(make_matrices(1), make_matrices(2), MODELS)
    assert len({(row.layer, row.matrix) for row in rows}) == len(rows) == 3 * 6
    for row in rows:
        name = f"layers.{row.layer - 1}.{MATRICES[row.matrix]}.weight"
        a, b = (
            np.linalg.svd(tensors[name].double().numpy(), compute_uv=False)
            for tensors in (first, second)
        )
        assert row.first == pytest.approx(np.sqrt((a**2).sum()), rel=1e-9)
        assert row.second == pytest.approx(np.linalg.norm(second[name].numpy()), rel=1e-6)
        assert row.distance == pytest.approx(np.sqrt(((a - b) ** 2).sum()), rel=1e-9)


def test_layers_are_in_their_order_beyond_nine():
    tensors = make_tensors(layers=11)
    for number in range(11):
        tensors[f"layers.{number}.fc1.weight"] = torch.full((2, 2), float(number))
    matrices = layer_matrices(tensors, "A")
    assert [float(layer["FC1"][0, 0]) for layer in matrices] == list(range(11))


def make_vectors(seed, layers=3, count=30, width=6):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(layers, count, width, generator=generator)
    return LayerVectors(tuple(range(layers)), values)


def save_vectors(folder, **texts):
    for name, vectors in texts.items():
        np.save(folder / f"{name}.npy", vectors.values.numpy())
    return [f"{name[:2]}={folder / name}.npy" for name in texts]


def assert_equals_operation(row, x, y):
    assert row.cka[:2] == pytest.approx(linear_cka(x, y)[:2], rel=1e-6)


def test_models_are_compared_by_layer_and_language():
    first, second = (
        {"en": make_vectors(seed), "de": make_vectors(seed + 1, count=20)} for seed in (1, 5)
    )
    rows = list(cka.compare_models(first, second, False, MODELS))
    assert [(row.text, row.layers, row.sentences) for row in rows] == [
        ((language,), (layer, layer), count)
        for language, count in (("en", 30), ("de", 20))
        for layer in range(3)
    ]
    # Layers are found by their numbers, not by their places.
    reordered = LayerVectors((2, 1), second["en"].values[[2, 1]])
    grid = list(cka.compare_models({"en": first["en"]}, {"en": reordered}, True, MODELS))
    assert [row.layers for row in grid] == [(a, b) for a in range(3) for b in (2, 1)]
    for row in [*rows, *grid]:
        (language,), (a, b) = row.text, row.layers
        assert_equals_operation(row, first[language].layer(a), second[language].layer(b))


def test_languages_are_compared_with_each_other_in_each_layer():
    texts = {language: make_vectors(seed) for seed, language in enumerate(("en", "de", "fr"))}
    rows = list(cka.compare_languages(texts, "A"))
    pairs = [("en", "de"), ("en", "fr"), ("de", "fr")]
    expected = [(pair, layer) for layer in range(3) for pair in pairs]
    assert [(row.text, row.layers[0]) for row in rows] == expected
    for row in rows:
        assert_equals_operation(row, *(texts[name].layer(row.layers[0]) for name in row.text))


def test_the_command_compares_saved_vectors(tmp_path, caplog):
    files = save_vectors(tmp_path, en=make_vectors(1), de=make_vectors(2))
    files_b = save_vectors(tmp_path, en_b=make_vectors(3), de_b=make_vectors(4))
    line = ["--vectors", *files, "--vectors-b", *files_b, "--permutations", 2]
    content = run("cka", tmp_path / "x", *line)
    assert content["models"] == MODELS and len(content["rows"]) == 6
    row = content["rows"][4]
    assert (row["text"], row["layers"], row["n"], row["widths"]) == (["de"], [1, 1], 30, [6, 6])
    expected = linear_cka(make_vectors(2).layer(1), make_vectors(4).layer(1))
    assert (row["biased"], row["unbiased"]) == pytest.approx(expected[:2])
    warning = "not more than C"
    assert warning not in caplog.text
    run("cka", tmp_path / "x", "--vectors", *files, "--limit", 6, "--permutations", 0)
    assert f"n = 6 sentences are {warning} = 6" in caplog.text


def test_models_and_texts_that_do_not_match_are_refused():
    vectors, fewer = make_vectors(1), make_vectors(3, count=9)
    for rows, message in (
        (cka.compare_models({"en": vectors}, {"de": vectors}, False, "AB"), "A .* en, B of de"),
        (
            cka.compare_models({"en": vectors}, {"en": make_vectors(3, layers=2)}, False, "AB"),
            "A has layers 0 to 2, B 0 to 1",
        ),
        (cka.compare_models({"en": vectors}, {"en": fewer}, False, "AB"), "30 rows, B, en, .* 9"),
        (cka.compare_languages({"en": vectors, "de": fewer}, "A"), "30 rows, A, de, .* 9"),
    ):
        with pytest.raises(ValueError, match=message):
            list(rows)
    with pytest.raises(ValueError, match="A has 3 layers, B 2"):
        compare(make_matrices(1), make_matrices(2, layers=2), MODELS)
    infinite = make_matrices(2)
    infinite[1]["V"][0, 0] = float("inf")
    with pytest.raises(ValueError, match="B, layer 2, V"):
        compare(make_matrices(1), infinite, MODELS)


def test_bad_command_lines_are_refused(tmp_path, capsys):
    files = save_vectors(tmp_path, en=make_vectors(1), de=make_vectors(2))
    three, two = (write_lines(tmp_path / str(n), *("a" for _ in range(n))) for n in (3, 2))
    first, second = (write_lines(tmp_path / f"{name}.pt") for name in MODELS)
    for line, message in (
        ([], "--text LANG=FILE"),
        ([first, "--vectors", *files], "--text"),
        ([first, second, "--text", f"en={three}"], "at least 4 sentences; got 3"),
        ([first, "--text", f"en={three}", f"de={two}"], "--text: the texts need equal numbers"),
        (["--vectors", *files, "--all-layers"], "--all-layers compares two models"),
    ):
        assert message in read_refusal(capsys, "cka", *line), line
