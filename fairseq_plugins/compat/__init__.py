"""Makes a stock fairseq safe and working on today's torch, numpy and Python.

Imported first, because the stock commands import the user dir before they parse their options or read a checkpoint.
Each patch is applied only where the installed fairseq shows its defect. Switch some off, or all, with the environment
variable ``FAIRSEQ_PLUGINS_DISABLE_PATCHES`` ("lost_sentences,bf16" or "all").
"""

import logging
import os
from typing import Dict, Set, Tuple

from ..checkpoints.versions import summary
from . import versions
from .batches import EPOCH_RESUME, LOST_SENTENCES
from .beam_size import BEAM_SIZE
from .data_files import DAMAGED_DATA
from .early import EARLY_ERRORS
from .finished import FINISHED_RUNS
from .folder_lock import FOLDER_LOCK
from .layers import ENCODER_FAST_PATH
from .literals import LITERAL_OPTIONS
from .mbart_languages import MBART_LANGUAGES
from .nan import NAN_GRADIENTS
from .numpy2 import NUMPY2
from .patch import Patch
from .precision import BF16
from .processes import CPU_PROCESSES, DISTRIBUTED_OBJECTS, EMPTY_BATCHES
from .raw_sentences import RAW_SENTENCES
from .reading import CHECKPOINT_ERRORS, SAFE_LOADING
from .renamed import RENAMED_OPTIONS
from .restarts import MISSING_START, OWN_RUN
from .saving import ATOMIC_COPIES
from .shards import GENERATION_SHARDS
from .tasks import DECODING_BUILDS, MBART_TASK, PERMUTE_SENTENCES, VALIDATION_TEXT
from .training_time import TRAINING_TIME
from .validation_progress import VALIDATION_PROGRESS
from .vocabulary_files import DAMAGED_VOCABULARIES

logger = logging.getLogger(__name__)

VARIABLE = "FAIRSEQ_PLUGINS_DISABLE_PATCHES"
TESTED_VERSIONS = ("0.12.2", "0.12.3.1")
PATCHES: Tuple[Patch, ...] = (
    SAFE_LOADING,
    LITERAL_OPTIONS,
    ATOMIC_COPIES,
    CHECKPOINT_ERRORS,
    LOST_SENTENCES,
    EPOCH_RESUME,
    BF16,
    CPU_PROCESSES,
    DISTRIBUTED_OBJECTS,
    NUMPY2,
    MBART_TASK,
    MBART_LANGUAGES,
    PERMUTE_SENTENCES,
    ENCODER_FAST_PATH,
    TRAINING_TIME,
    OWN_RUN,
    MISSING_START,
    FINISHED_RUNS,
    FOLDER_LOCK,  # after everything else that looks into the folder
    RAW_SENTENCES,
    VALIDATION_PROGRESS,
    RENAMED_OPTIONS,
    DAMAGED_DATA,
    DAMAGED_VOCABULARIES,
    DECODING_BUILDS,
    BEAM_SIZE,
    VALIDATION_TEXT,
    GENERATION_SHARDS,
    NAN_GRADIENTS,
    EARLY_ERRORS,
    EMPTY_BATCHES,
)
_applied: Dict[str, Patch] = {}


def applied() -> Tuple[str, ...]:
    """Names of the patches applied in this process, in order."""
    return tuple(_applied)


def disabled() -> Set[str]:
    """Names switched off by the environment; a name that is no patch is logged with the valid ones."""
    names = {name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()}
    valid = [patch.name for patch in PATCHES]
    unknown = names - {*valid, "all"}
    if unknown:
        logger.warning(f"{VARIABLE}: no patch is called {', '.join(sorted(unknown))}; valid: all, {', '.join(valid)}")
    return set(valid) if "all" in names else names


def apply() -> Tuple[str, ...]:
    """Apply every patch that is needed, not switched off and not applied yet; log the versions.

    Checkpoints carry versions from here on, whatever is switched off. Returns ``applied()``. Raises RuntimeError where a patch that
    guards against hostile files cannot be applied.
    """
    off = disabled()
    try:
        import fairseq

        version = getattr(fairseq, "__version__", "unknown")
    except Exception as error:  # nothing to patch, and what needs fairseq reports it better
        logger.warning(f"fairseq cannot be imported, so nothing is patched: {error!r}")
        return applied()
    if version not in TESTED_VERSIONS:
        logger.warning(f"fairseq {version} was not tested with this package; tested: {', '.join(TESTED_VERSIONS)}")
    for patch in PATCHES:
        if patch.name in off and patch.guards:
            logger.warning(
                f"{VARIABLE} switches {patch.name} off: read no files that you do not trust ({patch.reason})"
            )
        if patch.name not in off and patch.name not in _applied:
            _apply_one(patch)
    try:
        versions.install()
    except Exception as error:  # an unknown fairseq: its checkpoints stay as they are
        logger.warning(f"checkpoints will not carry versions: {error!r}")
    logger.info(f"{summary()}; patched: {', '.join(_applied) or 'nothing'}")
    return applied()


def _apply_one(patch: Patch) -> None:
    try:
        if patch.needed():
            patch.apply()
            _applied[patch.name] = patch
    except Exception as error:  # an unknown fairseq: its defect stays, the import goes on
        if patch.guards:
            raise RuntimeError(
                f"the patch {patch.name} guards against hostile files ({patch.reason}) and cannot be applied to this fairseq: "
                f"{error!r}. Install fairseq {' or '.join(TESTED_VERSIONS)}; {VARIABLE}={patch.name} goes on without it"
            ) from error
        logger.warning(f"patch {patch.name} ({patch.reason}) could not be applied: {error!r}")


__all__ = ["PATCHES", "TESTED_VERSIONS", "VARIABLE", "Patch", "applied", "apply", "disabled"]
