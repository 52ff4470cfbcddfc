# From two text files to a translator: text, pieces, a masked language model, SGA with low-rank updates, an autoregressive baseline, a table, a folder.
import json
from shlex import quote

from recipes.plan import check_hours
from recipes.runs import has_bfloat16
from recipes.settings import check_folder, read_settings
from recipes.systems import RecipeError, command, read_system

SYSTEMS = ("sga_lora", "at")              # that are trained and compared
SPEED_UPDATES = 30
HALVED = {"bf16": True} if has_bfloat16() else {}   # of the masked LM and what is around it: half of the time; AT is too narrow to gain
TLM_START = {"guidance-start": "tlm"}     # of SGA: its masked LM has seen pairs; 24.5 BLEU in place of 19.6 after 400 updates
BY_UPDATES = {"validate-interval": 1000, "save-interval": 1000}   # epochs: the plan has validations by updates alone

try:
    run = read_settings(config)
    check_folder(run, Path())
    systems = {name: read_system(name) for name in ("masked_lm", *SYSTEMS)}
    frozen = None if run.masked_lm else "masked_lm"
    trained = [*([frozen] if frozen else []), *SYSTEMS]
    parallel = min(len(SYSTEMS), workflow.cores)
    if not Path("plan.json").is_file():
        check_hours(run.hours, trained, frozen, parallel)
except ValueError as error:
    sys.exit(f"error: {error}")

pair = f"{run.source}-{run.target}"
start = str(run.masked_lm or "masked_lm")
plan = json.loads(Path("plan.json").read_text())["systems"] if Path("plan.json").is_file() else None


