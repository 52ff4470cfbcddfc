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

    # One line per module that registers, grouped by paper.
    # isort: off
    # SGA
    from .sga import variants
    from .sga import tasks as sga_tasks
    from .sga import many_pairs

    # CSR
    from .tasks import code_switching_restore

    # DeltaLM
    from .models import deltalm
    from .tasks import span_corruption, translation_mixing, translation_multi_temperature

    # VECO
    from .models import veco
    from .criterions import cross_sequence_mlm
    from .tasks import translation_from_pretrained_veco, veco_pretraining

    # Understanding: MT as continued pre-training, and the classification of VECO and CSR
    from .models import nlu
    from .criterions import relevance_ranking as relevance_ranking_criterion
    from .criterions import span_qa as span_qa_criterion
    from .criterions import token_classification as token_classification_criterion
    from .tasks import cross_lingual_classification, relevance_ranking, span_qa
    from .tasks import token_classification

    # The masked LM below every paper, the baselines, and the modules beside them
    from .masked_lm import tasks as masked_lm_tasks
    from .masked_lm import training as masked_lm_training
    from .baselines import adapters, from_masked_lm, gpt_msp, nat_ctc
    from .criterions import label_smoothed_linear_cross_entropy
    from .scoring import scorers
    # isort: on


if own_commands.is_running():  # before fairseq is imported, which sets up logging in its own way
    own_commands.log_own_lines()
if not own_commands.is_verb():
    register()

__all__ = ["__version__", "register"]
