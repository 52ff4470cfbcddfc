"""The configurations for fairseq-hydra-train say what the command lines of the recipes say."""

import shlex

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from examples.recipes.hydra import OPEN, files, main, open_ends
from examples.recipes.systems import command, read_system
from tests.unit.recipes.test_systems import VALUES

NAMES = sorted(name.removesuffix(".yaml") for name in files())
WANTED = {"sga", "sga_free", "nat", "msp", "deltalm", "span_corruption", "csr", "veco", "understanding"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hydra")
    main(["--output", str(folder)])
    return folder


def test_there_is_one_of_every_system_whose_task_hydra_knows(folder):
    assert sorted(path.stem for path in folder.glob("*.yaml")) == NAMES and WANTED <= {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_the_command_line(folder, name):
    system = read_system(name)
    values = {**VALUES, "updates": 4000, "interval": 250, "warmup": system.warmup_updates(4000)}
    line = shlex.split(command("fairseq-train data", system.train, values).replace("\\\n", " "))
    args = options.parse_args_and_arch(options.get_training_parser(), line[1:])
    typed = convert_namespace_to_omegaconf(args)
    loaded = OmegaConf.load(folder / f"{name}.yaml")
    compared = 0
    for part, entry in loaded.items():
        for key, value in OmegaConf.to_container(entry).items():
            if value != OPEN and key != "_name":
                found = typed[part].get(key) if OmegaConf.is_config(typed[part]) else vars(typed[part])[key]
                assert found == value, (part, key)
                compared += 1
    assert compared > 15
    assert {"common.user_dir", "task.data", "checkpoint.save_dir"} <= set(open_ends(OmegaConf.to_container(loaded)))
