"""Test what checkpoints store: copies of matrices, and options that no class has any more."""

import fairseq
import pytest
import torch
from fairseq.dataclass.utils import merge_with_parent
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import nn

from fairseq_plugins.compat.patch import replace_function
from fairseq_plugins.compat.stored_models import (
    COPIES,
    RETIRED,
    load_layer,
    make_layer,
    setup_task,
)
from fairseq_plugins.sga.criterion import SGACTCCriterion
from fairseq_plugins.sga.variants import JoinedTranslationConfig
from tests import builders
from tests.gpt_builders import mbart


@pytest.mark.skipif(fairseq.__version__ != "0.12.2", reason="only fairseq 0.12.2 has the fast path")
def test_an_encoder_without_the_fast_path_has_each_matrix_once():
    model = mbart(builders.dictionary()).eval()
    copies = ("in_proj_weight", "fc1_bias")
    assert not [name for name in model.state_dict() if name.endswith(copies)]
    tokens = torch.tensor([[5, 6, builders.EOS], [7, builders.EOS, builders.PAD]])
    with torch.no_grad():
        output = model.encoder(tokens, src_lengths=torch.tensor([3, 2]))
    assert torch.isfinite(output["encoder_out"][0]).all()


class FastLayer(nn.Module):
    """The encoder layer of fairseq 0.12.2, which holds its matrices twice."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 2)
        self.can_use_fastpath = True
        for name in COPIES:
            setattr(self, name, nn.Parameter(torch.zeros(2)))


def test_a_layer_of_0_12_2_loses_its_copies_and_loads_files_that_have_them(monkeypatch):
    state = FastLayer().state_dict()
    monkeypatch.setattr(FastLayer, "__init__", FastLayer.__init__)
    monkeypatch.setattr(FastLayer, "_load_from_state_dict", nn.Module._load_from_state_dict)
    replace_function(f"{__name__}:FastLayer.__init__", make_layer)
    replace_function(f"{__name__}:FastLayer._load_from_state_dict", load_layer)
    layer = FastLayer()
    assert not layer.can_use_fastpath
    assert sorted(layer.state_dict()) == ["fc1.bias", "fc1.weight"]
    layer.load_state_dict(state)
    assert torch.equal(layer.fc1.weight, state["fc1.weight"])


def stored_options(**options):
    """Return options as fairseq hands them over: part of a configuration without new names."""
    cfg = OmegaConf.create({"part": options, "optimization": {"sentence_avg": False}})
    OmegaConf.set_struct(cfg, True)
    return cfg.part


def stock_setup_task(cfg):
    """Merge as fairseq 0.12.2 does."""
    return merge_with_parent(JoinedTranslationConfig(), cfg)


def test_a_task_is_set_up_without_retired_options():
    options = {"_name": "sga_translation", "source_lang": "de", "pack_weights": False}
    with pytest.raises(OmegaConfBaseException, match="pack_weights"):
        stock_setup_task(stored_options(**options))
    cfg = setup_task(stock_setup_task, stored_options(**options))
    assert cfg.source_lang == "de" and not any(name in cfg for name in RETIRED)


def test_a_criterion_is_built_without_retired_options():
    options = {"_name": "sga_ctc", "denoise_start": 750, "glancing": "0.5", "denoise_noise": 0.1}
    criterion = builders.task().build_criterion(stored_options(**options))
    assert isinstance(criterion, SGACTCCriterion) and criterion.cfg.denoise_noise == 0.1
