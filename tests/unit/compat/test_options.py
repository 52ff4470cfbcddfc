"""Options of stock commands: what cannot work together is refused before any file is read; shards and --bf16 mean what they say."""

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

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SEQUENCES = {"label_smoothed_linear_cross_entropy", "cross_entropy", "label_smoothed_cross_entropy"}
SLOTS = {"sga_ctc", "sga_mask_predict"}
STOCK = {*SEQUENCES, "masked_lm", "sentence_prediction"}  # which our own criterions refuse
TRAINED_BY = {
    **dict.fromkeys(("code_switching_restore", "span_corruption", "translation_mixing"), SEQUENCES),
    **dict.fromkeys(("translation_multi_temperature", "translation_from_pretrained_veco"), SEQUENCES),
    **dict.fromkeys(("sga_translation", "sga_translation_multi"), SLOTS),
    **{name: {name} for name in ("relevance_ranking", "span_qa", "token_classification")},
    "cross_lingual_classification": {"sentence_prediction"},
    "tlm_pretraining": {"masked_lm"},
    "veco_pretraining": {"cross_sequence_mlm"},
    **dict.fromkeys(("translation", "translation_from_pretrained_bart", "sentence_prediction"), STOCK),
}
CRITERIONS = set().union(*TRAINED_BY.values())


def own(registry):
    return {name for name, registered in registry.items() if registered.__module__.startswith("fairseq_plugins")}


def test_a_task_takes_its_criterions_alone(monkeypatch):
    assert own(TASK_REGISTRY) <= set(TRAINED_BY) and own(CRITERION_REGISTRY) <= CRITERIONS
    for task, accepted in TRAINED_BY.items():
        for criterion in CRITERIONS:
            if criterion in accepted:
                check_criterion(task, criterion)
                continue
            with pytest.raises(ValueError, match=f"--criterion {criterion} with --task {task}: .*--(criterion|task) "):
                check_criterion(task, criterion)
    other = type("Other", (SentencePredictionCriterion,), {"__module__": "somewhere.else"})
    monkeypatch.setitem(CRITERION_REGISTRY, "other", other)
    check_criterion("span_qa", "other")


def configuration(folder, **parts):
    """The whole configuration of a command, as hydra and the stock commands make it."""
    whole = {
        "common": {"fp16": False, "cpu": True, "tpu": False},
        "common_eval": {"post_process": None},
        "task": {"_name": "translation", "data": str(folder), "source_lang": "en", "target_lang": "de"},
        "criterion": {"_name": "cross_entropy"},
        "bpe": None,
    }
    return OmegaConf.create({name: {**(values or {}), **parts.get(name, {})} or None for name, values in whole.items()})


TWICE = {"bpe": {"_name": "sentencepiece"}, "common_eval": {"post_process": "sentencepiece"}}
WRONG = [
    ({"task": {"data": "absent"}}, ["data folder absent", "fairseq-preprocess"]),
    ({"task": {"data": None}}, ["--task translation", "data"]),
    ({"task": {"data": "???"}}, ["--task translation", "data"]),
    ({"task": {"data": "/:absent"}}, ["data folder absent"]),
    ({"task": {"_name": "span_qa", "data": ""}}, ["--task span_qa", "data"]),
    ({"criterion": {"_name": "sga_ctc"}}, ["--criterion sga_ctc", "--task translation"]),
    (TWICE, ["--bpe sentencepiece", "--remove-bpe sentencepiece"]),
]


@pytest.mark.parametrize(("parts", "words"), WRONG)
@pytest.mark.parametrize("legacy", [False, True], ids=["hydra", "namespace"])
def test_wrong_options_are_named(parts, words, legacy, tmp_path):
    cfg = configuration(tmp_path, **parts)
    task = cfg.task
    if legacy:  # as convert_namespace_to_omegaconf leaves tasks without a dataclass: every option in one place
        names = {"task": cfg.task._name, "criterion": cfg.criterion._name, "bpe": cfg.bpe and cfg.bpe._name}
        data = None if OmegaConf.is_missing(cfg.task, "data") else cfg.task.data
        task = Namespace(**cfg.common, **cfg.common_eval, **names, data=data)
    with pytest.raises(ValueError) as error:
        tasks.setup_task(task)
    assert all(word in str(error.value) for word in words), error.value


def test_a_task_by_itself_needs_its_data():
    with pytest.raises(ValueError, match="data folder absent"):
        tasks.setup_task(OmegaConf.create({"_name": "translation", "data": "absent"}))


