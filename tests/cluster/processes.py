"""Every task of the package with torchrun, two and four processes: the values are those of one process with --update-freq.

Nothing is random that a process draws for itself (dropout is off). Two processes add the same two gradients, so their
parameters are equal in every bit. Four add them in another order; Adam's large epsilon keeps the rounding of gradients that
are zero from becoming a step.
"""

import shutil
import sys
from pathlib import Path

import pytest
from fairseq.tasks import TASK_REGISTRY

import fairseq_plugins  # noqa: F401 registers the tasks
from tests import csr_builders
from tests.cli import test_code_switching_restore as csr
from tests.cli import test_veco_pretraining as veco
from tests.cli.commands import largest_difference, records, transformer
from tests.cli.test_sga_commands import sga
from tests.cli.test_span_corruption import MIXING, PRETRAINING
from tests.cli.test_translation_multi_temperature import LANGUAGES
from tests.cli.test_veco_understanding import CASES, WRITE

STOCK = "--arch transformer_tiny --share-all-embeddings"
ENCODER = """--arch nlu_encoder --encoder-family xlmr --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16
    --encoder-heads 2 --max-positions 24 --attention-dropout 0 --head-dropout 0 --train-subset train.en --batch-size 2"""
TASKS = sorted(name for name, task in TASK_REGISTRY.items() if task.__module__.startswith("fairseq_plugins."))
UPDATES = 4


@pytest.fixture
def line(request, tmp_path):
    """Data-bin and options of a task."""

    def made(task):
        use = request.getfixturevalue
        if task in CASES:
            for seed, name in enumerate(("train.en", "valid.en")):
                WRITE[task](tmp_path / "bin", name, seed)
            criterion, more, _ = CASES[task]
            return tmp_path / "bin", f"--task {task} --criterion {criterion} {more} {ENCODER}"
        if task == "sga_translation":
            return use("world").data, sga(use("world"), "--denoise-noise 0")
        if task == "sga_translation_multi":
            more = "--denoise-noise 0 --lang-pairs en-de,tr-de --sampling-temperature 5"
            shutil.copytree(use("world").data, tmp_path / "bin")
            for file in use("world").data.iterdir():
                name = file.name.replace(".en-de.", ".tr-de.").replace(".en.", ".tr.")
                (tmp_path / "bin" / name).write_bytes(file.read_bytes())
            return tmp_path / "bin", sga(use("world"), more).replace("sga_translation -s en -t de", task)
        if task == "span_corruption":
            return use(
                "data"
            ), f"{STOCK} {PRETRAINING} --criterion label_smoothed_linear_cross_entropy --label-smoothing 0.1"
        if task == "translation_mixing":
            return use("data"), f"{STOCK} {MIXING} --mix-monolingual de --criterion label_smoothed_cross_entropy"
        if task == "tlm_pretraining":
            more = "--arch xlmr_mlm_tiny --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --attention-dropout 0"
            return use(
                "data"
            ), f"--task {task} --pairs en-de --monolingual en --criterion masked_lm {more} --max-positions 90"
        if task == "code_switching_restore":
            options = csr_builders.write(tmp_path / "csr")
            return options.data, [*csr.MODEL.split(), *options.options(), "--attention-dropout", "0"]
        if task == "translation_multi_temperature":
            sizes = [*transformer(2, ffn=32, sides="encoder"), *transformer(1, ffn=32, sides="decoder")]
            more = f"""--arch deltalm_tiny --init-from-mlm {use("root") / "masked_lm"} --embedding-mismatch extend
                --share-all-embeddings --max-source-positions 64 --max-target-positions 64"""
            given = f"{LANGUAGES} --sampling-temperature-schedule 1:5:1 {more} --criterion label_smoothed_linear_cross_entropy"
            return use("root") / "bin", [*given.split(), *sizes, "--batch-size", "2"]
        assert task in ("veco_pretraining", "translation_from_pretrained_veco"), f"{task}: no options here"
        more = f"{veco.PRETRAINING} --ddp-backend legacy_ddp"
        if task != "veco_pretraining":
            more = f"{veco.MODEL} --missing-language-tag unk --task {task} -s en -t de --criterion label_smoothed_cross_entropy"
        return use("folder"), f"{more} --attention-dropout 0 --max-sentences 2"

    return made


def losses(done):
    """The loss of every update."""
    return [float(one["loss"]) for one in records(done) if "num_updates" in one]


@pytest.mark.parametrize("task", TASKS)
def test_processes_equal_accumulation(task, line, train, run_cli, tmp_path, fact):
    data_bin, options = line(task)
    options = options if isinstance(options, list) else options.split()
    dropout = [] if task.startswith("sga_") else ["--dropout=0"]  # SGA has none
    shared = "--adam-eps=1e-3 --no-epoch-checkpoints --disable-validation --max-update"
    given = [*options, *dropout, *shared.split(), str(UPDATES)]
    differences = {}
    for count, most in ((2, 0.0), (4, 1e-6)):
        one, many = tmp_path / f"one{count}", tmp_path / f"many{count}"
        single = train(data_bin, one, "", *given, f"--update-freq={count}")
        own = [*single.args[3:], "--update-freq=1", f"--save-dir={many}"]
        command = [Path(sys.executable).with_name("fairseq-train"), *own]
        done = run_cli("torch.distributed.run", "--standalone", "--nproc_per_node", count, *command)
        assert f"training on {count} devices" in done.stderr + done.stdout
        assert losses(done) == losses(single) and len(losses(done)) == UPDATES
        differences[count] = largest_difference(one, many)
        assert differences[count] <= most
    fact(task=task, differences=differences)
