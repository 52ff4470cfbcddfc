# A study: arms x directions x seeds, tuned by validation, compared on the test set. `make study` starts it.
# There are two calls: `tuned.json`, which holds the points of the grids, then `study`. With partial=1 the tables show the finished runs.
import json
from shlex import quote

from recipes.ledger import digest
from recipes.runs import Runs, options_of
from recipes.studies import read_study
from recipes.systems import SMALL, RecipeError

size = str(config.get("size", SMALL))
try:
    study = read_study(Path(config["study"]), size)
    code = digest(ROOT, study.code, study.settings())
    identity = {"study": study.name, "code": code, **({} if size == SMALL else {"size": size})}
    recorded = json.loads(Path("study.json").read_text()) if Path("study.json").is_file() else identity
    if recorded != identity:
        raise RecipeError(
            f"OUT {Path.cwd()}: was begun with study {recorded['study']}, code {recorded['code']}; valid: the same files of study, "
            f"systems, set and code (now {study.name}, {code}), or a new folder"
        )
    runs = Runs(study, ROOT, config["data"], options_of(str(config.get("device", "cpu"))))
    for job in study.final():               # a command that cannot be built is reported now, not in an hour
        for number in range(len(job.arm.stages)):
            runs.training(job, number + 1)
    for name, seed in runs.trained():
        runs.asset_training(name, seed)
    for entry in (*study.set["steps"], *study.assets.values()):
        runs.script(entry.get("run", ""))
except (RecipeError, ValueError) as error:
    sys.exit(f"error: {error}")
for note in [*study.refusals, *runs.scored]:
    print(f"study: {note}", file=sys.stderr, flush=True)

