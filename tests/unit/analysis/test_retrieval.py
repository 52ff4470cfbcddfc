"""Retrieval: accuracies and F1 equal loops, the layer and the threshold come from the development set, tables, refusals."""

import json
from pathlib import Path
from typing import Dict, List

import pytest
import torch

from fairseq_plugins.analysis import bucc
from fairseq_plugins.analysis import retrieval as room
from fairseq_plugins.analysis.retrieval import Found, best_layer
from fairseq_plugins.models.nlu import load_text_encoder
from fairseq_plugins.ops.neighbours import best_matches
from tests import nlu_builders

COUNT = 30


def lines(seed, count=COUNT):
    """Random sentences as numbers of pieces."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 20, (count, 5), generator=generator).tolist()


def translated(rows):
    """One piece of each sentence is another one."""
    return [[(row[0] + 1) % 20, *row[1:]] for row in rows]


def written(path, rows, ids=""):
    """A sentence a line, with ids for BUCC."""
    starts = [f"{ids}-{number}\t" if ids else "" for number in range(len(rows))]
    text = "".join(start + " ".join(f"p{piece}" for piece in row) + "\n" for start, row in zip(starts, rows))
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny masked LM."""
    return nlu_builders.write_any("xlmr", tmp_path_factory.mktemp("model") / "xlmr")[0]


def layer_means(model, rows, layer):
    """Vectors of a layer, one sentence at a time."""
    encoder = load_text_encoder(model)
    with torch.no_grad():
        found = [encoder(torch.tensor([[0, *(4 + piece for piece in row), 2]]))[layer][0].mean(0) for row in rows]
    return torch.stack(found)


def cosines(x, y):
    """Of every pair."""
    return [[float(a @ b / (a.norm() * b.norm())) for b in y] for a in x]


def run(*line):
    """The command; it must end well."""
    assert room.main([str(item) for item in line]) == 0


def test_tatoeba_equals_a_loop_in_every_layer(model, tmp_path, capsys):
    source = lines(1)
    target = translated(source)
    paths = written(tmp_path / "x.de", source), written(tmp_path / "x.en", target)
    common = [model, "--cpu", "--sentencepiece", "none", "--score", "cosine", "--max-tokens", 40]
    run("tatoeba", *common, "--pair", "de-en", *paths, "--json", tmp_path / "x.json")
    content = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert content["layer"] is None, "nothing was given to choose one by"
    assert [row["layer"] for row in content["rows"]] == [0, 1, 2]
    for row in content["rows"]:
        table = cosines(layer_means(model, source, row["layer"]), layer_means(model, target, row["layer"]))
        forward = sum(scores.index(max(scores)) == number for number, scores in enumerate(table)) / COUNT
        columns = [list(column) for column in zip(*table)]
        backward = sum(scores.index(max(scores)) == number for number, scores in enumerate(columns)) / COUNT
        assert (row["forward"], row["backward"]) == pytest.approx((forward, backward))
        assert row["mean"] == pytest.approx((forward + backward) / 2)
        assert 0.3 < row["mean"] < 1, "the test must be able to see a difference"
    assert content["found"] == {}
    run("tatoeba", *common, "--pair", "de-en", *paths, "--json", tmp_path / "x.json", "--layer", 1)
    signs = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["found"]
    table = cosines(layer_means(model, source, 1), layer_means(model, target, 1))
    assert signs["de-en"][0] == "".join(str(int(max(row) == row[number])) for number, row in enumerate(table))
    assert signs["de-en"][1].count("1") / COUNT == pytest.approx(content["rows"][1]["backward"])
    shown = capsys.readouterr().out
    cells = [f"{row['forward']:.1%} / {row['backward']:.1%}" for row in content["rows"]]
    assert any(all(cell in line for cell in cells) for line in shown.splitlines() if line.startswith("| de-en"))


def test_the_layer_is_chosen_on_the_development_pairs(model, tmp_path, capsys):
    """The development pair is a shuffled copy: its best layer need not be that of the test pair."""
    dev, test = lines(1), lines(2)
    files = [
        written(tmp_path / f"{number}", rows)
        for number, rows in enumerate([dev, translated(dev), test, translated(test)])
    ]
    json_path = tmp_path / "x.json"
    common = ["tatoeba", model, "--cpu", "--sentencepiece", "none", "--json", json_path]
    run(*common, "--pair", "de-en", *files[:2])
    rows = json.loads(json_path.read_text(encoding="utf-8"))["rows"]
    expected = max(range(3), key=lambda layer: rows[layer]["mean"])
    run(*common, "--pair", "de-en", *files[2:], "--dev-pair", "de-en", *files[:2])
    content = json.loads(json_path.read_text(encoding="utf-8"))
    assert content["layer"] == expected
    last = capsys.readouterr().out.split("layer ")[-1]
    row = content["rows"][expected]
    assert f"| {row['forward']:.1%} |" in last.replace("  ", " ").replace("  ", " ")
    assert "| average" in last
    run(*common, "--pair", "de-en", *files[2:], "--layer", 1)
    single = json.loads(json_path.read_text(encoding="utf-8"))
    assert single["layer"] == 1
    assert single["rows"] == [content["rows"][1]]


