"""Compare every task under torchrun, on two and four processes, with one process that accumulates.

No process draws random numbers (dropout is off). Two processes add the same two gradients, so their
parameters are equal in every bit. Four add them in another order; Adam's large epsilon keeps
rounding of gradients that are zero from becoming a step.
"""

import shutil

import pytest
from fairseq.tasks import TASK_REGISTRY

import fairseq_plugins  # noqa: F401 registers the tasks
from tests import csr_builders
from tests.cli import test_code_switching_restore as csr
from tests.cli import test_veco_pretraining as veco
from tests.cli.commands import largest_difference, output_of, records, transformer
from tests.cli.test_sga_commands import sga
from tests.cli.test_span_corruption import MIXING, PRETRAINING
from tests.cli.test_translation_multi_temperature import LANGUAGES
from tests.cli.test_veco_understanding import CASES, WRITE

STOCK = "--arch transformer_tiny --share-all-embeddings"
CROSS_ENTROPY = "--criterion label_smoothed_cross_entropy"
LINEAR_CROSS_ENTROPY = "--criterion label_smoothed_linear_cross_entropy"
ENCODER = """--arch nlu_encoder --encoder-family xlmr --encoder-layers 1 --encoder-embed-dim 16
    --encoder-ffn-embed-dim 16 --encoder-heads 2 --max-positions 24 --attention-dropout 0
    --head-dropout 0 --train-subset train.en --batch-size 2"""
MASKED_LM = """--task tlm_pretraining --pairs en-de --monolingual en --criterion masked_lm
    --arch xlmr_mlm_tiny --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16
    --attention-dropout 0 --max-positions 90"""
TASKS = sorted(
    name for name, task in TASK_REGISTRY.items() if task.__module__.startswith("fairseq_plugins.")
)
UPDATES = 4


def copy_as_second_pair(data, folder):
    """Copy the data-bin of en-de, once more as tr-de."""
    shutil.copytree(data, folder)
    for file in data.iterdir():
        name = file.name.replace(".en-de.", ".tr-de.").replace(".en.", ".tr.")
        (folder / name).write_bytes(file.read_bytes())
    return folder


def multilingual_options(root):
    encoder = " ".join(transformer(2, ffn=32, sides="encoder"))
    decoder = " ".join(transformer(1, ffn=32, sides="decoder"))
    return f"""{LANGUAGES} --sampling-temperature-schedule 1:5:1 {LINEAR_CROSS_ENTROPY}
        --arch deltalm_tiny --init-from-mlm {root / "masked_lm"} --embedding-mismatch extend
        --share-all-embeddings --max-source-positions 64 --max-target-positions 64 {encoder}
        {decoder} --batch-size 2"""


@pytest.fixture
def training(request, tmp_path):
    """Return the data-bin and the options of a task."""

    def write(task):
        use = request.getfixturevalue
        folder = tmp_path / "bin"
        if task in CASES:
            for seed, name in enumerate(("train.en", "valid.en")):
                WRITE[task](folder, name, seed)
            criterion, more, _ = CASES[task]
            return folder, f"--task {task} --criterion {criterion} {more} {ENCODER}"
        if task == "sga_translation":
            return use("world").data, sga(use("world"), "--denoise-noise 0")
        if task == "sga_translation_multi":
            more = "--denoise-noise 0 --lang-pairs en-de,tr-de --sampling-temperature 5"
            line = sga(use("world"), more).replace("sga_translation -s en -t de", task)
            return copy_as_second_pair(use("world").data, folder), line
        if task == "span_corruption":
            more = f"{LINEAR_CROSS_ENTROPY} --label-smoothing 0.1"
            return use("data"), f"{STOCK} {PRETRAINING} {more}"
        if task == "translation_mixing":
            return use("data"), f"{STOCK} {MIXING} --mix-monolingual de {CROSS_ENTROPY}"
        if task == "tlm_pretraining":
            return use("data"), MASKED_LM
        if task == "code_switching_restore":
            corpus = csr_builders.write(tmp_path / "csr")
            return corpus.data, [*csr.MODEL.split(), *corpus.options(), "--attention-dropout=0"]
        if task == "translation_multi_temperature":
            return use("root") / "bin", multilingual_options(use("root"))
        more = "--attention-dropout 0 --max-sentences 2"
        if task == "veco_pretraining":
            return use("folder"), f"{veco.PRETRAINING} --ddp-backend legacy_ddp {more}"
        assert task == "translation_from_pretrained_veco", f"{task}: no options here"
        line = f"{veco.MODEL} --missing-language-tag unk --task {task} -s en -t de {CROSS_ENTROPY}"
        return use("folder"), f"{line} {more}"

    return write


def losses(process):
    """Return the loss of every update."""
    return [float(record["loss"]) for record in records(process) if "num_updates" in record]


@pytest.mark.parametrize("task", TASKS)
def test_processes_equal_accumulation(task, training, train, torchrun, tmp_path, fact):
    data_bin, options = training(task)
    options = options if isinstance(options, list) else options.split()
    dropout = [] if task.startswith("sga_") else ["--dropout=0"]  # SGA has none
    shared = f"--adam-eps=1e-3 --no-epoch-checkpoints --disable-validation --max-update {UPDATES}"
    line = [*options, *dropout, *shared.split()]
    differences = {}
    for count, limit in ((2, 0.0), (4, 1e-6)):
        single_dir, parallel_dir = tmp_path / f"single{count}", tmp_path / f"parallel{count}"
        single = train(data_bin, single_dir, "", *line, f"--update-freq={count}")
        arguments = [*single.args[3:], "--update-freq=1", f"--save-dir={parallel_dir}"]
        parallel = torchrun(count, *arguments)
        assert f"training on {count} devices" in output_of(parallel)
        assert losses(parallel) == losses(single)
        assert len(losses(parallel)) == UPDATES
        differences[count] = largest_difference(single_dir, parallel_dir)
        assert differences[count] <= limit
    fact(task=task, differences=differences)
