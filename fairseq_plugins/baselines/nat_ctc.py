"""``nat_ctc``: a non-autoregressive transformer trained from scratch with CTC."""

from argparse import Namespace
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import (
    Embedding,
    TransformerDecoder,
    TransformerEncoder,
    base_architecture,
)
from torch import Tensor

from ..common.options import (
    Rule,
    check_rules,
    in_range,
    option,
    register_architectures,
    set_architecture,
    sizes_of,
)
from ..common.slot_model import SlotModel, Target, check_slots_task, find_blank
from ..ops.ctc import linear_ctc_loss
from ..ops.masks import lengths_to_padding_mask


@dataclass
class NATCTCConfig(FairseqDataclass):
    """Sizes; None = the architecture's default, so that argparse and hydra build the same model."""

    encoder_layers: Optional[int] = option(None, "encoder layers")
    decoder_layers: Optional[int] = option(None, "decoder layers")
    embed_dim: Optional[int] = option(None, "width C of encoder and decoder")
    ffn_embed_dim: Optional[int] = option(None, "inner width of the feed-forward blocks")
    attention_heads: Optional[int] = option(None, "attention heads")
    dropout: Optional[float] = option(None, "dropout after embeddings and blocks, in [0, 1)")
    attention_dropout: float = option(0.0, "dropout on attention weights, in [0, 1)")
    activation_dropout: float = option(0.0, "dropout inside the feed-forward blocks, in [0, 1)")
    normalize_before: bool = option(False, "layer norm before each block")
    max_source_positions: int = option(1024, "longest source in tokens")
    ctc_upsample: int = option(2, "slots per source token; at least 1")
    ctc_blank: str = option("<s>", "dictionary symbol used as CTC blank")


def architecture(layers: int, width: int, inner: int, heads: int, dropout: float) -> Dict[str, Any]:
    """Name the sizes of an architecture."""
    return {
        "encoder_layers": layers,
        "decoder_layers": layers,
        "embed_dim": width,
        "ffn_embed_dim": inner,
        "attention_heads": heads,
        "dropout": dropout,
    }


ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "nat_ctc_tiny": architecture(3, 128, 512, 4, 0.1),
    "nat_ctc": architecture(6, 512, 2048, 8, 0.1),
    "nat_ctc_big": architecture(6, 1024, 4096, 16, 0.3),
}
"""Defaults of each --arch; nat_ctc_big is Transformer-big with the paper's dropout."""

SIZES = ("encoder_layers", "decoder_layers", "embed_dim", "ffn_embed_dim", "attention_heads")
RULES = (
    *(in_range(name, "[0, 1)") for name in ("dropout", "attention_dropout", "activation_dropout")),
    *(in_range(name, "[1, inf)") for name in (*SIZES, "max_source_positions", "ctc_upsample")),
    Rule(
        lambda o: o.embed_dim % o.attention_heads,
        "--embed-dim must be a multiple of --attention-heads; got {embed_dim} and "
        "{attention_heads}",
    ),
)


class SlotDecoder(TransformerDecoder):
    """Stock decoder layers without the triangular mask, over slots copied from the encoder."""

    def forward_slots(
        self, encoder_out: Dict[str, List[Tensor]], upsample: int, lengths: Tensor
    ) -> Tensor:
        """Compute the features of all slots, ready for the output projection.

        Args:
            encoder_out: of the stock encoder: ``encoder_out[0]`` (S, B, C),
                ``encoder_padding_mask[0]`` (B, S), True = padding.
            upsample: slots per source token.
            lengths: (B,) int64, slots of each sentence.

        Returns:
            (B, T, C).
        """
        states = encoder_out["encoder_out"][0]
        source_masks = encoder_out["encoder_padding_mask"]
        source_mask = source_masks[0] if source_masks else None
        slots = states.repeat_interleave(upsample, dim=0)[: int(lengths.max())]  # T B C
        mask = lengths_to_padding_mask(lengths, slots.size(0), slots.device)
        # fairseq numbers the tokens that are not padding; slots have none, so any other id will do.
        tokens = (~mask).long() + self.padding_idx  # padding_idx + 1 at slots
        positions = self.embed_positions(tokens)
        hidden = self.dropout_module(slots + positions.transpose(0, 1))
        for layer in self.layers:
            hidden = layer(hidden, states, source_mask, self_attn_padding_mask=mask)[0]
        if self.layer_norm is not None:
            hidden = self.layer_norm(hidden)
        return hidden.transpose(0, 1)


