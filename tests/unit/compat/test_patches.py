"""Patches of single functions: each test fails where its patch is switched off. Other files here have the larger ones."""

import io
import logging
from argparse import Namespace

import fairseq
import numpy as np
import pytest
import torch
from fairseq import models, options, tasks
from fairseq.data import LanguagePairDataset, TokenBlockDataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import progress_bar
from fairseq.modules import DynamicCRF, transformer_layer
from fairseq.tasks.translation import TranslationConfig
from omegaconf import OmegaConf

from fairseq_plugins.compat import processes, validation
from fairseq_plugins.compat.stock_tasks import ENCODER_FAST_PATH
from tests import builders
from tests.gpt_builders import mbart


def parse(*arguments):
    return options.parse_args_and_arch(options.get_training_parser(), list(map(str, arguments)))


def test_the_state_that_rank_0_sends_is_read(monkeypatch):
    buffer = io.BytesIO()
    torch.save({"cfg": OmegaConf.create({"lr": 0.5})}, buffer)
    messages = iter([torch.LongTensor([len(buffer.getvalue())]), torch.ByteTensor(list(buffer.getvalue()))])
    monkeypatch.setattr(distributed_utils, "get_rank", lambda group: 1)
    monkeypatch.setattr(distributed_utils, "broadcast", lambda tensor, src, group: tensor.copy_(next(messages)))
    received = distributed_utils._broadcast_object_slow(None, 0, None, torch.device("cpu"))
    assert received["cfg"].lr == 0.5
    with pytest.raises(ValueError, match="only objects sent by a process of this job"):
        distributed_utils.torch.load("model.pt")


def test_numpy_has_what_fairseq_uses():
    sizes = np.array([2, 3])
    blocks = [torch.tensor([5, 2]), torch.tensor([6, 7, 2])]
    assert len(TokenBlockDataset(blocks, sizes, None, pad=1, eos=2, break_mode="eos")) == 2
    crf = DynamicCRF(num_embedding=5, low_rank=2, beam_size=3)
    assert crf(torch.zeros(1, 2, 5), torch.tensor([[1, 2]]), torch.ones(1, 2).bool()).numel() == 1
    pair = LanguagePairDataset(
        blocks, sizes, builders.dictionary(), blocks, sizes, builders.dictionary(), num_buckets=2
    )
    assert pair.collater([pair[0], pair[1]])["ntokens"] == 5
    assert not {"compat", "float", "int"} & set(vars(np)) or np.__version__ < "2"  # numpy itself is as it was


@pytest.mark.skipif(fairseq.__version__ == "0.12.2", reason="there the option is a float")
@pytest.mark.parametrize("task", ["denoising", "multilingual_denoising"])
def test_permute_sentences_is_a_share(task):
    args = parse("data", "--task", task, "--arch", "bart_base", "--permute-sentences", 0.5)
    assert convert_namespace_to_omegaconf(args).task.permute_sentences == 0.5


def test_a_task_knows_that_its_model_will_be_filled():
    symbols = builders.dictionary()
    task = tasks.translation.TranslationTask(TranslationConfig(), symbols, symbols)
    sizes = {f"{side}_{name}": 8 for side in ("encoder", "decoder") for name in ("embed_dim", "ffn_embed_dim")}
    cfg = Namespace(arch="transformer", encoder_layers=1, decoder_layers=1, encoder_attention_heads=1, **sizes)
    for from_checkpoint in (True, False):
        models.build_model(cfg, task, from_checkpoint)
        assert task.from_checkpoint is from_checkpoint


def test_the_fast_path_is_not_taken(monkeypatch):
    """On a stand-in for the layer of 0.12.2."""

    class Layer:
        def __init__(self, cfg):
            self.can_use_fastpath = True

        def forward(self, x):
            return torch._transformer_encoder_layer_fwd(x, 8) if self.can_use_fastpath else x

    monkeypatch.setattr(transformer_layer, "TransformerEncoderLayerBase", Layer)
    ENCODER_FAST_PATH.apply()
    assert Layer("cfg").forward(1) == 1


def test_long_validations_say_how_far_they_are(monkeypatch, caplog):
    monkeypatch.setattr(validation, "REPORT_SECONDS", 0.0)
    caplog.set_level(logging.INFO)
    for kind in (progress_bar.SimpleProgressBar, progress_bar.JsonProgressBar):
        caplog.clear()
        assert list(kind([1, 2], epoch=1, prefix="valid on 'other' subset")) == [1, 2]
        told = [record.getMessage().split(" in ")[0] for record in caplog.records]
        assert told == [f"'other' subset: {number} of 2 batches" for number in range(2)]
    caplog.clear()
    assert list(progress_bar.SimpleProgressBar([1, 2], epoch=1)) == [1, 2]
    assert not caplog.records


