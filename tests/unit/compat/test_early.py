"""What cannot work together is refused before any file is read, under its name."""

from argparse import Namespace

import pytest
import torch
from fairseq import options, tasks
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks import TASK_REGISTRY
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from fairseq_plugins.compat.options import check_criterion, check_precision
from tests import builders

LINEAR = "label_smoothed_linear_cross_entropy"
SEQUENCES = {LINEAR, "cross_entropy", "label_smoothed_cross_entropy"}
TRAINED_BY = {
    "code_switching_restore": SEQUENCES,
    "cross_lingual_classification": {"sentence_prediction"},
    "relevance_ranking": {"relevance_ranking"},
    "sga_translation": {"sga_ctc", "sga_mask_predict"},
    "sga_translation_multi": {"sga_ctc", "sga_mask_predict"},
    "span_corruption": SEQUENCES,
    "span_qa": {"span_qa"},
    "tlm_pretraining": {"masked_lm"},
    "token_classification": {"token_classification"},
    "translation_from_pretrained_veco": SEQUENCES,
    "translation_mixing": SEQUENCES,
    "translation_multi_temperature": SEQUENCES,
    "veco_pretraining": {"cross_sequence_mlm"},
    # Stock ones, which our own criterions refuse.
    "translation": {*SEQUENCES, "masked_lm", "sentence_prediction"},
    "translation_from_pretrained_bart": {*SEQUENCES, "masked_lm", "sentence_prediction"},
    "sentence_prediction": {*SEQUENCES, "masked_lm", "sentence_prediction"},
}
OURS = "fairseq_plugins"


def test_every_task_and_criterion_of_the_package_is_in_the_table():
    own = {name for name, task in TASK_REGISTRY.items() if task.__module__.startswith(OURS)}
    assert own <= set(TRAINED_BY)
    found = {name for name, criterion in CRITERION_REGISTRY.items() if criterion.__module__.startswith(OURS)}
    assert found <= set().union(*TRAINED_BY.values())


@pytest.mark.parametrize("task", TRAINED_BY)
def test_a_task_takes_its_criterions_alone(task):
    for criterion in sorted(set().union(*TRAINED_BY.values())):
        if criterion in TRAINED_BY[task]:
            check_criterion(task, criterion)
            continue
        with pytest.raises(ValueError, match=f"--criterion {criterion} with --task {task}: .*--(criterion|task) "):
            check_criterion(task, criterion)


def test_criterions_of_others_are_let_pass(monkeypatch):
    class Own(SentencePredictionCriterion):
        __module__ = "somewhere.else"

    monkeypatch.setitem(CRITERION_REGISTRY, "own", Own)
    check_criterion("span_qa", "own")


def configuration(**parts):
    """The whole configuration of a command, as hydra and the stock commands make it."""
    whole = {
        "common": {"fp16": False, "cpu": True, "tpu": False},
        "common_eval": {"post_process": None},
        "task": {"_name": "translation", "data": "absent", "source_lang": "en", "target_lang": "de"},
        "criterion": {"_name": "cross_entropy"},
        "bpe": None,
    }
    for name, values in parts.items():
        whole[name] = {**(whole[name] or {}), **values}
    return OmegaConf.create(whole)


TWICE = {"bpe": {"_name": "sentencepiece"}, "common_eval": {"post_process": "sentencepiece"}}
WRONG = [
    ({}, ["data folder absent", "fairseq-preprocess"]),
    ({"task": {"data": None}}, ["--task translation", "data"]),
    ({"task": {"data": "???"}}, ["--task translation", "data"]),
    ({"task": {"data": "{here}:absent"}}, ["data folder absent"]),
    ({"task": {"_name": "span_qa", "data": ""}}, ["--task span_qa", "data"]),
    ({"task": {"data": "{here}"}, "criterion": {"_name": "sga_ctc"}}, ["--criterion sga_ctc", "--task translation"]),
    ({"task": {"data": "{here}"}, **TWICE}, ["--bpe sentencepiece", "--remove-bpe sentencepiece"]),
]


