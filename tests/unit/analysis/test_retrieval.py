"""Test retrieval, mining and their paired test: equality with loops, choices, bad input."""

import itertools
import json

import numpy as np
import pytest
import torch

from fairseq_plugins.analysis import retrieval
from fairseq_plugins.analysis.bucc import (
    Mined,
    best_threshold,
    mine,
    quality,
    read_gold,
    read_sentences,
)
from fairseq_plugins.analysis.retrieval_comparison import randomisation
from fairseq_plugins.analysis.retrieval_tables import Result, best_layer
from fairseq_plugins.ops.neighbours import best_matches
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders
from tests.unit.analysis import commands
from tests.unit.analysis.commands import read_cells, read_refusal, write_lines

COUNT = 30
COMMON = ["--cpu", "--sentencepiece", "none"]


def make_rows(seed, count=COUNT):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 20, (count, 5), generator=generator).tolist()


def translate(rows):
    return [[(row[0] + 1) % 20, *row[1:]] for row in rows]


def write_rows(path, rows, language=""):
    """Write a text; with a ``language``, its lines begin with ids as in BUCC."""
    lines = []
    for number, row in enumerate(rows):
        start = f"{language}-{number}\t" if language else ""
        lines.append(start + " ".join(f"p{piece}" for piece in row))
    return write_lines(path, *lines)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return nlu_builders.write_any("xlmr", tmp_path_factory.mktemp("model") / "xlmr")[0]


@pytest.fixture
def pair(tmp_path):
    """Write a text and its translation."""
    source = make_rows(1)
    target = translate(source)
    return write_rows(tmp_path / "x.de", source), write_rows(tmp_path / "x.en", target)


@torch.no_grad()
def layer_means(model, rows, layer):
    encoder = load_text_encoder(model)
    tokens = [torch.tensor([[0, *(4 + piece for piece in row), 2]]) for row in rows]
    return torch.stack([encoder(row)[layer][0].mean(0) for row in tokens])


def run(path, *line):
    return commands.run("retrieval", path / "x.json", *line)


def test_tatoeba_equals_a_loop_in_every_layer(model, pair, tmp_path, capsys):
    options = "--directions both --max-tokens 40 --pair de-en".split()
    line = ["tatoeba", model, *COMMON, *options, *pair]
    content = run(tmp_path, *line)
    assert content["layer"] is None and content["found"] == {}, "no development pair chooses one"
    assert [row["layer"] for row in content["rows"]] == [0, 1, 2]
    out = capsys.readouterr().out
    source = make_rows(1)
    for row in content["rows"]:
        x, y = (layer_means(model, rows, row["layer"]) for rows in (source, translate(source)))
        forward = [[float(a @ b / (a.norm() * b.norm())) for b in y] for a in x]
        backward = list(zip(*forward))
        hits = [
            [scores.index(max(scores)) == number for number, scores in enumerate(matrix)]
            for matrix in (forward, backward)
        ]
        shares = [sum(direction) / COUNT for direction in hits]
        mean = sum(shares) / 2
        numbers = [row["forward"], row["backward"], row["mean"]]
        assert numbers == pytest.approx([*shares, mean])
        assert 0.3 < mean < 1, "the test must be able to see a difference"
        assert f"{shares[0]:.1%} / {shares[1]:.1%}" in out
        single = run(tmp_path, *line, "--layer", row["layer"])
        assert single["rows"] == [row] and single["layer"] == row["layer"]
        signs = ["".join(str(int(hit)) for hit in direction) for direction in hits]
        assert single["found"]["de-en"] == signs


def test_the_default_is_cosine_and_one_direction(model, pair, tmp_path, capsys):
    line = ["tatoeba", model, *COMMON, "--layer", "1", "--subsets", "--pair", "de-en", *pair]
    content = run(tmp_path, *line)
    out = capsys.readouterr().out
    explicit = run(tmp_path, *line, "--score", "cosine", "--directions", "both")
    assert (content["score"], content["directions"]) == ("cosine", "forward")
    (row,), (expected,) = content["rows"], explicit["rows"]
    assert row == {key: expected[key] for key in ("pair", "layer", "sentences", "forward")}
    assert expected["forward"] != expected["backward"], "the directions must differ"
    assert content["found"]["de-en"] == explicit["found"]["de-en"][:1]
    assert ", cosine, first → second language" in out and "←" not in out and "_mean" not in out
    assert f'{{"test.de-en_forward": {round(100 * row["forward"], 2)}}}' in out


