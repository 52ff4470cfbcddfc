"""fairseq 0.12.2's transformer encoder, whose fast path calls a torch function that has changed since."""

from typing import Any

from .patch import Patch, instead_of, is_patched, source_has


def _takes_fast_path() -> bool:
    from fairseq.modules import transformer_layer

    layer = transformer_layer.TransformerEncoderLayerBase
    return not is_patched(layer.__init__, "encoder_fast_path") and source_has(
        layer.forward, "torch._transformer_encoder_layer_fwd("
    )


def _leave_fast_path() -> None:
    from fairseq.modules import transformer_layer

    layer = transformer_layer.TransformerEncoderLayerBase
    stock = layer.__init__

    @instead_of(stock, "encoder_fast_path")
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        self.can_use_fastpath = False  # the encoder reads it too

    layer.__init__ = __init__


ENCODER_FAST_PATH = Patch(
    name="encoder_fast_path",
    reason='in 0.12.2 a trained transformer cannot decode: "Mask Type should be defined" (torch >= 1.13)',
    upstream="facebookresearch/fairseq#4858, #4899",
    needed=_takes_fast_path,
    apply=_leave_fast_path,
)
