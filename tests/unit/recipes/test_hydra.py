"""Test that configurations for fairseq-hydra-train equal the command lines of the recipes."""

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from examples.recipes.hydra import OPEN, files, main, open_ends
from examples.recipes.systems import command, read_system
from tests.unit.recipes.builders import split_command
from tests.unit.recipes.test_systems import VALUES

NAMES = sorted(name.removesuffix(".yaml") for name in files())
METHODS = {"sga", "sga_free", "nat", "msp", "deltalm", "span_corruption", "csr", "veco"}
METHODS.add("understanding")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hydra")
    main(["--output", str(folder)])
    return folder


def test_every_method_has_a_configuration(folder):
    assert sorted(path.stem for path in folder.glob("*.yaml")) == NAMES
    assert METHODS <= {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_the_command_line(folder, name):
    system = read_system(name)
    values = {**VALUES, "updates": 4000, "interval": 250, "warmup": system.warmup_updates(4000)}
    words = split_command(command("fairseq-train data", system.train, values))
    args = options.parse_args_and_arch(options.get_training_parser(), words[1:])
    config = convert_namespace_to_omegaconf(args)
    loaded = OmegaConf.load(folder / f"{name}.yaml")
    compared = 0
    for part, entry in loaded.items():
        section = config[part] if OmegaConf.is_config(config[part]) else vars(config[part])
        for key, value in OmegaConf.to_container(entry).items():
            if value != OPEN and key != "_name":
                assert section.get(key) == value, (part, key)
                compared += 1
    assert compared > 15
    required = {"common.user_dir", "task.data", "checkpoint.save_dir"}
    assert required <= set(open_ends(OmegaConf.to_container(loaded)))
