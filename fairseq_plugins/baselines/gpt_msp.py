"""``gpt_msp``: a frozen causal language model, prompted to translate in three stages (MSP)."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
)
from torch import Tensor, nn

from ..common.frozen import Frozen, log_sizes
from ..common.options import (
    check_rules,
    in_range,
    option,
    register_architectures,
    set_architecture,
    sizes_of,
)
from ..masked_lm.prompts import Prompts, join_prefixes
from .empty_sources import refuse_empty_sources
from .prefix_decoder import SIZES, PrefixDecoder, State, build_frozen

STARTED = "gpt_msp.started"
"""Entry of the incremental state: the layers' caches hold the prefix and the earlier tokens."""


@dataclass
class GPTMSPConfig(FairseqDataclass):
    """Options of the model; None = the architecture's default, or the pretrained file's value."""

    pretrained_gpt: Optional[str] = option(
        None,
        "the frozen language model: a Hugging Face GPT-2 folder (GPT-2, mGPT), or a checkpoint of "
        "fairseq's transformer_lm. When decoding, another place is given with --model-overrides "
        "\"{'pretrained_gpt': 'PATH'}\"",
    )
    prompt_length: Optional[int] = option(
        None, "P, key and value prompts per layer and stage; the paper has 128"
    )
    no_prompt_scale: bool = option(
        False,
        "leave out the learned max(1, scale) with which the prompts of a stage are multiplied",
    )
    frozen_dropout: float = option(
        0.0, "dropout inside the frozen model during training, in [0, 1)"
    )
    decoder_layers: Optional[int] = option(None, "layers that the language model must have")
    decoder_embed_dim: Optional[int] = option(None, "width that the language model must have")
    decoder_ffn_embed_dim: Optional[int] = option(
        None, "feed-forward width that the language model must have"
    )
    decoder_attention_heads: Optional[int] = option(
        None, "attention heads; required only if the file does not tell, else checked against it"
    )
    max_positions: Optional[int] = option(None, "positions that the language model must have")


ARCHITECTURES: Dict[str, Dict[str, int]] = {
    "gpt_msp": {"prompt_length": 128},
    "gpt_msp_tiny": {"prompt_length": 32},
    "gpt_msp_mgpt": {
        "prompt_length": 128,
        **sizes_of("decoder", 24, 1024, 4096, 16),
        "max_positions": 1024,
    },
}
"""Defaults of each --arch. Sizes are those of the file; with gpt_msp_mgpt the file must be the
paper's mGPT of 560M parameters."""

RULES = (
    in_range("prompt_length", "[1, inf)"),
    *(in_range(size, "[1, inf)") for size in SIZES),
    in_range("frozen_dropout", "[0, 1)"),
)


class Reader(FairseqEncoder):
    """Encoding and re-encoding: the language model reads the source twice.

    In the second reading every token also attends to the first one. Positions start anew in each
    stage, as in the authors' code.

    Source: MSP (Tan et al. 2022) section 3.3.
    """

    def __init__(self, frozen: Frozen, dictionary: Any, encoding: Prompts, re_encoding: Prompts):
        super().__init__(dictionary)
        self.encoding, self.re_encoding = encoding, re_encoding
        # Set without nn.Module.__setattr__: the decoder registers it, and a state dict has it once.
        self.__dict__["frozen"] = frozen

    @property
    def lm(self) -> PrefixDecoder:
        """The frozen language model."""
        return self.frozen.module

    def max_positions(self) -> int:
        """Return the positions of the language model."""
        return self.lm.max_positions()

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **_: Any
    ) -> Dict[str, List[Tensor]]:
        """Read a batch twice.

        Args:
            src_tokens: (B, S) int64, padded on either side.

        Returns:
            ``keys`` and ``values`` of the second reading: a tensor (B, H, S, C / H) per layer;
            ``encoder_padding_mask``: (B, S), True = padding.

        Raises:
            ValueError: a sentence has no token.
        """
        padding = src_tokens.eq(self.lm.padding_idx)
        fillers = (self.lm.padding_idx, self.dictionary.eos())
        refuse_empty_sources(src_tokens, fillers, self.training)
        state: State = {}
        prompts = self.encoding()
        length = prompts[0][0].size(2)
        self.lm.run(src_tokens, prompts, state=state)
        first = self.lm.keys_and_values(state, skip=length)

        prefix = join_prefixes(self.re_encoding(), first)
        state = {}
        self.lm.run(src_tokens, prefix, prompted_mask(length, padding), state)
        second = self.lm.keys_and_values(state, skip=length + src_tokens.size(1))
        return {
            "encoder_out": [],
            "keys": [key for key, _ in second],
            "values": [value for _, value in second],
            "encoder_padding_mask": [padding],
        }

    def reorder_encoder_out(
        self, encoder_out: Dict[str, List[Tensor]], new_order: Tensor
    ) -> Dict[str, List[Tensor]]:
        """Reorder the rows; every tensor has the batch first."""
        return {
            name: [part.index_select(0, new_order) for part in parts]
            for name, parts in encoder_out.items()
        }