@pytest.mark.parametrize(("parts", "words"), WRONG)
@pytest.mark.parametrize("legacy", [False, True], ids=["hydra", "namespace"])
def test_wrong_options_are_named(parts, words, legacy, tmp_path):
    cfg = configuration(**parts)
    if OmegaConf.select(cfg, "task.data"):
        cfg.task.data = cfg.task.data.replace("{here}", str(tmp_path))
    task = cfg.task
    if legacy:  # as convert_namespace_to_omegaconf leaves tasks without a dataclass: every option in one place
        names = {"task": cfg.task._name, "criterion": cfg.criterion._name, "bpe": cfg.bpe and cfg.bpe._name}
        data = None if OmegaConf.is_missing(cfg.task, "data") else cfg.task.data
        task = Namespace(**cfg.common, **cfg.common_eval, **{**names, "data": data})
    with pytest.raises(ValueError) as error:
        tasks.setup_task(task)
    assert all(word in str(error.value) for word in words), error.value


def test_options_of_a_training_that_is_over_are_let_pass(tmp_path):
    """A checkpoint of a GPU is decoded on CPU."""
    for language in ("en", "de"):
        builders.write_dictionary(tmp_path, language)
    cfg = configuration(task={"data": str(tmp_path)}, common={"fp16": True}, **TWICE)
    tasks.setup_task(cfg.task, from_checkpoint=True)
    with pytest.raises(ValueError, match="data folder absent"):
        tasks.setup_task(configuration().task, from_checkpoint=True)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_decoding_has_no_criterion(tmp_path, monkeypatch):
    """fairseq's commands give it the default one, which some tasks are never trained with."""
    builders.write_pair(tmp_path, "test", "en", "de")
    command = [str(tmp_path), "--task", "sga_translation", "-s", "en", "-t", "de", "--path", "any", "--fp16", "--cpu"]
    monkeypatch.setattr("sys.argv", ["fairseq-generate", *command])
    args = options.parse_args_and_arch(options.get_generation_parser(), command)
    assert args.criterion == "cross_entropy"
    for cfg in (args, convert_namespace_to_omegaconf(args).task):
        tasks.setup_task(cfg)


def test_half_precision_needs_a_gpu(monkeypatch):
    common = Namespace(fp16=True, cpu=False, tpu=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for cpu in (False, True):
        with pytest.raises(ValueError, match="--fp16"):
            check_precision(Namespace(**{**vars(common), "cpu": cpu}))
    alone = {"distributed_init_method": None, "distributed_world_size": 1}
    whole = OmegaConf.create({"common": vars(common), "common_eval": {"path": None}, "distributed_training": alone})
    with pytest.raises(ValueError, match="--fp16"):
        distributed_utils.call_main(whole, None)
    with pytest.raises(ValueError, match="--fp16"):
        Trainer(whole, None, None, None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    check_precision(common)


def test_a_stored_configuration_is_no_training(tmp_path):
    """Some models of fairseq set up the task of a checkpoint that they are built on, which a GPU may have made."""
    for language in ("en", "de"):
        builders.write_dictionary(tmp_path, language)
    tasks.setup_task(configuration(task={"data": str(tmp_path)}, common={"fp16": True}).task)


@pytest.fixture
def folder(tmp_path):
    builders.write_pair(tmp_path, "train", "en", "de")
    return tmp_path


def build_model(folder, from_checkpoint, *arguments):
    line = [str(folder), "-s", "en", "-t", "de", *arguments]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), line))
    return tasks.setup_task(cfg.task).build_model(cfg.model, from_checkpoint=from_checkpoint)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("arch", ["sga_tiny", "nat_ctc_tiny"])
def test_models_that_fill_slots_need_their_task(folder, arch):
    for from_checkpoint in (False, True):  # training; decoding
        with pytest.raises(ValueError, match="needs --task sga_translation .*TranslationTask"):
            build_model(folder, from_checkpoint, "--task", "translation", "--arch", arch)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_models_are_not_decoded_in_slots(folder):
    with pytest.raises(ValueError, match="--task sga_translation .*TransformerModel.*--task translation"):
        build_model(folder, True, "--task", "sga_translation", "--arch", "transformer_tiny", "--criterion", "sga_ctc")
