"""``gpt_msp``: a frozen causal language model prompted to translate in three stages, the comparison system of SGA's Table 1."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder, register_model
from torch import Tensor, nn

from ...common.frozen import Frozen, log_sizes
from ...common.options import check_dropout, check_positive, option, register_architectures, set_architecture
from ...masked_lm.prompts import Prompts, join_prefixes
from ...modules.empty_sources import refuse_empty_sources
from ...modules.prefix_decoder import PrefixDecoder, State
from .gpt_pretrained import SIZES, build_frozen

STARTED = "gpt_msp.started"
"""Entry of the incremental state: prefix and earlier tokens are in the caches of the layers."""


def _size(text: str) -> Any:
    return option(None, f"{text} the language model must have")


@dataclass
class GPTMSPConfig(FairseqDataclass):
    """Options; None means the architecture's default, or what the pretrained file says."""

    pretrained_gpt: Optional[str] = option(
        None,
        "the frozen language model: a Hugging Face GPT-2 folder (GPT-2, mGPT), or a checkpoint of fairseq's "
        "transformer_lm. When decoding, another place is given with --model-overrides \"{'pretrained_gpt': 'PATH'}\"",
    )
    prompt_length: Optional[int] = option(None, "P, key and value prompts per layer and stage; the paper has 128")
    no_prompt_scale: bool = option(
        False, "leave out the learned max(1, scale) with which the prompts of a stage are multiplied"
    )
    frozen_dropout: float = option(0.0, "dropout inside the frozen model during training, in [0, 1)")
    decoder_layers: Optional[int] = _size("layers")
    decoder_embed_dim: Optional[int] = _size("width")
    decoder_ffn_embed_dim: Optional[int] = _size("feed-forward width")
    decoder_attention_heads: Optional[int] = option(
        None, "attention heads; needed only where the file does not tell, else checked against it"
    )
    max_positions: Optional[int] = _size("positions")


ARCHITECTURES: Dict[str, Dict[str, int]] = {
    "gpt_msp": {"prompt_length": 128},
    "gpt_msp_tiny": {"prompt_length": 32},
    "gpt_msp_mgpt": {"prompt_length": 128, **dict(zip(SIZES, (24, 1024, 4096, 16, 1024)))},
}
"""Defaults of each --arch. Sizes are those of the file; gpt_msp_mgpt makes sure that it is the paper's mGPT of 560M parameters."""


class _Prompted:
    """A side of the model, which reads or writes with the frozen language model."""

    frozen: Frozen

    @property
    def lm(self) -> PrefixDecoder:
        return self.frozen.module  # type: ignore[return-value]

    def max_positions(self) -> int:
        """Longest input: the positions of the language model."""
        return self.lm.max_positions()


class TwoReadings(_Prompted, FairseqEncoder):
    """Encoding and re-encoding: the language model reads the source twice, the second time with the first in sight.

    Source: MSP (Tan et al. 2022) section 3.3. Positions start anew in every stage, as in the authors' code.
    """

    def __init__(self, lm: Frozen, dictionary: Any, encoding: Prompts, re_encoding: Prompts):
        super().__init__(dictionary)
        self.encoding, self.re_encoding = encoding, re_encoding
        # The decoder owns it: registered here too, it would stand twice in every state dict.
        self.__dict__["frozen"] = lm

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **_: Any) -> Dict[str, List[Tensor]]:
        """Both readings of (B, S) int64, padded on either side; ValueError for a sentence without a token.

        Returns ``keys`` and ``values``: a tensor (B, H, S, C / H) per layer, of the second reading; ``encoder_padding_mask``: (B,
        S), True = padding.
        """
        padding = src_tokens.eq(self.lm.padding_idx)
        refuse_empty_sources(src_tokens, (self.lm.padding_idx, self.dictionary.eos()), self.training)
        state: State = {}
        prompts = self.encoding()
        length = prompts[0][0].size(2)
        self.lm.run(src_tokens, prompts, state=state)
        first = self.lm.kept(state, skip=length)

        prefix = join_prefixes(self.re_encoding(), first)
        mask = torch.cat([padding.new_zeros(padding.size(0), length), padding], dim=1)
        state = {}
        self.lm.run(src_tokens, prefix, mask, state)
        second = self.lm.kept(state, skip=length + src_tokens.size(1))
        return {
            "encoder_out": [],
            "keys": [key for key, _ in second],
            "values": [value for _, value in second],
            "encoder_padding_mask": [padding],
        }

    def reorder_encoder_out(self, encoder_out: Dict[str, List[Tensor]], new_order: Tensor) -> Dict[str, List[Tensor]]:
        """Rows in another order; every tensor has the batch first."""
        return {name: [part.index_select(0, new_order) for part in parts] for name, parts in encoder_out.items()}


