"""Retrieval, mining and their paired test equal loops; layer and threshold come from the development set; refusals."""

import itertools
import json

import numpy as np
import pytest
import torch

from fairseq_plugins.analysis import bucc
from fairseq_plugins.analysis import retrieval as room
from fairseq_plugins.analysis import retrieval_comparison as comparison
from fairseq_plugins.analysis.bucc import Mined, best_threshold, mine, quality, read_gold, read_sentences
from fairseq_plugins.analysis.retrieval import Result, best_layer
from fairseq_plugins.ops.neighbours import best_matches
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders
from tests.unit.analysis import commands
from tests.unit.analysis.commands import refused

COUNT = 30


def lines(seed, count=COUNT):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 20, (count, 5), generator=generator).tolist()


def translated(rows):
    return [[(row[0] + 1) % 20, *row[1:]] for row in rows]


def written(path, rows, ids=""):
    starts = [f"{ids}-{number}\t" if ids else "" for number in range(len(rows))]
    text = "".join(start + " ".join(f"p{piece}" for piece in row) + "\n" for start, row in zip(starts, rows))
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return nlu_builders.write_any("xlmr", tmp_path_factory.mktemp("model") / "xlmr")[0]


def layer_means(model, rows, layer):
    encoder = load_text_encoder(model)
    with torch.no_grad():
        found = [encoder(torch.tensor([[0, *(4 + piece for piece in row), 2]]))[layer][0].mean(0) for row in rows]
    return torch.stack(found)


def run(path, *line):
    return commands.run("retrieval", path / "x.json", *line)


def test_tatoeba_equals_a_loop_in_every_layer(model, tmp_path, capsys):
    source = lines(1)
    target = translated(source)
    paths = written(tmp_path / "x.de", source), written(tmp_path / "x.en", target)
    line = [
        "tatoeba",
        model,
        *"--cpu --sentencepiece none --directions both --max-tokens 40 --pair de-en".split(),
        *paths,
    ]
    content = run(tmp_path, *line)
    assert content["layer"] is None and content["found"] == {}, "nothing was given to choose one by"
    assert [row["layer"] for row in content["rows"]] == [0, 1, 2]
    shown = capsys.readouterr().out
    for row in content["rows"]:
        x, y = (layer_means(model, rows, row["layer"]) for rows in (source, target))
        scores = [[float(a @ b / (a.norm() * b.norm())) for b in y] for a in x]
        both = scores, list(zip(*scores))
        signs = [[one.index(max(one)) == number for number, one in enumerate(side)] for side in both]
        shares = [sum(side) / COUNT for side in signs]
        assert [row["forward"], row["backward"], row["mean"]] == pytest.approx([*shares, sum(shares) / 2])
        assert 0.3 < row["mean"] < 1, "the test must be able to see a difference"
        assert f"{shares[0]:.1%} / {shares[1]:.1%}" in shown
        single = run(tmp_path, *line, "--layer", row["layer"])
        assert single["rows"] == [row] and single["layer"] == row["layer"]
        assert single["found"]["de-en"] == ["".join(str(int(one)) for one in side) for side in signs]


def test_the_default_is_xtremes(model, tmp_path, capsys):
    """Cosine, and the first language looks for the second: said beside the figure, and the other direction is not there."""
    source = lines(1)
    paths = written(tmp_path / "x.de", source), written(tmp_path / "x.en", translated(source))
    line = ["tatoeba", model, *"--cpu --sentencepiece none --layer 1 --subsets --pair de-en".split(), *paths]
    content = run(tmp_path, *line)
    shown = capsys.readouterr().out
    both = run(tmp_path, *line, "--score", "cosine", "--directions", "both")
    assert (content["score"], content["directions"]) == ("cosine", "forward")
    assert content["rows"] == [{key: both["rows"][0][key] for key in ("pair", "layer", "sentences", "forward")}]
    assert both["rows"][0]["forward"] != both["rows"][0]["backward"], "the test must be able to see a difference"
    assert content["found"]["de-en"] == both["found"]["de-en"][:1]
    assert ", cosine, first → second language" in shown and "←" not in shown and "_mean" not in shown
    assert f'{{"test.de-en_forward": {round(100 * content["rows"][0]["forward"], 2)}}}' in shown
    gold = commands.written(tmp_path / "gold", "de-0\ten-0")
    named = written(tmp_path / "n", source, "de"), written(tmp_path / "m", translated(source), "en")
    mining = ["bucc", model, *"--cpu --sentencepiece none --layer 1 --dev de-en".split(), *named, gold]
    assert run(tmp_path, *mining)["score"] == "cosine" and ", cosine\n" in capsys.readouterr().out


