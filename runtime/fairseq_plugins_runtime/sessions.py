"""Open sessions of onnxruntime, and set the threads that they use.

If each session has its own pool of threads, the threads of one graph keep spinning while the next
graph runs: a model of three graphs took 1.8 times as long on two cores. So all sessions share a
pool in a process that runs nothing else. onnxruntime then refuses sessions with pools of their own,
which other code in the process may open. Elsewhere each session has its own pool, whose threads
stop spinning at the end of a run.
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
    """Declare that nothing else in this process uses onnxruntime, so all sessions share a pool."""
    global _own
    _own = True


def open_session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """Open a session for a graph.

    Args:
        threads: threads of a run; 0 = one per core. A shared pool has those of the first session.

    Raises:
        Exception: of onnxruntime, if it cannot run the graph.
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
    """Return True if this onnxruntime computes some products of 8-bit matrices wrong.

    Versions before 1.25 do on processors with AMX, for 32 rows or more and a number of columns that
    is 17 to 31 more than a multiple of 32.
    """
    version = tuple(int(number) for number in onnxruntime.__version__.split(".")[:2])
    return (
        version < (1, 25)
        and PROCESSOR.is_file()
        and "amx_int8" in PROCESSOR.read_text(encoding="utf-8")
    )


def _saturates() -> bool:
    """Return True if sums of products of unsigned and signed 8-bit integers may saturate.

    They do on x86-64 without VNNI, with errors up to a fifth of the largest value. An x86-64
    processor without a readable description counts as one of these. With unsigned weights the sums
    are exact and slower.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    return not (
        PROCESSOR.is_file()
        and re.search(r"\bavx(512)?_vnni\b", PROCESSOR.read_text(encoding="utf-8"))
    )


def _share(threads: int) -> bool:
    """Return True if all sessions share a pool; create it for the first session."""
    global _shared
    with _lock:
        if _own and not _shared and hasattr(onnxruntime, "set_global_thread_pool_sizes"):
            onnxruntime.set_global_thread_pool_sizes(threads, 1)
            _shared = True
    return _shared