def threads_of(name):
    return workflow.cores if name == frozen else max(1, workflow.cores // parallel)


def training(name, folder, pretrained, limits, more):
    """The command of a training of a system."""
    system = systems[name]
    values = {"root": ROOT, "source": run.source, "target": run.target, "seed": run.seed, "start": pretrained, **limits}
    half = HALVED if name == "masked_lm" or system.starts_from else {}
    guided = TLM_START if name == "sga_lora" else {}
    return command("fairseq-train bin", {**system.train, **BY_UPDATES, **half, **guided, "cpu": True, "save-dir": folder, **more}, values)


def measured(wildcards):
    limits = {"updates": SPEED_UPDATES, "warmup": 10, "interval": SPEED_UPDATES}
    pretrained = start if run.masked_lm else "speed/model"
    more = {"log-interval": 5, "keep-best-checkpoints": None}
    return training(wildcards.system, f"speed/{wildcards.system}", pretrained, limits, more)


def planned(wildcards):
    if plan is None:
        return "(the options follow from plan.json)"
    own = plan[wildcards.system]
    limits = {"updates": own["updates"], "interval": own["interval"], "warmup": systems[wildcards.system].warmup_updates(own["updates"])}
    return training(wildcards.system, f"train/{wildcards.system}", start, limits, {"stop-time-hours": f"{own['seconds'] / 3600:.4f}"})


def generation(wildcards):
    system = systems[wildcards.system]
    values = {"root": ROOT}
    given = {"source-lang": run.source, "target-lang": run.target, "gen-subset": wildcards.subset, "path": f"averages/{wildcards.system}.pt"}
    return command("fairseq-generate bin", {**system.translate, **given, "cpu": True}, values)


wildcard_constraints:
    system="|".join(systems),
    subset="valid|test",


rule translator:
    input:
        "translator/translator.json",


# ---- Text. ----


# The two files are no inputs: Snakemake would take braces in their paths for wildcards, and an edited file is to be refused.
rule text:
    output:
        "settings.json",
        text=expand("text/{split}.{language}", split=("train", "valid", "test"), language=(run.source, run.target)),
    benchmark:
        "benchmarks/text.tsv"
    params:
        files=lambda wildcards: [str(run.source_file), str(run.target_file)],
        settings=lambda wildcards: json.dumps(run.record()),
        languages=[run.source, run.target],
        clean=[f"text/clean.{run.source}", f"text/clean.{run.target}"],
        share=f"{run.held_out:.4f}",
    shell:
        """
        python -m data_prep.clean --inputs {params.files:q} --outputs {params.clean:q} \
          --unit characters --max-length 1000 --max-ratio 9
        python -m data_prep.split --inputs {params.clean:q} --langs {params.languages:q} --output-dir text \
          --valid-ratio {params.share} --test-ratio {params.share}
        echo {params.settings:q} >settings.json
        """


rule pieces:
    input:
        expand("text/train.{language}", language=(run.source, run.target)),
    output:
        model="pieces/sentencepiece.bpe.model",
        dictionary="pieces/dict.txt",
    benchmark:
        "benchmarks/pieces.tsv"
    params:
        make=lambda wildcards: (
            f"cp {quote(str(run.masked_lm))}/{{sentencepiece.bpe.model,dict.txt}} pieces/"
            if run.masked_lm
            else f"python -m data_prep.spm train --inputs text/train.{run.source} text/train.{run.target} "
            f"--vocab-size {run.vocabulary} --fewer --character-coverage 0.9999 --model pieces/sentencepiece.bpe.model --dict pieces/dict.txt"
        ),
    shell:
        "{params.make}"


rule binaries:
    input:
        rules.text.output.text,
        rules.pieces.output,
    output:
        "bin/manifest.json",
    benchmark:
        "benchmarks/binaries.tsv"
    params:
        script=lambda wildcards: str(ROOT / "data_prep" / "preprocess.sh"),
        pair=pair,
    threads: workflow.cores
    shell:
        """
        bash {params.script:q} --text text --model pieces/sentencepiece.bpe.model --dict pieces/dict.txt \
          --pairs {params.pair} --out bin --workers {threads}
        """


# ---- A short training of each system: does it run, and how fast? ----


rule speed:
    input:
        "bin/manifest.json",
        lambda wildcards: ["speed/model/config.json"] if frozen and systems[wildcards.system].starts_from else [],
    output:
        "speed/{system}.log",
    benchmark:
        "benchmarks/speed-{system}.tsv"
    params:
        command=measured,
    threads: lambda wildcards: threads_of(wildcards.system)
    shell:
        """
        rm -rf speed/{wildcards.system}
        export OMP_NUM_THREADS={threads}
        {params.command} >{output} 2>&1 || {{ tail -n 20 {output} >&2; exit 1; }}
        """


rule speeds:
    input:
        expand("speed/{system}.log", system=trained),


rule speed_model:
    input:
        "speed/masked_lm.log",
    output:
        "speed/model/config.json",
    params:
        script=lambda wildcards: str(ROOT / "examples" / "export_masked_lm.py"),
    shell:
        """
        python {params.script:q} --checkpoint speed/masked_lm/checkpoint_last.pt --dict pieces/dict.txt \
          --sentencepiece pieces/sentencepiece.bpe.model --output speed/model
        """


rule plan:
    input:
        rules.speeds.input,
    output:
        "plan.json",
    params:
        hours=run.hours,
        systems=trained,
        frozen=f"--frozen {frozen}" if frozen else "",
        parallel=parallel,
    shell:
        """
        python -m recipes.plan make --hours {params.hours} --systems {params.systems} {params.frozen} \
          --parallel {params.parallel} --output plan.json
        """


# ---- Training, averaging, translating. ----


rule train:
    input:
        ancient("plan.json"),
        ancient("bin/manifest.json"),
        lambda wildcards: [ancient("masked_lm/config.json")] if frozen and systems[wildcards.system].starts_from else [],
    output:
        touch("done/{system}"),
    benchmark:
        "benchmarks/train-{system}.tsv"
    params:
        command=planned,
    threads: lambda wildcards: threads_of(wildcards.system)
    shell:
        """
        mkdir -p logs
        export OMP_NUM_THREADS={threads}
        {params.command} 2>&1 \
          | tee -a logs/train-{wildcards.system}.log | python -m recipes.progress {wildcards.system}
        """


rule masked_lm:
    input:
        "done/masked_lm",
    output:
        "masked_lm/config.json",
    params:
        script=lambda wildcards: str(ROOT / "examples" / "export_masked_lm.py"),
    shell:
        """
        python {params.script:q} --checkpoint train/masked_lm/checkpoint_best.pt --dict pieces/dict.txt \
          --sentencepiece pieces/sentencepiece.bpe.model --output masked_lm
        """


rule average:
    input:
        "done/{system}",
    output:
        "averages/{system}.pt",
    params:
        best=lambda wildcards: systems[wildcards.system].average,
    shell:
        """
        python -m fairseq_plugins average --directory train/{wildcards.system} --best {params.best} \
          --allow-fewer --output {output}
        """


rule generate:
    input:
        "averages/{system}.pt",
    output:
        f"outputs/{{subset}}.{{system}}.{run.target}",
    benchmark:
        "benchmarks/generate-{system}-{subset}.tsv"
    params:
        command=generation,
        lines=f"text/{{subset}}.{run.source}",
    threads: lambda wildcards: threads_of(wildcards.system)
    shell:
        """
        mkdir -p logs
        export OMP_NUM_THREADS={threads}
        {params.command} \
          >logs/{wildcards.subset}.{wildcards.system}.log 2>logs/{wildcards.subset}.{wildcards.system}.err \
          || {{ tail -n 20 logs/{wildcards.subset}.{wildcards.system}.err >&2; exit 1; }}
        python -m data_prep.hypotheses --input logs/{wildcards.subset}.{wildcards.system}.log --lines-of {params.lines} --output {output}
        """


rule score:
    input:
        outputs=expand(f"outputs/{{{{subset}}}}.{{system}}.{run.target}", system=SYSTEMS),
        reference=f"text/{{subset}}.{run.target}",
    output:
        "scores-{subset}.json",
    params:
        systems=lambda wildcards: " ".join(f"--system {name}=outputs/{wildcards.subset}.{name}.{run.target}" for name in SYSTEMS),
        tokenizer=run.tokenizer,
    shell:
        "python -m data_prep.score --reference {input.reference} {params.systems} --tokenize {params.tokenizer} --json {output}"


rule folder:
    input:
        scores=expand("scores-{subset}.json", subset=("valid", "test")),
        models=expand("averages/{system}.pt", system=SYSTEMS),
    output:
        "translator/translator.json",
    params:
        systems=list(SYSTEMS),
        pair=pair,
    shell:
        "python -m recipes.report --pair {params.pair} --systems {params.systems} --output translator"
