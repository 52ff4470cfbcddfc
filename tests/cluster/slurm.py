"""Under a real Slurm (``with_slurm.sh``), two nodes with one task each: killed, preempted and failing trainings; a study.

``SEED`` draws the updates at which runs are broken off (default 1).
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

from tests.cli.commands import checkpoint, records
from tests.cli.test_sga_commands import sga
from tests.cli.test_span_corruption import PRETRAINING
from tests.conftest import ROOT

SCRIPT = ROOT / "examples" / "slurm" / "train.sbatch"
NODES = "--nodes=2 --ntasks-per-node=1"
ALONE = 60
"""Seconds that the script gives to a task whose others have ended."""


def said(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, **options).stdout


class Job:
    """A job that was submitted with ``sbatch OPTIONS``; its log is a file of ``folder``."""

    def __init__(self, folder, options, *command, path=""):
        programs = os.pathsep.join(filter(None, [path, str(Path(sys.executable).parent), os.environ["PATH"]]))
        line = ["sbatch", "--parsable", f"--output={folder}/%j.log", *options.split(), *command]
        self.number = said(*line, env={**os.environ, "PATH": programs, "OMP_NUM_THREADS": "1"}).strip()
        self.file = folder / f"{self.number}.log"

    def log(self):
        return self.file.read_text(encoding="utf-8") if self.file.exists() else ""

    def show(self, name):
        """A value of ``scontrol show job``."""
        return re.search(rf"\b{name}=(\S+)", said("scontrol", "show", "job", "-o", self.number))[1]

    def until(self, reached, seconds=300):
        deadline = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline, f"{said('scontrol', 'show', 'job', self.number)}\n{self.log()[-6000:]}"
            time.sleep(0.05)

    def ended(self, seconds=300):
        """Its state once nothing of it runs."""
        self.until(lambda: self.show("JobState") not in ("PENDING", "RUNNING", "COMPLETING"), seconds)
        return self.show("JobState")

    def updates(self):
        return [int(line["num_updates"]) for line in records(self.log()) if "num_updates" in line]

    def process(self, rank):
        """The process of a rank: all nodes are on this machine."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                variables = (folder / "environ").read_bytes().split(b"\0")
                program = (folder / "cmdline").read_bytes().split(b"\0")[1]
            except (OSError, IndexError):
                continue
            wanted = {f"SLURM_JOB_ID={self.number}".encode(), f"RANK={rank}".encode()}
            if wanted <= set(variables) and program.endswith(b"fairseq-train"):
                return int(folder.name)
        raise AssertionError(f"no process of rank {rank} in job {self.number}")


def tensors(value, path=""):
    """The tensors of a checkpoint's model and optimizer, by path."""
    if isinstance(value, torch.Tensor):
        return {path: value}
    if isinstance(value, (dict, list, tuple)):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        return {name: tensor for key, one in inner for name, tensor in tensors(one, f"{path}.{key}").items()}
    return {}


def bit_equal(first, second):
    """Number of tensors, equal in every bit."""
    left, right = (
        tensors({part: checkpoint(folder)[part] for part in ("model", "last_optimizer_state")})
        for folder in (first, second)
    )
    assert left.keys() == right.keys() and len(left) > 20
    assert [name for name in left if not torch.equal(left[name], right[name])] == []
    return len(left)


def options(data, folder, user_dir, text):
    line = f"""{data} --user-dir {user_dir} --save-dir {folder} --optimizer adam --lr 0.003 --max-sentences 8 --cpu --seed 5
        --num-workers 0 --log-format json --log-interval 1 --no-epoch-checkpoints --save-interval-updates 4
        --keep-interval-updates 1 {text}"""
    return line.split()


def goes_on(job, whole, folders, broken):
    """The job that was broken off once ends as the whole run did. Returns what came of it."""
    assert (job.ended(), job.show("Restarts")) == ("COMPLETED", "1"), job.log()[-6000:]
    assert {"initialized host node1 as rank 0", "initialized host node2 as rank 1"} <= set(
        re.findall(r"initialized host \S+ as rank \d", job.log())
    )
    last = max(broken)
    (resumed,) = re.findall(r"Loaded checkpoint .* @ (\d+) updates", job.log())
    assert 0 < int(resumed) <= last < max(whole.updates()), "broken off in the middle"
    count = bit_equal(*folders)
    equal = f"{count} tensors of model and optimizer bit-equal to an unbroken run"
    return f"went on from update {resumed} of {max(whole.updates())}; {equal}"


@pytest.fixture
def drawn(request):
    seed = int(os.environ.get("SEED", "1"))
    return random.Random(f"{seed} {request.node.name}").randrange(12, 40), seed


def test_sga_goes_on_after_a_killed_rank(world, user_dir, tmp_path, drawn, fact):
    (update, seed), updates = drawn, 60
    lines = [options(world.data, tmp_path / name, user_dir, sga(world, f"--max-update {updates}")) for name in "ab"]
    whole = Job(tmp_path, NODES, SCRIPT, *lines[0])
    assert whole.ended() == "COMPLETED" and max(whole.updates()) == updates, whole.log()[-6000:]
    job = Job(tmp_path, NODES, SCRIPT, *lines[1])
    job.until(lambda: update in job.updates())
    os.kill(job.process(1), signal.SIGKILL)
    started = time.monotonic()
    assert job.ended() == "FAILED", "without its rank 1"
    seconds, broken = time.monotonic() - started, job.updates()
    said("scontrol", "requeue", job.number)
    outcome = goes_on(job, whole, (tmp_path / "a", tmp_path / "b"), broken)
    what = f"SGA, 2 nodes × 1 task, gloo: rank 1 killed at update {max(broken)} (drawn: {update}, seed {seed}), `scontrol requeue`"
    fact(run=what, outcome=f"failed after {seconds:.0f} s; {outcome}")