# ---- The mBART task. ----


@pytest.fixture
def folder(tmp_path):
    builders.write_pair(tmp_path, "valid", "en", "de")
    return tmp_path


def mbart_task(folder, langs="en,de", *more):
    line = [folder, "--task", "translation_from_pretrained_bart", "-s", "en", "-t", "de", "--langs", langs]
    return tasks.setup_task(parse(*line, "--arch", "mbart_base", *more))


def test_the_mbart_task_runs(folder):
    task = mbart_task(folder)
    task.load_dataset("valid")
    rows = task.build_dataset_for_inference([torch.tensor([5, 2])], [2])
    assert task.dataset("valid")[0]["source"][-1] == rows[0]["source"][-1] == task.src_dict.index("[en]")
    assert task.build_generator([mbart(task.tgt_dict)], Namespace(beam=1)).eos == task.tgt_dict.index("[de]")
    task.args = "of a subclass"
    assert task.args == "of a subclass"


def test_mbart_languages(folder, monkeypatch):
    monkeypatch.setattr(tasks.translation.TranslationTask, "build_model", lambda *_, **__: "model")
    task = mbart_task(folder)
    assert task.build_model(None) == "model"
    state = task.state_dict()
    task.load_state_dict(state)
    task.load_state_dict({})
    cfg = {"model": {"_name": "mbart_base"}, "task": {"_name": "translation_from_pretrained_bart", "langs": "en,de"}}
    torch.save({"model": {}, "args": None, "cfg": cfg, "task_state": state}, folder / "model.pt")
    for start, words in (
        (lambda: mbart_task(folder, "de,en").load_state_dict(state), "was trained with en,de; give the same languages"),
        (
            lambda: mbart_task(folder, "en").build_model(None),
            r"--target-lang de: .* no \[de\], because --langs en lacks it",
        ),
        (
            lambda: mbart_task(folder, "de,en", "--finetune-from-model", folder / "model.pt").build_model(None),
            "was trained with en,de",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            start()


# ---- Several processes. ----


def test_an_empty_batch_of_validation_is_nothing(folder):
    args = parse(folder, "-s", "en", "-t", "de", "--arch", "transformer_tiny")
    task = tasks.setup_task(args, from_checkpoint=True)
    assert task.valid_step({}, None, None) == (0.0, 0, {})
    task = tasks.setup_task(args, from_checkpoint=True)
    with pytest.raises(AttributeError):
        task.valid_step({"id": 1}, None, None)


TORCHRUN = {"MASTER_ADDR": "here", "MASTER_PORT": "1", "WORLD_SIZE": "2", "RANK": "1"}


JOBS = [
    ({}, {}, (None, 1, 0, False, "nccl")),
    ({}, {**TORCHRUN, "WORLD_SIZE": "1"}, (None, 1, 0, False, "nccl")),
    ({}, TORCHRUN, ("env://", 2, 1, True, "gloo")),
    ({"distributed_init_method": "tcp://x", "distributed_no_spawn": True}, {}, ("tcp://x", 1, 0, True, "gloo")),
    ({"distributed_init_method": "tcp://x"}, {}, None),
]


@pytest.mark.parametrize(("given", "environment", "expected"), JOBS)
def test_jobs_on_cpu(monkeypatch, given, environment, expected):
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    cfg = convert_namespace_to_omegaconf(parse("data", "--arch", "transformer", "--cpu"))
    cfg.distributed_training.update(distributed_world_size=1, **given)
    monkeypatch.setattr(distributed_utils, "distributed_main", lambda i, main, cfg, kwargs: main(cfg))
    if expected is None:
        with pytest.raises(ValueError, match="--distributed-init-method tcp://x starts one process for each GPU"):
            distributed_utils.call_main(cfg, None)
        return
    distributed_utils.call_main(cfg, lambda cfg: None)
    job = cfg.distributed_training
    found = (job.distributed_init_method, job.distributed_world_size, job.distributed_rank)
    assert (*found, job.distributed_no_spawn, job.distributed_backend) == expected
    assert job.device_id == 0


def test_a_process_of_a_job_does_not_train_alone(monkeypatch):
    def start(**training):
        return processes.start_trainer(lambda trainer, cfg: None, None, Namespace(**training))

    start(distributed_training=Namespace(distributed_world_size=1))
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="WORLD_SIZE=2 .*--distributed-world-size 2 .*distributed_init_method=env://"):
        start(distributed_training=Namespace(distributed_world_size=1))
    start(distributed_world_size=2)  # options of old trainers
