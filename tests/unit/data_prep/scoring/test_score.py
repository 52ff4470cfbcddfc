"""Test that scores equal sacreBLEU's and the package's, of systems and of languages."""

import json

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from data_prep.scoring import comet, hypotheses, score, score_languages
from data_prep.scoring.metrics import text_statistics
from fairseq_plugins.scoring.meteor import Meteor
from fairseq_plugins.scoring.rouge import Rouge
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused, read_lines, read_tree

SENTENCES = [
    "the cat sat on the mat today",
    "a dog runs in the old park",
    "two birds sing at dawn here",
]
REFERENCE = [*SENTENCES, "it rains a lot"] * 5
BETTER = [line.replace("old ", "") for line in REFERENCE]
# todays matches today by stem only
WORSE = ["the cat on mat todays", "dog is running in a park now", "birds sang", "rain"] * 5


def test_all_metrics_are_those_of_sacrebleu_and_of_the_package():
    systems = [score.System("better", BETTER), score.System("worse", WORSE)]
    names = ("bleu", "chrf", "ter", "rouge", "meteor_exact", "meteor_stem")
    scores = score.score_systems(systems, REFERENCE, samples=100, metrics=names)
    metrics = {
        "bleu": BLEU(),
        "chrf": CHRF(),
        "ter": TER(),
        "rouge_1": Rouge("1"),
        "rouge_2": Rouge("2"),
        "rouge_l": Rouge("L"),
        "meteor_exact": Meteor(),
        "meteor_stem": Meteor(prefix=5),
    }
    for row, text in zip(scores["systems"], (BETTER, WORSE)):
        for name, metric in metrics.items():
            assert row[name] == pytest.approx(metric.corpus_score(text, [REFERENCE]).score)
            assert scores["signatures"][name] == str(metric.get_signature())
    worse = scores["systems"][1]
    assert set(worse["p_values"]) == set(metrics)
    assert all(value < 0.05 for value in worse["p_values"].values())
    assert worse["p_value"] == worse["p_values"]["bleu"]
    assert worse["meteor_stem"] > worse["meteor_exact"]
    bleu = BLEU().corpus_score(WORSE, [REFERENCE])
    assert worse["length_ratio"] == pytest.approx(bleu.sys_len / bleu.ref_len)


GERMAN = ["Zwei Hunde laufen durch den Park.", "Wie heißt die Frau am Fenster?", "Es regnet."]
ENGLISH = ["Two dogs run through the park.", "What is the name of the woman?", "It is raining."]


def test_share_of_lines_in_the_right_language():
    """Count lines without letters for no language, whatever the references are."""
    right = score.System("right", GERMAN * 4)
    half = score.System("half", [*GERMAN * 2, *ENGLISH, "", "1 2", "..."])
    options = {"samples": 200, "metrics": ["chrf"], "languages": ["de", "en"]}
    scores = score.score_systems([right, half], ENGLISH * 4, **options)
    assert [row["language"] for row in scores["systems"]] == [100.0, 50.0]
    assert scores["systems"][1]["p_values"]["language"] < 0.05
    assert "languages:de+en|version:py3langid-" in scores["signatures"]["language"]
    assert "| 50.0 (p " in score.format_table(scores)
    wrong = score.score_systems([right], ENGLISH * 4, languages=["en", "de"])
    assert wrong["systems"][0]["language"] == 0.0
    for languages, words in (
        (["de"], "--languages de: valid: two"),
        (["de", "xx"], ["--languages de,xx: ", "valid: ISO"]),
    ):
        assert_refused(words, score.score_systems, [right], GERMAN * 4, languages=languages)


def test_repetition_counts_neighbours_and_4grams():
    statistics = text_statistics(["a a b b b c", "a", "", "b c"], str)
    assert statistics == (9, pytest.approx(3 / 9), 0.0)
    # 3 of the 7 4-grams came before; none crosses a line
    statistics = text_statistics(["a b c d a b c d a b", "x y z"], str)
    assert statistics[1:] == (0, pytest.approx(3 / 7))
    assert text_statistics([""], str) == (0, 0.0, 0.0)


@pytest.fixture
def arguments(tmp_path):
    paths = {"A": write(tmp_path / "a", *BETTER), "B/10 x": write(tmp_path / "b", *WORSE)}
    systems = [word for name, path in paths.items() for word in ("--system", f"{name}={path}")]
    return ["--reference", str(write(tmp_path / "ref", *REFERENCE)), *systems]


def test_bad_options_and_texts_are_refused(arguments, tmp_path):
    short, out = str(write(tmp_path / "short", *["x"] * 19)), str(tmp_path / "out")
    for options, message in (
        (["--metrics", "bleu,bert"], "--metrics bleu,bert: bert"),
        (["--tokenize", "mecab"], "--tokenize mecab: valid: "),
        (["--languages", ","], "--languages ,: valid: two codes"),
        (["--languages", "de,"], "--languages de,: "),
        (["--samples", "0"], "--samples 0: valid: 1 or more"),
        (["--comet-files", out], "out: needs --source"),
        (["--source", short, "--comet-files", out], "--reference has 20, --source has 19"),
        (["--system", f"short={short}"], "short has 19"),
    ):
        assert_refused(message, score.main, [*arguments, *options])
    texts = ["a", "b"], {"A": ["x", "y\rz"]}, ["a", "b"]
    message = "line 2 of A.txt holds U+000D"
    assert_refused(message, comet.write_comet_files, tmp_path / "out", *texts)
    for names in (["a/b", "a:b"], ["Source"], ["reference"]):
        assert_refused("rename", comet.file_names, names)
    assert not (tmp_path / "out").exists()


