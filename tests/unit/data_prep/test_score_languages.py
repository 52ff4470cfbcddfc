"""The report language by language equals sacreBLEU; logs in parts; what is refused."""

import json
from pathlib import Path
from typing import Any, Dict

import pytest
from sacrebleu.metrics import BLEU, CHRF

from data_prep import hypotheses, score_languages
from data_prep.io import InputError

REFERENCE = ["the cat sat on the mat today", "a dog runs in the old park", "two birds sing at dawn here"]
OUTPUTS = {
    "vi": ["the cat sat on a mat", "dogs run", "two birds sing at dawn"],
    "de": REFERENCE,
    "fr": ["the cat sat on the mat", "a dog runs in the park", "birds sing at dawn here"],
}


def write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path):
    return {name: write(tmp_path / name, lines) for name, lines in {**OUTPUTS, "ref": REFERENCE}.items()}


def systems(files):
    return [word for name in OUTPUTS for word in ("--system", f"{name}={files[name]}")]


def test_scores_are_sacrebleus_and_trained_languages_stand_first(files, tmp_path, capsys):
    result = str(tmp_path / "scores.json")
    score_languages.main([*systems(files), "--reference", files["ref"], "--trained", "de,fr", "--json", result])
    found: Dict[str, Any] = json.loads(Path(result).read_text(encoding="utf-8"))
    rows = {row["language"]: row for row in found["languages"]}
    assert list(rows) == ["de", "fr", "vi"]
    for name, row in rows.items():
        assert row["bleu"] == pytest.approx(BLEU().corpus_score(OUTPUTS[name], [REFERENCE]).score)
        assert row["chrf"] == pytest.approx(CHRF().corpus_score(OUTPUTS[name], [REFERENCE]).score)
        assert row["trained"] is (name != "vi")
        assert row["sentences"] == 3
    assert found["means"]["trained"]["bleu"] == pytest.approx((rows["de"]["bleu"] + rows["fr"]["bleu"]) / 2)
    assert found["means"]["zero-shot"]["bleu"] == rows["vi"]["bleu"]
    lines = capsys.readouterr().out.split("\n")
    assert lines[2].startswith("| de | trained | 100.0 | 100.0 | 1.000 | 3 |")
    assert lines[4].startswith("| vi | zero-shot |")
    assert any(line.startswith("BLEU: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:") for line in lines)
    assert any(line.startswith("chrF: nrefs:1|") for line in lines)


def test_a_language_may_have_a_reference_of_its_own(files, tmp_path):
    own = write(tmp_path / "own", OUTPUTS["vi"])
    references = score_languages.read_references([files["ref"], f"vi={own}"])
    found = score_languages.score_languages(score_languages.read_systems(systems(files)[1::2]), references, ["de"])
    rows = {row["language"]: row["bleu"] for row in found["languages"]}
    assert rows["vi"] == pytest.approx(100.0)
    assert rows["fr"] < 90


@pytest.mark.parametrize(
    ("references", "message"),
    [
        (["{short}"], "unequal line counts: --reference has 2, vi has 3"),
        (["de={ref}"], "--system vi: no reference; valid: --reference FILE or --reference vi=FILE"),
        (["{ref}", "{ref}"], "a second one for all languages"),
        (["{ref}", "ru={ref}"], "--reference ru=FILE: no --system of that language"),
    ],
)
def test_references_that_do_not_fit_are_refused(files, tmp_path, references, message):
    paths = {"short": write(tmp_path / "short", REFERENCE[:2]), "ref": files["ref"]}
    words = [word for option in references for word in ("--reference", option.format(**paths))]
    with pytest.raises(InputError, match=message):
        score_languages.main([*systems(files), *words])


# ---- Logs of the parts of one set. ----


def log(path, numbers):
    lines = [f"D-{number}\t-0.5\tsentence {number}" for number in numbers]
    return write(path, ["S-0\tx", *lines, "Generate train with beam=5: BLEU4 = 1"])


def test_parts_are_put_in_the_order_of_the_set(tmp_path):
    parts = [log(tmp_path / "0", [4, 0, 2]), log(tmp_path / "1", [1, 3])]
    output = tmp_path / "out"
    text = write(tmp_path / "text", ["line"] * 5)
    hypotheses.main(["--input", *parts, "--output", str(output), "--lines-of", text])
    assert output.read_text(encoding="utf-8") == "".join(f"sentence {number}\n" for number in range(5))


def test_a_set_that_is_not_whole_is_refused(tmp_path):
    parts = [log(tmp_path / "0", [4, 0, 2]), log(tmp_path / "1", [1, 3])]
    with pytest.raises(InputError, match="sentence 1 is missing, 4 is there; .* left out what is too long"):
        hypotheses.read_shards(parts[:1])
    with pytest.raises(InputError, match="sentence 4 twice"):
        hypotheses.read_shards([*parts, parts[0]])
    empty = write(tmp_path / "empty", ["nothing"])
    with pytest.raises(InputError, match="empty: no line D-<number>"):
        hypotheses.read_shards([*parts, empty])
    text = write(tmp_path / "text", ["line"] * 7)
    command = ["--input", *parts, "--output", str(tmp_path / "out"), "--lines-of", text]
    with pytest.raises(InputError, match="unequal line counts: .*text has 7, --input has 5"):
        hypotheses.main(command)
    assert not (tmp_path / "out").exists()
