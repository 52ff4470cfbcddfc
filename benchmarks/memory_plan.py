"""What ``python -m fairseq_plugins plan`` says of a training's memory against what the training takes, at base size on CPU.

    python -m benchmarks.memory_plan [--vocab 250002] [--max-tokens 512]

Made sentences of 4 to 40 words. Planned: the peak of the batch that needs most. Measured: the resident set's high-water mark in the
second update of fairseq's trainer on that batch, less what the process held before the model was built; once with glibc's
settings, once where it keeps no memory that was freed (MALLOC_MMAP_THRESHOLD_). Every run is a process of its own.
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

import numpy as np
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from fairseq_plugins.checkpoints import write_masked_lm
from fairseq_plugins.masked_lm.model import MaskedLM, MaskedLMSizes
from fairseq_plugins.plan.batches import largest_batches
from fairseq_plugins.plan.rehearsal import rehearse

from . import measure, report
from .systems import POSITIONS, Sizes, dictionary
from .veco_data_path import write

PAIRS, WORDS, SEED = 4000, (4, 40), 1
TIGHT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
SMOOTHED = "--label-smoothing 0.1 --share-all-embeddings --dropout 0.1 --task translation"
SYSTEMS = {
    "SGA, XLM-R base": "--task sga_translation --arch sga_xlmr_base --pretrained-mlm {folder}/mlm --criterion sga_ctc",
    "DeltaLM base": f"{SMOOTHED} --arch deltalm_base --criterion label_smoothed_linear_cross_entropy",
    "VECO base, pre-training": "--task veco_pretraining --pairs de-en --arch veco_base --criterion cross_sequence_mlm",
    "transformer, stock loss": f"{SMOOTHED} --arch transformer --criterion label_smoothed_cross_entropy",
}


def make_data(folder: Path, vocab: int) -> None:
    """A data-bin of random pairs and a random masked LM of XLM-R's base size for its dictionary."""
    generator = np.random.default_rng(SEED)
    symbols = dictionary(vocab - 2)
    symbols.add_symbol("[de]")
    symbols.add_symbol("[en]")
    for language in ("de", "en"):
        symbols.save(str(folder / f"dict.{language}.txt"))
        lengths = generator.integers(*WORDS, PAIRS, endpoint=True)
        rows = [generator.integers(symbols.nspecial, vocab - 3, length) for length in lengths]
        write(folder / f"train.de-en.{language}", [np.append(row, symbols.eos()) for row in rows])
    sizes = Sizes()
    torch.manual_seed(SEED)
    module = MaskedLM(MaskedLMSizes(vocab, sizes.layers, sizes.width, 4 * sizes.width, sizes.heads, POSITIONS))
    module.reset_parameters()
    write_masked_lm(folder / "mlm", module.sizes, dict(module.named_parameters()))
    symbols.save(str(folder / "mlm" / "dict.txt"))


def planned(cfg: Any) -> Dict[str, Any]:
    """In this process: the plan's peak, and what planning itself took."""
    start = time.perf_counter()
    steps = rehearse(cfg).steps
    # The trainer is measured on the same batch, which it finds by its place among the largest ones.
    return {
        "peak": steps[0].peak.size,
        "phase": steps[0].peak.phase,
        "place": steps[0].place,
        "seconds": time.perf_counter() - start,
    }


def trained(cfg: Any, place: int) -> Dict[str, Any]:
    """In this process: the memory of the second update on one of the largest batches."""
    task = tasks.setup_task(cfg.task)
    gc.collect()
    base = measure.memory("VmRSS")
    trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    sample = largest_batches(trainer.get_train_iterator(1))[place]
    trainer.begin_epoch(1)
    trainer.train_step([sample])
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = measure.memory("VmRSS")
    start = time.perf_counter()
    more = measure.peak_memory(lambda: trainer.train_step([sample]), torch.device("cpu"))
    return {"peak": before - base + more, "seconds": time.perf_counter() - start}


def child(line: str, place: int, environment: Dict[str, str]) -> Dict[str, Any]:
    """One run in a process of its own; ``place`` -1: the plan."""
    command = [sys.executable, "-m", f"benchmarks.{Path(__file__).stem}", "--place", str(place), "--line", line]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def configuration(line: str) -> Any:
    """fairseq's, of a command line of training."""
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), line.split()))


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows: List[Sequence[str]] = []
    for row in content["results"]:
        mib = [f"{row[name] / 2**20:,.0f}" for name in ("planned", "tight", "glibc")]
        errors = [f"{100 * (row['planned'] / row[name] - 1):+.1f} %" for name in ("tight", "glibc")]
        rows.append(
            [row["system"], *mib, *errors, row["phase"], f"{row['seconds'][0]:.0f}", f"{row['seconds'][1]:.0f}"]
        )
    columns = ["training", "planned, MiB", "measured, nothing kept", "measured, glibc", "plan's error", "against glibc"]
    return report.table([*columns, "peak in", "seconds to plan", "an update"], rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, default=250002, help="V")
    parser.add_argument("--max-tokens", type=int, default=512, help="of a batch")
    parser.add_argument("--line", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.line:
        cfg = configuration(given.line)
        print(json.dumps(planned(cfg) if given.place < 0 else trained(cfg, given.place)))
        return
    results = []
    with tempfile.TemporaryDirectory() as name:
        make_data(Path(name), given.vocab)
        for system, text in SYSTEMS.items():
            line = (
                f"{name} -s de -t en --cpu --optimizer adam --lr 1e-4 --max-tokens {given.max_tokens} --num-workers 0 "
            )
            line = line.replace("-s de -t en ", "" if "veco" in text else "-s de -t en ") + text.format(folder=name)
            plan = child(line, -1, {})
            tight, glibc = (child(line, plan["place"], environment) for environment in (TIGHT, {}))
            row = {"system": system, "planned": plan["peak"], "phase": plan["phase"]}
            seconds = [round(plan["seconds"], 1), round(glibc["seconds"], 1)]
            results.append({**row, "tight": tight["peak"], "glibc": glibc["peak"], "seconds": seconds})
            measure.say(f"{results[-1]}")
    path = report.write(
        "memory_plan", torch.device("cpu"), {"vocab": given.vocab, "max_tokens": given.max_tokens}, results
    )
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
