"""Sessions of onnxruntime that share one pool of threads.

With a pool per session, the threads of one graph still wait actively for work when the next graph runs: a model of three graphs
took 1.8 times as long on two cores. The pool belongs to the process, and its size cannot change.
"""

import threading
from pathlib import Path
from typing import Optional

import onnxruntime

from .model_json import ModelError

_lock = threading.Lock()
_chosen: Optional[int] = None
"""Threads of the pool, 0 for onnxruntime's choice; None before the first session."""


def open_session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """A session for a graph; ``threads``: of the process's pool, 0 for one per core.

    Raises ModelError: the pool has another size already. The errors of onnxruntime: the graph cannot be run.
    """
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    if _pool(threads):
        options.use_per_session_threads = False
    else:
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _pool(threads: int) -> bool:
    """Make the pool, unless it is there; False where this onnxruntime has none that can be shared."""
    global _chosen
    if not hasattr(onnxruntime, "set_global_thread_pool_sizes"):
        return False
    with _lock:
        if _chosen is None:
            try:
                onnxruntime.set_global_thread_pool_sizes(threads, 1)
            except Exception as error:  # onnxruntime's errors have no other base
                raise ModelError(f"threads {threads}: another part of this process has set onnxruntime's") from error
            _chosen = threads
    if threads not in (0, _chosen):
        raise ModelError(
            f"threads {threads}: the models of this process share {_chosen or 'one per core'}; leave it out"
        )
    return True
