"""Checks of the evidence for ``test_evidence.py``: each takes the name of a study and returns a line for everything wrong."""

import hashlib
import math
import os
import random
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from data_prep.files import sha256
from data_prep.toy.__main__ import main as toy
from examples.recipes import archive
from examples.recipes.ledger import Ledger
from examples.recipes.results import RESULTS
from examples.recipes.runs import Runs
from examples.recipes.scores import Scores
from examples.recipes.studies import STUDIES, read_study
from tests.contract.repository import ROOT, listed_files

DATA = ROOT.parent / "shared" / "data"
NAMES = sorted(path.stem for path in RESULTS.glob("*.json"))

LINKS = re.compile(r"\]\(([^)#]*results/\w+\.md)")


@cache
def opened(name):
    """A study, and its ledger with the runs that the page shows."""
    return read_study(STUDIES / f"{name}.yaml"), Ledger(RESULTS / f"{name}.json", "").largest()


@cache
def outputs(name):
    """The outputs of a study, by KEY/FILE."""
    return archive.read(RESULTS / f"{name}{archive.ENDING}")


def finals(ledger):
    """Runs with outputs."""
    return [entry for entry in ledger.current() if entry.get("outputs")]


def wrong_outputs(name):
    """Outputs that are not as the ledger has them, and members that no entry has. Those of other code may be written over."""
    study, ledger = opened(name)
    hashes = {member: hashlib.sha256(content).hexdigest() for member, content in outputs(name).items()}
    wrong, listed = [], set()
    for entry in ledger.entries:
        names = study.files(study.job(entry["key"])) if entry["code"] == ledger.code and "outputs" in entry else {}
        for stem, output in entry.get("outputs", {}).items():
            found = [member for member, value in hashes.items() if value == output["sha256"]]
            own = f"{entry['key']}/{names[stem]}" if names else ""
            if names and own not in found:
                wrong.append(f"{name}: {own} has not the ledger's hash")
            listed.update(member for member in found if member.startswith(f"{entry['key']}/"))
    return wrong + [f"{name}: {member}: not in the ledger" for member in sorted({*hashes} - listed)]


def wrong_numbers(name):
    """Scores that contradict each other or, where the outputs are scores, the outputs."""
    study, ledger = opened(name)
    scored = {(entry["arm"], entry["pair"], entry["seed"]): entry for entry in finals(ledger)}
    wrong = []
    for entry in scored.values():
        if (
            study.metrics
            and Scores(study, outputs(name).__getitem__, {}).of(study.job(entry["key"])) != entry["outputs"]
        ):
            wrong.append(f"{name}: {entry['key']}: not the scores in its outputs")
        for stem, output in entry["outputs"].items() if study.score == "bleu" and not study.metrics else ():
            if output["bleu"] > 100 * math.exp(min(0.0, 1 - 1 / output["length_ratio"])):
                wrong.append(f"{name}: {entry['key']}: {stem} is too short for its BLEU")
    for entry in ledger.current():
        for result in entry.get("results", []):
            claim, both = study.claims[result["claim"]], []
            for arm, output in (claim.better, claim.worse):
                both.append(scored[arm, entry["pair"], entry["seed"]]["outputs"][output][study.score])
            if abs(both[0] - both[1] - result["difference"]) > 1e-9 or not 0 < result["p"] <= 1:
                wrong.append(f"{name}: {entry['key']}: claim {result['claim']} is not the difference of the scores")
    return wrong


# ---- Scoring again. ----


