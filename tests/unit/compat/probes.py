"""Shows each defect of stock fairseq with its patch on and off. Run as a script; ``conftest.py`` reads what it writes.

One process imports fairseq (seconds) and forks a child for each probe and state, because the patches and fairseq's
registries are process-global. A child runs the stock commands in-process, with the patches applied by --user-dir.
Usage: PROBES_USER_DIR=... python probes.py FOLDER OUTPUT.json [PATCH ...]
"""

import argparse
import io
import json
import logging
import os
import shutil
import sys
import time
import traceback
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List

import fairseq_cli.generate
import numpy as np
import torch
from fairseq import checkpoint_utils, options
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf
from probe_base import USER_DIR, at, attempt, command, load_user_dir, prepare, read, start, train
from probe_processes import atomic_copies, cpu_processes
from probe_training import (
    bf16,
    checkpoint_errors,
    epoch_resume,
    finished_runs,
    folder_lock,
    mbart_languages,
    mbart_task,
    missing_start,
    own_run,
    raw_sentences,
    renamed_options,
    training_time,
    validation_progress,
)
from probe_values import beam_size, early_errors, empty_batches, generation_shards, nan_gradients, validation_text


def lost_sentences() -> dict:
    """How many of 20 sentences are decoded, and what batches come of 3 sentences and of none."""
    output = command(
        fairseq_cli.generate.cli_main,
        *(at("bin"), "--user-dir", USER_DIR, "--path", at("model") / "checkpoint_last.pt", "--cpu"),
        *("--gen-subset", "valid", "--max-len-b", 3, "--beam", 1),
    )
    return {
        "decoded": sum(line.startswith("H-") for line in output.splitlines()),
        "few": attempt(lambda: _batched(range(3))),
        "none": attempt(lambda: _batched([])),
    }


def _batched(indices: Iterable[int]) -> List[int]:
    batches = data_utils.batch_by_size(indices, lambda i: 1, max_sentences=8, required_batch_size_multiple=8)
    return [int(index) for batch in batches for index in batch]


def safe_loading() -> dict:
    """What a checkpoint of fairseq may hold, in the names of old and new numpy, and one that it may not hold."""
    from fairseq import meters

    load_user_dir()
    state = read(at("model") / "checkpoint_last.pt")
    namespaces = sum(isinstance(part, argparse.Namespace) for part in state["cfg"].values())
    state["extra_state"].update(array=np.arange(3), scalar=np.float64(0.5), meter=meters.AverageMeter())
    loaded = {}
    for name, in_file in (("numpy1", "numpy.core.multiarray"), ("numpy2", "numpy._core.multiarray")):
        path = at(f"{name}.pt")
        _save_with_module_name(state, path, in_file)
        extra = checkpoint_utils.load_checkpoint_to_cpu(str(path))["extra_state"]
        loaded[name] = [extra["array"].tolist(), float(extra["scalar"]), type(extra["meter"]).__name__]
    return {"namespaces": namespaces, "loaded": loaded}


def _save_with_module_name(state: dict, path: Path, module: str) -> None:
    """Save as a program with another numpy would: the array functions under the given module name."""
    functions = (np.arange(1).__reduce__()[0], np.float64(0).__reduce__()[0])
    before = [function.__module__ for function in functions]
    for function in functions:
        function.__module__ = module
    try:
        torch.save(state, path)
    finally:
        for function, name in zip(functions, before):
            function.__module__ = name


def literal_options() -> Dict[str, Any]:
    """What comes of a text with code in it and of one without, where fairseq evaluates an option."""
    from fairseq import utils

    load_user_dir()
    return {
        "code": attempt(lambda: utils.eval_str_list("[len(str(7))]", int)),
        "literal": attempt(lambda: utils.eval_str_list("[7] * 2", int)),
    }


def distributed_objects() -> dict:
    """Receive, as rank 1, a configuration that rank 0 sends."""
    load_user_dir()
    buffer = io.BytesIO()
    torch.save({"cfg": OmegaConf.create({"lr": 0.5})}, buffer)
    messages = iter([torch.LongTensor([len(buffer.getvalue())]), torch.ByteTensor(list(buffer.getvalue()))])
    distributed_utils.get_rank = lambda group: 1
    distributed_utils.broadcast = lambda tensor, src, group: tensor.copy_(next(messages))
    received = distributed_utils._broadcast_object_slow(None, 0, None, torch.device("cpu"))
    return {"lr": received["cfg"].lr}


def numpy2() -> Dict[str, Any]:
    """Each use of a removed name by itself: what it gives, or the error."""
    from fairseq.data import TokenBlockDataset
    from fairseq.modules import DynamicCRF

    removed = {"compat", "float", "int"}
    before = removed & set(vars(np))
    load_user_dir()
    sizes = np.array([2, 3])
    blocks = [torch.tensor([5, 2]), torch.tensor([6, 7, 2])]
    crf = DynamicCRF(num_embedding=5, low_rank=2, beam_size=3)
    return {
        "eos": attempt(lambda: len(TokenBlockDataset(blocks, sizes, None, pad=1, eos=2, break_mode="eos"))),
        "crf": attempt(lambda: crf(torch.zeros(1, 2, 5), torch.tensor([[1, 2]]), torch.ones(1, 2).bool()).numel()),
        "buckets": attempt(
            lambda: len(train(at("buckets"), "--max-update", 1, "--max-tokens", 64, "--num-batch-buckets", 2)) > 0
        ),
        "untouched": removed & set(vars(np)) == before,
    }


