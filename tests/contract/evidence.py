"""Checks of the evidence for ``test_evidence.py``: each returns a line for everything wrong."""

import hashlib
import math
import random
import re
import subprocess
from functools import cache

from data_prep.files import sha256
from examples.recipes import archive
from examples.recipes.ledger import Ledger
from examples.recipes.results import RESULTS
from examples.recipes.scores import Scores
from examples.recipes.studies import STUDIES, read_study
from tests.contract.repository import ROOT, listed_files

DATA = ROOT.parent / "shared" / "data"
NAMES = sorted(path.stem for path in RESULTS.glob("*.json"))

LINKS = re.compile(r"\]\(([^)#]*results/\w+\.md)")


@cache
def read_evidence(name):
    """Read a study and its ledger."""
    return read_study(STUDIES / f"{name}.yaml"), Ledger(RESULTS / f"{name}.json")


@cache
def outputs(name):
    """Read the outputs of a study, by KEY/FILE."""
    return archive.read(RESULTS / f"{name}{archive.ENDING}")


def wrong_outputs(name):
    """List outputs with other hashes than the ledger's, and members that no entry has."""
    study, ledger = read_evidence(name)
    hashes = {
        member: hashlib.sha256(content).hexdigest() for member, content in outputs(name).items()
    }
    listed = {}
    for entry in ledger.runs():
        files = study.files(study.job(entry["key"]))
        for stem, output in entry.get("outputs", {}).items():
            listed[f"{entry['key']}/{files[stem]}"] = output["sha256"]
    members = sorted({*listed, *hashes})
    return [f"{name}: {member}" for member in members if listed.get(member) != hashes.get(member)]


def wrong_numbers(name):
    """List scores that contradict each other or, where the outputs are scores, the outputs."""
    study, ledger = read_evidence(name)
    scored = {
        (run["arm"], run["pair"], run["seed"]): run for run in ledger.finals() if run.get("outputs")
    }
    wrong = []
    for entry in scored.values():
        if study.metrics:
            scores = Scores(study, outputs(name).__getitem__).of(study.job(entry["key"]))
            if scores != entry["outputs"]:
                wrong.append(f"{name}: {entry['key']}: not the scores in its outputs")
            continue
        for stem, output in entry["outputs"].items():
            if output["bleu"] > 100 * math.exp(min(0.0, 1 - 1 / output["length_ratio"])):
                wrong.append(f"{name}: {entry['key']}: {stem} is too short for its BLEU")
    for entry in ledger.entries:
        for result in entry.get("results", []):
            claim, numbers = study.claims[result["claim"]], []
            for arm, output in (claim.better, claim.worse):
                scores = scored[arm, entry["pair"], entry["seed"]]["outputs"][output]
                numbers.append(scores[study.score])
            if (
                abs(numbers[0] - numbers[1] - result["difference"]) > 1e-9
                or not 0 < result["p"] <= 1
            ):
                fault = f"claim {result['claim']} is not the difference of the scores"
                wrong.append(f"{name}: {entry['key']}: {fault}")
    return wrong


# ---- Scoring again. ----


def draw(pool, count):
    """Draw a sample that is another one at each commit."""
    line = ["git", "rev-parse", "HEAD"]
    process = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    # A copy without git has its hashes instead.
    seed = process.stdout.strip() or sha256(ROOT / "examples" / "evidence.sha256")
    return random.Random(seed).sample(pool, min(count, len(pool)))


def scored_texts():
    """List study, entry, and stem of the output or result of the claim, of all that is scored."""
    texts = []
    for name in NAMES:
        study, ledger = read_evidence(name)
        for entry in ledger.entries if not study.metrics else ():
            parts = entry.get("outputs", entry.get("results", []))
            texts += [(name, entry, part) for part in parts]
    return texts


def wrong_scores(name, entry, part):
    """List scores of an output, or difference and p of a claim, that are not the ledger's."""
    study, ledger = read_evidence(name)
    scores = Scores(study, outputs(name).__getitem__, find_data(study))
    if "outputs" in entry:
        job = study.job(entry["key"])
        alone = job._replace(arm=job.arm._replace(outputs={part: ""}))
        rescored, listed = scores.of(alone)[part], entry["outputs"][part]
        names = [key for key in listed if isinstance(listed[key], float)]
        pairs = {key: (rescored[key], listed[key]) for key in names}
    else:
        keys = {(run["arm"], run["pair"], run["seed"]): run["key"] for run in ledger.finals()}
        claim = study.claims[part["claim"]]
        sides = [keys[arm, entry["pair"], entry["seed"]] for arm, _ in (claim.better, claim.worse)]
        difference, p_value = scores.difference(claim, sides, entry["pair"])
        pairs = {"difference": (difference, part["difference"]), "p": (p_value, part["p"])}
    place = f"{name}: {entry['key']}: {part}"
    return [
        f"{place}: {key} is {rescored}, not {listed}"
        for key, (rescored, listed) in pairs.items()
        if abs(rescored - listed) > 1e-9
    ]


def find_data(study):
    """Return the folder in ../shared/data that a study means with its data."""
    pattern = study.reference(study.directions[0], DATA, DATA).relative_to(DATA)
    folders = [DATA, *sorted(DATA.glob("*/"))]
    return next((folder for folder in folders if (folder / pattern).is_file()), DATA)


# ---- What other pages quote. ----


def quotations():
    """Yield name, text and quoted pages of every line with a link to a page of results.

    The first column of a table beside the paper is left out: its figures are the paper's.
    """
    documents = re.compile(r"(?!CHANGELOG|docs/results/).*\.md")
    for name in filter(documents.fullmatch, listed_files()):
        beside_the_paper = False
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            beside_the_paper = line.startswith("| the paper") or (
                beside_the_paper and line.startswith("|")
            )
            linked = {(ROOT / name).parent / link for link in LINKS.findall(line)}
            if linked:
                yield name, line.split("|", 2)[2] if beside_the_paper else line, sorted(linked)