def test_the_layer_is_chosen_on_the_development_pairs(monkeypatch, tmp_path, capsys):
    def found(pair, means):
        scores = [{"sentences": 4, "forward": mean, "backward": mean, "mean": mean} for mean in means]
        return [Result(pair, layer, one) for layer, one in enumerate(scores)]

    dev = [*found("de-en", [0.1, 0.9, 0.2]), *found("fr-en", [1.0, 0.3, 0.2])]
    results = {"dev-pair": dev, "pair": found("de-en", [0.1, 0.5, 0.8])}
    monkeypatch.setattr(room, "Searcher", lambda args, folder: None)
    monkeypatch.setattr(room, "tatoeba", lambda search, pairs, title: results[title])
    file = commands.written(tmp_path / "file")
    line = f"--pair de-en {file} {file} --dev-pair de-en {file} {file} --subsets --directions both".split()
    content = run(tmp_path, "tatoeba", file, *line)
    assert content["layer"] == 1
    assert [row["mean"] for row in content["rows"]] == [0.1, 0.5, 0.8], "what is reported is the test pairs'"
    last = capsys.readouterr().out.split("layer ")[-1]
    assert last.strip().splitlines()[-1].startswith("| test.de-en | {") and '"test.de-en_mean": 50.0}' in last
    assert last.count(" 50.0% |") == 2 * 3, "of the pair, and the average"
    assert best_layer([Result("a", 0, {"f1": 0.9}), Result("a", 1, {"f1": 0.9})], "f1") == 0, "the lowest of equal ones"


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
    line = ["bucc", model, "--cpu", "--sentencepiece", "none", "--layer", 1, "--score", "margin", *files]
    (row,) = run(tmp_path, *line)["rows"]
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
        ([*pair, one, one, "--layer", "3"], "--layer 3: valid: 0 (the embedding's output) to 2"),
        ([*mining, *named, gold, "--test", "fr-en", *named, gold], "--test fr-en: its threshold needs a --dev"),
        ([*mining, named[1], named[0], gold], "no sentence has the id de-0"),
    ):
        assert message in refused(capsys, "retrieval", *line), line


def test_mining_equals_a_loop_over_all_candidates():
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(count, 5, generator=generator) + 1.0 for count in (12, 10))
    found = best_matches(x, y, "cosine")
    candidates = {(float(s), i, int(j)) for i, (j, s) in enumerate(zip(found.forward, found.forward_scores))}
    candidates |= {(float(s), int(i), j) for j, (i, s) in enumerate(zip(found.backward, found.backward_scores))}
    expected = []
    while candidates:
        _, i, j = max(candidates)
        expected.append((i, j))
        candidates = {one for one in candidates if one[1] != i and one[2] != j}
    assert [(one.first, one.second) for one in mine(found)] == expected
    assert len(expected) > 5


