"""The fast path of 0.12.2, on a stand-in for its layer (the fairseq of these tests may be another one)."""

from typing import Any

import pytest
import torch
from fairseq.modules import transformer_layer

from fairseq_plugins.compat.layers import ENCODER_FAST_PATH


class Layer:
    """As much of 0.12.2's TransformerEncoderLayerBase as the patch looks at."""

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg
        self.can_use_fastpath = True

    def forward(self, x: Any) -> Any:
        if self.can_use_fastpath:
            return torch._transformer_encoder_layer_fwd(x, 8)
        return x


def test_the_fast_path_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer_layer, "TransformerEncoderLayerBase", Layer)
    monkeypatch.setattr(Layer, "__init__", Layer.__init__)  # undone after the test
    with pytest.raises(TypeError):
        Layer("cfg").forward(1)
    assert ENCODER_FAST_PATH.needed()
    ENCODER_FAST_PATH.apply()
    assert not ENCODER_FAST_PATH.needed()
    assert Layer("cfg").forward(1) == 1
    assert Layer("cfg").cfg == "cfg"