@register_model("nat_ctc", dataclass=NATCTCConfig)
class NATCTCModel(SlotModel):
    """Encoder, bidirectional decoder over the upsampled encoder output, CTC; one embedding.

    The interface is that of the SGA model, so that the task ``sga_translation``, the criterion
    ``sga_ctc`` and its generator serve both.

    Source: the "Transformer (NAT) + CTC" rows of SGA's Table 1; Libovicky and Helcl 2018, section
    3.
    """

    alignment = "ctc"
    has_denoiser = False

    def __init__(
        self,
        encoder: TransformerEncoder,
        decoder: SlotDecoder,
        upsample: int,
        blank: int,
        positions: int,
    ):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.upsample, self.blank, self.positions = upsample, blank, positions

    @classmethod
    def build_model(cls, cfg: NATCTCConfig, task: Any) -> "NATCTCModel":
        """Build the model. Raises ValueError if options break a rule or the task fills no slots."""
        check_slots_task(task, "nat_ctc")
        dictionary = task.source_dictionary
        if dictionary.symbols != task.target_dictionary.symbols:
            raise ValueError(
                "--arch nat_ctc has one embedding for both sides, the dictionaries of this data "
                "differ: run fairseq-preprocess with one dict.txt as --srcdict and --tgtdict"
            )
        set_architecture(cfg, ARCHITECTURES["nat_ctc"])
        check_rules(cfg, RULES)
        args = stock_options(cfg)
        embedding = Embedding(len(dictionary), cfg.embed_dim, dictionary.pad())
        encoder = TransformerEncoder(args, dictionary, embedding)
        decoder = SlotDecoder(args, dictionary, embedding)
        blank = find_blank(cfg.ctc_blank, dictionary)
        return cls(encoder, decoder, cfg.ctc_upsample, blank, cfg.max_source_positions)

    def max_positions(self) -> Tuple[int, int]:
        """Return the longest source in tokens, and the longest target in slots."""
        return self.positions, self.positions * self.upsample

    def encode(self, src_tokens: Tensor) -> Dict[str, List[Tensor]]:
        """Run the encoder. src_tokens: (B, S) int64."""
        padding = src_tokens.eq(self.encoder.padding_idx)
        return self.encoder(src_tokens, (~padding).sum(dim=1))

    def align(self, encoder_out: Dict[str, List[Tensor]], lengths: Tensor) -> Tensor:
        """Decode all slots. lengths: (B,). Returns (B, T, C)."""
        return self.decoder.forward_slots(encoder_out, self.upsample, lengths)

    @property
    def projection(self) -> Tuple[Tensor, Optional[Tensor]]:
        """Weight (V, C) of the output projection, which has no bias."""
        return self.decoder.output_projection.weight, None

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        target: Target,
        **_: Any,
    ) -> Tuple[Dict[str, Tensor], Dict[str, Tensor]]:
        """Compute the CTC loss of a batch.

        Arguments and results are those of the SGA model; options of its denoiser are ignored.
        """
        slots = self.slot_lengths(src_lengths)
        hidden = self.align(self.encode(src_tokens), slots)
        weight, bias = self.projection
        tokens, lengths, chunk_size = target
        loss = linear_ctc_loss(hidden, weight, bias, tokens, slots, lengths, self.blank, chunk_size)
        return {"alignment": loss}, {"alignment": slots}


def stock_options(cfg: NATCTCConfig) -> Namespace:
    """Translate the options into those of fairseq's transformer."""
    sizes = (cfg.embed_dim, cfg.ffn_embed_dim, cfg.attention_heads)
    args = Namespace(
        **sizes_of("encoder", cfg.encoder_layers, *sizes),
        **sizes_of("decoder", cfg.decoder_layers, *sizes),
        encoder_normalize_before=cfg.normalize_before,
        decoder_normalize_before=cfg.normalize_before,
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.activation_dropout,
        max_source_positions=cfg.max_source_positions,
        max_target_positions=cfg.max_source_positions * cfg.ctc_upsample,
        share_all_embeddings=True,
        share_decoder_input_output_embed=True,
    )
    base_architecture(args)
    return args


register_architectures("nat_ctc", ARCHITECTURES)
