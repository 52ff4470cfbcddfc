"""The report language by language equals sacreBLEU; logs in parts; what is refused."""

import json

import pytest
from sacrebleu.metrics import BLEU, CHRF

from data_prep import hypotheses, score_languages
from tests.nlu_bins import write
from tests.unit.data_prep.files import lines, refused

REFERENCE = ["the cat sat on the mat today", "a dog runs in the old park", "two birds sing at dawn here"]
OUTPUTS = {
    "vi": ["the cat sat on a mat", "dogs run", "two birds sing at dawn"],
    "de": REFERENCE,
    "fr": ["the cat sat on the mat", "a dog runs in the park", "birds sing at dawn here"],
}


@pytest.fixture
def files(tmp_path):
    return {name: str(write(tmp_path / name, *text)) for name, text in {**OUTPUTS, "ref": REFERENCE}.items()}


def systems(files):
    return [word for name in OUTPUTS for word in ("--system", f"{name}={files[name]}")]


def test_scores_are_sacrebleus_and_trained_languages_stand_first(files, tmp_path, capsys):
    line = [*systems(files), "--reference", files["ref"], "--trained", "de,fr", "--json", str(tmp_path / "scores.json")]

    def scored(*more):
        score_languages.main([*line, *more])
        return json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))

    found = scored()
    rows = {row["language"]: row for row in found["languages"]}
    assert list(rows) == ["de", "fr", "vi"]
    for name, row in rows.items():
        assert row["bleu"] == pytest.approx(BLEU().corpus_score(OUTPUTS[name], [REFERENCE]).score)
        assert row["chrf"] == pytest.approx(CHRF().corpus_score(OUTPUTS[name], [REFERENCE]).score)
        assert (row["trained"], row["sentences"]) == (name != "vi", 3)
    assert found["means"]["trained"]["bleu"] == pytest.approx((rows["de"]["bleu"] + rows["fr"]["bleu"]) / 2)
    assert found["means"]["zero-shot"]["bleu"] == rows["vi"]["bleu"]
    shown = capsys.readouterr().out.split("\n")
    assert shown[2].startswith("| de | trained | 100.0 | 100.0 | 1.000 | 3 |") and "| vi | zero-shot |" in shown[4]
    assert any(text.startswith("BLEU: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:") for text in shown)
    own = scored("--reference", f"vi={files['vi']}")["languages"]
    assert own[:2] == found["languages"][:2] and own[2]["bleu"] == pytest.approx(100.0)


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
    paths = {"short": write(tmp_path / "short", *REFERENCE[:2]), "ref": files["ref"]}
    words = [word for option in references for word in ("--reference", option.format(**paths))]
    refused(message, score_languages.main, [*systems(files), *words])


def log(path, numbers):
    text = [f"D-{number}\t-0.5\tsentence  {number}" for number in numbers]
    return str(write(path, "S-0\tx", "H-0\t-1\tzzz", *text, "Generate train with beam=5: BLEU4 = 1"))


def test_parts_are_put_in_the_order_of_the_set(tmp_path):
    parts = [log(tmp_path / "0", [4, 0, 2]), log(tmp_path / "1", [1, 3])]
    text = [str(write(tmp_path / f"text{count}", *["line"] * count)) for count in (5, 7)]
    command = ["--input", *parts, "--output", str(tmp_path / "out"), "--lines-of"]
    refused(["text7 has 7, --input has 5"], hypotheses.main, [*command, text[1]])
    assert not (tmp_path / "out").exists()
    hypotheses.main([*command, text[0]])
    assert lines(tmp_path / "out") == [f"sentence  {number}" for number in range(5)]
    empty = str(write(tmp_path / "empty", "nothing"))
    refused("sentence 1 is missing, 4 is there; ", hypotheses.read_shards, parts[:1])
    refused("sentence 4 twice", hypotheses.read_shards, [*parts, parts[0]])
    refused("empty: no line D-<number>", hypotheses.read_shards, [*parts, empty])
