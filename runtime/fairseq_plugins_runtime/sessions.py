"""Sessions of onnxruntime, and the threads that they have.

With a pool of threads per session, those of one graph would still wait actively for work when the next graph runs: a model of three
graphs took 1.8 times as long on two cores. In a process of its own, the runtime lets all sessions share one pool. onnxruntime then
refuses sessions without it, which other code may have: in any other process, sessions have pools that wait within a run alone.
"""

import platform
import re
import threading
from pathlib import Path

import onnxruntime

PROCESSOR = Path("/proc/cpuinfo")
UNSIGNED_WEIGHTS = "session.x64quantprecision"
_lock = threading.Lock()
_own = False
_shared = False


def own_process() -> None:
    """Say that nothing else in this process uses onnxruntime: the first session makes a pool of threads for all."""
    global _own
    _own = True


def open_session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """A session for a graph; ``threads``: 0 for one per core. In a process of its own, the first session says for all.

    Raises the errors of onnxruntime: the graph cannot be run.
    """
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    if _saturates():
        options.add_session_config_entry(UNSIGNED_WEIGHTS, "1")
    if _share(threads):
        options.use_per_session_threads = False
    else:
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def has_wrong_products() -> bool:
    """Whether onnxruntime is one that computes some products of 8 bits wrong here.

    Before 1.25, on processors with AMX: those of 32 rows or more whose columns are 17 to 31 more than a multiple of 32.
    """
    version = tuple(int(number) for number in onnxruntime.__version__.split(".")[:2])
    return version < (1, 25) and PROCESSOR.is_file() and "amx_int8" in PROCESSOR.read_text(encoding="utf-8")


def _saturates() -> bool:
    """Whether sums of products of unsigned by signed 8 bits may saturate here: on x86-64 without VNNI, or where that is not known.

    onnxruntime then has to make the weights unsigned: exact, and slower. Saturating sums lose a fifth of the largest value.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    return not (PROCESSOR.is_file() and re.search(r"\bavx(512)?_vnni\b", PROCESSOR.read_text(encoding="utf-8")))


def _share(threads: int) -> bool:
    """Whether all sessions share a pool; it is made where it is wanted and not there."""
    global _shared
    with _lock:
        if _own and not _shared and hasattr(onnxruntime, "set_global_thread_pool_sizes"):
            onnxruntime.set_global_thread_pool_sizes(threads, 1)
            _shared = True
    return _shared