class PromptedDecoder(_Prompted, FairseqIncrementalDecoder):
    """Decoding: the language model writes the target after [prompts, second reading of the source].

    Source: MSP section 3.3.
    """

    def __init__(self, lm: Frozen, dictionary: Any, decoding: Prompts):
        super().__init__(dictionary)
        self.frozen, self.decoding = lm, decoding

    @property
    def output_projection(self) -> nn.Module:
        """The projection of the language model, where criterions look for it."""
        return self.lm.output_projection

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, List[Tensor]]] = None,
        incremental_state: Optional[State] = None,
        features_only: bool = False,
        **_: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Logits of every target token, (B, T, V), with ``incremental_state`` of the last one; with ``features_only`` (B, T,
        C).

        Args:
            prev_output_tokens: (B, T) int64, ``</s>`` first.
            encoder_out: of :class:`TwoReadings`.
            incremental_state: of fairseq's generator; holds the caches after the first step.
        """
        assert encoder_out is not None
        if incremental_state is not None and STARTED in incremental_state:
            hidden = self.lm.run(prev_output_tokens, state=incremental_state, step=True)
        else:
            padding = encoder_out["encoder_padding_mask"][0]
            prefix = join_prefixes(self.decoding(), list(zip(encoder_out["keys"], encoder_out["values"])))
            mask = torch.cat([padding.new_zeros(padding.size(0), self.decoding.key.size(1)), padding], dim=1)
            hidden = self.lm.run(prev_output_tokens, prefix, mask, incremental_state)
            if incremental_state is not None:
                incremental_state[STARTED] = {}
                hidden = hidden[:, -1:]
        return (hidden if features_only else self.output_projection(hidden)), {"attn": [None]}


@register_model("gpt_msp", dataclass=GPTMSPConfig)
class GPTMSPModel(FairseqEncoderDecoderModel):
    """Multi-stage prompting: encoding, re-encoding and decoding are the same frozen model with different prompts.

    Only the prompts (and a scale a stage) train: 3 x 2 x L x P x C + 3 parameters, 18,874,371 at the paper's size ("19M").
    Checkpoints hold these and the fingerprint of the frozen model.

    Source: Tan et al. 2022, MSP; SGA section 5.2, "mGPT + MSP".
    """

    @classmethod
    def build_model(cls, cfg: GPTMSPConfig, task: Any) -> "GPTMSPModel":
        set_architecture(cfg, ARCHITECTURES["gpt_msp"])
        check_positive(cfg, "prompt_length", *SIZES)
        check_dropout(cfg, "frozen_dropout")
        if task.source_dictionary != task.target_dictionary:
            raise ValueError(
                "gpt_msp reads and writes with one language model: --source-lang and --target-lang need the same dictionary; run "
                "fairseq-preprocess with --joined-dictionary, or the same --srcdict and --tgtdict"
            )
        dictionary = task.target_dictionary
        frozen = build_frozen(cfg, dictionary)
        layout: Any = frozen.module.layout
        sizes = layout.layers, cfg.prompt_length or 0, layout.embed_dim, layout.heads
        first, second, third = (Prompts(*sizes, scaled=not cfg.no_prompt_scale) for _ in range(3))
        model = cls(TwoReadings(frozen, dictionary, first, second), PromptedDecoder(frozen, dictionary, third))
        log_sizes(model)
        return model


register_architectures("gpt_msp", ARCHITECTURES)
