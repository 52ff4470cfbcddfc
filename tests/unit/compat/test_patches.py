"""Patches of single functions: each test fails where its patch is switched off. Other files here have the larger ones."""

import copy
from argparse import Namespace

import fairseq
import numpy as np
import pytest
import torch
from fairseq import options, tasks
from fairseq.data import LanguagePairDataset, TokenBlockDataset
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import progress_bar
from fairseq.modules import DynamicCRF
from omegaconf import OmegaConf

from fairseq_plugins.compat import processes, validation
from tests import builders


def parse(*arguments):
    return options.parse_args_and_arch(options.get_training_parser(), list(map(str, arguments)))


def test_numpy_has_what_fairseq_uses():
    sizes = np.array([2, 3])
    blocks = [torch.tensor([5, 2]), torch.tensor([6, 7, 2])]
    assert len(TokenBlockDataset(blocks, sizes, None, pad=1, eos=2, break_mode="eos")) == 2
    crf = DynamicCRF(num_embedding=5, low_rank=2, beam_size=3)
    assert crf(torch.zeros(1, 2, 5), torch.tensor([[1, 2]]), torch.ones(1, 2).bool()).numel() == 1
    side = blocks, sizes, builders.dictionary()
    pair = LanguagePairDataset(*side, *side, num_buckets=2)
    assert pair.collater([pair[0], pair[1]])["ntokens"] == 5
    assert not {"compat", "float", "int"} & set(vars(np)) or np.__version__ < "2"  # numpy itself is as it was


@pytest.mark.skipif(fairseq.__version__ == "0.12.2", reason="there the option is a float")
@pytest.mark.parametrize("task", ["denoising", "multilingual_denoising"])
def test_permute_sentences_is_a_share(task):
    args = parse("data", "--task", task, "--arch", "bart_base", "--permute-sentences", 0.5)
    assert convert_namespace_to_omegaconf(args).task.permute_sentences == 0.5


def mbart_task(folder, langs="en,de", *more):
    line = [folder, "--task", "translation_from_pretrained_bart", "-s", "en", "-t", "de", "--langs", langs]
    return tasks.setup_task(parse(*line, "--arch", "mbart_base", *more))


def test_long_validations_say_how_far_they_are(monkeypatch, caplog):
    monkeypatch.setattr(validation, "REPORT_SECONDS", 0.0)
    caplog.set_level("INFO")
    assert list(progress_bar.SimpleProgressBar([1, 2], epoch=1, prefix="valid on 'other' subset")) == [1, 2]
    assert "'other' subset: 1 of 2 batches" in caplog.text


def test_mbart_languages(tmp_path, monkeypatch):
    builders.write_pair(tmp_path, "valid", "en", "de")
    monkeypatch.setattr(tasks.translation.TranslationTask, "build_model", lambda *_, **__: "model")
    task = mbart_task(tmp_path)
    assert task.build_model(None) == "model"
    state = task.state_dict()
    task.load_state_dict(state)
    task.load_state_dict({})
    cfg = {"model": {"_name": "mbart_base"}, "task": {"_name": "translation_from_pretrained_bart", "langs": "en,de"}}
    torch.save({"model": {}, "args": None, "cfg": cfg, "task_state": state}, tmp_path / "model.pt")
    start = "--finetune-from-model", tmp_path / "model.pt"
    for build, words in (
        (lambda: mbart_task(tmp_path, "de,en").load_state_dict(state), "was trained with en,de"),
        (lambda: mbart_task(tmp_path, "de,en", *start).build_model(None), "was trained with en,de"),
        (lambda: mbart_task(tmp_path, "en").build_model(None), r"--target-lang de: .* no \[de\]"),
    ):
        with pytest.raises(ValueError, match=words):
            build()


def torchrun(monkeypatch, size):
    for name, value in {"MASTER_ADDR": "here", "MASTER_PORT": "1", "WORLD_SIZE": size, "RANK": "1"}.items():
        monkeypatch.setenv(name, value)


def test_processes_of_torchrun_train_one_model_on_cpu(monkeypatch):
    alone = OmegaConf.structured(FairseqConfig)
    alone.common.cpu = True
    single, cfg, manual = (copy.deepcopy(alone) for _ in range(3))
    torchrun(monkeypatch, "1")
    processes.call_main(lambda *_: None, single, None)
    torchrun(monkeypatch, "3")
    processes.call_main(lambda *_: None, cfg, None)
    assert single == alone
    job = cfg.distributed_training
    found = job.distributed_init_method, job.distributed_world_size, job.distributed_rank, job.distributed_no_spawn
    assert (*found, job.device_id, job.distributed_backend) == ("env://", 3, 1, True, 0, "gloo")
    manual.distributed_training.distributed_init_method = "tcp://here:1"
    with pytest.raises(ValueError, match="--distributed-init-method tcp://here:1 starts one process for each GPU"):
        processes.call_main(lambda *_: None, manual, None)


def test_a_process_of_a_job_does_not_train_alone(monkeypatch):
    cfg = Namespace(distributed_training=Namespace(distributed_world_size=1))
    processes.start_trainer(lambda trainer, cfg: None, None, cfg)
    torchrun(monkeypatch, "1")
    processes.start_trainer(lambda trainer, cfg: None, None, cfg)
    torchrun(monkeypatch, "2")
    with pytest.raises(ValueError, match="WORLD_SIZE=2 .*--distributed-world-size 2 .*distributed_init_method=env://"):
        processes.start_trainer(lambda trainer, cfg: None, None, cfg)