def test_the_command_writes_json_and_the_files_of_comet(arguments, tmp_path):
    source = write(tmp_path / "src", *(f"Quelle {number}" for number in range(20)))
    out, folder = tmp_path / "out.json", tmp_path / "for comet"
    options = f"--samples 20 --metrics chrf --source {source} --json {out}".split()
    score.main([*arguments, *options, "--comet-files", str(folder)])
    better, worse = json.loads(out.read_text(encoding="utf-8"))["systems"]
    assert (better["name"], worse["name"]) == ("A", "B/10 x")
    assert worse["p_value"] is None and worse["p_values"]["chrf"] < 0.1
    paths = {"source": source, "reference": tmp_path / "ref"}
    paths.update({"A": tmp_path / "a", "B_10_x": tmp_path / "b"})
    assert read_tree(folder) == {f"{name}.txt": path.read_bytes() for name, path in paths.items()}


def test_the_best_of_several_references_counts():
    first = ["a small cat sits here", "the dog runs fast now", "one two three four five"]
    second = ["a little cat is here", "", "five four three two one"]
    mixed = [second[0], first[1], second[2]]
    systems = [score.System("mixed", mixed), score.System("first", first)]
    options = {"samples": 20, "metrics": ("bleu", "chrf", "rouge", "meteor_exact")}
    scores = score.score_systems(systems, first, more_references=[second], **options)
    for row in scores["systems"]:
        assert [row[name] for name in ("bleu", "chrf", "rouge_l")] == pytest.approx([100.0] * 3)
    assert scores["signatures"]["bleu"].startswith("nrefs:var|")
    single = score.score_systems(systems[:1], first, **options)["systems"][0]
    assert single["bleu"] < 70 and single["rouge_2"] < 70
    more = {"more_references": [second[:2]]}
    assert_refused("--reference number 2 has 2", score.score_systems, systems, first, **more)


OUTPUTS = {
    "vi": ["the cat sat on a mat", "dogs run", "two birds sing at dawn"],
    "de": SENTENCES,
    "fr": ["the cat sat on the mat", "a dog runs in the park", "birds sing at dawn here"],
}


@pytest.fixture
def systems(tmp_path):
    """Return the option --system of every language."""
    paths = {name: write(tmp_path / name, *lines) for name, lines in OUTPUTS.items()}
    return [word for name, path in paths.items() for word in ("--system", f"{name}={path}")]


def test_scores_of_languages_are_sacrebleus_with_trained_ones_first(systems, tmp_path):
    reference, out = write(tmp_path / "ref", *SENTENCES), tmp_path / "scores.json"
    options = f"--reference {reference} --trained de,fr --json {out}".split()
    score_languages.main([*systems, *options])
    scores = json.loads(out.read_text(encoding="utf-8"))
    rows = {row["language"]: row for row in scores["languages"]}
    assert list(rows) == ["de", "fr", "vi"]
    for name, row in rows.items():
        for metric, stock in (("bleu", BLEU()), ("chrf", CHRF())):
            expected = stock.corpus_score(OUTPUTS[name], [SENTENCES]).score
            assert row[metric] == pytest.approx(expected)
        assert (row["trained"], row["sentences"]) == (name != "vi", 3)
    mean = (rows["de"]["bleu"] + rows["fr"]["bleu"]) / 2
    assert scores["means"]["trained"]["bleu"] == pytest.approx(mean)
    assert scores["means"]["zero-shot"]["bleu"] == rows["vi"]["bleu"]


def test_references_that_do_not_fit_are_refused(systems, tmp_path):
    short, reference = write(tmp_path / "short", *SENTENCES[:2]), write(tmp_path / "r", *SENTENCES)
    for references, message in (
        ([short], "unequal line counts: --reference has 2, vi has 3"),
        ([f"de={reference}"], "--system vi: no reference"),
        ([reference, f"ru={reference}"], "--reference ru=FILE: no --system"),
    ):
        options = [word for value in references for word in ("--reference", str(value))]
        assert_refused(message, score_languages.main, [*systems, *options])


def write_log(path, numbers):
    outputs = [f"D-{number}\t-0.5\tsentence  {number}" for number in numbers]
    end = "Generate train with beam=5: BLEU4 = 1"
    return str(write(path, "S-0\tx", "H-0\t-1\tzzz", *outputs, end))


def test_outputs_of_shards_have_the_order_of_the_set(tmp_path):
    shards = [write_log(tmp_path / "0", [4, 0, 2]), write_log(tmp_path / "1", [1, 3])]
    five, seven = (write(tmp_path / f"text{count}", *["x"] * count) for count in (5, 7))
    out = tmp_path / "out"
    command = ["--input", *shards, "--output", str(out), "--lines-of"]
    assert_refused("text7 has 7, --input has 5", hypotheses.main, [*command, str(seven)])
    assert not out.exists()
    hypotheses.main([*command, str(five)])
    assert read_lines(out) == [f"sentence  {number}" for number in range(5)]
    assert_refused("sentence 1 is missing", hypotheses.read_shards, shards[:1])
    assert_refused("sentence 4 twice", hypotheses.read_shards, [*shards, shards[0]])
