"""Test SIZE=paper: the papers' settings with their sections, refusals, and the dry run."""

import itertools
import subprocess
import sys

import pytest
import yaml

from examples.recipes.dry_run import main
from examples.recipes.results import publish
from examples.recipes.runs import Runs
from examples.recipes.studies import STUDIES, read_study
from examples.recipes.systems import FOLDER, RecipeError, read_limits, read_system
from tests.conftest import ROOT
from tests.unit.recipes.builders import BEAM, options_of
from tests.unit.recipes.builders import write_study as write
from tests.unit.recipes.test_paper_sizes import runs_of, training

BIG = {
    "lr": "0.0005",
    "dropout": "0.3",
    "max-epoch": "50",
    "tokens": 32_768,
}  # SGA 5.1, Transformers
PLM = {"lr": "3e-5", "max-update": "80000", "tokens": 4_096}  # SGA 5.1, fine-tuning
ADAPTED = {"lr": "0.0007", "max-update": "40000", "tokens": 32_768}  # SGA 5.1, adaptation
NOISE = {"denoise-noise-mix": "paper"}  # SGA 4.4
MBART = {
    "lr": "3e-5",
    "dropout": "0.3",
    "label-smoothing": "0.2",
    "warmup-updates": "2500",
}  # CSR IV-A
DELTALM = {
    "lr": "3e-4",
    "warmup-updates": "4000",
    "label-smoothing": "0.1",
    "tokens": 4_096 * 128,
}  # DeltaLM 3.1
VECO = {
    "max-update": "100000",
    "warmup-updates": "16000",
    "lr-scheduler": "polynomial_decay",
}  # VECO 5.1
TRANSFER = {"max-positions": "256", "max-epoch": "10", "lr": "5e-6"}  # MT transfer 2.3

SETTINGS = [
    ("sga_plateau", "AT", 1, None, {**BIG, "arch": "transformer_vaswani_wmt_en_de_big"}),
    ("sga_plateau", "NAT + CTC", 1, None, {**BIG, "arch": "nat_ctc_big"}),
    (
        "sga_plateau",
        ["mtransformer"],
        1,
        None,
        {**BIG, "encoder-layers": "12", "decoder-layers": "12"},
    ),
    ("sga_plateau", "mTransformer + adapter", 1, None, {**BIG, "arch": "transformer_adapter"}),
    (
        "sga_plateau",
        "GPT + MSP",
        1,
        None,
        {**ADAPTED, "arch": "gpt_msp_mgpt", "prompt-length": "128"},
    ),
    ("sga_plateau", "AT-init, base", 1, None, {**PLM, "arch": "transformer_from_xlmr_base"}),
    ("sga_plateau", "AT-init, large", 1, None, {**PLM, "arch": "transformer_from_xlmr_large"}),
    ("sga_plateau", "SGA, base", 1, None, {**ADAPTED, **NOISE, "prompt-length": "128"}),
    ("sga_plateau", "SGA, large", 1, None, {**ADAPTED, **NOISE, "arch": "sga_xlmr_large"}),
    ("sga_plateau", "SGA without denoising, large", 1, None, {**ADAPTED, "no-denoising": "--fp"}),
    ("csr_lexicons", "mBART", 1, None, {**MBART, "max-update": "30000"}),
    (
        "csr_lexicons",
        "mBART + restore",
        1,
        None,
        {**MBART, "max-update": "5000", "task": "code_switching_restore"},
    ),
    ("csr_lexicons", "mBART + restore", 2, None, {**MBART, "max-update": "25000"}),
    ("deltalm", "DeltaLM", 1, None, DELTALM),
    (
        "deltalm",
        "DeltaLM, many pairs",
        1,
        None,
        {**DELTALM, "sampling-temperature-schedule": "1:5:4"},
    ),
    ("generation_deltalm", "DeltaLM", 1, None, DELTALM),
    ("generation_mixing", "mixing", 1, None, {**DELTALM, "mix-share": "0.5", "mask-prob": "0.15"}),
    (
        "veco_updates",
        "VECO",
        1,
        "en-de",
        {**VECO, "lr": "1e-4", "tokens": 65_536, "keep-decoder-layers": "last:6"},
    ),
    ("veco_updates", "VECO", 1, "en-fr", {**VECO, "lr": "2e-4", "tokens": 262_144}),
    ("mt_transfer", "mBART", 1, "xnli", TRANSFER),
    ("mt_transfer", "mBART", 1, "pos", {**TRANSFER, "lr": "2e-5"}),
    ("xglue", "encoder", 1, "xnli", {**TRANSFER, "batch-size": "32"}),
]


