"""Makes a stock fairseq safe and working on today's torch, numpy and Python.

Imported first, because the stock commands import the user dir before they parse their options or read a checkpoint.
Each mend is applied only where the installed fairseq shows its defect. Switch some off, or all, with the environment
variable ``FAIRSEQ_PLUGINS_DISABLE_MENDS`` ("lost_sentences,bf16" or "all").
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
from .mend import Mend
from .nan import NAN_GRADIENTS
from .numpy2 import NUMPY2
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

VARIABLE = "FAIRSEQ_PLUGINS_DISABLE_MENDS"
TESTED_VERSIONS = ("0.12.2", "0.12.3.1")
MENDS: Tuple[Mend, ...] = (
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
_applied: Dict[str, Mend] = {}


def applied() -> Tuple[str, ...]:
    """Names of the mends applied in this process, in order."""
    return tuple(_applied)


def disabled() -> Set[str]:
    """Names switched off by the environment; a name that is no mend is logged with the valid ones."""
    names = {name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()}
    valid = [mend.name for mend in MENDS]
    unknown = names - {*valid, "all"}
    if unknown:
        logger.warning(f"{VARIABLE}: no mend is called {', '.join(sorted(unknown))}; valid: all, {', '.join(valid)}")
    return set(valid) if "all" in names else names


def apply() -> Tuple[str, ...]:
    """Apply every mend that is needed, not switched off and not applied yet; log the versions.

    Checkpoints carry versions from here on, whatever is switched off. Returns ``applied()``. Raises RuntimeError where a mend that
    guards against hostile files cannot be applied.
    """
    off = disabled()
    try:
        import fairseq

        version = getattr(fairseq, "__version__", "unknown")
    except Exception as error:  # nothing to mend, and what needs fairseq reports it better
        logger.warning(f"fairseq cannot be imported, so nothing is mended: {error!r}")
        return applied()
    if version not in TESTED_VERSIONS:
        logger.warning(f"fairseq {version} was not tested with this package; tested: {', '.join(TESTED_VERSIONS)}")
    for mend in MENDS:
        if mend.name in off and mend.guards:
            logger.warning(f"{VARIABLE} switches {mend.name} off: read no files that you do not trust ({mend.reason})")
        if mend.name not in off and mend.name not in _applied:
            _apply_one(mend)
    try:
        versions.install()
    except Exception as error:  # an unknown fairseq: its checkpoints stay as they are
        logger.warning(f"checkpoints will not carry versions: {error!r}")
    logger.info(f"{summary()}; mended: {', '.join(_applied) or 'nothing'}")
    return applied()


def _apply_one(mend: Mend) -> None:
    try:
        if mend.needed():
            mend.apply()
            _applied[mend.name] = mend
    except Exception as error:  # an unknown fairseq: its defect stays, the import goes on
        if mend.guards:
            raise RuntimeError(
                f"the patch {mend.name} guards against hostile files ({mend.reason}) and cannot be applied to this fairseq: "
                f"{error!r}. Install fairseq {' or '.join(TESTED_VERSIONS)}; {VARIABLE}={mend.name} goes on without it"
            ) from error
        logger.warning(f"mend {mend.name} ({mend.reason}) could not be applied: {error!r}")


__all__ = ["MENDS", "TESTED_VERSIONS", "VARIABLE", "Mend", "applied", "apply", "disabled"]
