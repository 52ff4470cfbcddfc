"""Scores equal sacreBLEU's and the package's metrics, of systems and of languages; files for COMET, logs in parts."""

import json

import pytest
from sacrebleu.metrics import BLEU, CHRF

from data_prep.scoring import comet as score_comet
from data_prep.scoring import hypotheses, score, score_languages
from data_prep.scoring.metrics import text_statistics
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused, read_lines, read_tree

REFERENCES = ["the cat sat on the mat today", "a dog runs in the old park", "two birds sing at dawn here"]
REFERENCE = [*REFERENCES, "it rains a lot"] * 5
BETTER = [line.replace("old ", "") for line in REFERENCE]
WORSE = ["the cat on mat", "dog is running in a park now", "birds sang", "rain"] * 5


def test_all_metrics_are_those_of_sacrebleu_and_of_the_package():
    from sacrebleu.metrics import TER

    from fairseq_plugins.scoring.meteor import Meteor
    from fairseq_plugins.scoring.rouge import Rouge

    metrics = ("bleu", "chrf", "ter", "rouge", "meteor_exact", "meteor_stem")
    worst = [line.replace("on mat", "on mat todays") for line in WORSE]  # todays ~ today, by stem only
    systems = [score.System("better", BETTER), score.System("worse", worst)]
    result = score.score_systems(systems, REFERENCE, samples=100, metrics=metrics)
    own = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER(), **{f"rouge_{name.lower()}": Rouge(name) for name in "12L"}}
    own.update({"meteor_exact": Meteor(), "meteor_stem": Meteor(prefix=5)})
    for row, text in zip(result["systems"], (BETTER, worst)):
        for key, metric in own.items():
            assert row[key] == pytest.approx(metric.corpus_score(text, [REFERENCE]).score)
            assert result["signatures"][key] == str(metric.get_signature())
    worse = result["systems"][1]
    assert set(worse["p_values"]) == set(own)
    assert all(value < 0.05 for value in worse["p_values"].values())
    assert worse["p_value"] == worse["p_values"]["bleu"]
    assert worse["meteor_stem"] > worse["meteor_exact"]
    bleu = BLEU().corpus_score(worst, [REFERENCE])
    assert worse["length_ratio"] == pytest.approx(bleu.sys_len / bleu.ref_len)


GERMAN = ["Zwei Hunde laufen durch den Park.", "Wie heißt die Frau am Fenster?", "Es regnet."]
ENGLISH = ["Two dogs are running through the park.", "What is the name of the woman?", "It is raining."]


def test_the_share_of_lines_in_the_right_language_and_its_bootstrap():
    """Lines without letters are in no language; the references do not matter."""
    right, half = score.System("right", GERMAN * 4), score.System("half", [*GERMAN * 2, *ENGLISH, "", "1 2", "..."])
    result = score.score_systems([right, half], ENGLISH * 4, samples=200, metrics=["chrf"], languages=["de", "en"])
    assert [row["language"] for row in result["systems"]] == [100.0, 50.0]
    assert result["systems"][1]["p_values"]["language"] < 0.05
    assert "languages:de+en|version:py3langid-" in result["signatures"]["language"]
    assert "| 50.0 (p " in score.format_table(result) and "% in the language" in score.format_table(result)
    alone = score.score_systems([right], ENGLISH * 4, languages=["en", "de"])["systems"][0]
    assert alone["language"] == 0.0
    for languages, words in (
        (["de"], "--languages de: valid: two"),
        (["de", "xx"], ["--languages de,xx: ", "valid: ISO"]),
    ):
        assert_refused(words, score.score_systems, [right], GERMAN * 4, languages=languages)


def test_repetition_counts_neighbours_and_4grams():
    found = text_statistics(["a a b b b c", "a", "", "b c"], str)
    assert found.tokens == 9 and found.repetition == pytest.approx(3 / 9) and found.repeated_4grams == 0
    found = text_statistics(["a b c d a b c d a b", "x y z"], str)  # 7 4-grams, 3 of them seen before; not across lines
    assert found.repetition == 0 and found.repeated_4grams == pytest.approx(3 / 7)
    assert text_statistics([""], str) == (0, 0.0, 0.0)


@pytest.fixture
def files(tmp_path):
    systems = [f"A={write(tmp_path / 'a', *BETTER)}", f"B/10 x={write(tmp_path / 'b', *WORSE)}"]
    reference = ["--reference", str(write(tmp_path / "ref", *REFERENCE))]
    return [*reference, *(word for system in systems for word in ("--system", system))]


def test_what_is_refused(files, tmp_path):
    short, out = str(write(tmp_path / "short", *["x"] * 19)), str(tmp_path / "out")
    for options, words in (
        (["--metrics", "bleu,bert"], "--metrics bleu,bert: bert is unknown; valid: bleu, chrf, ter, rouge"),
        (["--tokenize", "mecab"], "--tokenize mecab: valid: "),
        (["--languages", ","], "--languages ,: valid: two codes"),
        (["--languages", "de,"], "--languages de,: "),
        (["--samples", "0"], "--samples 0: valid: 1 or more"),
        (["--comet-files", out], "out: needs --source"),
        (["--source", short, "--comet-files", out], "--reference has 20, --source has 19; line 20"),
        (["--system", f"short={short}"], "short has 19; line 20 has no counterpart"),
    ):
        assert_refused(words, score.main, [*files, *options])
    words, texts = "line 2 of A.txt holds U+000D", (["a", "b"], {"A": ["x", "y\rz"]}, ["a", "b"])
    assert_refused(words, score_comet.write_comet_files, tmp_path / "out", *texts)
    for names in (["a/b", "a:b"], ["Source"], ["reference"]):
        assert_refused("rename it", score_comet.file_names, names)
    assert not (tmp_path / "out").exists()


