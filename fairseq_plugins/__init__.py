"""fairseq user-dir plugins for bridging multilingual language understanding and generation.

Shape letters used in every docstring: B batch, S source tokens, T target (or slot) tokens, P prompt
length, L layers, H heads, C model width, V vocabulary. Mask polarity everywhere: True = padding,
may not be attended.
"""

__version__ = "0.2.0"  # above the imports: modules that write checkpoints read it

import functools

from . import own_commands


@functools.cache
def register() -> None:
    """Apply the patches and import everything that registers itself with fairseq.

    ``import fairseq_plugins`` and ``--user-dir`` call it. The commands of this package call it
    when they have read their options. A second call does nothing.
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
    from .csr import task

    # DeltaLM
    from .deltalm import mixing, span_corruption, temperature
    from .deltalm import model as deltalm_model

    # VECO
    from .veco import model as veco_model
    from .veco import criterion as veco_criterion
    from .veco import pretraining as veco_pretraining
    from .veco import translation as veco_translation

    # Understanding: MT as continued pre-training, and the classification of VECO and CSR
    from .understanding import model as understanding_model
    from .understanding import answers, ranking, sentences, tags

    # The masked LM below every paper, the baselines, and the modules beside them
    from .masked_lm import tasks as masked_lm_tasks
    from .masked_lm import training as masked_lm_training
    from .baselines import adapters, from_masked_lm, gpt_msp, nat_ctc
    from .common import label_smoothed_linear_cross_entropy
    from .scoring import scorers
    # isort: on


if own_commands.is_running():  # before the import of fairseq, which would set up logging itself
    own_commands.log_own_lines()
if not own_commands.is_verb():
    register()

__all__ = ["__version__", "register"]
