"""Random models of a given size, for speed alone: SGA, transformers and a prompted language model over one vocabulary."""

from argparse import Namespace
from typing import Any, Dict, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from torch import Tensor, nn

from fairseq_plugins.checkpoints.layouts import CausalLMLayout
from fairseq_plugins.models.baselines import GPTMSPModel
from fairseq_plugins.models.baselines.gpt_msp import PromptedDecoder, TwoReadings
from fairseq_plugins.models.sga import SGAConfig, SGAModel
from fairseq_plugins.modules.frozen import Frozen
from fairseq_plugins.modules.prefix_decoder import PrefixDecoder
from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes
from fairseq_plugins.modules.prompts import Prompts

POSITIONS = 512
UNTRAINED = ("0" * 32, "random weights")
"""Fingerprint and source of frozen weights that no file has."""


class Sizes(NamedTuple):
    """Sizes that all systems share.

    Attributes:
        vocab: V, special symbols counted.
        layers: of the masked LM and the causal one, and of the AT encoder and the deep AT decoder.
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
        share_all_embeddings=True,
        activation_fn="gelu",
        max_source_positions=POSITIONS,
        max_target_positions=POSITIONS,
    )
    for side, layers in (("encoder", sizes.layers), ("decoder", decoder_layers)):
        chosen = {"layers": layers, "embed_dim": sizes.width, "ffn_embed_dim": 4 * sizes.width}
        for name, value in {**chosen, "attention_heads": sizes.heads}.items():
            setattr(args, f"{side}_{name}", value)
    torch.manual_seed(1)
    return ready(TransformerModel.build_model(args, Symbols(symbols)), device)


def ready(model: Any, device: torch.device) -> Any:
    """A stock model as the command lines decode with it."""
    model = model.to(device).eval()
    model.prepare_for_inference_(
        Namespace(common_eval=Namespace(retain_dropout=False), generation=Namespace(no_beamable_mm=False))
    )
    return model


def prompted_lm(sizes: Sizes, symbols: Dictionary, device: torch.device) -> GPTMSPModel:
    """``gpt_msp`` around a random causal language model of GPT-2's shape, as deep and wide as the masked LM."""
    torch.manual_seed(1)
    layout = CausalLMLayout(sizes.vocab, sizes.layers, sizes.width, 4 * sizes.width, sizes.heads, POSITIONS)
    lm = PrefixDecoder(layout, symbols)
    nn.init.normal_(lm.embed_tokens.weight, std=0.02)  # also the output projection
    frozen = Frozen(lm, *UNTRAINED)
    stages = [Prompts(sizes.layers, sizes.prompts, sizes.width, sizes.heads, scaled=True) for _ in range(3)]
    return ready(
        GPTMSPModel(TwoReadings(frozen, symbols, *stages[:2]), PromptedDecoder(frozen, symbols, stages[2])), device
    )


def sga(sizes: Sizes, device: torch.device, **options: Any) -> SGAModel:
    """SGA around a random masked LM of XLM-R's shape; ``options`` are those of SGAConfig."""
    lm_sizes = MaskedLMSizes(sizes.vocab, sizes.layers, sizes.width, 4 * sizes.width, sizes.heads, POSITIONS)
    torch.manual_seed(1)
    masked_lm = MaskedLM(lm_sizes)
    masked_lm.reset_parameters()
    cfg = SGAConfig(prompt_length=sizes.prompts, **options)
    model = SGAModel(Frozen(masked_lm, *UNTRAINED), cfg, blank=0, mask=sizes.vocab - 1)
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