def drawn(pool, count):
    """A sample that is another one at each commit."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    seed = done.stdout.strip() or sha256(ROOT / "examples" / "evidence.sha256")  # a copy without git
    return random.Random(seed).sample(pool, min(count, len(pool)))


def scored_texts(names):
    """Outputs and claims of the studies that score texts: name of the study, entry, stem of the output or result of the claim."""
    studies = [(name, *opened(name)) for name in names]
    entries = [(name, entry) for name, study, ledger in studies if not study.metrics for entry in ledger.current()]
    return [(name, entry, part) for name, entry in entries for part in entry.get("outputs", entry.get("results", []))]


def wrong_scores(name, entry, part, out):
    """Scores of an output that are not the ledger's; of a claim, the difference and its p."""
    study, ledger = opened(name)
    out = out / name
    out.mkdir(exist_ok=True)
    scores = Scores(study, outputs(name).__getitem__, {"data": data_of(study), "out": out})
    if made_by_the_study(study):
        _references_again(name, entry["seed"], out)
    if "outputs" in entry:
        job = study.job(entry["key"])
        alone = job._replace(arm=job.arm._replace(outputs={part: ""}))
        again, told = scores.of(alone)[part], entry["outputs"][part]
        both = {key: (again[key], told[key]) for key in told if isinstance(told[key], float)}
    else:
        runs = {(run["arm"], run["pair"], run["seed"]): run["key"] for run in finals(ledger)}
        claim = study.claims[part["claim"]]
        better, worse = (runs[arm, entry["pair"], entry["seed"]] for arm, _ in (claim.better, claim.worse))
        difference, p_value = scores.difference(claim, (better, worse), entry["pair"], entry["seed"])
        both = {"difference": (difference, part["difference"]), "p": (p_value, part["p"])}
    wrong = {key: pair for key, pair in both.items() if abs(pair[0] - pair[1]) > 1e-9}
    return [f"{name}: {entry['key']}: {part}: {key} is {found}, not {told}" for key, (found, told) in wrong.items()]


def made_by_the_study(study):
    """True where the references are made of the raw text."""
    return not study.references({"data": Path("/data"), "out": Path()}, study.directions[0], 1).is_absolute()


def data_of(study):
    """The folder in ../shared/data that a study means with its data."""
    pattern = str(study.references({"data": Path("data"), "out": Path()}, study.directions[0], 1)).partition("/")[2]
    made = made_by_the_study(study)
    found = [part for part in [DATA, *sorted(DATA.glob("*/"))] if made or any(part.glob(pattern))]
    return found[0] if found else DATA


MADE_OF = {
    "sga_free": ("webnlg", -1),
    "sga_free_choices": ("webnlg", -1),
    "data_to_text": ("webnlg", -1),
    "questions": ("xquad", 0),
}
"""Study whose references are made of raw text -> its folder, and the step of its set that makes them."""


def _references_again(name, seed, out):
    """The references that the preparation of a study makes, once, by the same commands, checked by their hashes."""
    if name == "sga_defaults":
        folder, sizes = str(out / f"text-{seed}"), ["--test", "1000", "--langs", "en,de", "--split-only", "test"]
        toy(["--out", folder, "--seed", str(seed), *sizes])
    elif not (out / "text").exists():
        assert name in MADE_OF, f"{name}: write here how its references are made"
        (folder, step), study = MADE_OF[name], opened(name)[0]
        pieces = out / "pieces" / "sentencepiece.bpe.model"  # of no matter: nothing is left out of a test
        pieces.parent.mkdir()
        shutil.copyfile(ROOT / "examples" / "sga" / "masked_lm" / pieces.name, pieces)
        text = study.set["steps"][step]["run"].partition("bash $root")[0]
        command = Runs(study, ROOT, str(DATA / folder), {}).fill(text.replace("python -m", f"{sys.executable} -m"))
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(["bash", "-c", command], cwd=out, env=env, check=True, capture_output=True)
    hashes = opened(name)[1].get("assets")["hashes"]
    made = {Path(path.format(out=out)): value for path, value in hashes.items() if path.startswith("{out}/text")}
    assert all(sha256(path) == value for path, value in made.items() if path.exists()), f"{name}: other references"


# ---- What other pages quote. ----


def quotations():
    """Name, text and the pages that it quotes: every line with a link to a page of results.

    The first column of a table beside the paper is left out: its figures are the paper's.
    """
    for name in (name for name in listed_files() if re.fullmatch(r"(?!CHANGELOG|docs/results/).*\.md", name)):
        beside_the_paper = False
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            beside_the_paper = line.startswith("| the paper") or (beside_the_paper and line.startswith("|"))
            linked = {(ROOT / name).parent / link for link in LINKS.findall(line)}
            if linked:
                yield name, line.split("|", 2)[2] if beside_the_paper else line, sorted(linked)