def test_the_layer_is_chosen_on_the_development_pairs(monkeypatch, tmp_path, capsys):
    def make_results(pair, means):
        names = ("forward", "backward", "mean")
        scores = [{"sentences": 4, **dict.fromkeys(names, mean)} for mean in means]
        return [Result(pair, layer, numbers) for layer, numbers in enumerate(scores)]

    dev_pairs = [*make_results("de-en", [0.1, 0.9, 0.2]), *make_results("fr-en", [1.0, 0.3, 0.2])]
    results = {"dev-pair": dev_pairs, "pair": make_results("de-en", [0.1, 0.5, 0.8])}
    monkeypatch.setattr(retrieval, "Searcher", lambda args, folder: None)

    def find_results(search, pairs, title, is_sorted=False):
        return retrieval.Tatoeba(results[title], {})

    monkeypatch.setattr(retrieval, "tatoeba", find_results)
    file = write_lines(tmp_path / "file")
    pairs = ["--pair", "de-en", file, file, "--dev-pair", "de-en", file, file]
    content = run(tmp_path, "tatoeba", file, *pairs, "--subsets", "--directions", "both")
    assert content["layer"] == 1
    assert [row["mean"] for row in content["rows"]] == [0.1, 0.5, 0.8], "scores of the test pairs"
    table = capsys.readouterr().out.split("layer ")[-1]
    assert '"test.de-en_mean": 50.0}' in table
    assert table.count(" 50.0% |") == 2 * 3, "of the pair, and the average"
    equal = [Result("a", layer, {"f1": 0.9}) for layer in (0, 1)]
    assert best_layer(equal, "f1") == 0


def test_bucc_takes_its_threshold_from_the_development_set(model, tmp_path):
    """Half of the sentences have a translation."""
    half = COUNT // 2
    gold_pairs = {(number, number) for number in range(half)}
    gold = write_lines(tmp_path / "gold", *(f"de-{n}\ten-{n}" for n in range(half)))
    files, mined = [], {}
    for split, seed in (("dev", 1), ("test", 5)):
        source = make_rows(seed)
        target = [*translate(source)[:half], *make_rows(seed + 1, half)]
        texts = [
            write_rows(tmp_path / f"{split}.{language}", rows, language)
            for language, rows in (("de", source), ("en", target))
        ]
        files += [f"--{split}", "de-en", *texts, gold]
        vectors = (layer_means(model, rows, 1) for rows in (source, target))
        mined[split] = mine(best_matches(*vectors, "margin", 4))
    line = ["bucc", model, *COMMON, "--layer", 1, *files]
    (row,) = run(tmp_path, *line, "--score", "margin")["rows"]
    threshold = best_threshold(mined["dev"], gold_pairs)
    assert row["threshold"] == pytest.approx(threshold, rel=1e-4)
    assert row["dev_f1"] == pytest.approx(quality(mined["dev"], gold_pairs, threshold).f1)
    expected = quality(mined["test"], gold_pairs, threshold)
    assert (row["precision"], row["recall"], row["f1"]) == pytest.approx(expected)
    assert best_threshold(mined["test"], gold_pairs) != pytest.approx(threshold)
    assert run(tmp_path, *line)["score"] == "cosine"


def test_bad_input_is_refused(model, tmp_path, capsys):
    text, shorter = (write_rows(tmp_path / str(n), make_rows(n, n)) for n in (30, 9))
    gold = write_lines(tmp_path / "gold", "de-0\ten-0")
    de, en = (write_rows(tmp_path / name, make_rows(1), name) for name in ("de", "en"))
    tatoeba, bucc = ["tatoeba", model, *COMMON, "--pair"], ["bucc", model, *COMMON, "--dev"]
    for line, message in (
        ([*tatoeba, "deen", text, text], "pair deen"),
        ([*tatoeba, "de-en", text, shorter], "--pair de-en: the texts need equal numbers of lines"),
        ([*tatoeba, "de-en", text, text, "--layer", "3"], "--layer 3: valid: 0"),
        ([*bucc, "de-en", de, en, gold, "--test", "fr-en", de, en, gold], "--test fr-en: "),
        ([*bucc, "de-en", en, de, gold], "no sentence has the id de-0"),
    ):
        assert message in read_refusal(capsys, "retrieval", *line), line


def test_mining_equals_a_loop_over_all_candidates():
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(count, 5, generator=generator) + 1.0 for count in (12, 10))
    matches = best_matches(x, y, "cosine")
    candidates = set()
    for row, (column, score) in enumerate(zip(matches.forward, matches.forward_scores)):
        candidates.add((float(score), row, int(column)))
    for column, (row, score) in enumerate(zip(matches.backward, matches.backward_scores)):
        candidates.add((float(score), int(row), column))
    expected = []
    while candidates:
        _, row, column = max(candidates)
        expected.append((row, column))
        candidates = {item for item in candidates if item[1] != row and item[2] != column}
    assert [(pair.first, pair.second) for pair in mine(matches)] == expected
    assert len(expected) > 5