def f1_of(kept, gold):
    right = len({(one.first, one.second) for one in kept} & gold)
    if not right:
        return 0.0
    precision, recall = right / len(kept), right / len(gold)
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("seed", range(3))
def test_the_threshold_is_as_good_as_any(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = sorted((torch.randint(0, 8, (12,), generator=generator) / 8).tolist(), reverse=True)  # with equal ones
    mined = [Mined(score, number, number) for number, score in enumerate(scores)]
    gold = {(number, number) for number in range(0, 12, 2)} | {(20, 20)}
    threshold = best_threshold(mined, gold)
    every = [f1_of([one for one in mined if one.score >= limit], gold) for limit in sorted(set(scores))]
    assert quality(mined, gold, threshold).f1 == pytest.approx(max(every))


def test_the_threshold_lies_between_the_last_kept_and_the_first_left():
    for scores, expected in (
        ([(0.9, True), (0.7, True), (0.3, False)], 0.5),  # halfway
        ([(0.9, True), (0.8, False), (0.7, False), (0.6, True)], 0.85),  # 1 of 1 is as good as 2 of 4: the highest
        ([(0.9, True), (0.5, True), (0.5, False), (0.5, False), (0.5, False)], 0.7),  # 0.5 would keep all five
    ):
        mined = [Mined(score, number, number + (not right)) for number, (score, right) in enumerate(scores)]
        gold = {(number, number) for number, (_, right) in enumerate(scores) if right}
        assert best_threshold(mined, gold) == pytest.approx(expected)


def test_bucc_files(tmp_path):
    path = commands.written(tmp_path / "x", "de-1\tEin Satz\twith a tab", "de-2\tZwei")
    assert read_sentences(path) == {"de-1": "Ein Satz\twith a tab", "de-2": "Zwei"}
    assert list(read_sentences(path, limit=1)) == ["de-1"]
    gold = commands.written(tmp_path / "gold", "de-2\ten-7", "de-3\ten-7")
    assert read_gold(gold, ["de-1", "de-2"], ["en-9", "en-7"], skip_unknown=True) == {(1, 1)}
    for lines, read, message in (
        (["de-1\tA", "de-2 B"], read_sentences, "x, line 2: 'de-2 B'; valid: id<TAB>sentence"),
        (["q\tq"], lambda path: read_gold(path, ["a"], ["x"], skip_unknown=True), "no pair of sentences"),
    ):
        with pytest.raises(ValueError, match=message):
            read(commands.written(tmp_path / "x", *lines))


def written_found(path, found, layer=3):
    path.write_text(json.dumps({"layer": layer, "found": found}), encoding="utf-8")
    return path


def exact(differences):
    """Share of all assignments whose sum is as large."""
    every = itertools.product((1, -1), repeat=len(differences))
    sums = [abs(sum(sign * each for sign, each in zip(signs, differences))) for signs in every]
    return sum(one >= abs(sum(differences)) - 1e-9 for one in sums) / len(sums)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_p_is_the_share_of_all_assignments(seed):
    differences = np.random.default_rng(seed).integers(-1, 3, 11) / 2
    expected = exact(differences.tolist())
    assert 0.005 < expected < 0.9, "the test must be able to see a difference"
    assert comparison.randomisation(differences, 20_000, 1) == pytest.approx(expected, abs=0.015)


def test_a_comparison_by_hand(tmp_path, capsys):
    """Sentences of all pairs count alike, and both directions half."""
    first = written_found(tmp_path / "a.json", {"de-en": ["1101", "1001"], "fr-en": ["11", "11"]})
    other = written_found(tmp_path / "b.json", {"fr-en": ["10", "10"], "de-en": ["0001", "1001"]}, layer=2)
    (found,) = commands.run("retrieval-comparison", tmp_path / "x.json", first, other)["comparisons"]
    assert (found.pop("first"), found.pop("than")) == ("a.json", "b.json")
    assert found.pop("p") == pytest.approx(exact([0.5, 0.5, 0, 0, 0, 1]), abs=0.02)
    assert found == pytest.approx({"ours": 100 * 4.5 / 6, "theirs": 100 * 2.5 / 6, "difference": 100 * 2 / 6})
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("| a", "| b"))]
    assert rows[0][1:12:2] == ["a.json", "3", "62.5", "100.0", "75.0", "|"]
    assert rows[1][1:12:2] == ["b.json", "2", "37.5", "50.0", "41.7", "+33.3"]


def test_what_cannot_be_compared_is_refused(tmp_path, capsys):
    first = written_found(tmp_path / "a.json", {"de-en": ["1101", "1001"]})
    for other, message in (
        ({"de-en": ["110", "100"]}, "b.json: the files need the same pairs with as many sentences"),
        ({"fr-en": ["1101", "1001"]}, "the files need the same pairs"),
        ({"de-en": ["1x", "11"]}, "valid: a file that retrieval tatoeba --json wrote"),
    ):
        assert message in refused(capsys, "retrieval-comparison", first, written_found(tmp_path / "b.json", other))
    assert "is there twice" in refused(capsys, "retrieval-comparison", first, first)
