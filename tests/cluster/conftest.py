"""What the runs on several processes share: the tiny data of the command-line tests, and the log of what was run."""

import json
import os
import platform
import shutil
import subprocess
from datetime import date

import pytest
import torch

from tests.cli.conftest import train, world
from tests.cli.test_span_corruption import data
from tests.cli.test_translation_multi_temperature import root
from tests.cli.test_veco_pretraining import folder

__all__ = ["data", "folder", "root", "train", "world"]


@pytest.fixture(scope="session")
def fact():
    """Add a line to the log ``$FACTS``: what was run, and what came of it. The first line says where."""

    def write(**found):
        text = json.dumps(found, ensure_ascii=False)
        print(f"\n{text}", flush=True)
        if "FACTS" in os.environ:
            with open(os.environ["FACTS"], "a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    parts = [f"{os.cpu_count()} CPU cores", f"{platform.system()} {platform.machine()}"]
    parts += [f"Python {platform.python_version()}", f"torch {torch.__version__}"]
    if shutil.which("slurmctld"):
        slurm = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True).stdout
        parts.append(slurm.strip().replace("slurm-wlm", "Slurm"))
    write(machine=", ".join(parts), date=str(date.today()))
    return write
