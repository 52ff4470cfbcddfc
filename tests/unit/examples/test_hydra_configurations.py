"""Every YAML for fairseq-hydra-train can be read, names options that exist, and leaves open just what its first lines fill in."""

import argparse
import re
from dataclasses import fields

import pytest
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import OmegaConf

import fairseq_plugins  # noqa: F401  (registers what the files name)
from tests.conftest import ROOT

FILES = [path for path in sorted((ROOT / "examples").glob("*/*.yaml")) if "task:" in path.read_text(encoding="utf-8")]
STOCK = FairseqConfig()


def model_options(arch):
    """Names of the options of a model, from its dataclass or its parser."""
    model = ARCH_MODEL_REGISTRY[arch]
    dataclass = getattr(model, "__dataclass", None)
    if dataclass is not None:
        return {one.name for one in fields(dataclass)}
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    model.add_args(parser)
    return {action.dest for action in parser._actions}


def known(part, name):
    """Names of the options that a part of the configuration may set."""
    if part == "model":
        return model_options(name)
    if part == "task":
        return {one.name for one in fields(TASK_DATACLASS_REGISTRY[name])}
    if part in REGISTRIES:
        return {one.name for one in fields(REGISTRIES[part]["dataclass_registry"][name])}
    return {one.name for one in fields(getattr(STOCK, part))}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_options_exist_and_what_is_open_is_in_the_command(path):
    loaded = OmegaConf.load(path)
    open_ends = set()
    for part, entry in loaded.items():
        names = {str(key) for key in entry} - {"_name"}
        assert names <= known(str(part), entry.get("_name")), (path.name, part)
        open_ends |= {f"{part}.{key}" for key in entry if OmegaConf.is_missing(entry, key)}
    comment = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
    assert open_ends == set(re.findall(r"\b(\w+\.\w+)=", comment)) and open_ends
