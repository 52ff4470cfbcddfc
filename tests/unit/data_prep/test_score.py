"""Scores equal sacreBLEU's own command and the package's metrics; repetition, files for COMET, refused input; hypotheses
come out of generate logs in order, and damaged logs are refused."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from data_prep import hypotheses, score, score_comet
from data_prep.io import InputError
from data_prep.score_text import text_statistics

REFERENCE = [
    "the cat sat on the mat today",
    "a dog runs in the old park",
    "two birds sing at dawn here",
    "it rains a lot",
]
REFERENCE *= 5
BETTER = ["the cat sat on the mat today", "a dog runs in the park", "two birds sing at dawn here", "it rains a lot"] * 5
WORSE = ["the cat on mat", "dog is running in a park now", "birds sang", "rain"] * 5


def write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_scores_equal_the_sacrebleu_command(tmp_path):
    reference, better = write(tmp_path / "ref", REFERENCE), write(tmp_path / "better", BETTER)
    command = [sys.executable, "-m", "sacrebleu", str(reference), "-i", str(better), "-m", "bleu", "chrf", "-w", "4"]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result = score.score_systems(score.read_systems([f"better={better}"]), REFERENCE)
    row = result["systems"][0]
    assert [row["bleu"], row["chrf"]] == pytest.approx([each["score"] for each in printed], abs=1e-4)
    assert result["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert row["p_value"] is None
    assert list(result["signatures"]) == ["bleu", "chrf"]


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
    alone = score.score_systems(systems[1:], REFERENCE, metrics=metrics)["systems"][0]
    assert {key: alone[key] for key in own} == pytest.approx({key: worse[key] for key in own})
    assert alone["p_values"] == dict.fromkeys(worse["p_values"])


def test_the_table_shows_every_metric_its_signature_and_the_reference():
    systems = [score.System("one", BETTER), score.System("two", WORSE)]
    text = score.table(score.score_systems(systems, REFERENCE, samples=50, metrics=("rouge", "ter")))
    lines = text.splitlines()
    assert lines[0] == (
        "| system | ROUGE-1 | ROUGE-2 | ROUGE-L | TER | length ratio | repeated tokens | repeated 4-grams |"
    )
    assert len({line.count("|") for line in lines[:5]}) == 1
    assert lines[3].startswith("| two | ") and lines[3].count("(p 0.0") == 4
    assert lines[4].startswith("| *reference* |  |  |  |  | 1.000 | 0.00 % |")
    assert "TER: nrefs:1|case:lc|tok:tercom" in text
    assert "ROUGE-L: nrefs:1|case:lc|tok:words-auto|stem:none|agg:mean" in text
    assert lines[-1] == "p: paired bootstrap against one, 50 samples, seed 12345"


def test_repetition_counts_neighbours_and_4grams():
    found = text_statistics(["a a b b b c", "a", "", "b c"], str)
    assert found.tokens == 9 and found.repetition == pytest.approx(3 / 9) and found.repeated_4grams == 0
    found = text_statistics(["a b c d a b c d a b", "x y z"], str)  # 7 4-grams, 3 of them seen before; not across lines
    assert found.repetition == 0 and found.repeated_4grams == pytest.approx(3 / 7)
    assert text_statistics([""], str) == (0, 0.0, 0.0)


def test_different_line_counts_are_refused():
    with pytest.raises(InputError, match="--reference has 20, short has 19; line 20 has no counterpart"):
        score.score_systems([score.System("short", BETTER[:-1])], REFERENCE)
    with pytest.raises(InputError, match="whole has 20, short has 19"):
        score.score_systems([score.System("whole", BETTER), score.System("short", BETTER[:-1])], REFERENCE)


@pytest.fixture
def files(tmp_path):
    """The options that name a reference and two systems."""
    reference = write(tmp_path / "ref", REFERENCE)
    systems = [f"A={write(tmp_path / 'a', BETTER)}", f"B/10 x={write(tmp_path / 'b', WORSE)}"]
    return ["--reference", str(reference), *(word for system in systems for word in ("--system", system))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metrics", "bleu,bert"], "--metrics bleu,bert: bert is unknown; valid: bleu, chrf, ter, rouge"),
        (["--metrics", "bleu,bleu"], "each name once"),
        (["--metrics", ""], "an empty name is unknown"),
        (["--tokenize", "mecab"], "--tokenize mecab: valid: .*zh"),
        (["--samples", "0"], "--samples 0: valid: 1 or more"),
        (["--seed", "-1"], "--seed -1: valid: 0 or more"),
        (["--comet-files", "out"], "--comet-files out: needs --source"),
        (["--source", "src"], "--source src: only --comet-files DIR uses it"),
    ],
)
def test_bad_options_are_refused(files, options, message):
    with pytest.raises(InputError, match=message):
        score.main([*files, *options])


def test_the_command_writes_json_and_the_files_of_comet(files, tmp_path, capsys):
    source = write(tmp_path / "src", [f"Quelle {number}" for number in range(20)])
    folder = tmp_path / "for comet"
    options = ["--samples", "20", "--json", str(tmp_path / "out.json"), "--metrics", "chrf", "--source", str(source)]
    score.main([*files, *options, "--comet-files", str(folder)])
    printed = capsys.readouterr().out.splitlines()
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in result["systems"]] == ["A", "B/10 x"]
    assert set(result) == {"systems", "reference", "signatures", "bootstrap"}
    assert result["systems"][1]["p_value"] is None and result["systems"][1]["p_values"]["chrf"] < 0.1

    expected = {"source.txt": source, "reference.txt": tmp_path / "ref", "A.txt": tmp_path / "a"}
    expected["B_10_x.txt"] = tmp_path / "b"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        name: path.read_bytes() for name, path in expected.items()
    }
    texts = [f"{folder}/{name}.txt" for name in ("source", "A", "B_10_x", "reference")]
    inputs = ["-s", texts[0], "-t", *texts[1:3], "-r", texts[3]]
    model = ["--model", "Unbabel/wmt22-comet-da"]
    assert shlex.split(printed[-2]) == ["comet-score", *inputs, *model, "--quiet", "--only_system"]
    assert shlex.split(printed[-1]) == ["comet-compare", *inputs, *model]


def test_the_command_scores_as_its_options_say(files, tmp_path, capsys):
    """Each option changes what is written: compared with the function, which other tests compare with sacreBLEU."""
    second = write(tmp_path / "second", [line.replace("the", "a") for line in REFERENCE])
    systems = score.read_systems([files[3], files[5]])

    def written(*options):
        score.main(
            [*files[:2], *options[:1], *files[2:], *options[1:], "--metrics", "bleu", "--json", str(tmp_path / "j")]
        )
        return json.loads((tmp_path / "j").read_text(encoding="utf-8"))

    second_lines = second.read_text(encoding="utf-8").splitlines()
    plain = {"samples": 40, "seed": 3, "metrics": ("bleu",), "tokenize": "char", "more_references": [second_lines]}
    options = [str(second), "--samples", "40", "--seed", "3", "--tokenize", "char"]
    expected = score.score_systems(systems, REFERENCE, **plain)
    assert written(*options) == expected
    for name, value in (("samples", 41), ("seed", 4), ("tokenize", "13a"), ("more_references", ())):
        assert score.score_systems(systems, REFERENCE, **{**plain, name: value}) != expected, name


def test_what_would_shift_comets_lines_is_refused(files, tmp_path):
    short = write(tmp_path / "short", ["x"] * 19)
    with pytest.raises(InputError, match="--source: unequal line counts: --reference has 20, --source has 19"):
        score.main([*files, "--source", str(short), "--comet-files", str(tmp_path / "out")])
    with pytest.raises(InputError, match=r"line 2 of A.txt holds U\+000D"):
        score_comet.write_comet_files(tmp_path / "out", ["a", "b"], {"A": ["x", "y\rz"]}, ["a", "b"])
    for names in (["a/b", "a:b"], ["Source"], ["reference"]):
        with pytest.raises(InputError, match="rename it"):
            score_comet.file_names(names)
    assert not (tmp_path / "out").exists()


def test_the_seed_leaves_the_environment_as_it_was(monkeypatch):
    systems = [score.System("a", BETTER), score.System("b", WORSE)]
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    score.score_systems(systems, REFERENCE, samples=10)
    assert os.environ["SACREBLEU_SEED"] == "7"
    monkeypatch.delenv("SACREBLEU_SEED")
    score.score_systems(systems, REFERENCE, samples=10)
    assert "SACREBLEU_SEED" not in os.environ


def test_hypotheses_are_sorted_by_sentence(tmp_path):
    log = write(
        tmp_path / "log", ["S-1\tx", "D-1\t-0.5\tsecond  one", "H-0\t-1\tzzz", "D-0\t-0.1\tfirst", "D-2\t-0.1\t"]
    )
    assert hypotheses.read_hypotheses(log) == ["first", "second  one", ""]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["H-0\t-1\tx"], "no line D-<number>"),
        (["D-0\t-1\tx", "D-2\t-1\ty"], "sentence 1 is missing"),
        (["D-0\t-1\tx", "D-0\t-1\ty"], "sentence 0 twice"),
    ],
)
def test_damaged_logs_are_refused(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        hypotheses.read_hypotheses(write(tmp_path / "log", lines))


def test_several_references():
    first = ["a small cat sits here", "the dog runs fast now", "one two three four five"]
    second = ["a little cat is here", "", "five four three two one"]
    outputs = [score.System("second", ["a little cat is here", "the dog runs fast now", "five four three two one"])]
    systems = [*outputs, score.System("first", list(first))]
    metrics = ("bleu", "chrf", "rouge", "meteor_exact")
    for found in (outputs, systems):
        rows = score.score_systems(found, first, samples=20, metrics=metrics, more_references=[second])["systems"]
        assert all(row[key] == pytest.approx(100.0) for row in rows for key in ("bleu", "chrf", "rouge_l")), rows
    alone = score.score_systems(outputs, first, metrics=metrics)["systems"][0]
    assert alone["bleu"] < 70 and alone["rouge_2"] < 70
    result = score.score_systems(outputs, first, metrics=metrics, more_references=[second])
    assert result["signatures"]["bleu"].startswith("nrefs:var|")
    with pytest.raises(InputError, match="--reference number 2 has 2"):
        score.score_systems(outputs, first, more_references=[second[:2]])