class Writer(FairseqIncrementalDecoder):
    """Decoding: the language model writes the target after [prompts, second reading].

    Source: MSP section 3.3.
    """

    def __init__(self, frozen: Frozen, dictionary: Any, decoding: Prompts):
        super().__init__(dictionary)
        self.frozen, self.decoding = frozen, decoding

    @property
    def lm(self) -> PrefixDecoder:
        """The frozen language model."""
        return self.frozen.module  # type: ignore[return-value]

    def max_positions(self) -> int:
        """Return the positions of the language model."""
        return self.lm.max_positions()

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
        """Compute the logits of all target tokens; with ``incremental_state``, of the last one.

        Args:
            prev_output_tokens: (B, T) int64, ``</s>`` first.
            encoder_out: output of :class:`Reader`.
            incremental_state: state of fairseq's generator; after the first step it has the caches.
            features_only: return hidden states instead of logits.

        Returns:
            (B, T, V), with ``features_only`` (B, T, C); and the extra outputs that fairseq expects.
        """
        assert encoder_out is not None
        if incremental_state is not None and STARTED in incremental_state:
            hidden = self.lm.run(prev_output_tokens, state=incremental_state, step=True)
        else:
            source = list(zip(encoder_out["keys"], encoder_out["values"]))
            prefix = join_prefixes(self.decoding(), source)
            padding = encoder_out["encoder_padding_mask"][0]
            mask = prompted_mask(self.decoding.key.size(1), padding)
            hidden = self.lm.run(prev_output_tokens, prefix, mask, incremental_state)
            if incremental_state is not None:
                incremental_state[STARTED] = {}  # the type of fairseq's state; only the key counts
                hidden = hidden[:, -1:]
        return (hidden if features_only else self.output_projection(hidden)), {"attn": [None]}


def prompted_mask(length: int, padding: Tensor) -> Tensor:
    """Mask [P prompts, source]: (B, S) -> (B, P + S) bool, True = padding."""
    return torch.cat([padding.new_zeros(padding.size(0), length), padding], dim=1)


@register_model("gpt_msp", dataclass=GPTMSPConfig)
class GPTMSPModel(FairseqEncoderDecoderModel):
    """Multi-stage prompting: one frozen model with different prompts in each of three stages.

    Only the prompts (and a scale per stage) train: 3 x 2 x L x P x C + 3 parameters, 18,874,371 at
    the paper's size ("19M"). Checkpoints hold these and the fingerprint of the frozen model.

    Source: Tan et al. 2022, MSP; SGA section 5.2, "mGPT + MSP".
    """

    @classmethod
    def build_model(cls, cfg: GPTMSPConfig, task: Any) -> "GPTMSPModel":
        """Build the model around the pretrained file.

        Raises:
            ValueError: options break a rule, the sides have different dictionaries, or the file
                does not fit.
        """
        set_architecture(cfg, ARCHITECTURES["gpt_msp"])
        check_rules(cfg, RULES)
        if task.source_dictionary != task.target_dictionary:
            raise ValueError(
                "gpt_msp reads and writes with one language model: --source-lang and --target-lang "
                "need the same dictionary; run fairseq-preprocess with --joined-dictionary, or the "
                "same --srcdict and --tgtdict"
            )
        dictionary = task.target_dictionary
        frozen = build_frozen(cfg, dictionary)
        layout: Any = frozen.module.layout

        def prompts() -> Prompts:
            """Make the prompts of a stage."""
            sizes = layout.layers, cfg.prompt_length or 0, layout.embed_dim, layout.heads
            return Prompts(*sizes, scaled=not cfg.no_prompt_scale)

        encoder = Reader(frozen, dictionary, encoding=prompts(), re_encoding=prompts())
        decoder = Writer(frozen, dictionary, decoding=prompts())
        model = cls(encoder, decoder)
        log_sizes(model)
        return model


register_architectures("gpt_msp", ARCHITECTURES)
