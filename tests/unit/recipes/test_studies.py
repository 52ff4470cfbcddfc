"""Studies: what a file may not hold, keys of runs, commands of assets, stages and outputs, budgets, what counts as other code."""

import json
import shlex
from pathlib import Path

import fairseq
import pytest
import yaml

import fairseq_plugins  # noqa: F401  (registers the tasks and architectures)
from examples.recipes import runs as runs_module
from examples.recipes.record import validation_point
from examples.recipes.runs import Runs
from examples.recipes.scores import Scores
from examples.recipes.studies import STUDIES, read_set, read_study
from examples.recipes.systems import RecipeError, names
from tests.conftest import ROOT

BEAM = {"beam": {"title": "beam 5"}}
TWO = {
    "system": "sga",
    "start": "model",
    "before": [{"system": "at", "data": "other", "limits": {"updates": 40}}],
    "limits": {"minutes": 9},
    "train": {"lr-scheduler": "inverse_sqrt", "total-num-update": None, "warmup-updates": 7},
    "outputs": {0: {"title": "one pass", "options": {"iter-decode-max-iter": 0}}},
    "grid": [{"lr": 0.1, "no-denoising": True}, {"lr": 2}],
}


OWN = {"title": "own command", "metric": "f1", "run": "score $model $source $seed $$HOME"}


EACH = {"system": "masked_lm", "limits": {"updates": 200}, "each_seed": True}


def write(folder, **changes):
    content = {
        "title": "Probe",
        "set": "multi30k",
        "directions": ["en-de", "de-en"],
        "seeds": [1, 2],
        "budget": {"tune": {"minutes": 3}, "final": {"minutes": 6, "interval": 50}},
        "assets": {"model": {"system": "masked_lm", "limits": {"updates": 200}}},
        "arms": {"A + b": {"system": "at", "outputs": BEAM, "grid": [{"lr": 1}, {"lr": 2}]}, "two": TWO},
        "claims": [{"better": ["A + b", "beam"], "worse": ["two", 0]}],
        **changes,
    }
    path = folder / "probe.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


UPDATES = {"budget": {"tune": {"minutes": 3}, "final": {"updates": 300, "interval": 50}}}
METRICS = {"de-en": "accuracy", "en-de": "accuracy"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sets": 1}, ["'sets' was unexpected"]),
        ({"set": "wmt"}, ["set wmt", "valid:", "multi30k"]),
        ({"values": {"lines": 3}}, ["values: lines", "valid: valid_lines"]),
        ({"seeds": [-1]}, ["seeds.0", "-1"]),
        ({"budget": {"final": {"minutes": 0}}}, ["budget.final.minutes", "0"]),
        ({"budget": {"final": {"minutes": 1}}}, ["budget", "need tune"]),
        ({"arms": {"one": {"system": "att", "outputs": BEAM}}, "claims": []}, ["system att", "valid:", "at"]),
        ({"arms": {"one": {"system": "at", "outputs": BEAM}, "two": TWO}, "claims": []}, ["one size", "'two': 2"]),
        ({"assets": {}}, ["arms.two.start: model"]),
        ({"assets": {"model": {"given": "a", "system": "at"}}}, ["assets.model"]),
        ({"assets": {"model": {"run": "a", "makes": "b", "each_seed": True}}}, ["assets.model"]),
        ({"assets": {"model": {**EACH, "seed": 1}}}, ["assets.model"]),
        (
            {"assets": {"model": EACH, "text": {"run": "cut $model", "makes": "text", "needs": ["model"]}}},
            ["assets.text: model is one of each seed", "each_seed for text too"],
        ),
        ({"arms": {"two": {**TWO, "needs": ["text"]}}, "claims": []}, ["arms.two.needs: text", "valid: model"]),
        ({"claims": [{"better": ["two", 1], "worse": ["two", 0]}]}, ["claims: ['two', '1']", "['two', '0']"]),
        ({"metrics": {"en-de": "accuracy"}}, ["metrics", "de-en"]),
        ({"score": "bleu", "metrics": METRICS}, ["score", "not beside metrics"]),
        ({"output_languages": ["de", "fr"]}, ["output_languages: de, fr", "with de, en among them"]),
        ({"output_languages": ["de", "en"], "metrics": METRICS}, ["output_languages", "where texts are scored"]),
        ({"tests": {"test": "test"}}, ["arms.A + b.languages", "with tests"]),
        (
            {
                "tests": {"t": "test"},
                "arms": {"one": {"system": "at", "languages": {"trained": ["en"]}, "outputs": {"t": {"title": "t"}}}},
            },
            ["tests: need metrics"],
        ),
        ({"set": "collections"}, ["set collections", "no reference"]),
        (
            {"arms": {"two": {**TWO, "outputs": {"x": OWN}}}, "claims": []},
            ["arms.two.outputs", "run: valid", "metrics"],
        ),
        ({"arms": {"two": {**TWO, "outputs": {"x": {"title": "x", "run": "y"}}}}}, ["outputs.x", "'metric'"]),
        ({"arms": {"two": {**TWO, "outputs": {"x@50": {"title": "x"}}}}}, ["arms.two.outputs", "x@50"]),
        ({"milestones": [50]}, ["milestones: 50", "at most", "(None)"]),
        ({"milestones": [75], **UPDATES}, ["milestones: 75", "interval (50)"]),
        ({"milestones": [350], **UPDATES}, ["milestones: 350", "updates (300)"]),
        ({"milestones": [50], **UPDATES}, ["milestones: valid", "one training"]),
    ],
)
def test_what_a_study_may_not_hold(tmp_path, changes, words):
    with pytest.raises(RecipeError) as raised:
        read_study(write(tmp_path, **changes))
    assert all(word in str(raised.value) for word in ["probe.yaml" if "system" not in words[0] else "", *words])


