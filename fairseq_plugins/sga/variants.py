"""The one place that knows every variant of SGA: what each ``--alignment`` is made of.

Joins the options of the variants to the plain ones, registers model and criterions with fairseq,
and builds generators. The classes that are named here do not name each other.
"""

import logging
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple, Type

from fairseq.criterions import register_criterion
from fairseq.data import Dictionary
from fairseq.models import register_model

from ..checkpoints.vocabulary import MASK
from ..common.frozen import log_sizes
from ..common.options import (
    check_rules,
    fill_missing,
    register_architectures,
    set_architecture,
    warn_by_rules,
)
from ..common.slot_model import check_slots_task, find_blank
from .config import (
    ARCHITECTURES,
    DECODING_RULES,
    MODEL_RULES,
    MODEL_WARNINGS,
    SIZE_RULES,
    SGAConfig,
    SGACTCConfig,
    SGATranslationConfig,
)
from .criterion import SGACTCCriterion
from .decoding import IterationOptions, SGAGenerator
from .extensions.glancing import GlancingOptions
from .extensions.graph import (
    GRAPH_DECODING_RULES,
    GraphDecodingOptions,
    GraphModel,
    GraphOptions,
    SGADAGCriterion,
    SGADAGGenerator,
)
from .extensions.prefix_beam import (
    PREFIX_BEAM_RULES,
    BeamOptions,
    PrefixBeamGenerator,
    PrefixBeamOptions,
)
from .extensions.reranking import RERANKING_RULES, ATReranker, RerankingOptions, RerankOptions
from .free import LENGTH_RULES, FreeSGAModel, LengthOptions
from .mask_predict import (
    MASK_PREDICT_DECODING_RULES,
    MaskPredictDecodingOptions,
    MaskPredictOptions,
    SGAMaskPredictConfig,
    SGAMaskPredictCriterion,
    SGAMaskPredictGenerator,
)
from .model import SGAModel
from .state import build_empty, build_frozen, record_sizes
from .target_rows import find_target_rows
from .tlm_start import TLMProjection

logger = logging.getLogger(__name__)

MODELS: Dict[str, Type[SGAModel]] = {
    "ctc": SGAModel,
    "dag": GraphModel,
    "mask_predict": FreeSGAModel,
}
"""--alignment -> class of the model."""


# ---- Options of the plain method and of all variants. ----


@dataclass
class JoinedModelConfig(LengthOptions, SGAConfig):
    """Options of ``--arch sga_*``."""


@dataclass
class JoinedGraphConfig(GlancingOptions, SGACTCConfig):
    """Options of ``--criterion sga_dag``."""


@dataclass
class JoinedTranslationConfig(
    RerankingOptions,
    PrefixBeamOptions,
    GraphDecodingOptions,
    MaskPredictDecodingOptions,
    SGATranslationConfig,
):
    """Options of ``--task sga_translation``."""


JOINED_DECODING_RULES = (
    *DECODING_RULES,
    *GRAPH_DECODING_RULES,
    *MASK_PREDICT_DECODING_RULES,
    *PREFIX_BEAM_RULES,
    *RERANKING_RULES,
)


# ---- Model. ----


@register_model("sga", dataclass=JoinedModelConfig)
class SGA(SGAModel):
    """The registered name: builds the class of its ``--alignment``."""

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> SGAModel:
        """Build the model.

        Reads the pretrained file, unless the checkpoint that is loaded carries the frozen weights.
        Writes sizes into ``cfg``.

        Raises:
            ValueError: a broken rule between options, a wrong task, or a file that does not match.
        """
        check_slots_task(task, "sga")
        fill_missing(cfg, JoinedModelConfig)
        set_architecture(cfg, ARCHITECTURES["sga_tiny"])
        check_rules(cfg, (*MODEL_RULES, *LENGTH_RULES))
        warn_by_rules(cfg, MODEL_WARNINGS, logger.warning)
        dictionary, target = task.source_dictionary, task.target_dictionary
        target_rows = find_target_rows(dictionary, target)
        blank = find_blank(cfg.ctc_blank, target)
        if cfg.save_full_model and getattr(task, "from_checkpoint", False):
            frozen = build_empty(cfg, dictionary)
        else:
            frozen = build_frozen(cfg, dictionary)
        recorded_options = record_sizes(cfg, frozen)
        check_rules(cfg, SIZE_RULES)
        mask = target.index(MASK)
        model = MODELS[str(cfg.alignment)](frozen, cfg, blank, mask, target_rows)
        model.recorded_options = recorded_options
        start_guidance(model, cfg)
        log_sizes(model)
        if target_rows is not None:
            text = "target: %d of the %d rows of the masked LM"
            logger.info(text, len(target_rows), len(dictionary))
        return model


