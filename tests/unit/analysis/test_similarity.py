"""CKA and singular values: equal to numpy and to the operation, what is compared with what, and what is refused."""

import numpy as np
import pytest
import torch

from fairseq_plugins.analysis import cka as room
from fairseq_plugins.analysis.singular_values import MATRICES, compare, layer_matrices
from fairseq_plugins.analysis.vectors import LayerVectors
from fairseq_plugins.checkpoints.layouts import expected_shapes, family_layout
from fairseq_plugins.ops.cka import linear_cka
from tests.unit.analysis.commands import refused, run, written

SIZES = {"vocab_size": 9, "layers": 3, "embed_dim": 6, "ffn_dim": 10, "heads": 2, "max_positions": 5}


def tensors(seed=1, **changes):
    generator = torch.Generator().manual_seed(seed)
    shapes = expected_shapes(family_layout("mbart", **{**SIZES, **changes}))
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def layers(seed=1, **changes):
    return layer_matrices(tensors(seed, **changes), f"model {seed}")


def test_norms_and_distances_of_two_models_equal_numpy():
    first, second = tensors(1), tensors(2)
    found = {(one.layer, one.matrix): one for one in compare(layers(1), layers(2), ["A", "B"])}
    assert len(found) == 3 * 6
    for (layer, matrix), one in found.items():
        name = f"layers.{layer - 1}.{MATRICES[matrix]}.weight"
        a, b = (np.linalg.svd(side[name].double().numpy(), compute_uv=False) for side in (first, second))
        assert one.first == pytest.approx(np.sqrt((a**2).sum()), rel=1e-9)
        assert one.second == pytest.approx(np.linalg.norm(second[name].numpy()), rel=1e-6)
        assert one.distance == pytest.approx(np.sqrt(((a - b) ** 2).sum()), rel=1e-9)


def test_layers_are_in_their_order_beyond_nine():
    base = tensors(layers=11)
    for number in range(11):
        base[f"layers.{number}.fc1.weight"] = torch.full((2, 2), float(number))
    assert [float(layer["FC1"][0, 0]) for layer in layer_matrices(base, "A")] == list(range(11))


def vectors(seed, layers=3, count=30, width=6):
    values = torch.randn(layers, count, width, generator=torch.Generator().manual_seed(seed))
    return LayerVectors(tuple(range(layers)), values)


def saved(folder, **texts):
    for name, one in texts.items():
        np.save(folder / f"{name}.npy", one.values.numpy())
    return [f"{name[:2]}={folder / name}.npy" for name in texts]


def close(row, x, y):
    expected = linear_cka(x, y)
    return row.cka[:2] == pytest.approx(expected[:2], rel=1e-6)


def test_models_are_compared_layer_by_layer_and_language_by_language():
    first, second = ({"en": vectors(seed), "de": vectors(seed + 1, count=20)} for seed in (1, 5))
    rows = list(room.compare_models(first, second, False, ["A", "B"]))
    expected = [((name,), (layer, layer), count) for name, count in (("en", 30), ("de", 20)) for layer in range(3)]
    assert [(row.text, row.layers, row.sentences) for row in rows] == expected
    other = LayerVectors((2, 1), second["en"].values[[2, 1]])  # found by their numbers, not by their places
    every = list(room.compare_models({"en": first["en"]}, {"en": other}, True, ["A", "B"]))
    assert [row.layers for row in every] == [(a, b) for a in range(3) for b in (2, 1)]
    for row in [*rows, *every]:
        assert close(row, first[row.text[0]].layer(row.layers[0]), second[row.text[0]].layer(row.layers[1]))


def test_languages_are_compared_with_each_other_in_each_layer():
    texts = {"en": vectors(1), "de": vectors(2), "fr": vectors(3)}
    rows = list(room.compare_languages(texts, "A"))
    assert [row.text for row in rows[:3]] == [("en", "de"), ("en", "fr"), ("de", "fr")]
    assert [row.layers[0] for row in rows] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    for row in rows:
        assert close(row, *(texts[language].layer(row.layers[0]) for language in row.text))


def test_the_command_with_vectors(tmp_path, caplog):
    files = saved(tmp_path, en=vectors(1), de=vectors(2))
    others = saved(tmp_path, en_b=vectors(3), de_b=vectors(4))
    content = run("cka", tmp_path / "x", "--vectors", *files, "--vectors-b", *others, "--permutations", 2)
    assert content["models"] == ["A", "B"] and len(content["rows"]) == 6
    row = content["rows"][4]
    expected = linear_cka(vectors(2).layer(1), vectors(4).layer(1))
    assert (row["text"], row["layers"], row["n"], row["widths"]) == (["de"], [1, 1], 30, [6, 6])
    assert (row["biased"], row["unbiased"]) == pytest.approx(expected[:2])
    assert "not more than C" not in caplog.text
    run("cka", tmp_path / "x", "--vectors", *files, "--limit", 6, "--permutations", 0)
    assert "n = 6 sentences are not more than C = 6" in caplog.text


def test_what_is_refused(tmp_path, capsys):
    first, fewer, shorter = vectors(1), vectors(3, count=9), vectors(3, layers=2)
    for rows, message in (
        (
            room.compare_models({"en": first}, {"de": first}, False, "AB"),
            "A has vectors of en, B of de; valid: the same",
        ),
        (room.compare_models({"en": first}, {"en": shorter}, False, "AB"), "A has layers 0 to 2, B 0 to 1"),
        (room.compare_models({"en": first}, {"en": fewer}, False, "AB"), "30 rows, B, en, layer 0 9"),
        (room.compare_languages({"en": first, "de": fewer}, "A"), "30 rows, A, de, layer 0 9"),
    ):
        with pytest.raises(ValueError, match=message):
            list(rows)
    bad = layers(2)
    bad[1]["V"][0, 0] = float("inf")
    with pytest.raises(ValueError, match="A has 3 layers, B 2; valid: two models of one shape"):
        compare(layers(1), layers(2, layers=2), ["A", "B"])
    with pytest.raises(ValueError, match="B, layer 2, V: holds numbers that are not finite"):
        compare(layers(1), bad, ["A", "B"])
    files = saved(tmp_path, en=first, de=vectors(2))
    few, other = written(tmp_path / "few", "a", "b", "c"), written(tmp_path / "other", "a", "b")
    one, two = written(tmp_path / "one.pt"), written(tmp_path / "two.pt")
    for line, message in (
        ([], "one or two models and --text LANG=FILE … are needed; got 0 models"),
        ([one, "--vectors", *files], "take the place of models and --text"),
        ([one, two, "--text", f"en={few}"], "the unbiased estimate of CKA needs at least 4 sentences; got 3"),
        ([one, "--text", f"en={few}", f"de={other}"], "--text: the texts need equal numbers of lines"),
        (["--vectors", *files, "--all-layers"], "--all-layers compares two models; got one"),
    ):
        assert message in refused(capsys, "cka", *line), line
