"""Models and tasks that fill slots need each other."""

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from tests import builders

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def build(folder, from_checkpoint, *words):
    line = [str(folder), "-s", "en", "-t", "de", *words]
    args = options.parse_args_and_arch(options.get_training_parser(), line)
    cfg = convert_namespace_to_omegaconf(args)
    return tasks.setup_task(cfg.task).build_model(cfg.model, from_checkpoint=from_checkpoint)


def test_models_and_tasks_that_fill_slots_need_each_other(tmp_path):
    builders.write_pair(tmp_path, "train", "en", "de")
    for arch, from_checkpoint in (("sga_tiny", False), ("sga_tiny", True), ("nat_ctc_tiny", True)):
        with pytest.raises(ValueError, match="needs --task sga_translation .*TranslationTask"):
            build(tmp_path, from_checkpoint, "--task", "translation", "--arch", arch)
    sga_task = ("--task", "sga_translation", "--criterion", "sga_ctc")
    with pytest.raises(
        ValueError, match="--task sga_translation .*TransformerModel.*--task translation"
    ):
        build(tmp_path, True, *sga_task, "--arch", "transformer_tiny")
