"""Models that a checkpoint will fill; ``test_filled_model.py`` has the pretrained files of each model."""

from types import SimpleNamespace

import fairseq
import pytest
import torch
from fairseq import models
from fairseq.models import MODEL_REGISTRY
from omegaconf import OmegaConf

import fairseq_plugins  # noqa: F401  patches the stock functions
from tests import builders
from tests.gpt_builders import mbart


@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_a_model_is_told_that_a_checkpoint_will_fill_it(monkeypatch, from_checkpoint):
    class Model:
        @staticmethod
        def build_model(cfg, task):
            return task.from_checkpoint

    monkeypatch.setitem(MODEL_REGISTRY, "transformer_lm", Model)
    monkeypatch.setitem(models.ARCH_MODEL_REGISTRY, "transformer_lm", Model)
    cfg = OmegaConf.create({"_name": "transformer_lm"})
    assert models.build_model(cfg, SimpleNamespace(), from_checkpoint) is from_checkpoint


@pytest.mark.skipif(fairseq.__version__ != "0.12.2", reason="only fairseq 0.12.2 has the fast path")
def test_an_encoder_without_the_fast_path_decodes_and_has_each_matrix_once():
    model = mbart(builders.dictionary()).eval()
    assert not [name for name in model.state_dict() if name.endswith(("in_proj_weight", "fc1_bias"))]
    tokens = torch.tensor([[5, 6, builders.EOS], [7, builders.EOS, builders.PAD]])
    with torch.no_grad():
        output = model.encoder(tokens, src_lengths=torch.tensor([3, 2]))
    assert torch.isfinite(output["encoder_out"][0]).all()
