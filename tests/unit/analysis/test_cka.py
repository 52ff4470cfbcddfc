"""The command of CKA: which pairs are compared, what is printed, written and drawn, and what is refused."""

import numpy as np
import pytest
import torch

from fairseq_plugins.analysis import cka as room
from fairseq_plugins.analysis.vectors import LayerVectors
from fairseq_plugins.ops.cka import linear_cka
from tests import nlu_builders
from tests.unit.analysis.commands import refused, run, written


def vectors(seed, layers=3, count=30, width=6):
    """Random vectors."""
    values = torch.randn(layers, count, width, generator=torch.Generator().manual_seed(seed))
    return LayerVectors(tuple(range(layers)), values)


def saved(folder, **texts):
    """``LANG=FILE`` of vectors on disk."""
    for name, one in texts.items():
        np.save(folder / f"{name}.npy", one.values.numpy())
    return [f"{name[:2]}={folder / name}.npy" for name in texts]


def close(row, x, y):
    """Whether a row has the CKA of two matrices."""
    expected = linear_cka(x, y)
    return row.cka[:2] == pytest.approx(expected[:2], rel=1e-6)


def test_models_are_compared_layer_by_layer_and_language_by_language():
    first, second = ({"en": vectors(seed), "de": vectors(seed + 1, count=20)} for seed in (1, 5))
    rows = list(room.compare_models(first, second, False, ["A", "B"]))
    assert [(row.text, row.layers, row.sentences) for row in rows] == [
        *((("en",), (layer, layer), 30) for layer in range(3)),
        *((("de",), (layer, layer), 20) for layer in range(3)),
    ]
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


def test_the_same_permutations_for_every_pair():
    """So that floors can be compared; the seed decides."""
    texts = {"en": vectors(1), "de": vectors(2), "fr": vectors(2)}
    floors = [
        [row.cka.floor_biased for row in room.compare_languages(texts, "A", permutations=3, seed=seed)]
        for seed in (1, 2)
    ]
    assert len(floors[0][0]) == 3 and floors[0][0] == pytest.approx(floors[0][1]), "de and fr are the same vectors"
    assert floors[0][0] != floors[1][0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b: room.compare_models({"en": a}, {"de": b}, False, "AB"), "A has vectors of en, B of de; valid: the same"),
        (lambda a, b: room.compare_models({"en": a}, {"en": vectors(3, layers=2)}, False, "AB"), "A has layers 0 to 2, B 0 to 1"),
        (lambda a, b: room.compare_models({"en": a}, {"en": vectors(3, count=9)}, False, "AB"), "30 rows, B, en, layer 0 9"),
        (lambda a, b: room.compare_languages({"en": a}, "A"), "two languages at least; got en"),
        (lambda a, b: room.compare_languages({"en": a, "de": vectors(3, count=9)}, "A"), "30 rows, A, de, layer 0 9"),
        (lambda a, b: room.compare_languages({"en": a, "de": vectors(3, layers=2)}, "A"), "layer 2 is not there; valid: 0, 1"),
    ],
)  # fmt: skip
def test_sides_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        list(call(vectors(1), vectors(2)))


def test_the_command_with_vectors(tmp_path, capsys, caplog):
    files = saved(tmp_path, en=vectors(1), de=vectors(2))
    others = saved(tmp_path, en_b=vectors(3), de_b=vectors(4))
    content = run(room.main, tmp_path / "x", "--vectors", *files, "--vectors-b", *others, "--permutations", 2)
    assert content["models"] == ["A", "B"] and len(content["rows"]) == 6
    row = content["rows"][4]
    expected = linear_cka(vectors(2).layer(1), vectors(4).layer(1))
    assert (row["text"], row["layers"], row["n"], row["widths"]) == (["de"], [1, 1], 30, [6, 6])
    assert (row["biased"], row["unbiased"]) == pytest.approx(expected[:2])
    table = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("| de")]
    numbers = [row["biased"], max(row["floor_biased"]), row["unbiased"], max(row["floor_unbiased"])]
    assert table[1][1::2] == ["de", "1", "30", "6", *(f"{number:.4f}" for number in numbers)]
    assert "not more than C" not in caplog.text
    run(room.main, tmp_path / "x", "--vectors", *files, "--limit", 6, "--permutations", 0)
    assert "n = 6 sentences are not more than C = 6" in caplog.text
    assert capsys.readouterr().out.count("none") == 2 * 3


