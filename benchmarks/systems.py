"""Random models of a given size, for speed alone: SGA and autoregressive transformers over one vocabulary."""

from argparse import Namespace
from typing import Any, Dict, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from torch import Tensor

from fairseq_plugins.models.sga import SGAConfig, SGAModel
from fairseq_plugins.modules.frozen import Frozen
from fairseq_plugins.modules.masked_lm import MaskedLM, MaskedLMSizes


class Sizes(NamedTuple):
    """Sizes that all systems share.

    Attributes:
        vocab: V, special symbols counted.
        layers: of the masked LM, and of the AT encoder and the deep AT decoder.
        width: C; the feed-forward width is 4 C.
        heads: H.
        prompts: P.
    """

    vocab: int = 250002
    layers: int = 12
    width: int = 768
    heads: int = 12
    prompts: int = 128


def dictionary(vocab: int) -> Dictionary:
    """``vocab`` symbols, the last one ``<mask>``."""
    symbols = Dictionary()
    for number in range(vocab - len(symbols) - 1):
        symbols.add_symbol(f"p{number}")
    symbols.add_symbol("<mask>")
    return symbols


class Symbols:
    """The task that a stock model's ``build_model`` asks for its dictionaries."""

    def __init__(self, symbols: Dictionary):
        self.source_dictionary = self.target_dictionary = symbols


def autoregressive(sizes: Sizes, symbols: Dictionary, decoder_layers: int, device: torch.device) -> TransformerModel:
    """Stock post-norm transformer with one embedding for everything, as deep and wide as the masked LM."""
    args = Namespace(
        share_all_embeddings=True, activation_fn="gelu", max_source_positions=512, max_target_positions=512
    )
    for side, layers in (("encoder", sizes.layers), ("decoder", decoder_layers)):
        chosen = {"layers": layers, "embed_dim": sizes.width, "ffn_embed_dim": 4 * sizes.width}
        for name, value in {**chosen, "attention_heads": sizes.heads}.items():
            setattr(args, f"{side}_{name}", value)
    torch.manual_seed(1)
    model = TransformerModel.build_model(args, Symbols(symbols)).to(device).eval()
    model.prepare_for_inference_(
        Namespace(common_eval=Namespace(retain_dropout=False), generation=Namespace(no_beamable_mm=False))
    )
    return model


def sga(sizes: Sizes, device: torch.device) -> SGAModel:
    """SGA around a random masked LM of XLM-R's shape."""
    lm_sizes = MaskedLMSizes(sizes.vocab, sizes.layers, sizes.width, 4 * sizes.width, sizes.heads, 512)
    torch.manual_seed(1)
    masked_lm = MaskedLM(lm_sizes)
    masked_lm.reset_parameters()
    cfg = SGAConfig(prompt_length=sizes.prompts)
    model = SGAModel(Frozen(masked_lm, "0" * 32, "random weights"), cfg, blank=0, mask=sizes.vocab - 1)
    return model.to(device).eval()


def batch(lengths: Tensor, vocab: int, device: torch.device, seed: int = 1) -> Dict[str, Any]:
    """Random sources ``<s> pieces </s>`` of the given lengths (B,), special symbols counted, as a fairseq sample."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, vocab - 1, (len(lengths), int(lengths.max())), generator=generator)
    tokens[:, 0] = 0
    columns = torch.arange(tokens.size(1))
    tokens[columns == lengths[:, None] - 1] = 2
    tokens[columns >= lengths[:, None]] = 1
    net_input = {"src_tokens": tokens.to(device), "src_lengths": lengths.to(device)}
    return {"id": torch.arange(len(lengths)), "nsentences": len(lengths), "net_input": net_input}
