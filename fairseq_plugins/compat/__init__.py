"""Repair the defects of a stock fairseq that cost data, results or safety, or that stop a paper.

The stock commands import the user dir before they parse their options or read a checkpoint, and the
user dir imports this package first. A patch is applied only if this fairseq has its defect.
The environment variable ``FAIRSEQ_PLUGINS_DISABLE_PATCHES`` switches patches off by name
("lost_sentences,bf16", or "all").
"""

import logging
import os
from typing import Dict, Set, Tuple

from ..checkpoints.metadata import summary
from . import (
    batches,
    data_files,
    empty_sentences,
    folder_lock,
    mbart,
    options,
    own_runs,
    processes,
    reading,
    saving,
    starting,
    stored_models,
    validation,
)
from .patch import Harm, Patch

logger = logging.getLogger(__name__)

VARIABLE = "FAIRSEQ_PLUGINS_DISABLE_PATCHES"
TESTED_VERSIONS = ("0.12.2", "0.12.3.1")
PATCHES: Tuple[Patch, ...] = (
    # A file can execute.
    reading.SAFE_LOADING,
    reading.LITERAL_OPTIONS,
    # Data is lost.
    batches.LOST_SENTENCES,
    saving.ATOMIC_COPIES,
    # A result is wrong.
    saving.CHECKPOINT_VERSIONS,  # after SAFE_LOADING: both wrap the torch of checkpoint_utils
    batches.EPOCH_RESUME,
    batches.RESAMPLED_ORDER,
    data_files.DAMAGED_DATA,
    empty_sentences.EMPTY_SENTENCES,
    options.TWICE_JOINED,
    mbart.MBART_LANGUAGES,
    mbart.BEAM_SIZE,
    validation.VALIDATION_TEXT,
    validation.VALIDATION_BLEU,
    processes.CPU_PROCESSES,
    starting.MISSING_START,
    starting.FINISHED_RUNS,
    own_runs.INHERITED_HOURS,
    # A paper cannot run.
    mbart.MBART_TASK,
    stored_models.DECODING_BUILDS,
    stored_models.ENCODER_FAST_PATH,
    batches.NUMPY2,
    options.BF16,
    processes.DISTRIBUTED_OBJECTS,
    stored_models.RETIRED_OPTIONS,
    reading.STATE_FILES,
    # Data is lost. Several patches replace checkpoint_utils.load_checkpoint, and the one applied
    # last is called first. FOLDER_LOCK must be called before any other reads the folder, and
    # RESTARTED_RUNS before FINISHED_RUNS, because it chooses the checkpoint.
    own_runs.RESTARTED_RUNS,
    folder_lock.FOLDER_LOCK,
)
"""Every patch, in the order of application."""

_applied: Dict[str, Patch] = {}


def applied() -> Tuple[str, ...]:
    """Return the names of the patches applied in this process, in order."""
    return tuple(_applied)


def disabled() -> Set[str]:
    """Return the names that the environment switches off; log a warning for an unknown name."""
    names = {name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()}
    valid = [patch.name for patch in PATCHES]
    unknown = names - {*valid, "all"}
    if unknown:
        names_valid = ", ".join(["all", *valid])
        names_unknown = ", ".join(sorted(unknown))
        logger.warning(f"{VARIABLE}: no patch is called {names_unknown}; valid: {names_valid}")
    return set(valid) if "all" in names else names & set(valid)


def apply() -> Tuple[str, ...]:
    """Apply every patch that is needed, not switched off and not applied yet.

    Returns:
        The names of all applied patches.

    Raises:
        RuntimeError: a patch against the execution of files cannot be applied.
    """
    off = disabled()
    try:
        import fairseq
    except Exception as error:  # nothing to patch; a later import reports the error better
        logger.warning(f"fairseq cannot be imported, so nothing is patched: {error!r}")
        return applied()
    version, tested = getattr(fairseq, "__version__", "unknown"), ", ".join(TESTED_VERSIONS)
    if version not in TESTED_VERSIONS:
        logger.warning(f"fairseq {version} was not tested with this package; tested: {tested}")
    for patch in PATCHES:
        if patch.name not in off and patch.name not in _applied:
            _apply_needed(patch)
        elif patch.name in off and patch.harm is Harm.EXECUTION:
            advice = f"read only files that you trust ({patch.reason})"
            logger.warning(f"{VARIABLE} switches {patch.name} off: {advice}")
    logger.info(f"{summary()}; patched: {', '.join(_applied) or 'nothing'}")
    return applied()


def _apply_needed(patch: Patch) -> None:
    """Apply a patch if fairseq has the defect.

    A patch that fails is logged, and fairseq keeps the defect. If files could then execute code,
    RuntimeError stops the program.
    """
    try:
        if patch.is_needed():
            patch.apply()
            _applied[patch.name] = patch
    except Exception as error:
        if patch.harm is Harm.EXECUTION:
            raise RuntimeError(
                f"the patch {patch.name} cannot be applied to this fairseq: {error!r} "
                f"({patch.reason}). Install fairseq {' or '.join(TESTED_VERSIONS)}; "
                f"{VARIABLE}={patch.name} goes on without it"
            ) from error
        logger.warning(f"patch {patch.name} ({patch.reason}) could not be applied: {error!r}")


__all__ = [
    "PATCHES",
    "TESTED_VERSIONS",
    "VARIABLE",
    "Harm",
    "Patch",
    "applied",
    "apply",
    "disabled",
]