def test_span_corruption_goes_on_after_preemption(data, user_dir, tmp_path, drawn, fact):
    (update, seed), updates = drawn, 240
    text = f"""--arch transformer_tiny --share-all-embeddings --label-smoothing 0.1 --max-update {updates} --disable-validation
        {PRETRAINING} --pair-share 0.5 --sampling-temperature 2 --criterion label_smoothed_cross_entropy"""
    lines = [options(data, tmp_path / name, user_dir, text) for name in "ab"]
    whole = Job(tmp_path, NODES, SCRIPT, *lines[0])
    assert whole.ended() == "COMPLETED" and max(whole.updates()) == updates, whole.log()[-6000:]
    job = Job(tmp_path, NODES, SCRIPT, *lines[1])
    job.until(lambda: update in job.updates())
    urgent = Job(tmp_path, "--partition=urgent --nodes=2 --exclusive", "--wrap", "srun hostname")
    job.until(lambda: job.show("JobState") != "RUNNING", 60)
    assert urgent.ended() == "COMPLETED"
    broken = job.updates()
    outcome = goes_on(job, whole, (tmp_path / "a", tmp_path / "b"), broken)
    what = f"Span corruption, 2 nodes × 1 task, gloo: preempted at update {max(broken)} (drawn: {update}, seed {seed})"
    fact(run=what, outcome=outcome)


@pytest.mark.cases("how ending least", ("killed", "kill -9 $$", 0), ("ended with status 0", "exit 0", ALONE))
def test_a_rank_that_ends_before_the_rendezvous_ends_the_job(world, user_dir, tmp_path, how, ending, least, fact):
    (tmp_path / "programs").mkdir()
    program = tmp_path / "programs" / "fairseq-train"
    real = Path(sys.executable).with_name("fairseq-train")
    program.write_text(f'#!/bin/bash\n[ $RANK = 0 ] || {ending}\nexec {real} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    line = options(world.data, tmp_path / "run", user_dir, sga(world, "--max-update 4"))
    job = Job(tmp_path, NODES, SCRIPT, *line, path=str(program.parent))
    job.until(lambda: job.show("JobState") == "RUNNING")
    started = time.monotonic()
    assert job.ended(least + 30) == "FAILED", job.log()[-6000:]
    seconds = time.monotonic() - started
    assert seconds >= least - 1 and not (tmp_path / "run" / "checkpoint_last.pt").exists()
    what = f"SGA, 2 nodes × 1 task, gloo: rank 1 {how} before the rendezvous"
    fact(run=what, outcome=f"the job failed after {seconds:.0f} s")


SMALL = {"layers": 1, "embed-dim": 16, "ffn-embed-dim": 16, "attention-heads": 2}
STUDY = {
    "title": "Probe",
    "set": "tiny",
    "directions": ["de-en"],
    "seeds": [11, 12],
    "budget": {"final": {"updates": 30}},
    "code": ["examples/recipes/studies.py"],
    "arms": {"AT": {"system": "at", "data": "bin-$seed", "outputs": {"beam": {"title": "beam 5"}}}},
    "claims": [],
}


def test_a_study_runs_by_the_executor(tmp_path, fact):
    """A small toy corpus and a transformer with two seeds, whose trainings run side by side, one on each node."""
    toy = yaml.safe_load((ROOT / "examples" / "sets" / "toy.yaml").read_text(encoding="utf-8"))
    run = toy["steps"][0]["run"].replace("11 12 13", "11 12")
    run = re.sub(
        r"(--train|--valid|--test) \d+", lambda found: f"{found[1]} {200 if found[1] == '--train' else 8}", run
    )
    toy["steps"] = [{"makes": "bin-12/manifest.json", "run": run}]
    sides = ("encoder", "decoder")
    STUDY["arms"]["AT"]["train"] = {f"{side}-{name}": value for side in sides for name, value in SMALL.items()}
    for folder, name, content in (("sets", "tiny", toy), ("studies", "probe", STUDY)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"SNAKEMAKE": ROOT / ".venv-recipes" / "bin" / "snakemake", "SNAKEMAKE_PROFILE": ROOT / "examples" / "slurm"}
    environment = {**os.environ, **own, "PATH": programs, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    line = ["bash", ROOT / "examples" / "study.sh", "studies/probe.yaml", "data", "out", "2"]
    done = subprocess.run(
        line, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0 and "(n = 2)" in (tmp_path / "out" / "page.md").read_text(encoding="utf-8"), done.stdout
    jobs = [job for job in said("scontrol", "show", "job", "-o").splitlines() if f"WorkDir={tmp_path / 'out'} " in job]
    rules = [re.search(r"Comment=rule_([a-z0-9]+)", job)[1] for job in jobs]
    assert all("JobState=COMPLETED" in job for job in jobs)
    assert set(rules) == {"average", "output", "set1", "train"}
    nodes = sorted(re.search(r"BatchHost=(\S+)", job)[1] for job, rule in zip(jobs, rules) if rule == "train")
    assert nodes == ["node1", "node2"]
    what = "`make study` by Snakemake's executor, no accounting database: toy corpus, transformer, two seeds"
    fact(run=what, outcome=f"{len(jobs)} jobs completed, trainings side by side on {' and '.join(nodes)}")
