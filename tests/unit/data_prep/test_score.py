"""Scores equal sacreBLEU's own command and the package's metrics; repetition, files for COMET, refused input."""

import json
import shlex
import subprocess
import sys

import pytest

from data_prep import score, score_comet
from data_prep.score_text import text_statistics
from tests.nlu_bins import write
from tests.unit.data_prep.files import refused, tree

REFERENCE = (
    "the cat sat on the mat today|a dog runs in the old park|two birds sing at dawn here|it rains a lot".split("|") * 5
)
BETTER = [line.replace("old ", "") for line in REFERENCE]
WORSE = ["the cat on mat", "dog is running in a park now", "birds sang", "rain"] * 5


def test_scores_equal_the_sacrebleu_command(tmp_path):
    reference, better = write(tmp_path / "ref", *REFERENCE), write(tmp_path / "better", *BETTER)
    command = [sys.executable, "-m", "sacrebleu", str(reference), "-i", str(better), "-m", "bleu", "chrf", "-w", "4"]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result = score.score_systems(score.read_systems([f"better={better}"]), REFERENCE)
    row = result["systems"][0]
    assert [row["bleu"], row["chrf"]] == pytest.approx([each["score"] for each in printed], abs=1e-4)
    assert result["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert row["p_value"] is None and list(result["signatures"]) == ["bleu", "chrf"]


def test_all_metrics_are_those_of_sacrebleu_and_of_the_package():
    from sacrebleu.metrics import BLEU, TER

    from fairseq_plugins.scoring.meteor import Meteor
    from fairseq_plugins.scoring.rouge import Rouge

    metrics = ("bleu", "chrf", "ter", "rouge", "meteor_exact", "meteor_stem")
    worst = [line.replace("on mat", "on mat todays") for line in WORSE]  # todays ~ today, by stem only
    systems = [score.System("better", BETTER), score.System("worse", worst)]
    result = score.score_systems(systems, REFERENCE, samples=100, metrics=metrics)
    own = {"ter": TER(), "rouge_1": Rouge("1"), "rouge_2": Rouge("2"), "rouge_l": Rouge("L")}
    own.update({"meteor_exact": Meteor(), "meteor_stem": Meteor(prefix=5)})
    for row, lines in zip(result["systems"], (BETTER, worst)):
        for key, metric in own.items():
            assert row[key] == pytest.approx(metric.corpus_score(lines, [REFERENCE]).score)
            assert result["signatures"][key] == str(metric.get_signature())
    worse = result["systems"][1]
    assert set(worse["p_values"]) == {"bleu", "chrf", *own}
    assert all(value < 0.05 for value in worse["p_values"].values())
    assert worse["p_value"] == worse["p_values"]["bleu"]
    assert worse["meteor_stem"] > worse["meteor_exact"]
    bleu = BLEU().corpus_score(worst, [REFERENCE])
    assert worse["length_ratio"] == pytest.approx(bleu.sys_len / bleu.ref_len)
    lines = score.table(result).splitlines()
    assert len({line.count("|") for line in lines[:5]}) == 1 and lines[4].startswith("| *reference* |")
    assert "TER: nrefs:1|case:lc|tok:tercom" in "\n".join(lines)


def test_repetition_counts_neighbours_and_4grams():
    found = text_statistics(["a a b b b c", "a", "", "b c"], str)
    assert found.tokens == 9 and found.repetition == pytest.approx(3 / 9) and found.repeated_4grams == 0
    found = text_statistics(["a b c d a b c d a b", "x y z"], str)  # 7 4-grams, 3 of them seen before; not across lines
    assert found.repetition == 0 and found.repeated_4grams == pytest.approx(3 / 7)
    assert text_statistics([""], str) == (0, 0.0, 0.0)


@pytest.fixture
def files(tmp_path):
    """The options that name a reference and two systems."""
    systems = [f"A={write(tmp_path / 'a', *BETTER)}", f"B/10 x={write(tmp_path / 'b', *WORSE)}"]
    reference = ["--reference", str(write(tmp_path / "ref", *REFERENCE))]
    return [*reference, *(word for system in systems for word in ("--system", system))]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--metrics", "bleu,bert"], "--metrics bleu,bert: bert is unknown; valid: bleu, chrf, ter, rouge"),
        (["--metrics", "bleu,bleu"], "each name once"),
        (["--metrics", ""], "an empty name is unknown"),
        (["--tokenize", "mecab"], "--tokenize mecab: valid: "),
        (["--samples", "0"], "--samples 0: valid: 1 or more"),
        (["--seed", "-1"], "--seed -1: valid: 0 or more"),
        (["--comet-files", "{out}"], "out: needs --source"),
        (["--source", "src"], "--source src: only --comet-files DIR uses it"),
        (["--source", "{short}", "--comet-files", "{out}"], "--reference has 20, --source has 19; line 20"),
        (["--system", "short={short}"], "short has 19; line 20 has no counterpart"),
    ],
)
def test_what_is_refused(files, tmp_path, options, words):
    names = {"short": write(tmp_path / "short", *["x"] * 19), "out": tmp_path / "out"}
    refused(words, score.main, [*files, *(option.format(**names) for option in options)])
    assert not (tmp_path / "out").exists()


