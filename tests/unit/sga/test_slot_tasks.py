"""Test that models and tasks that fill slots need each other."""

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from tests import builders

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SGA_TASK = ("--task", "sga_translation", "--criterion", "sga_ctc")


@pytest.mark.cases(
    "arch words from_checkpoint message",
    ("sga_tiny", ["--task", "translation"], False, "needs --task sga_translation"),
    ("sga_tiny", ["--task", "translation"], True, "needs --task sga_translation"),
    ("nat_ctc_tiny", ["--task", "translation"], True, "needs --task sga_translation"),
    ("transformer_tiny", SGA_TASK, True, "--task sga_translation .*--task translation"),
)
def test_other_tasks_and_models_are_refused(tmp_path, arch, words, from_checkpoint, message):
    builders.write_pair(tmp_path, "train", "en", "de")
    line = [str(tmp_path), "-s", "en", "-t", "de", "--arch", arch, *words]
    args = options.parse_args_and_arch(options.get_training_parser(), line)
    cfg = convert_namespace_to_omegaconf(args)
    with pytest.raises(ValueError, match=message):
        tasks.setup_task(cfg.task).build_model(cfg.model, from_checkpoint=from_checkpoint)
