"""fairseq user-dir plugins for bridging multilingual language understanding and generation.

Shape letters used in every docstring: B batch, S source tokens, T target (or slot) tokens, P prompt length, L layers,
H heads, C model width, V vocabulary. Mask polarity everywhere: True = padding, may not be attended.
"""

from . import compat

compat.apply()

from .criterions import label_smoothed_linear_cross_entropy, sga_ctc  # noqa: E402
from .models import baselines, deltalm, sga, xlmr_mlm  # noqa: E402
from .scoring import scorers  # noqa: E402
from .tasks import (  # noqa: E402
    sga_translation,
    span_corruption,
    tlm_pretraining,
    translation_mixing,
    translation_multi_temperature,
)

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "baselines",
    "deltalm",
    "label_smoothed_linear_cross_entropy",
    "scorers",
    "sga",
    "sga_ctc",
    "sga_translation",
    "span_corruption",
    "tlm_pretraining",
    "translation_mixing",
    "translation_multi_temperature",
    "xlmr_mlm",
]