@pytest.mark.parametrize(("name", "arm", "number", "pair", "expected"), SETTINGS)
def test_settings_are_those_of_the_papers(name, arm, number, pair, expected):
    given = options_of(training(runs_of(name), arm, number, pair))
    tokens = int(given.get("--max-tokens", 0)) * int(given.get("--update-freq", 1))
    actual = {option: given.get(f"--{option}") for option in expected}
    if "tokens" in expected:
        actual["tokens"] = tokens
    if "no-denoising" in expected:
        actual["no-denoising"] = "--fp" if "--no-denoising" in given else None
    assert actual == expected


def test_grids_of_xtreme_are_those_of_veco_s_appendix():
    study = read_study(STUDIES / "xtreme_grid.yaml", "paper")
    rates = {"transfer": ["1e-5", "2e-5", "3e-5"], "translate-train-all": ["3e-6", "5e-6", "1e-5"]}
    for arm in study.arms:
        points = [tuple(point.values()) for point in arm.grid]
        assert points == list(itertools.product(rates[arm.name], (3, 5, 10), (16, 32, 64)))


def test_pretraining_of_deltalm_is_that_of_section_2_3():
    system = read_system("span_corruption", size="paper")
    batch = system.train["batch-size"] * system.train["update-freq"]
    spans = [
        system.train[name]
        for name in ("tokens-per-sample", "mask-prob", "pair-mask-prob", "mean-span")
    ]
    assert (batch, spans) == (2048, [512, 0.15, 0.5, 3])
    assert (
        system.train["warmup-updates"],
        system.train["clip-norm"],
        system.train["adam-betas"],
    ) == (
        *(10_000, 1.0),
        "(0.9, 0.999)",
    )
    assert read_limits("span_corruption", size="paper")["updates"] == 600_000
    assert read_limits("deltalm", size="paper") is None, (
        "fine-tuning does not take over the length of pre-training"
    )


@pytest.mark.parametrize(
    ("name", "arm", "words"),
    [
        ("sga_plateau", "AT", "--best 5 --allow-fewer"),
        ("sga_plateau", "SGA, large", "--best 5 --allow-fewer"),
        ("veco_updates", "VECO", "--last 10 --by updates"),
        ("deltalm", "DeltaLM", "--best 1 --allow-fewer"),
        ("deltalm", "DeltaLM, many pairs", "--last 5 --by updates"),
    ],
)
def test_checkpoints_are_averaged_as_the_papers_do(name, arm, words):
    runs = runs_of(name)
    job = next(job for job in runs.study.final() if job.arm.name == arm)
    assert f" {words} " in runs.average(job)
    kept = job.arm.stage(1, job.pair).system.train
    assert "--last" not in words or kept["keep-interval-updates"] == job.arm.best, (
        "as many are kept"
    )


# ---- Sections. ----

AT = {"system": "at", "outputs": BEAM}


def test_a_section_replaces_keys_and_the_small_size_stays(tmp_path):
    paper = {
        "title": "Whole",
        "directions": ["de-en"],
        "seeds": [3],
        "budget": {"final": {"updates": 9}},
        "arms": {"A": AT},
    }
    changes = {"arms": {"A": AT}, "claims": [], "assets": {}}
    before = read_study(write(tmp_path, **changes)).settings()
    path = write(
        tmp_path,
        **changes,
        finding="Small finds.",
        values={"vocabulary": 7},
        paper={**paper, "values": {}},
    )
    whole, small = read_study(path, "paper"), read_study(path)
    assert (whole.title, whole.directions, whole.seeds, whole.finding) == (
        "Whole",
        ("de-en",),
        (3,),
        "",
    )
    assert whole.values["vocabulary"] == 7, "values come on top"
    assert small.settings() == {**before, "values": {"vocabulary": 7}} and small.size == "small"
    assert whole.settings()["size"] == "paper" and whole.settings() != small.settings()
    (job,) = whole.final()
    given = options_of(Runs(whole, ROOT, "data", {}).training(job, 1))
    assert (given["--lr"], given["--max-epoch"]) == ("0.0005", "50"), (
        "the system's own limits, not the budget"
    )