def compute_f1(mined, gold):
    hits = len({(pair.first, pair.second) for pair in mined} & gold)
    if not hits:
        return 0.0
    precision, recall = hits / len(mined), hits / len(gold)
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("seed", range(3))
def test_no_threshold_is_better(seed):
    """Some of the scores are equal."""
    generator = torch.Generator().manual_seed(seed)
    scores = (torch.randint(0, 8, (12,), generator=generator) / 8).tolist()
    scores.sort(reverse=True)
    mined = [Mined(score, number, number) for number, score in enumerate(scores)]
    gold = {(number, number) for number in range(0, 12, 2)} | {(20, 20)}
    f1_by_limit = [
        compute_f1([pair for pair in mined if pair.score >= limit], gold) for limit in set(scores)
    ]
    threshold = best_threshold(mined, gold)
    assert quality(mined, gold, threshold).f1 == pytest.approx(max(f1_by_limit))


@pytest.mark.cases(
    "scores expected",
    ([(0.9, True), (0.7, True), (0.3, False)], 0.5),  # halfway
    # 1 of 1 is as good as 2 of 4: the highest
    ([(0.9, True), (0.8, False), (0.7, False), (0.6, True)], 0.85),
    # 0.5 would accept all five
    ([(0.9, True), (0.5, True), (0.5, False), (0.5, False), (0.5, False)], 0.7),
)
def test_the_threshold_lies_between_accepted_and_rejected_scores(scores, expected):
    mined = [
        Mined(score, number, number + (not is_gold))
        for number, (score, is_gold) in enumerate(scores)
    ]
    gold = {(number, number) for number, (_, is_gold) in enumerate(scores) if is_gold}
    assert best_threshold(mined, gold) == pytest.approx(expected)


def test_bucc_files(tmp_path):
    path = write_lines(tmp_path / "x", "de-1\tEin Satz\twith a tab", "de-2\tZwei")
    assert read_sentences(path) == {"de-1": "Ein Satz\twith a tab", "de-2": "Zwei"}
    assert list(read_sentences(path, limit=1)) == ["de-1"]
    gold = write_lines(tmp_path / "gold", "de-2\ten-7", "de-3\ten-7")
    pairs = read_gold(gold, ["de-1", "de-2"], ["en-9", "en-7"], skip_unknown=True)
    assert pairs == {(1, 1)}
    with pytest.raises(ValueError, match="no pair of sentences"):
        read_gold(gold, ["a"], ["x"], skip_unknown=True)
    bad = write_lines(tmp_path / "bad", "de-1\tA", "de-2 B")
    with pytest.raises(ValueError, match="bad, line 2: 'de-2 B'"):
        read_sentences(bad)


def write_hits(path, hits, layer=3):
    path.write_text(json.dumps({"layer": layer, "found": hits}), encoding="utf-8")
    return path


def compute_p(differences):
    """Return the share of all assignments of signs whose sum is as large."""
    sums = [
        abs(sum(sign * difference for sign, difference in zip(signs, differences)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(total >= abs(sum(differences)) - 1e-9 for total in sums) / len(sums)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_p_is_the_share_of_all_assignments(seed):
    differences = np.random.default_rng(seed).integers(-1, 3, 11) / 2
    expected = compute_p(differences.tolist())
    assert 0.005 < expected < 0.9, "the test must be able to see a difference"
    assert randomisation(differences, 20_000, 1) == pytest.approx(expected, abs=0.015)


def test_a_comparison_by_hand(tmp_path, capsys):
    """Sentences of all pairs count alike; each direction counts half."""
    first = write_hits(tmp_path / "a.json", {"de-en": ["1101", "1001"], "fr-en": ["11", "11"]})
    hits = {"fr-en": ["10", "10"], "de-en": ["0001", "1001"]}
    second = write_hits(tmp_path / "b.json", hits, layer=2)
    content = commands.run("retrieval-comparison", tmp_path / "x.json", first, second)
    (row,) = content["comparisons"]
    assert (row.pop("first"), row.pop("than")) == ("a.json", "b.json")
    assert row.pop("p") == pytest.approx(compute_p([0.5, 0.5, 0, 0, 0, 1]), abs=0.02)
    ours, theirs = 100 * 4.5 / 6, 100 * 2.5 / 6
    assert row == pytest.approx({"ours": ours, "theirs": theirs, "difference": ours - theirs})
    out = capsys.readouterr().out
    assert read_cells(out, "a")[0][:5] == ["a.json", "3", "62.5", "100.0", "75.0"]
    cells = read_cells(out, "b")[0]
    assert cells[:5] == ["b.json", "2", "37.5", "50.0", "41.7"] and "+33.3" in cells[5]


def test_files_that_cannot_be_compared_are_refused(tmp_path, capsys):
    first = write_hits(tmp_path / "a.json", {"de-en": ["1101", "1001"]})
    for hits, message in (
        ({"de-en": ["110", "100"]}, "b.json: the files need the same pairs"),
        ({"fr-en": ["1101", "1001"]}, "the files need the same pairs"),
        ({"de-en": ["1x", "11"]}, "valid: a file that retrieval tatoeba --json wrote"),
    ):
        second = write_hits(tmp_path / "b.json", hits)
        assert message in read_refusal(capsys, "retrieval-comparison", first, second)
    assert "is there twice" in read_refusal(capsys, "retrieval-comparison", first, first)