def test_runs_of_a_study(tmp_path):
    study = read_study(write(tmp_path))
    assert [job.key for job in study.tuning()] == [
        f"tune/en-de/{arm}-{point}/seed1" for arm in ("a___b", "two") for point in (0, 1)
    ]
    finals = study.final({"A + b": 1, "two": 0})
    assert [job.key for job in finals[:3]] == [
        "final/en-de/a___b-1/seed1",
        "final/en-de/two-0/seed1",
        "final/de-en/a___b-1/seed1",
    ]
    assert all(study.job(job.key) == job for job in [*study.tuning(), *finals])
    assert finals[1].options == ["--lr", "0.1", "--no-denoising"] and study.limit("final") == "6 minutes"


def options_of(command):
    words = shlex.split(command.replace("\\\n", " "))
    return words[:2], {word: following for word, following in zip(words, [*words[1:], ""]) if word.startswith("--")}


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx512f avx512_bf16 vnni", True),
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu avx512f avx512_bf16 vnni", False),
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu avx512_bf16 amx_bf16", True),
        ("vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2 avx512f\nbugs: amx_bf16", False),
        ("Features\t: asimd bf16 sve", True),
    ],
)
def test_bfloat16_is_left_out_where_the_cpu_is_not_faster_in_it(tmp_path, monkeypatch, line, taken):
    arm = {"system": "at", "outputs": BEAM, "train": {"bf16": True}}
    study = read_study(write(tmp_path, arms={"one": arm}, claims=[]))
    monkeypatch.setattr(runs_module, "PROCESSOR", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\n")
    for device, expected in (("cpu", taken), ("cuda", True)):
        command = Runs(study, ROOT, "data", runs_module.options_of(device)).training(study.final({"one": 0})[0], 1)
        assert ("--bf16" in command) == expected and ("--cpu" in command) == (device == "cpu")


def test_commands_of_a_run(tmp_path):
    study = read_study(write(tmp_path))
    runs = Runs(study, Path("/root"), "/data", {"cpu": True})
    job = study.final({"A + b": 1, "two": 0})[1]
    first, last = options_of(runs.training(job, 1)), options_of(runs.training(job, 2))
    assert first[0] == ["fairseq-train", "other"] and last[0] == ["fairseq-train", "bin"]
    assert first[1]["--save-dir"] == f"runs/{job.key}/stage1" and last[1]["--save-dir"] == f"runs/{job.key}"
    assert first[1]["--max-update"] == "40" and first[1]["--warmup-updates"] == "10", "a quarter"
    assert "--stop-time-hours" not in first[1] and first[1]["--validate-interval-updates"] == "3", "a twelfth"
    assert last[1]["--stop-time-hours"] == "0.1500" and "--max-update" not in last[1]
    assert last[1]["--pretrained-mlm"] == f"runs/{job.key}/start2.pt" and last[1]["--lr"] == "0.1"
    assert "--no-denoising" in last[1] and "--cpu" in first[1]
    program, given = options_of(runs.output(job, "0"))
    assert program == ["fairseq-generate", "bin"] and given["--gen-subset"] == "test_2016_flickr"
    assert (given["--iter-decode-max-iter"], given["--path"]) == ("0", f"averages/{job.key}.pt")
    one = options_of(runs.training(study.final({"A + b": 1, "two": 0})[2], 1))[1]
    assert (one["--stop-time-hours"], one["--validate-interval-updates"], one["--lr"]) == ("0.1000", "50", "2")
    assert (one["--source-lang"], one["--target-lang"], one["--warmup-updates"]) == ("de", "en", "1000"), "the most"
    asset = options_of(runs.asset_training("model"))[1]
    assert (asset["--save-dir"], asset["--warmup-updates"], asset["--seed"]) == ("train/model", "10", "1")
    assert runs.marker("model") == "assets/model/config.json" and "export_masked_lm" in runs.asset_command("model")


def test_an_asset_of_each_seed(tmp_path):
    """Trained with every seed, in folders of their own, from the one of the same seed; a run starts from that of its seed."""
    second = {"system": "at", "start": "model", "limits": {"updates": 9}, "each_seed": True, "train": {"x": "$start"}}
    one = {"system": "at", "limits": {"updates": 9}, "seed": 0}
    other = {"given": "$data/$seed.pt", "each_seed": True}
    own = {"start": "second", "needs": ["model"], "train": {"y": "$model"}, "before": [], "grid": [{}]}
    given = {
        "assets": {"model": EACH, "second": second, "one": one, "other": other},
        "arms": {"two": {**TWO, **own, "limits": {"updates": 9}}},
    }
    study = read_study(write(tmp_path, **given, claims=[], seeds=[0, 7]))
    runs = Runs(study, ROOT, "data", {})
    both = [(name, seed) for name in ("model", "second") for seed in (0, 7)]
    assert runs.trained() == [*both, ("one", None)] and runs.place("one") == "one"
    for seed in (0, 7):
        folder = f"assets/model/seed{seed}"
        assert runs.marker("model", seed) == f"{folder}/config.json"
        assert runs.asset_command("model", seed).endswith(f"--output {folder}")
        given = options_of(runs.asset_training("second", seed))[1]
        assert given["--save-dir"] == f"train/second/seed{seed}" and given["--seed"] == str(seed)
        assert given["--x"] == folder
        assert f"train/second/seed{seed}/checkpoint_last" in runs.asset_command("second", seed)
        assert runs.asset("other", seed) == f"data/{seed}.pt"
        (job,) = [job for job in study.final({"two": 0}) if job.seed == seed and job.pair == "en-de"]
        given = options_of(runs.training(job, 1))[1]
        assert (given["--pretrained-mlm"], given["--y"]) == (f"assets/second/seed{seed}/model.pt", folder)
    assert options_of(runs.asset_training("one"))[1]["--seed"] == "0"


@pytest.mark.parametrize(
    ("assets", "words"),
    [
        ({"model": {"given": "$data/$seed.pt"}}, ["$data/$seed.pt: 'seed' has no value", "valid: $root, $data"]),
        (
            {"model": EACH, "text": {"run": "cut $model", "makes": "text"}},
            ["cut $model: 'model' has no value", "$text"],
        ),
    ],
)
def test_a_name_without_a_value_is_refused(tmp_path, assets, words):
    study = read_study(write(tmp_path, assets=assets))
    with pytest.raises(RecipeError) as raised:
        Runs(study, ROOT, "data", {}).fill(assets["text"]["run"])
    assert all(word in str(raised.value) for word in words), raised.value


def test_commands_of_a_run_over_several_languages(tmp_path):
    """One model for all of them, or one for each in an equal share of the minutes; each language is decoded by itself."""
    outputs = {"test.trained": {"title": "mean", "options": {"beam": 3}}, "test.fr": {"title": "French"}}
    shared = {"system": "sga_many", "languages": {"trained": ["de", "es"], "zero-shot": ["fr"]}, "outputs": outputs}
    each = {**shared, "languages": {"trained": ["de", "es"], "each": True, "data": "own"}}
    several = {"directions": ["x-en"], "metrics": {"x-en": "bleu"}, "tests": {"test": "test_2016_flickr"}, "claims": []}
    arms = {
        name: {**TWO, "before": [], "limits": {"minutes": 6}, "grid": [{}], **one}
        for name, one in (("shared", shared), ("each", each))
    }
    study = read_study(write(tmp_path, arms=arms, **several))
    one, two = study.final({"shared": 0, "each": 0})[:2]
    runs = Runs(study, Path("/root"), "/data", {})
    assert len(one.arm.stages) == 1 and set(study.files(one).values()) == {"test.json"}
    given = options_of(runs.training(one, 1))[1]
    assert (given["--lang-pairs"], given["--stop-time-hours"]) == ("de-en,es-en", "0.1000")
    for number, language in enumerate(("de", "es"), 1):
        given = options_of(runs.training(two, number))[1]
        assert (given["--lang-pairs"], given["--stop-time-hours"]) == (f"{language}-en", "0.0500")
        assert given["--save-dir"] == f"runs/{two.key}/{language}" and given["--pretrained-mlm"] == "assets/model"
        assert f"--directory runs/{two.key}/{language} " in runs.average(two, language)
    for job, languages, data in ((one, ("de", "es", "fr"), "bin"), (two, ("de", "es"), "own")):
        lines = runs.languages(job, "test").replace("\\\n", " ").splitlines()
        decoded = [options_of(line) for line in lines if line.startswith("fairseq-generate")]
        assert [given["--source-lang"] for _, given in decoded] == [*languages]
        for (program, given), language in zip(decoded, languages):
            assert program[1] == data and (given["--gen-subset"], given["--beam"]) == ("test_2016_flickr", "3")
            own = f"-{language}" if job is two else ""
            assert given["--path"] == f"averages/{job.key}{own}.pt"
        assert "--reference /data/test_2016_flickr.en --trained de,es --json outputs/" in lines[-1]


def test_an_output_may_have_a_command_and_a_metric_of_its_own(tmp_path):
    arms = {"A": {"system": "understanding", "outputs": {"test": {"title": "test"}, "x": OWN}}}
    content = {"arms": arms, "claims": [], "directions": ["xnli"], "metrics": {"xnli": "accuracy"}}
    study = read_study(write(tmp_path, **content))
    (job, _) = study.final({"A": 0})
    runs = Runs(study, ROOT, "data", {})
    assert runs.output(job, "x") == f"{{ score averages/{job.key}.pt xnli 1 $HOME; }}"
    lines = {"test": [("accuracy", 50)], "x": [("accuracy", 1), ("f1", 30)]}
    for stem, numbers in lines.items():
        path = tmp_path / job.key / f"{stem}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("| test.a | " + json.dumps({f"test.a_{name}": value for name, value in numbers}) + "\n")
    found = Scores(study, lambda name: (tmp_path / name).read_bytes(), {}).of(job)
    assert {stem: one["subsets"] for stem, one in found.items()} == {"test": {"test.a": 50.0}, "x": {"test.a": 30.0}}


def test_the_language_of_outputs_is_that_of_the_target(tmp_path):
    pairs, arm = ["text_en-title_de", "text_de-title_en"], {"system": "at", "outputs": BEAM}
    content = {
        "directions": pairs,
        "arms": {"A": arm},
        "claims": [],
        "seeds": [1],
        "output_languages": ["en", "de", "es"],
    }
    study = read_study(write(tmp_path, **content))
    line = "Was sieht die Frau am Fenster?\n"
    (tmp_path / "test_2016_flickr.title_de").write_text(line)
    (tmp_path / "test_2016_flickr.title_en").write_text(line)
    scores = Scores(study, lambda name: line.encode(), {"data": tmp_path, "out": tmp_path})
    found = [scores.of(job)["beam"] for job in study.final({"A": 0})]
    assert [one["language"] for one in found] == [100.0, 0.0] and all("language" in one["signature"] for one in found)
    assert read_study(write(tmp_path, arms={"A": arm}, claims=[])).expected("en-de") == ()


def test_outputs_after_so_many_updates(tmp_path):
    arm = {"system": "at", "outputs": BEAM}
    claims = [{"better": ["A", "beam@100"], "worse": ["A", "beam"]}]
    study = read_study(write(tmp_path, arms={"A": arm}, claims=claims, milestones=[100, 250], **UPDATES))
    runs, (job, *_) = Runs(study, ROOT, "DATA", {}), study.final({"A": 0})
    titles = {"beam": "beam 5", "beam@100": "beam 5, after 100 updates", "beam@250": "beam 5, after 250 updates"}
    assert study.arms[0].outputs == titles and study.files(job)["beam@100"] == "beam@100.de"
    _, options = options_of(runs.training(job, 1))
    assert (options["--keep-interval-updates-pattern"], options["--max-update"]) == ("50", "300")
    average, model = runs.average(job, "@100"), f"averages/{job.key}@100.pt"
    assert f"--inputs runs/{job.key}/checkpoint_*_100.pt --output {model}" in average
    assert options_of(runs.output(job, "beam@100"))[1]["--path"] == model
    assert options_of(runs.output(job, "beam"))[1]["--path"] == f"averages/{job.key}.pt"


def test_sets_on_top_of_others_and_languages_of_the_directions(tmp_path):
    one, two = ({"makes": name, "run": "$pairs $languages"} for name in ("one", "two"))
    base = {"title": "base", "steps": [one], "values": {"a": 1}, "variants": {"more": {"title": "more", "then": [two]}}}
    base["variants"]["alone"] = {"title": "alone", "like": None, "steps": [two]}
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    pairs = ["en-de", "de-en", "fr-en"]
    found = {name: read_set(name, tmp_path, pairs) for name in ("base", "more", "alone")}
    assert [[step["makes"] for step in one["steps"]] for one in found.values()] == [["one"], ["one", "two"], ["two"]]
    assert [one.get("values") for one in found.values()] == [{"a": 1}, {"a": 1}, None]
    assert (found["more"]["languages"], found["more"]["pairs"]) == (["en", "de", "fr"], ["en-de", "fr-en"])
    for own, words in (
        ({"title": "x", "like": "y"}, "like: x: goes round in a circle"),
        ({"title": "x", "like": None}, "set x: has no steps"),
    ):
        (tmp_path / "x.yaml").write_text(yaml.safe_dump(own))
        (tmp_path / "y.yaml").write_text(yaml.safe_dump({"title": "y", "like": "x"}))
        with pytest.raises(RecipeError, match=words):
            read_set("x", tmp_path, [])


def test_a_variant_is_a_study_of_its_own(tmp_path):
    """What it does not say is the file's, but for the texts; with like: null nothing is."""
    variants = {
        "longer": {
            "title": "Longer",
            "seeds": [5],
            "budget": {"tune": {"minutes": 9}, "final": {"updates": 3000, "minutes": 20}},
        },
        "alone": {"title": "Alone", "like": None, "seeds": [5]},
    }
    write(tmp_path, finding="Probe is better.", notes=["A note."], variants=variants)
    probe, longer = (read_study(tmp_path / f"{name}.yaml") for name in ("probe", "longer"))
    assert names(tmp_path) == ["alone", "longer", "probe"]
    assert (longer.name, longer.title, longer.finding, longer.notes) == ("longer", "Longer", "", ())
    assert (longer.seeds, longer.limit("final"), probe.limit("final")) == (
        (5,),
        "3,000 updates or 20 minutes",
        "6 minutes",
    )
    assert (longer.arms, longer.claims) == (probe.arms, probe.claims) and probe.finding == "Probe is better."
    with pytest.raises(RecipeError, match=r"alone.yaml: the file: '\w+' is a required property"):
        read_study(tmp_path / "alone.yaml")


def test_what_counts_as_other_code(tmp_path):
    """Seeds, claims and texts may change; what a command is made of may not."""
    before = read_study(write(tmp_path)).settings()
    assert read_study(write(tmp_path, seeds=[3], claims=[], title="Other", notes=["note"])).settings() == before
    for change in (
        {"budget": {"tune": {"minutes": 3}, "final": {"minutes": 7}}},
        {"values": {"valid_lines": 3}},
        {"assets": {"model": {"given": "model"}}},
        {"arms": {"A + b": {"system": "nat", "outputs": BEAM, "grid": [{"lr": 1}, {"lr": 2}]}, "two": TWO}},
        {"score": "chrf"},
        {"output_languages": ["de", "en"]},
    ):
        assert read_study(write(tmp_path, **change)).settings() != before, change


@pytest.mark.parametrize("name", names(STUDIES))
def test_what_the_shipped_studies_report_is_kept_of_a_validation(name):
    for metric in (read_study(STUDIES / f"{name}.yaml").metrics or {}).values():
        assert validation_point({"valid.en_loss": "2", f"valid.en_{metric}": "30.5"}) == {"loss": 2.0, metric: 30.5}


@pytest.mark.parametrize("name", names(STUDIES))
def test_the_commands_of_the_shipped_studies_are_those_of_fairseq(name):
    from fairseq import options

    if fairseq.__version__ == "0.12.2" and name == "pretraining":
        pytest.skip(
            "fairseq 0.12.2: --task multilingual_denoising and --arch mbart_base both add --max-source-positions"
        )
    study = read_study(STUDIES / f"{name}.yaml")
    runs = Runs(study, ROOT, "data", {})
    lines = [runs.asset_training(asset) for asset, entry in study.assets.items() if "system" in entry]
    for arm in study.arms:
        for pair in (one for one in study.directions if one not in arm.refused):
            (job,) = [
                one
                for one in study.final({one.name: 0 for one in study.arms})
                if one[1:4] == (arm, pair, study.seeds[0])
            ]
            lines += [runs.training(job, number + 1) for number in range(len(arm.stages))]
            decoded = [runs.output(job, stem) for stem in arm.outputs] if not study.metrics else []
            decoded += [line for test in study.tests for line in runs.languages(job, test).split(" || ")]
            for line in (one[one.index("fairseq-generate") :] for one in decoded if "fairseq-generate" in one):
                words = shlex.split(line.partition("  >")[0].replace("\\\n", " "))
                options.parse_args_and_arch(options.get_generation_parser(), words[1:])
    for line in lines:
        words = shlex.split(line.replace("\\\n", " "))
        by_epochs, words = words[0] == "python", words[words.index("fairseq-train") :]
        args = options.parse_args_and_arch(options.get_training_parser(), words[1:])
        assert args.max_update or args.stop_time_hours or (by_epochs and args.max_epoch <= 10), "a training ends"
    for text in [
        *(step["run"] for step in study.set["steps"]),
        *(one["run"] for one in study.assets.values() if "run" in one),
    ]:
        assert "$" + "{" not in text and runs.fill(text)