def test_options_of_a_training_that_is_over_are_let_pass(tmp_path, monkeypatch):
    """A checkpoint of a GPU is decoded on CPU; commands that decode have the default criterion, whatever the task."""
    builders.write_pair(tmp_path, "test", "en", "de")
    tasks.setup_task(configuration(tmp_path, common={"fp16": True}, **TWICE).task, from_checkpoint=True)
    tasks.setup_task(configuration(tmp_path, common={"fp16": True}).task)  # a model that is built on a checkpoint
    with pytest.raises(ValueError, match="data folder absent"):
        tasks.setup_task(configuration("absent").task, from_checkpoint=True)
    command = [str(tmp_path), "--task", "sga_translation", "-s", "en", "-t", "de", "--path", "any", "--fp16", "--cpu"]
    monkeypatch.setattr("sys.argv", ["fairseq-generate", *command])
    args = options.parse_args_and_arch(options.get_generation_parser(), command)
    assert args.criterion == "cross_entropy"
    for cfg in (args, convert_namespace_to_omegaconf(args).task):
        tasks.setup_task(cfg)


def test_half_precision_needs_a_gpu(monkeypatch):
    common = {"fp16": True, "cpu": False, "tpu": False}
    alone = {"distributed_init_method": None, "distributed_world_size": 1}
    whole = OmegaConf.create({"common": common, "common_eval": {"path": None}, "distributed_training": alone})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for start in (
        lambda: distributed_utils.call_main(whole, None),
        lambda: Trainer(whole, None, None, None),
        lambda: check_precision(Namespace(**{**common, "cpu": True})),
    ):
        with pytest.raises(ValueError, match="--fp16"):
            start()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    check_precision(Namespace(**common))


def test_models_and_tasks_that_fill_slots_need_each_other(tmp_path):
    """In training and where a checkpoint is decoded."""
    builders.write_pair(tmp_path, "train", "en", "de")

    def build(from_checkpoint, *arguments):
        line = [str(tmp_path), "-s", "en", "-t", "de", *arguments]
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), line))
        return tasks.setup_task(cfg.task).build_model(cfg.model, from_checkpoint=from_checkpoint)

    for arch, from_checkpoint in (("sga_tiny", False), ("sga_tiny", True), ("nat_ctc_tiny", True)):
        with pytest.raises(ValueError, match="needs --task sga_translation .*TranslationTask"):
            build(from_checkpoint, "--task", "translation", "--arch", arch)
    with pytest.raises(ValueError, match="--task sga_translation .*TransformerModel.*--task translation"):
        build(True, "--task", "sga_translation", "--arch", "transformer_tiny", "--criterion", "sga_ctc")


# ---- What options mean. ----


def parse(*arguments, parser=options.get_training_parser):
    return options.parse_args_and_arch(parser(), list(map(str, arguments)))


def test_bf16_is_no_tpu():
    assert not parse("data", "--arch", "transformer", "--bf16").tpu
    assert parse("data", "--arch", "transformer", "--bf16", "--tpu").tpu


GENERATE = options.get_generation_parser
SHARDS = [
    (3, 2, GENERATE, (3, 2, "out/shard2of3")),
    (1, 0, GENERATE, (1, 0, "out")),
    (2, 1, options.get_eval_lm_parser, (1, 0, "out")),  # does it by itself
    *((shards, shard, GENERATE, None) for shards, shard in ((2, 2), (2, -1), (1, 1), (0, 0))),
    (2, 1, lambda: options.get_validation_parser("translation"), None),
    (2, 1, options.get_interactive_generation_parser, None),
]


@pytest.mark.parametrize(("shards", "shard", "parser", "expected"), SHARDS)
def test_generation_shards(shards, shard, parser, expected):
    line = ["data", "--path", "model.pt", "--num-shards", shards, "--shard-id", shard, "--results-path", "out"]
    if expected is None:
        with pytest.raises(ValueError, match=f"--num-shards {shards} --shard-id {shard}: "):
            parse(*line, parser=parser)
    else:
        args = parse(*line, parser=parser)
        assert (args.distributed_world_size, args.distributed_rank, args.results_path) == expected


def test_a_training_of_hydra_has_no_shards():
    whole = {"common": {"fp16": False, "cpu": True, "tpu": False}, "dataset": {"num_shards": 2, "shard_id": 0}}
    whole["distributed_training"] = {"distributed_world_size": 1}
    with pytest.raises(ValueError, match="--num-shards 2 --shard-id 0: parts are for fairseq-generate"):
        Trainer(OmegaConf.create(whole), None, None, None)