def test_the_command_with_two_models(tmp_path):
    """The second model is the first one's own checkpoint in another folder: everything agrees; another family does not."""
    first, _ = nlu_builders.write_any("mbart", tmp_path / "mbart")
    other, _ = nlu_builders.write_any("xlmr", tmp_path / "xlmr")
    rows = torch.randint(0, 20, (40, 6), generator=torch.Generator().manual_seed(1)).tolist()
    text = written(tmp_path / "text", *(" ".join(f"p{piece}" for piece in row) for row in rows))
    line = ["--text", f"en={text}", *"--cpu --sentencepiece none --input-format mbart --input-format-b".split()]
    found = run(room.main, tmp_path / "j", first, first, *line, "mbart")
    assert found["models"] == ["mbart A", "mbart B"]
    for estimate in ("biased", "unbiased"):
        assert [row[estimate] for row in found["rows"]] == pytest.approx([1.0] * 3)
    found = run(room.main, tmp_path / "j", first, other, *line, "xlmr")
    assert found["models"] == ["mbart", "xlmr"]
    assert max(row["biased"] for row in found["rows"]) < 0.99


def test_bad_command_lines(tmp_path, capsys):
    files = saved(tmp_path, en=vectors(1), de=vectors(2))
    few, other = written(tmp_path / "few", "a", "b", "c"), written(tmp_path / "other", "a", "b")
    for line, message in (
        ([], "one or two models and --text LANG=FILE … are needed; got 0 models"),
        (["a", "b", "c", "--text", f"en={few}"], "got 3 models"),
        (["a", "--vectors", *files], "take the place of models and --text"),
        (["--vectors-b", *files], "take the place of models and --text"),
        (["a", "b", "--text", f"en={few}"], "the unbiased estimate of CKA needs at least 4 sentences; got 3"),
        (["a", "--text", f"en={few}", f"de={other}"], "--text: the texts need equal numbers of lines"),
        (["--vectors", *files, "--all-layers"], "--all-layers compares two models; got one"),
        (["--vectors", *files, "--permutations", "-1"], "--permutations must be at least 0; got -1"),
    ):
        assert message in refused(capsys, room.main, *line), line


@pytest.mark.parametrize("kind", ["languages", "models", "all layers"])
def test_plots_show_every_number(kind, monkeypatch):
    """What is given to the plots room holds each estimate once, in its place."""
    drawn = []
    monkeypatch.setattr(room.plots, "draw_lines", lambda path, panels, places, *more: drawn.extend(panels))
    monkeypatch.setattr(room.plots, "draw_heat_maps", lambda path, maps, *more: drawn.extend(maps))
    texts = {language: vectors(seed) for seed, language in enumerate(["en", "de", "fr", "es", "ru"])}
    if kind == "languages":
        rows = list(room.compare_languages(texts, "A"))
    else:
        sides = {"en": texts["en"]}, {"en": texts["de"]}
        rows = list(room.compare_models(*sides, kind == "all layers", "AB", permutations=2))
    room.draw("x.svg", rows, kind == "all layers", "A × B")
    found = {(row.text, row.layers): row.cka for row in rows}
    if kind == "models":
        layers = [found[("en",), (layer, layer)] for layer in range(3)]
        values, floors = drawn[0].lines
        assert drawn[0].title == "unbiased CKA"
        assert values.values == [one.unbiased for one in layers]
        assert floors.values == [max(one.floor_unbiased) for one in layers]
        assert drawn[1].lines[0].values == [one.biased for one in layers]
    elif kind == "all layers":
        assert drawn[0].values == [[found[("en",), (a, b)].unbiased for b in range(3)] for a in range(3)]
    else:
        assert [one.title for one in drawn] == ["layer 0", "layer 1", "layer 2"]
        assert drawn[1].rows == drawn[1].columns == list(texts)
        one = found[("de", "es"), (1, 1)]
        assert (drawn[1].values[3][1], drawn[1].values[1][3]) == (one.unbiased, one.biased)
        assert [drawn[1].values[place][place] for place in range(5)] == [None] * 5
