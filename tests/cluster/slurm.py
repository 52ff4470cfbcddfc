"""Test killed, preempted and failing trainings, and a study, on two nodes of a real Slurm.

``with_slurm.sh`` starts Slurm. ``SEED`` (default 1) draws the updates at which runs are
interrupted.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from tests.cli.commands import checkpoint, records, write_program
from tests.cli.test_sga_commands import sga
from tests.cli.test_span_corruption import PRETRAINING
from tests.conftest import ROOT

SCRIPT = ROOT / "examples" / "slurm" / "train.sbatch"
NODES = "--nodes=2 --ntasks-per-node=1"
ALONE = 60
"""Seconds until the script ends a task when the other tasks have ended."""


def output(*command, **options):
    """Run a command; return what it printed."""
    line = [str(word) for word in command]
    return subprocess.run(line, check=True, capture_output=True, text=True, **options).stdout


class Job:
    """A job submitted with ``sbatch OPTIONS``; its log is a file of ``folder``."""

    def __init__(self, folder, options, *command, path=""):
        folders = [path, str(Path(sys.executable).parent), os.environ["PATH"]]
        programs = os.pathsep.join(name for name in folders if name)
        line = ["sbatch", "--parsable", f"--output={folder}/%j.log", *options.split(), *command]
        environment = {**os.environ, "PATH": programs, "OMP_NUM_THREADS": "1"}
        self.number = output(*line, env=environment).strip()
        self.file = folder / f"{self.number}.log"

    def log(self):
        return self.file.read_text(encoding="utf-8") if self.file.exists() else ""

    def show(self, name):
        """Return a value of ``scontrol show job``."""
        text = output("scontrol", "show", "job", "-o", self.number)
        return re.search(rf"\b{name}=(\S+)", text)[1]

    def wait_until(self, condition, seconds=300):
        deadline = time.monotonic() + seconds
        while not condition():
            state = output("scontrol", "show", "job", self.number)
            assert time.monotonic() < deadline, f"{state}\n{self.log()[-6000:]}"
            time.sleep(0.05)

    def has_ended(self):
        return self.show("JobState") not in ("PENDING", "RUNNING", "COMPLETING")

    def end_state(self, seconds=300):
        """Wait until none of its processes runs; return its state."""
        self.wait_until(self.has_ended, seconds)
        return self.show("JobState")

    def updates(self):
        return [int(line["num_updates"]) for line in records(self.log()) if "num_updates" in line]

    def process(self, rank):
        """Return the process id of a rank: all nodes are on this machine."""
        expected = {f"SLURM_JOB_ID={self.number}".encode(), f"RANK={rank}".encode()}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                variables = (folder / "environ").read_bytes().split(b"\0")
                program = (folder / "cmdline").read_bytes().split(b"\0")[1]
            except (OSError, IndexError):
                continue
            if expected <= set(variables) and program.endswith(b"fairseq-train"):
                return int(folder.name)
        raise AssertionError(f"no process of rank {rank} in job {self.number}")


def tensors(value, path=""):
    """Return the tensors in a nested value, by path."""
    if isinstance(value, torch.Tensor):
        return {path: value}
    if not isinstance(value, (dict, list, tuple)):
        return {}
    entries = {}
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
        entries.update(tensors(entry, f"{path}.{key}"))
    return entries


def count_bit_equal(*folders):
    """Compare model and optimizer of two checkpoints; return the number of their tensors."""
    first, second = (
        tensors({part: checkpoint(folder)[part] for part in ("model", "last_optimizer_state")})
        for folder in folders
    )
    assert first.keys() == second.keys()
    assert len(first) > 20
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    return len(first)


def options(data, folder, user_dir, text):
    line = f"""{data} --user-dir {user_dir} --save-dir {folder} --optimizer adam --lr 0.003
        --max-sentences 8 --cpu --seed 5 --num-workers 0 --log-format json --log-interval 1
        --no-epoch-checkpoints --save-interval-updates 4 --keep-interval-updates 1 {text}"""
    return line.split()


def run_unbroken(folder, updates, line):
    """Run a job to its end."""
    job = Job(folder, NODES, SCRIPT, *line)
    assert job.end_state() == "COMPLETED", job.log()[-6000:]
    assert max(job.updates()) == updates
    return job


def check_resumed(job, unbroken, folders, last_update):
    """Check that an interrupted job ends like the unbroken one; return the outcome in words."""
    assert (job.end_state(), job.show("Restarts")) == ("COMPLETED", "1"), job.log()[-6000:]
    hosts = set(re.findall(r"initialized host \S+ as rank \d", job.log()))
    assert {f"initialized host node{rank + 1} as rank {rank}" for rank in (0, 1)} <= hosts
    (resumed,) = re.findall(r"Loaded checkpoint .* @ (\d+) updates", job.log())
    updates = max(unbroken.updates())
    assert 0 < int(resumed) <= last_update < updates, "interrupted in the middle"
    count = count_bit_equal(*folders)
    equal = f"{count} tensors of model and optimizer bit-equal to an unbroken run"
    return f"went on from update {resumed} of {updates}; {equal}"


@pytest.fixture
def interruption(request):
    """Draw the update of an interruption; return it with the seed."""
    seed = int(os.environ.get("SEED", "1"))
    return random.Random(f"{seed} {request.node.name}").randrange(12, 40), seed


def test_sga_resumes_after_a_killed_rank(world, user_dir, tmp_path, interruption, fact):
    (update, seed), updates = interruption, 60
    folders = tmp_path / "a", tmp_path / "b"
    more = sga(world, f"--max-update {updates}")
    lines = [options(world.data, folder, user_dir, more) for folder in folders]
    unbroken = run_unbroken(tmp_path, updates, lines[0])
    job = Job(tmp_path, NODES, SCRIPT, *lines[1])
    job.wait_until(lambda: update in job.updates())
    os.kill(job.process(1), signal.SIGKILL)
    start = time.monotonic()
    assert job.end_state() == "FAILED", "without its rank 1"
    seconds, last_update = time.monotonic() - start, max(job.updates())
    output("scontrol", "requeue", job.number)
    outcome = check_resumed(job, unbroken, folders, last_update)
    cause = f"rank 1 killed at update {last_update} (drawn: {update}, seed {seed})"
    run = f"SGA, 2 nodes × 1 task, gloo: {cause}, `scontrol requeue`"
    fact(run=run, outcome=f"failed after {seconds:.0f} s; {outcome}")


def test_span_corruption_resumes_after_preemption(data, user_dir, tmp_path, interruption, fact):
    (update, seed), updates = interruption, 240
    folders = tmp_path / "a", tmp_path / "b"
    more = f"""--arch transformer_tiny --share-all-embeddings --label-smoothing 0.1
        --max-update {updates} --disable-validation {PRETRAINING} --pair-share 0.5
        --sampling-temperature 2 --criterion label_smoothed_cross_entropy"""
    lines = [options(data, folder, user_dir, more) for folder in folders]
    unbroken = run_unbroken(tmp_path, updates, lines[0])
    job = Job(tmp_path, NODES, SCRIPT, *lines[1])
    job.wait_until(lambda: update in job.updates())
    urgent = Job(tmp_path, "--partition=urgent --nodes=2 --exclusive", "--wrap", "srun hostname")
    job.wait_until(lambda: job.show("JobState") != "RUNNING", 60)
    assert urgent.end_state() == "COMPLETED"
    last_update = max(job.updates())
    outcome = check_resumed(job, unbroken, folders, last_update)
    cause = f"preempted at update {last_update} (drawn: {update}, seed {seed})"
    fact(run=f"Span corruption, 2 nodes × 1 task, gloo: {cause}", outcome=outcome)


@pytest.mark.cases(
    "how command min_seconds",
    ("killed", "kill -9 $$", 0),
    ("ended with status 0", "exit 0", ALONE),
)
def test_a_rank_that_ends_before_the_rendezvous_ends_the_job(
    world, user_dir, tmp_path, how, command, min_seconds, fact
):
    programs = tmp_path / "programs"
    programs.mkdir()
    stock = Path(sys.executable).with_name("fairseq-train")
    text = f'#!/bin/bash\n[ $RANK = 0 ] || {command}\nexec {stock} "$@"\n'
    write_program(programs / "fairseq-train", text)
    line = options(world.data, tmp_path / "run", user_dir, sga(world, "--max-update 4"))
    job = Job(tmp_path, NODES, SCRIPT, *line, path=str(programs))
    job.wait_until(lambda: job.show("JobState") == "RUNNING")
    start = time.monotonic()
    assert job.end_state(min_seconds + 30) == "FAILED", job.log()[-6000:]
    seconds = time.monotonic() - start
    assert seconds >= min_seconds - 1
    assert not (tmp_path / "run" / "checkpoint_last.pt").exists()
    run = f"SGA, 2 nodes × 1 task, gloo: rank 1 {how} before the rendezvous"
    fact(run=run, outcome=f"the job failed after {seconds:.0f} s")


SIZES = {"layers": 1, "embed-dim": 16, "ffn-embed-dim": 16, "attention-heads": 2}
ARM = {
    "system": "at",
    "train": {f"{side}-{name}": SIZES[name] for side in ("encoder", "decoder") for name in SIZES},
    "outputs": {"beam": {"title": "beam 5"}},
}
STUDY = {
    "title": "Probe",
    "set": "tiny",
    "directions": ["de-en"],
    "seeds": [11, 12],
    "budget": {"final": {"updates": 30}},
    "code": ["examples/recipes/studies.py"],
    "arms": {"AT": ARM},
    "claims": [],
}


TOY_STEP = """
model=$root/examples/quickstart/masked_lm
python -m data_prep.toy --out text --seed 11 --langs en,de --train 200 --valid 8 --test 8
bash $root/data_prep/preprocess.sh --text text --dict $$model/dict.txt --pairs en-de \\
  --model $$model/sentencepiece.bpe.model --out bin --workers 2