@pytest.mark.parametrize(
    ("changes", "size", "words"),
    [
        ({}, "paper", ["probe.yaml: SIZE paper: has no section paper", "valid: small"]),
        ({}, "large", ["SIZE large", "valid: small, paper"]),
        ({"paper": {"seeds": [1]}}, "small", ["probe.yaml: paper: 'title' is a required property"]),
        ({"paper": {"title": "x", "like": "own"}}, "small", ["probe.yaml: paper"]),
        (
            {"paper": {"title": "x"}},
            "paper",
            ["system masked_lm: SIZE paper: the papers take XLM-R"],
        ),
        (
            {"assets": {"model": {"system": "masked_lm"}}},
            "small",
            ["assets.model: limits: missing"],
        ),
    ],
)
def test_a_size_that_cannot_be_read(tmp_path, changes, size, words):
    with pytest.raises(RecipeError) as raised:
        read_study(write(tmp_path, **changes), size)
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize(
    ("paper", "words"),
    [
        ({"absent": "ours", "train": {}}, ["at.yaml: paper"]),
        ({"lr": 3}, ["at.yaml: paper"]),
        ({"train": {}, "limits": {"minutes": 3}}, ["at.yaml: paper.limits"]),
    ],
)
def test_what_a_system_s_section_may_not_hold(tmp_path, paper, words):
    for name in ("common", "at"):
        content = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
        (tmp_path / f"{name}.yaml").write_text(
            yaml.safe_dump({**content, **({"paper": paper} if name == "at" else {})})
        )
    with pytest.raises(RecipeError) as raised:
        read_system("at", tmp_path)
    assert all(word in str(raised.value) for word in words), raised.value


def test_runs_of_paper_size_are_not_published(tmp_path):
    (tmp_path / "study.json").write_text('{"study": "sga_plateau", "code": "x", "size": "paper"}')
    with pytest.raises(ValueError, match="SIZE paper: pages show runs of SIZE small"):
        publish(tmp_path)


# ---- Dry run. ----


def test_the_dry_run_prints_every_command_in_order_and_makes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    study = str(STUDIES / "csr_lexicons.yaml")
    assert (
        main(["--study", study, "--data", "/my data", "--size", "paper", "--device", "cuda"]) == 0
    )
    printed, order = (
        capsys.readouterr().out,
        ["preprocess.sh", "lexicon.sh", "stage1", "start2.pt", "averages", "hypotheses"],
    )
    places = [printed.index(word) for word in order]
    assert places[:4] == sorted(places[:4]) and not list(tmp_path.iterdir())
    assert "'/my data/models/mbart.cc25.v2/model.pt'" in printed and "--cpu" not in printed
    syntax = subprocess.run(["bash", "-n"], input=printed, text=True, capture_output=True)
    assert syntax.returncode == 0, syntax.stderr


def test_the_dry_run_of_study_sh_needs_no_snakemake_and_says_what_is_wrong(tmp_path):
    def start(**environment):
        line = ["bash", str(ROOT / "examples" / "study.sh"), "own", "data", "out"]
        path = f"{sys.exec_prefix}/bin:/usr/bin:/bin"
        return subprocess.run(
            line,
            cwd=tmp_path,
            env={"PATH": path, "SNAKEMAKE": "none", **environment},
            capture_output=True,
            text=True,
        )

    done = start(DRY_RUN="1")
    assert done.returncode == 0 and "\nfairseq-train bin " in done.stdout, done.stderr
    wrong = start(DRY_RUN="1", SIZE="paper")
    assert (
        wrong.returncode == 1
        and "own.yaml: SIZE paper: has no section paper; valid: small" in wrong.stderr
    )
    assert not list(tmp_path.iterdir())