def test_a_layer_that_is_best_on_the_test_pairs_is_not_chosen(monkeypatch, tmp_path):
    def found(means):
        scores = [{"sentences": 4, "forward": mean, "backward": mean, "mean": mean} for mean in means]
        return [Found("de-en", layer, one) for layer, one in enumerate(scores)]

    results = {"dev-pair": found([0.1, 0.9, 0.2]), "pair": found([0.1, 0.5, 0.8])}
    monkeypatch.setattr(room, "Searcher", lambda args, folder: None)
    monkeypatch.setattr(room, "tatoeba", lambda search, pairs, title: results[title])
    pair = ["de-en", "a", "b"]
    run("tatoeba", "model", "--pair", *pair, "--dev-pair", *pair, "--json", tmp_path / "x.json")
    content = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert content["layer"] == 1
    assert [row["mean"] for row in content["rows"]] == [0.1, 0.5, 0.8], "what is reported is the test pairs'"


def test_bucc_takes_its_threshold_from_the_development_set(model, tmp_path):
    """Half of the sentences have a translation, the others are strangers."""
    files: Dict[str, List[Path]] = {}
    texts: Dict[str, List[List[List[int]]]] = {}
    for split, seed in (("dev", 1), ("test", 5)):
        source = lines(seed)
        target = [*translated(source)[: COUNT // 2], *lines(seed + 1, COUNT // 2)]
        texts[split] = [source, target]
        gold = tmp_path / f"{split}.gold"
        gold.write_text("".join(f"de-{number}\ten-{number}\n" for number in range(COUNT // 2)), encoding="utf-8")
        files[split] = [
            written(tmp_path / f"{split}.de", source, "de"),
            written(tmp_path / f"{split}.en", target, "en"),
            gold,
        ]
    common = ["bucc", model, "--cpu", "--sentencepiece", "none", "--layer", 1, "--json", tmp_path / "x.json"]
    run(*common, "--dev", "de-en", *files["dev"], "--test", "de-en", *files["test"])
    (row,) = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["rows"]
    gold_pairs = {(number, number) for number in range(COUNT // 2)}
    mined = {
        split: bucc.mine(best_matches(*(layer_means(model, rows, 1) for rows in both), "margin", 4))
        for split, both in texts.items()
    }
    threshold = bucc.best_threshold(mined["dev"], gold_pairs)
    assert row["threshold"] == pytest.approx(threshold, rel=1e-4)
    assert row["dev_f1"] == pytest.approx(bucc.quality(mined["dev"], gold_pairs, threshold).f1)
    expected = bucc.quality(mined["test"], gold_pairs, threshold)
    assert (row["precision"], row["recall"], row["f1"]) == pytest.approx(expected)
    assert bucc.best_threshold(mined["test"], gold_pairs) != pytest.approx(threshold), (
        "another one than the test set's own"
    )


def test_the_best_layer_is_the_best_on_average():
    found = [
        Found("a", 0, {"f1": 0.9}),
        Found("a", 1, {"f1": 0.6}),
        Found("b", 0, {"f1": 0.1}),
        Found("b", 1, {"f1": 0.5}),
    ]
    assert best_layer(found, "f1") == 1
    assert best_layer([*found[:1], Found("a", 1, {"f1": 0.9})], "f1") == 0, "the lowest of equal ones"


def test_bad_command_lines(model, tmp_path, capsys):
    one, other = written(tmp_path / "a", lines(1)), written(tmp_path / "b", lines(2, 9))
    gold = tmp_path / "gold"
    gold.write_text("de-0\ten-0\n", encoding="utf-8")
    named = written(tmp_path / "n", lines(1), "de"), written(tmp_path / "m", lines(2), "en")
    common = ["--cpu", "--sentencepiece", "none"]
    tatoeba, mining = ["tatoeba", model, *common], ["bucc", model, *common]
    cases = [
        ([*tatoeba, "--pair", "deen", one, one], "pair deen: valid: two languages, as deu-eng"),
        ([*tatoeba, "--pair", "de-en", one, other], "--pair de-en: the texts need equal numbers of lines"),
        (
            [*tatoeba, "--pair", "de-en", one, one, "--pair", "de-en", one, one],
            "--pair: a pair is there twice in de-en, de-en",
        ),
        ([*tatoeba, "--pair", "de-en", one, one, "--layer", "last"], "--layer last: valid: all, or a number from 0"),
        ([*tatoeba, "--pair", "de-en", one, one, "--layer", "3"], "--layer 3: valid: 0 (the embedding's output) to 2"),
        ([*tatoeba, "--pair", "de-en", other, other, "--neighbours", "10"], "--neighbours must lie in 1 to 9"),
        ([*mining, "--dev", "de-en", one, one, gold], "line 1:"),
        (
            [*mining, "--dev", "de-en", *named, gold, "--test", "fr-en", *named, gold],
            "--test fr-en: its threshold needs a --dev",
        ),
        ([*mining, "--dev", "de-en", named[1], named[0], gold], "no sentence has the id de-0"),
    ]
    for line, message in cases:
        with pytest.raises(SystemExit) as status:
            room.main([str(item) for item in line])
        assert status.value.code == 2
        assert message in capsys.readouterr().err
