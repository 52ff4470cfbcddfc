"""fairseq user-dir plugins for bridging multilingual language understanding and generation.

Shape letters used in every docstring: B batch, S source tokens, T target (or slot) tokens, P prompt
length, L layers, H heads, C model width, V vocabulary. Mask polarity everywhere: True = padding,
may not be attended.
"""

__version__ = "0.1.0"  # before the imports: checkpoints carry it

import functools

from . import own_commands


@functools.cache
def register() -> None:
    """Apply the patches and import everything that registers itself with fairseq.

    ``import fairseq_plugins`` and ``--user-dir`` call it. Our own commands call it themselves, when
    they have read their options. A second call does nothing.
    """
    from . import compat

    compat.apply()

    from .criterions import (
        cross_sequence_mlm,
        label_smoothed_linear_cross_entropy,
        sga_ctc,
        sga_dag,
        sga_mask_predict,
    )
    from .criterions import relevance_ranking as relevance_ranking_criterion
    from .criterions import span_qa as span_qa_criterion
    from .criterions import token_classification as token_classification_criterion
    from .models import baselines, deltalm, nlu, sga, veco, xlmr_mlm
    from .scoring import scorers
    from .tasks import (
        code_switching_restore,
        cross_lingual_classification,
        relevance_ranking,
        sga_translation,
        sga_translation_multi,
        span_corruption,
        span_qa,
        tlm_pretraining,
        token_classification,
        translation_from_pretrained_veco,
        translation_mixing,
        translation_multi_temperature,
        veco_pretraining,
    )


if own_commands.is_running():  # before fairseq is imported, which sets up logging in its own way
    own_commands.log_own_lines()
if not own_commands.is_verb():
    register()

__all__ = ["__version__", "register"]