"""
TOY_SET = {
    "title": "Toy corpus",
    "languages": ["en", "de"],
    "pairs": ["en-de"],
    "test": "test",
    "reference": "text/test.$target",
    "steps": [{"makes": "bin/manifest.json", "run": TOY_STEP}],
}


def test_a_study_runs_on_the_executor(tmp_path, fact):
    """Two seeds of a transformer are trained side by side, one on each node."""
    for folder, name, content in (("sets", "tiny", TOY_SET), ("studies", "probe", STUDY)):
        (tmp_path / folder).mkdir()
        text = yaml.safe_dump(content, sort_keys=False)
        (tmp_path / folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "SNAKEMAKE": ROOT / ".venv-recipes" / "bin" / "snakemake",
        "SNAKEMAKE_PROFILE": ROOT / "examples" / "slurm",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    line = ["bash", ROOT / "examples" / "study.sh", "studies/probe.yaml", "data", "out", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.run(line, cwd=tmp_path, env=environment, **pipes)
    assert process.returncode == 0, process.stdout
    page = (tmp_path / "out" / "page.md").read_text(encoding="utf-8")
    assert "(n = 2)" in page, process.stdout

    lines = output("scontrol", "show", "job", "-o").splitlines()
    jobs = [job for job in lines if f"WorkDir={tmp_path / 'out'} " in job]
    assert all("JobState=COMPLETED" in job for job in jobs)
    rules = [re.search(r"Comment=rule_([a-z0-9]+)", job)[1] for job in jobs]
    assert set(rules) == {"average", "output", "set1", "train"}
    trainings = [job for job, rule in zip(jobs, rules) if rule == "train"]
    nodes = sorted(re.search(r"BatchHost=(\S+)", job)[1] for job in trainings)
    assert nodes == ["node1", "node2"]
    study = "toy corpus, transformer, two seeds"
    run = f"`make study` by Snakemake's executor, no accounting database: {study}"
    outcome = f"{len(jobs)} jobs completed, trainings side by side on {' and '.join(nodes)}"
    fact(run=run, outcome=outcome)