def test_what_would_shift_comets_lines_is_refused(tmp_path):
    words, texts = "line 2 of A.txt holds U+000D", (["a", "b"], {"A": ["x", "y\rz"]}, ["a", "b"])
    refused(words, score_comet.write_comet_files, tmp_path / "out", *texts)
    for names in (["a/b", "a:b"], ["Source"], ["reference"]):
        refused("rename it", score_comet.file_names, names)
    assert not (tmp_path / "out").exists()


def test_the_command_writes_json_and_the_files_of_comet(files, tmp_path, capsys):
    source = write(tmp_path / "src", *(f"Quelle {number}" for number in range(20)))
    folder = tmp_path / "for comet"
    options = ["--samples", "20", "--json", str(tmp_path / "out.json"), "--metrics", "chrf", "--source", str(source)]
    score.main([*files, *options, "--comet-files", str(folder)])
    printed = capsys.readouterr().out.splitlines()
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in result["systems"]] == ["A", "B/10 x"]
    assert result["systems"][1]["p_value"] is None and result["systems"][1]["p_values"]["chrf"] < 0.1
    places = {"source": source, "reference": tmp_path / "ref", "A": tmp_path / "a", "B_10_x": tmp_path / "b"}
    assert tree(folder) == {f"{name}.txt": path.read_bytes() for name, path in places.items()}
    texts = [f"{folder}/{name}.txt" for name in ("source", "A", "B_10_x", "reference")]
    inputs = ["-s", texts[0], "-t", *texts[1:3], "-r", texts[3], "--model", "Unbabel/wmt22-comet-da"]
    assert shlex.split(printed[-2]) == ["comet-score", *inputs, "--quiet", "--only_system"]
    assert shlex.split(printed[-1]) == ["comet-compare", *inputs]


def test_the_command_scores_as_its_options_say(files, tmp_path):
    """Each option changes what is written: compared with the function, which other tests compare with sacreBLEU."""
    second = [line.replace("the", "a") for line in REFERENCE]
    plain = {"samples": 40, "seed": 3, "metrics": ("bleu",), "tokenize": "char", "more_references": [second]}
    line = [*files[:2], str(write(tmp_path / "second", *second)), *files[2:], "--json", str(tmp_path / "j")]
    score.main([*line, *"--metrics bleu --samples 40 --seed 3 --tokenize char".split()])
    systems = score.read_systems([files[3], files[5]])
    expected = score.score_systems(systems, REFERENCE, **plain)
    assert json.loads((tmp_path / "j").read_text(encoding="utf-8")) == expected
    for name, value in (("samples", 41), ("seed", 4), ("tokenize", "13a"), ("more_references", ())):
        assert score.score_systems(systems, REFERENCE, **{**plain, name: value}) != expected, name


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
    refused("--reference number 2 has 2", score.score_systems, systems, first, more_references=[second[:2]])