def test_the_command_writes_json_and_the_files_of_comet(files, tmp_path):
    source = write(tmp_path / "src", *(f"Quelle {number}" for number in range(20)))
    folder = tmp_path / "for comet"
    options = ["--samples", "20", "--json", str(tmp_path / "out.json"), "--metrics", "chrf", "--source", str(source)]
    score.main([*files, *options, "--comet-files", str(folder)])
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in result["systems"]] == ["A", "B/10 x"]
    assert result["systems"][1]["p_value"] is None and result["systems"][1]["p_values"]["chrf"] < 0.1
    places = {"source": source, "reference": tmp_path / "ref", "A": tmp_path / "a", "B_10_x": tmp_path / "b"}
    assert read_tree(folder) == {f"{name}.txt": path.read_bytes() for name, path in places.items()}


def test_several_references():
    first = ["a small cat sits here", "the dog runs fast now", "one two three four five"]
    second = ["a little cat is here", "", "five four three two one"]
    systems = [score.System("second", [second[0], first[1], second[2]]), score.System("first", first)]
    metrics = ("bleu", "chrf", "rouge", "meteor_exact")
    found = score.score_systems(systems, first, samples=20, metrics=metrics, more_references=[second])
    for row in found["systems"]:
        assert [row[key] for key in ("bleu", "chrf", "rouge_l")] == pytest.approx([100.0] * 3)
    assert found["signatures"]["bleu"].startswith("nrefs:var|")
    alone = score.score_systems(systems[:1], first, metrics=metrics)["systems"][0]
    assert alone["bleu"] < 70 and alone["rouge_2"] < 70
    assert_refused("--reference number 2 has 2", score.score_systems, systems, first, more_references=[second[:2]])


OUTPUTS = {"vi": ["the cat sat on a mat", "dogs run", "two birds sing at dawn"], "de": REFERENCES}
OUTPUTS["fr"] = ["the cat sat on the mat", "a dog runs in the park", "birds sing at dawn here"]


@pytest.fixture
def by_language(tmp_path):
    return {name: str(write(tmp_path / name, *text)) for name, text in {**OUTPUTS, "ref": REFERENCES}.items()}


def systems(by_language):
    return [word for name in OUTPUTS for word in ("--system", f"{name}={by_language[name]}")]


def test_scores_are_sacrebleus_and_trained_languages_stand_first(by_language, tmp_path):
    line = f"--reference {by_language['ref']} --trained de,fr --json {tmp_path / 'scores.json'}".split()

    def scored(*more):
        score_languages.main([*systems(by_language), *line, *more])
        return json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))

    found = scored()
    rows = {row["language"]: row for row in found["languages"]}
    assert list(rows) == ["de", "fr", "vi"]
    for name, row in rows.items():
        assert row["bleu"] == pytest.approx(BLEU().corpus_score(OUTPUTS[name], [REFERENCES]).score)
        assert row["chrf"] == pytest.approx(CHRF().corpus_score(OUTPUTS[name], [REFERENCES]).score)
        assert (row["trained"], row["sentences"]) == (name != "vi", 3)
    assert found["means"]["trained"]["bleu"] == pytest.approx((rows["de"]["bleu"] + rows["fr"]["bleu"]) / 2)
    assert found["means"]["zero-shot"]["bleu"] == rows["vi"]["bleu"]


def test_references_that_do_not_fit_are_refused(by_language, tmp_path):
    short, ref = write(tmp_path / "short", *REFERENCES[:2]), by_language["ref"]
    for references, message in (
        ([short], "unequal line counts: --reference has 2, vi has 3"),
        ([f"de={ref}"], "--system vi: no reference; valid: --reference FILE or --reference vi=FILE"),
        ([ref, f"ru={ref}"], "--reference ru=FILE: no --system of that language"),
    ):
        words = [word for option in references for word in ("--reference", str(option))]
        assert_refused(message, score_languages.main, [*systems(by_language), *words])


def log(path, numbers):
    text = [f"D-{number}\t-0.5\tsentence  {number}" for number in numbers]
    return str(write(path, "S-0\tx", "H-0\t-1\tzzz", *text, "Generate train with beam=5: BLEU4 = 1"))


def test_parts_are_put_in_the_order_of_the_set(tmp_path):
    parts = [log(tmp_path / "0", [4, 0, 2]), log(tmp_path / "1", [1, 3])]
    text = [str(write(tmp_path / f"text{count}", *["line"] * count)) for count in (5, 7)]
    command = ["--input", *parts, "--output", str(tmp_path / "out"), "--lines-of"]
    assert_refused(["text7 has 7, --input has 5"], hypotheses.main, [*command, text[1]])
    assert not (tmp_path / "out").exists()
    hypotheses.main([*command, text[0]])
    assert read_lines(tmp_path / "out") == [f"sentence  {number}" for number in range(5)]
    assert_refused("sentence 1 is missing, 4 is there; ", hypotheses.read_shards, parts[:1])
    assert_refused("sentence 4 twice", hypotheses.read_shards, [*parts, parts[0]])
