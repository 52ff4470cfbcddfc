"""Fixtures of the runs on several processes: the tiny data of tests/cli, and a log of outcomes."""

import json
import os
import platform
import shutil
import subprocess
from datetime import date

import pytest
import torch

from tests.cli.conftest import torchrun, train, world
from tests.cli.test_span_corruption import data
from tests.cli.test_translation_multi_temperature import root
from tests.cli.test_veco_pretraining import folder

__all__ = ["data", "folder", "root", "torchrun", "train", "world"]


@pytest.fixture(scope="session")
def fact():
    """Write outcomes of runs to the log ``$FACTS``; its first line describes the machine."""

    def write(**fields):
        text = json.dumps(fields, ensure_ascii=False)
        print(f"\n{text}", flush=True)
        if "FACTS" in os.environ:
            with open(os.environ["FACTS"], "a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    parts = [f"{os.cpu_count()} CPU cores", f"{platform.system()} {platform.machine()}"]
    parts += [f"Python {platform.python_version()}", f"torch {torch.__version__}"]
    if shutil.which("slurmctld"):
        command = ["slurmctld", "-V"]
        version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        parts.append(version.strip().replace("slurm-wlm", "Slurm"))
    write(machine=", ".join(parts), date=str(date.today()))
    return write
