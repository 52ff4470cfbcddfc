"""fairseq user-dir plugins for bridging multilingual language understanding and generation.

Shape letters used in every docstring: B batch, S source tokens, T target (or slot) tokens, P prompt length, L layers,
H heads, C model width, V vocabulary. Mask polarity everywhere: True = padding, may not be attended.
"""

__version__ = "0.1.0"  # before the imports: checkpoints carry it

from . import own_commands

if own_commands.is_running():  # before fairseq is imported, which sets up logging in its own way
    own_commands.log_own_lines()

from . import compat

compat.apply()

# What registers with fairseq: one line per module, grouped by paper.
# isort: off
# SGA
from .sga import variants as sga_variants  # noqa: E402
from .sga import tasks as sga_tasks  # noqa: E402
from .sga import many_pairs as sga_many_pairs  # noqa: E402

# CSR
from .tasks import code_switching_restore  # noqa: E402

# DeltaLM
from .models import deltalm  # noqa: E402
from .tasks import span_corruption, translation_mixing, translation_multi_temperature  # noqa: E402

# VECO
from .models import veco  # noqa: E402
from .criterions import cross_sequence_mlm  # noqa: E402
from .tasks import translation_from_pretrained_veco, veco_pretraining  # noqa: E402

# Understanding (MT as continued pre-training, VECO's and CSR's classification)
from .models import nlu  # noqa: E402
from .criterions import relevance_ranking as relevance_ranking_criterion  # noqa: E402
from .criterions import span_qa as span_qa_criterion  # noqa: E402
from .criterions import token_classification as token_classification_criterion  # noqa: E402
from .tasks import cross_lingual_classification, relevance_ranking, span_qa, token_classification  # noqa: E402

# The masked LM below every paper, the baselines, and what stands beside them
from .masked_lm import tasks as masked_lm_tasks  # noqa: E402
from .masked_lm import training as masked_lm_training  # noqa: E402
from .models import baselines  # noqa: E402
from .criterions import label_smoothed_linear_cross_entropy  # noqa: E402
from .scoring import scorers  # noqa: E402
# isort: on

__all__ = ["__version__"]