register_architectures("sga", ARCHITECTURES)


# ---- Criterions. ----

register_criterion("sga_ctc", dataclass=SGACTCConfig)(SGACTCCriterion)
register_criterion("sga_dag", dataclass=JoinedGraphConfig)(SGADAGCriterion)
register_criterion("sga_mask_predict", dataclass=SGAMaskPredictConfig)(SGAMaskPredictCriterion)


# ---- Decoding. ----


def start_guidance(model: SGAModel, cfg: Any) -> None:
    """Let W_K and W_V start from TLM, if ``--guidance-start tlm`` asks for it."""
    if str(cfg.guidance_start) == "tlm":
        sizes = model.masked_lm.sizes
        model.semantic = TLMProjection(sizes.embed_dim, sizes.heads)


def build_generator(
    options: Any,
    dictionary: Dictionary,
    languages: Tuple[Optional[str], Optional[str]] = (None, None),
    data: Optional[str] = None,
    source_dictionary: Optional[Dictionary] = None,
) -> SGAGenerator:
    """Build the generator for the alignment of the decoded model.

    Args:
        options: checked; see :func:`.tasks.decoding_options`.
        dictionary: of the target.
        languages, data: source and target that are decoded, and their data-bin, for the reranker.
        source_dictionary: for the reranker; None = that of the target.
    """
    iterations = IterationOptions(
        max_iter=options.iter_decode_max_iter,
        adaptive=not options.iter_decode_force_max_iter,
        retain_history=options.retain_iter_history,
        blank_penalty=options.iter_decode_blank_penalty,
    )
    if options.alignment == "dag":
        graph = GraphOptions(str(options.dag_decoding or GraphOptions().path), options.lenpen)
        return SGADAGGenerator(dictionary, iterations, graph)
    if options.alignment == "mask_predict":
        return SGAMaskPredictGenerator(dictionary, iterations, mask_predict_options(options))
    if options.iter_decode_ctc_beam:
        reranker = build_reranker(options, dictionary, languages, data, source_dictionary)
        return PrefixBeamGenerator(dictionary, iterations, beam_options(options), reranker)
    return SGAGenerator(dictionary, iterations)


def mask_predict_options(options: Any) -> MaskPredictOptions:
    """Choose the settings of mask-predict, with their defaults."""
    defaults = MaskPredictOptions()
    return MaskPredictOptions(
        iterations=options.mask_predict_iterations or defaults.iterations,
        length_beam=options.length_beam or defaults.length_beam,
    )


def beam_options(options: Any) -> BeamOptions:
    """Choose the settings of the prefix beam, with their defaults."""
    beam = BeamOptions(
        size=options.iter_decode_ctc_beam,
        nbest=options.nbest,
        bonus=options.iter_decode_ctc_bonus,
    )
    if options.iter_decode_ctc_candidates is None:
        return beam
    return beam._replace(candidates=options.iter_decode_ctc_candidates)


def build_reranker(
    options: Any,
    dictionary: Dictionary,
    languages: Tuple[Optional[str], Optional[str]],
    data: Optional[str],
    source_dictionary: Optional[Dictionary] = None,
) -> Optional[ATReranker]:
    """Read the models of ``--rerank-at``; None without that option."""
    if not options.rerank_at:
        return None
    settings = RerankOptions(options.rerank_at, length_penalty=options.lenpen)
    if options.rerank_at_weight is not None:
        settings = settings._replace(weight=options.rerank_at_weight)
    return ATReranker.read(settings, dictionary, languages, data, source_dictionary)
