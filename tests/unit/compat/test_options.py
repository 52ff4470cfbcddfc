"""Options of stock commands: what cannot work together is refused before any file is read; shards and --bf16 mean what they say."""

from argparse import Namespace

import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from fairseq_plugins.compat.options import check_criterion, check_precision
from tests import builders

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


FOREIGN = [("sga_translation", "cross_entropy"), ("translation", "sga_ctc"), ("span_corruption", "sga_mask_predict")]
FOREIGN += [("span_qa", "token_classification"), ("tlm_pretraining", "cross_sequence_mlm")]
FOREIGN += [("veco_pretraining", "masked_lm"), ("cross_lingual_classification", "masked_lm")]


@pytest.mark.parametrize(("task", "criterion"), FOREIGN)
def test_a_task_refuses_criterions_of_others(task, criterion):
    with pytest.raises(ValueError, match=f"--criterion {criterion} with --task {task}: .*--(criterion|task) "):
        check_criterion(task, criterion)


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
    ({"task": {"data": "/:absent"}}, ["data folder absent"]),
    ({"task": {"_name": "span_qa", "data": ""}}, ["--task span_qa", "data"]),
    ({"criterion": {"_name": "sga_ctc"}}, ["--criterion sga_ctc", "--task translation"]),
    (TWICE, ["--bpe sentencepiece", "--remove-bpe sentencepiece"]),
]


def test_wrong_options_are_named(tmp_path):
    for parts, words in WRONG:
        with pytest.raises(ValueError) as error:
            tasks.setup_task(configuration(tmp_path, **parts).task)
        assert all(word in str(error.value) for word in words), error.value
    legacy = Namespace(task="translation", criterion="sga_ctc", data=str(tmp_path), bpe=None)
    with pytest.raises(ValueError, match="--criterion sga_ctc"):
        tasks.setup_task(legacy)


def test_options_of_a_training_that_is_over_are_let_pass(tmp_path):
    builders.write_pair(tmp_path, "test", "en", "de")
    tasks.setup_task(configuration(tmp_path, common={"fp16": True}, **TWICE).task, from_checkpoint=True)
    tasks.setup_task(configuration(tmp_path, common={"fp16": True}).task)  # a model that is built on a checkpoint
    with pytest.raises(ValueError, match="data folder absent"):
        tasks.setup_task(configuration("absent").task, from_checkpoint=True)


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
    *((shards, shard, GENERATE, None) for shards, shard in ((2, 2), (2, -1), (0, 0))),
    (2, 1, lambda: options.get_validation_parser("translation"), None),
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
    cfg = OmegaConf.create(whole)
    OmegaConf.set_struct(cfg, True)
    with pytest.raises(ValueError, match="--num-shards 2 --shard-id 0: parts are for fairseq-generate"):
        Trainer(cfg, None, None, None)
