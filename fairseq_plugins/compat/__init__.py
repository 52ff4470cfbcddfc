"""Repairs defects of a stock fairseq on today's torch, numpy and Python.

Imported first, because the stock commands import the user dir before they parse their options or read a checkpoint.
Each patch is applied only where the installed fairseq shows its defect. Switch some off, or all, with the environment
variable ``FAIRSEQ_PLUGINS_DISABLE_PATCHES`` ("lost_sentences,bf16" or "all").
"""

import logging
import os
from typing import Dict, Set, Tuple

from ..checkpoints.versions import summary
from . import (  # noqa: F401  # each registers its patches
    batches,
    data_files,
    folder_lock,
    mbart,
    nan,
    numpy2,
    options,
    processes,
    raw_sentences,
    reading,
    saving,
    starting,
    stock_tasks,
    validation,
    vocabulary_files,
)
from .patch import REGISTRY, Patch

logger = logging.getLogger(__name__)

VARIABLE = "FAIRSEQ_PLUGINS_DISABLE_PATCHES"
TESTED_VERSIONS = ("0.12.2", "0.12.3.1")
PATCHES: Tuple[Patch, ...] = tuple(sorted(REGISTRY, key=lambda patch: patch.last))
_applied: Dict[str, Patch] = {}


def applied() -> Tuple[str, ...]:
    """Names of the patches applied in this process, in order."""
    return tuple(_applied)


def disabled() -> Set[str]:
    """Names switched off by the environment; a name that is not valid is logged with those that are."""
    names = {name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()}
    valid = [patch.name for patch in PATCHES if not patch.always]
    unknown = names - {*valid, "all"}
    if unknown:
        logger.warning(f"{VARIABLE}: no patch is called {', '.join(sorted(unknown))}; valid: all, {', '.join(valid)}")
    return set(valid) if "all" in names else names & set(valid)


def apply() -> Tuple[str, ...]:
    """Apply every patch that is needed, not switched off and not applied yet; log the versions. Returns ``applied()``.

    Raises RuntimeError: a patch that guards against hostile files cannot be applied.
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
