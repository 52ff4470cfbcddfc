"""A checkpoint that records an option which is gone loads: for decoding, on fairseq 0.12.2 too, and for fairseq-validate."""

import pytest
from fairseq.dataclass.utils import merge_with_parent
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairseq_plugins.compat.retired_options import RETIRED, setup_task
from fairseq_plugins.sga.criterion import SGACTCCriterion
from fairseq_plugins.sga.variants import JoinedTranslationConfig
from tests import builders


def stored(**options):
    """A part of a stored configuration, as fairseq hands it over: below its parent, without new names."""
    whole = OmegaConf.create({"part": options, "optimization": {"sentence_avg": False}})
    OmegaConf.set_struct(whole, True)
    return whole.part


def stock_setup_task(cfg):
    """Merge as fairseq 0.12.2 does."""
    return merge_with_parent(JoinedTranslationConfig(), cfg)


def test_a_task_is_set_up_without_them():
    options = {"_name": "sga_translation", "source_lang": "de"}
    with pytest.raises(OmegaConfBaseException, match="pack_weights"):
        stock_setup_task(stored(pack_weights=False, **options))
    cfg = setup_task(stock_setup_task, stored(pack_weights=False, **options))
    assert cfg.source_lang == "de" and not any(name in cfg for name in RETIRED)


def test_a_criterion_is_built_without_them():
    options = {"_name": "sga_ctc", "denoise_start": 750, "glancing": "0.5", "denoise_noise": 0.1}
    criterion = builders.task().build_criterion(stored(**options))
    assert isinstance(criterion, SGACTCCriterion) and criterion.cfg.denoise_noise == 0.1