steps = study.set["steps"]
threads_each = max(1, workflow.cores // int(config.get("jobs", 1)))
made_assets = {name for name, entry in study.assets.items() if "given" not in entry}
points = json.loads(Path("tuned.json").read_text()) if Path("tuned.json").is_file() else None
tuning, finals = study.tuning(), study.final(points) if points else []
arguments = ["--study", config["study"], "--data", config["data"], "--device", str(config.get("device", "cpu")), "--size", size]


def entries(jobs):
    """List the files of entries; with partial=1 those that exist."""
    files = [f"entries/{job.key}.json" for job in jobs]
    return [file for file in files if Path(file).is_file()] if config.get("partial") else files


def literal(text):
    """Make a parameter whose braces are no wildcards."""
    return lambda wildcards: text


def list_inputs(names, seed):
    """List what a training waits for: the text, and the assets that are made."""
    return [ancient(steps[-1]["makes"]), *[ancient(runs.marker(name, seed)) for name in names if name in made_assets]]


def before_asset(name, seed=None):
    """List the inputs of the commands of an asset."""
    entry = study.assets[name]
    return list_inputs([entry.get("start"), *entry.get("needs", ())], seed)


def before_stage(wildcards):
    """List the inputs of a training of a run."""
    job = study.job(wildcards.key)
    number = stage_number(job, wildcards.stage)
    if number == 1:
        return list_inputs([*job.arm.needs, job.arm.start], job.seed)
    start = [f"done/{job.key}/stage{number - 1}", f"runs/{job.key}/start{number}.pt"]
    return [*list_inputs(job.arm.needs, job.seed), *map(ancient, start)]


def stage_number(job, stage):
    return len(job.arm.stages) if stage == "train" else int(stage[len("stage"):])


def stage_of(wildcards, method):
    """Call a method of Runs for the stage that the wildcards name."""
    job = study.job(wildcards.key)
    return getattr(runs, method)(job, stage_number(job, wildcards.stage))


def log_of(wildcards):
    """Return the log of an output's command, quoted for bash."""
    return quote(f"runs/{wildcards.key}/generate-{wildcards.stem}.log")


def outputs(wildcards):
    """List what must exist before the entry of a run."""
    job = study.job(wildcards.key)
    if Path(f"entries/{job.key}.json").is_file() and not Path(f"runs/{job.key}").is_dir():
        return []                           # restored from another machine's runs
    if job.phase == "tune":
        return [f"done/{job.key}/train"]
    return [f"outputs/{job.key}/{file}" for file in study.files(job).values()]


wildcard_constraints:
    key=r"(tune|final)/[^/]+/[^/]+/seed\d+",
    stage=r"stage\d+|train",
    number=r"\d+",
    stem="[^/]+",
    target="[^/.]+",


# On a cluster these do not wait in a queue: they take seconds.
localrules:
    study,
    begin,
    tuned,
    entry,
    ledger,
    page,


rule study:
    input:
        "page.md",
        lambda wildcards: [*entries(tuning), *entries(finals)],


rule page:
    input:
        "ledger.json",
    output:
        "page.md",
    params:
        arguments=literal(arguments),
    shell:
        "python -m recipes.entries page {params.arguments:q}"


rule ledger:
    input:
        ancient("study.json"),
        lambda wildcards: [*entries(tuning), *entries(finals)],
    output:
        "ledger.json",
    params:
        arguments=literal(arguments),
    shell:
        "python -m recipes.entries ledger {params.arguments:q}"


rule tuned:
    input:
        lambda wildcards: [ancient(file) for file in entries(tuning)],
    output:
        "tuned.json",
    params:
        arguments=literal(arguments),
    shell:
        "python -m recipes.entries choose {params.arguments:q}"


rule begin:
    output:
        "study.json",
    params:
        content=literal(json.dumps(identity)),
    shell:
        "echo {params.content:q} >{output:q}"


# ---- From text to data-bins; what runs start from. ----


for number, step in enumerate(steps):

    rule:
        name:
            f"set{number + 1}"
        input:
            ancient("study.json" if number == 0 else steps[number - 1]["makes"]),
        output:
            step["makes"],
        params:
            run=literal(runs.script(step["run"])),
        shell:
            "{params.run}"


for name in [name for name, entry in study.assets.items() if "run" in entry]:

    rule:
        name:
            f"asset_{name}"
        input:
            before_asset(name),
        output:
            runs.marker(name),
        params:
            run=literal(runs.script(study.assets[name]["run"])),
        shell:
            "{params.run}"


for name, seed in runs.trained():
    place = runs.place(name, seed)

    rule:
        name:
            f"train_{place.replace('/', '_')}"
        input:
            before_asset(name, seed),
        output:
            touch(f"done/assets/{place}"),
        params:
            folder=f"train/{place}",
            command=literal(runs.asset_training(name, seed)),
            name=place,
        threads: workflow.cores if seed is None else threads_each
        shell:
            """
            mkdir -p {params.folder:q}
            export OMP_NUM_THREADS={threads}
            {params.command} 2>&1 | tee -a {params.folder:q}/train.log | python -m recipes.progress {params.name:q}
            """

    rule:
        name:
            f"asset_{place.replace('/', '_')}"
        input:
            ancient(f"done/assets/{place}"),
        output:
            runs.marker(name, seed),
        params:
            command=literal(runs.asset_command(name, seed)),
        shell:
            "{params.command}"


# ---- Runs. ----


rule train:
    input:
        before_stage,
    output:
        touch("done/{key}/{stage}"),
    benchmark:
        "benchmarks/{key}/{stage}.tsv"
    params:
        folder=lambda wildcards: stage_of(wildcards, "folder"),
        command=lambda wildcards: stage_of(wildcards, "training"),
    threads: threads_each
    shell:
        """
        mkdir -p {params.folder:q}
        export OMP_NUM_THREADS={threads}
        TIMEFORMAT='times: real %R user %U sys %S'
        {{ time {params.command}; }} 2>&1 | tee -a {params.folder:q}/train.log | python -m recipes.progress {wildcards.key:q}
        """


# A checkpoint says how many hours it was trained; an average of it does not.
rule start:
    input:
        lambda wildcards: ancient(f"done/{wildcards.key}/stage{int(wildcards.number) - 1}"),
    output:
        "runs/{key}/start{number}.pt",
    params:
        folder=lambda wildcards: f"runs/{wildcards.key}/stage{int(wildcards.number) - 1}",
    shell:
        "python -m fairseq_plugins average --inputs {params.folder:q}/checkpoint_last.pt --output {output:q}"


rule average:
    input:
        ancient("done/{key}/train"),
    output:
        "averages/{key}.pt",
    params:
        command=lambda wildcards: runs.average(study.job(wildcards.key)),
    shell:
        "{params.command}"


rule output:
    input:
        "averages/{key}.pt",
    output:
        "outputs/{key}/{stem}." + ("log" if study.metrics else "{target}"),
    params:
        command=lambda wildcards: runs.output(study.job(wildcards.key), wildcards.stem),
        log="runs/{key}/generate-{stem}",
        # Only the lines with the numbers stay: the others hold dates and the paths of a machine.
        keep=lambda wildcards, output: (
            f"sed -n -E 's/^.*(\\| (test|valid)[-.0-9A-Za-z_]* \\| \\{{.*\\}})$/\\1/p' {log_of(wildcards)} >{quote(output[0])}"
            if study.metrics
            else f"python -m data_prep.hypotheses --input {log_of(wildcards)} --output {quote(output[0])}"
        ),
    threads: threads_each
    shell:
        """
        export OMP_NUM_THREADS={threads}
        {params.command} \
          >{params.log:q}.log 2>{params.log:q}.err || {{ tail -n 20 {params.log:q}.err >&2; exit 1; }}
        {params.keep}
        """


rule entry:
    input:
        outputs,
    output:
        "entries/{key}.json",
    params:
        arguments=literal(arguments),
    shell:
        "python -m recipes.entries make {params.arguments:q} --key {wildcards.key:q}"
