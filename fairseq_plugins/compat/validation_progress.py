"""Long validations of ``fairseq-train`` say how far they are, also where nobody sees a progress bar."""

import logging
import time
from typing import Any, Iterator

from .patch import Patch, instead_of, is_patched

logger = logging.getLogger(__name__)

NAME = "validation_progress"
REPORT_SECONDS = 20.0
BARS = ("SimpleProgressBar", "JsonProgressBar")  # the others draw, or shall be silent


def _silent() -> bool:
    from fairseq.logging import progress_bar

    return not is_patched(progress_bar.SimpleProgressBar.__iter__, NAME)


def _report() -> None:
    from fairseq.logging import progress_bar

    for name in BARS:
        bar = getattr(progress_bar, name)
        bar.__iter__ = _reporting(bar.__iter__)


def _reporting(stock: Any) -> Any:
    """The iterator of a progress bar that logs the batches of a validation set every REPORT_SECONDS."""

    @instead_of(stock, NAME)
    def __iter__(self: Any) -> Iterator[Any]:
        # Stock prints what it has for each batch of training, and what it has in the end for validation.
        subset = self.prefix.rpartition("valid on ")[2] if "valid on " in self.prefix else None
        start = reported = time.monotonic()
        for number, batch in enumerate(stock(self)):
            now = time.monotonic()
            if subset and now - reported >= REPORT_SECONDS:
                logger.info("%s: %d of %d batches in %.0f s", subset, number, self.size, now - start)
                reported = now
            yield batch

    return __iter__


VALIDATION_PROGRESS = Patch(
    name=NAME,
    reason="fairseq-train logs nothing during a validation with --log-format simple or json: minutes with --eval-bleu",
    upstream="no report of it found",
    needed=_silent,
    apply=_report,
)
