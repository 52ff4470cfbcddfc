"""How many tokens a target has: a linear layer over the encoder unit."""

from typing import Mapping, Optional

from torch import Tensor, nn

from ..ops.vocab_scan import accumulation_dtype

LAYERS = {"mean": "projection", "bos": "bos_projection"}
"""``--length-from`` -> name of the linear layer: a checkpoint tells by it what the layer was trained to read."""


class LengthPredictor(nn.Module):
    """Classifies a vector of the encoder unit's last layer into target lengths 1 .. ``max_length`` (``</s>`` not counted).

    The vector is the ``mean`` over the source without padding, or the state of ``<s>`` (``bos``). Its gradient reaches the
    encoder unit's prompts.

    Source: SGA section 4.3 by way of Ghazvininejad et al. 2019 (CMLM), section 2.3; there a special token of the encoder's
    input is classified, which a frozen masked LM does not have. The authors' code of SGA has 50 classes over the state of
    ``<s>``, and counts ``<s>`` and ``</s>`` of the target.
    """

    def __init__(self, embed_dim: int, max_length: int, length_from: str = "mean"):
        super().__init__()
        self.max_length, self.length_from = max_length, length_from
        layer = nn.Linear(embed_dim, max_length)
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
        self.add_module(LAYERS[length_from], layer)

    def forward(self, hidden: Tensor, padding_mask: Tensor) -> Tensor:
        """Log-probabilities of the lengths, (B, max_length) nats; column j stands for j + 1 tokens.

        Args:
            hidden: (B, S, C), rows start with ``<s>``.
            padding_mask: (B, S) bool, True = padding.
        """
        if self.length_from == "bos":
            read = hidden[:, 0]
        else:
            kept = (~padding_mask).sum(dim=1, keepdim=True).clamp(min=1)
            read = hidden.masked_fill(padding_mask[..., None], 0.0).sum(dim=1) / kept
        scores = self.get_submodule(LAYERS[self.length_from])(read)
        return scores.log_softmax(dim=-1, dtype=accumulation_dtype(hidden.dtype))

    def check_state(self, state_dict: Mapping[str, Tensor], upsample: Optional[int], positions: int) -> None:
        """Raise ValueError where a checkpoint was trained with another ``--length-from`` or ``--ctc-upsample``.

        Args:
            state_dict: of a whole model.
            upsample: ``--ctc-upsample`` of this model, from which its lengths follow; None without a denoiser.
            positions: of the masked LM.
        """
        biases = {name: state_dict.get(f"length_predictor.{layer}.bias") for name, layer in LAYERS.items()}
        trained = [name for name, bias in biases.items() if bias is not None]
        if trained and self.length_from not in trained:
            raise ValueError(
                f"--length-from {self.length_from}: the length predictor of this checkpoint was trained with --length-from "
                f"{trained[0]}; valid: {trained[0]}"
            )
        bias = biases[self.length_from]
        if bias is None or upsample is None:
            return
        fitting = [value for value in range(1, positions + 1) if positions // value == len(bias)]
        if fitting and upsample not in fitting:
            valid = str(fitting[0]) if len(fitting) == 1 else f"{fitting[0]} to {fitting[-1]}"
            raise ValueError(
                f"--ctc-upsample {upsample} leaves {self.max_length} lengths of the {positions} positions, the checkpoint's length "
                f"predictor has {len(bias)}; with --alignment mask_predict valid: {valid}, as in its training"
            )


def length_nll(log_probs: Tensor, lengths: Tensor) -> Tensor:
    """Negative log-probability, (B,) nats, of the true ``lengths`` (B,) in tokens; 0 has no class and costs nothing."""
    picked = log_probs.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
    return -picked.masked_fill(lengths == 0, 0.0)
