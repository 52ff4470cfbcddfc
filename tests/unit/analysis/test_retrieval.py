"""Retrieval: accuracies and F1 equal loops, the layer and the threshold come from the development set, tables, refusals."""

import pytest
import torch

from fairseq_plugins.analysis import bucc
from fairseq_plugins.analysis import retrieval as room
from fairseq_plugins.analysis.retrieval import Found, best_layer
from fairseq_plugins.models.nlu import load_text_encoder
from fairseq_plugins.ops.neighbours import best_matches
from tests import nlu_builders
from tests.unit.analysis import commands
from tests.unit.analysis.commands import refused

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


def run(path, *line):
    """What the command writes as JSON."""
    return commands.run(room.main, path / "x.json", *line)


def test_tatoeba_equals_a_loop_in_every_layer(model, tmp_path, capsys):
    source = lines(1)
    target = translated(source)
    paths = written(tmp_path / "x.de", source), written(tmp_path / "x.en", target)
    line = ["tatoeba", model, *"--cpu --sentencepiece none --score cosine --max-tokens 40 --pair de-en".split(), *paths]
    content = run(tmp_path, *line)
    assert content["layer"] is None and content["found"] == {}, "nothing was given to choose one by"
    assert [row["layer"] for row in content["rows"]] == [0, 1, 2]
    shown = capsys.readouterr().out
    for row in content["rows"]:
        x, y = (layer_means(model, rows, row["layer"]) for rows in (source, target))
        scores = [[float(a @ b / (a.norm() * b.norm())) for b in y] for a in x]
        signs = [
            [one.index(max(one)) == number for number, one in enumerate(side)] for side in (scores, list(zip(*scores)))
        ]
        shares = [sum(side) / COUNT for side in signs]
        assert [row["forward"], row["backward"], row["mean"]] == pytest.approx([*shares, sum(shares) / 2])
        assert 0.3 < row["mean"] < 1, "the test must be able to see a difference"
        assert f"{shares[0]:.1%} / {shares[1]:.1%}" in shown
        single = run(tmp_path, *line, "--layer", row["layer"])
        assert single["rows"] == [row] and single["layer"] == row["layer"]
        assert single["found"]["de-en"] == ["".join(str(int(one)) for one in side) for side in signs]


def test_the_layer_is_chosen_on_the_development_pairs(monkeypatch, tmp_path, capsys):
    """The best on average; not the one that is best on the test pairs."""

    def found(pair, means):
        scores = [{"sentences": 4, "forward": mean, "backward": mean, "mean": mean} for mean in means]
        return [Found(pair, layer, one) for layer, one in enumerate(scores)]

    dev = [*found("de-en", [0.1, 0.9, 0.2]), *found("fr-en", [1.0, 0.3, 0.2])]
    results = {"dev-pair": dev, "pair": found("de-en", [0.1, 0.5, 0.8])}
    monkeypatch.setattr(room, "Searcher", lambda args, folder: None)
    monkeypatch.setattr(room, "tatoeba", lambda search, pairs, title: results[title])
    content = run(tmp_path, "tatoeba", "model", "--pair", "de-en", "a", "b", "--dev-pair", "de-en", "a", "b")
    assert content["layer"] == 1
    assert [row["mean"] for row in content["rows"]] == [0.1, 0.5, 0.8], "what is reported is the test pairs'"
    last = capsys.readouterr().out.split("layer ")[-1]
    assert last.count(" 50.0% |") == 2 * 3, "of the pair, and the average"
    assert best_layer([Found("a", 0, {"f1": 0.9}), Found("a", 1, {"f1": 0.9})], "f1") == 0, "the lowest of equal ones"


def test_bucc_takes_its_threshold_from_the_development_set(model, tmp_path):
    """Half of the sentences have a translation, the others are strangers."""
    files, mined = [], {}
    gold_pairs = {(number, number) for number in range(COUNT // 2)}
    gold = commands.written(tmp_path / "gold", *(f"de-{number}\ten-{number}" for number in range(COUNT // 2)))
    for split, seed in (("dev", 1), ("test", 5)):
        source = lines(seed)
        target = [*translated(source)[: COUNT // 2], *lines(seed + 1, COUNT // 2)]
        paths = written(tmp_path / f"{split}.de", source, "de"), written(tmp_path / f"{split}.en", target, "en")
        files += [f"--{split}", "de-en", *paths, gold]
        sides = (layer_means(model, rows, 1) for rows in (source, target))
        mined[split] = bucc.mine(best_matches(*sides, "margin", 4))
    (row,) = run(tmp_path, "bucc", model, "--cpu", "--sentencepiece", "none", "--layer", 1, *files)["rows"]
    threshold = bucc.best_threshold(mined["dev"], gold_pairs)
    assert row["threshold"] == pytest.approx(threshold, rel=1e-4)
    assert row["dev_f1"] == pytest.approx(bucc.quality(mined["dev"], gold_pairs, threshold).f1)
    expected = bucc.quality(mined["test"], gold_pairs, threshold)
    assert (row["precision"], row["recall"], row["f1"]) == pytest.approx(expected)
    assert bucc.best_threshold(mined["test"], gold_pairs) != pytest.approx(threshold), "not the test set's own"


def test_bad_command_lines(model, tmp_path, capsys):
    one, other = written(tmp_path / "a", lines(1)), written(tmp_path / "b", lines(2, 9))
    gold = commands.written(tmp_path / "gold", "de-0\ten-0")
    named = written(tmp_path / "n", lines(1), "de"), written(tmp_path / "m", lines(2), "en")
    common = ["--cpu", "--sentencepiece", "none"]
    pair, mining = ["tatoeba", model, *common, "--pair", "de-en"], ["bucc", model, *common, "--dev", "de-en"]
    for line, message in (
        ([*pair[:-1], "deen", one, one], "pair deen: valid: two languages, as deu-eng"),
        ([*pair, one, other], "--pair de-en: the texts need equal numbers of lines"),
        ([*pair, one, one, "--pair", "de-en", one, one], "--pair: a pair is there twice in de-en, de-en"),
        ([*pair, one, one, "--layer", "last"], "--layer last: valid: all, or a number from 0"),
        ([*pair, one, one, "--layer", "3"], "--layer 3: valid: 0 (the embedding's output) to 2"),
        ([*pair, other, other, "--neighbours", "10"], "--neighbours must lie in 1 to 9"),
        ([*mining, one, one, gold], "line 1:"),
        ([*mining, *named, gold, "--test", "fr-en", *named, gold], "--test fr-en: its threshold needs a --dev"),
        ([*mining, named[1], named[0], gold], "no sentence has the id de-0"),
    ):
        assert message in refused(capsys, room.main, *line), line
