"""How many tokens a target has: a linear layer over the encoder unit."""

from typing import Mapping

from torch import Tensor, nn

from ...ops.vocab_scan import accumulation_dtype


class LengthPredictor(nn.Module):
    """Classifies the mean of the encoder unit's last layer (padding left out) into target lengths 1 .. ``max_length``.

    Trained together with the prompts; its gradient reaches the encoder unit's prompts.

    Args:
        embed_dim: C.
        max_length: longest target in tokens, ``</s>`` not counted.

    Raises:
        ValueError: no length is possible.

    Source: SGA section 4.3 by way of Ghazvininejad et al. 2019 (CMLM), section 2.3; there a special token of the encoder's
    input is classified, which a frozen masked LM does not have.
    """

    def __init__(self, embed_dim: int, max_length: int):
        super().__init__()
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1 token; got {max_length}")
        self.max_length = max_length
        self.projection = nn.Linear(embed_dim, max_length)
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def forward(self, hidden: Tensor, padding_mask: Tensor) -> Tensor:
        """Log-probabilities of the lengths.

        Args:
            hidden: (B, S, C).
            padding_mask: (B, S) bool, True = padding.

        Returns:
            (B, max_length) nats; column j stands for j + 1 tokens.
        """
        kept = (~padding_mask).sum(dim=1, keepdim=True).clamp(min=1)
        mean = hidden.masked_fill(padding_mask[..., None], 0.0).sum(dim=1) / kept
        return self.projection(mean).log_softmax(dim=-1, dtype=accumulation_dtype(hidden.dtype))

    def check_upsample(self, state_dict: Mapping[str, Tensor], upsample: int, positions: int) -> None:
        """Compare the lengths of a checkpoint with these: they follow from ``--ctc-upsample``, by the denoiser's slots.

        Args:
            state_dict: of a whole model with a denoiser.
            upsample: ``--ctc-upsample`` of this model.
            positions: of the masked LM.

        Raises:
            ValueError: the checkpoint was trained with another ``--ctc-upsample``.
        """
        bias = state_dict.get("length_predictor.projection.bias")
        trained = (
            [] if bias is None else [value for value in range(1, positions + 1) if positions // value == len(bias)]
        )
        if trained and upsample not in trained:
            valid = str(trained[0]) if len(trained) == 1 else f"{trained[0]} to {trained[-1]}"
            raise ValueError(
                f"--ctc-upsample {upsample} leaves {self.max_length} lengths of the {positions} positions, the checkpoint's length "
                f"predictor has {positions // trained[0]}; with --alignment mask_predict valid: {valid}, as in its training"
            )


def length_nll(log_probs: Tensor, lengths: Tensor) -> Tensor:
    """Negative log-probability of the true lengths.

    Args:
        log_probs: (B, max_length), see :class:`LengthPredictor`.
        lengths: (B,) int64, tokens; a sentence without tokens has no class and costs nothing.

    Returns:
        (B,) nats.
    """
    picked = log_probs.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
    return -picked.masked_fill(lengths == 0, 0.0)