def permute_sentences() -> dict:
    """The value as the task gets it, from the command line."""
    values = {}
    for task in ("denoising", "multilingual_denoising"):
        arguments = [str(at("mono")), "--user-dir", USER_DIR, "--task", task, "--arch", "bart_base"]
        sys.argv = ["command", *arguments]
        args = options.parse_args_and_arch(options.get_training_parser(), [*arguments, "--permute-sentences", "0.5"])
        values[task] = convert_namespace_to_omegaconf(args).task.permute_sentences
    return values


def damaged_data() -> dict:
    """A data-bin that is a page too long, as the stock task opens it."""
    with at("bin/valid.de-en.en.bin").open("ab") as stream:
        stream.write(bytes(4096))
    return {"opened": attempt(_translation)}


def damaged_vocabularies() -> dict:
    """A dictionary whose last line is cut."""
    path = at("bin/dict.en.txt")
    path.write_bytes(path.read_bytes()[:-3])
    return {"opened": attempt(_translation)}


def decoding_builds() -> dict:
    """What a task knows whose model was built to be filled from a checkpoint."""
    load_user_dir()
    _, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(at("model/checkpoint_last.pt"))], arg_overrides={"data": str(at("bin"))}
    )
    return {"from_checkpoint": getattr(task, "from_checkpoint", None)}


def _translation() -> int:
    """Target sentences of the validation set, as stock translation reads them."""
    load_user_dir()
    dictionary = Dictionary.load(str(at("bin/dict.en.txt")))
    return len(data_utils.load_indexed_dataset(str(at("bin/valid.de-en.en")), dictionary))


PROBES: Dict[str, Callable[[], dict]] = {
    "lost_sentences": lost_sentences,
    "safe_loading": safe_loading,
    "literal_options": literal_options,
    "distributed_objects": distributed_objects,
    "epoch_resume": epoch_resume,
    "mbart_task": mbart_task,
    "mbart_languages": mbart_languages,
    "numpy2": numpy2,
    "bf16": bf16,
    "permute_sentences": permute_sentences,
    "checkpoint_errors": checkpoint_errors,
    "own_run": own_run,
    "missing_start": missing_start,
    "finished_runs": finished_runs,
    "folder_lock": folder_lock,
    "raw_sentences": raw_sentences,
    "training_time": training_time,
    "validation_progress": validation_progress,
    "renamed_options": renamed_options,
    "cpu_processes": cpu_processes,
    "atomic_copies": atomic_copies,
    "damaged_data": damaged_data,
    "damaged_vocabularies": damaged_vocabularies,
    "decoding_builds": decoding_builds,
    "beam_size": beam_size,
    "validation_text": validation_text,
    "generation_shards": generation_shards,
    "nan_gradients": nan_gradients,
    "early_errors": early_errors,
    "empty_batches": empty_batches,
}


def observe(probe: Callable[[], dict], folder: Path, switched_off: str) -> Dict[str, Any]:
    """The probe's result in a child with some patches off, or {"error": ...}, and which patches were applied there."""
    file = folder / "result.json"
    file.unlink(missing_ok=True)

    def child() -> None:
        os.environ["FAIRSEQ_PLUGINS_DISABLE_PATCHES"] = switched_off
        os.chdir(folder)
        log = io.StringIO()
        began = time.time()
        try:
            with redirect_stderr(log):
                result = probe()
        except (Exception, SystemExit) as error:
            result = {"error": f"{type(error).__name__}: {error}", "log": log.getvalue()[-4000:]}
            result["trace"] = traceback.format_exc()[-2000:]
        from fairseq_plugins import compat

        result.update(applied=compat.applied(), probe_seconds=round(time.time() - began, 2))
        file.write_text(json.dumps(result))

    os.waitpid(start(child), 0)
    return json.loads(file.read_text()) if file.exists() else {"error": "the child ended without a result"}


def warm_up() -> None:
    """Compose one stock configuration: hydra's parser is slow the first time, and children inherit what it learns."""
    sys.argv = ["command", "unused", "--arch", "transformer"]
    convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser()))


def main() -> None:
    base, output, selected = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    warm_up()
    results: Dict[str, Any] = {"prepare": observe(prepare, base, "")}
    for name, probe in PROBES.items():
        if selected and name not in selected:
            continue
        results[name] = {}
        for state, switched_off in (("on", ""), ("off", name)):
            folder = base / f"{name}_{state}"
            folder.mkdir()
            for shared in ("bin", "mono", "model"):
                shutil.copytree(base / shared, folder / shared)
            results[name][state] = observe(probe, folder, switched_off)
    output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
