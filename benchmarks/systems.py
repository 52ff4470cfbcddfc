"""Build random models of a given size: SGA, transformers and a prompted LM over one vocabulary."""

from argparse import ArgumentParser, Namespace
from typing import Any, Dict, NamedTuple, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from torch import Tensor, nn

from fairseq_plugins.baselines.gpt_msp import GPTMSPModel, Reader, Writer
from fairseq_plugins.baselines.prefix_decoder import PrefixDecoder
from fairseq_plugins.checkpoints.layouts import CausalLMLayout
from fairseq_plugins.common.frozen import Frozen
from fairseq_plugins.masked_lm.model import MaskedLM, MaskedLMSizes
from fairseq_plugins.masked_lm.prompts import Prompts
from fairseq_plugins.sga.model import SGAModel
from fairseq_plugins.sga.variants import MODELS, JoinedModelConfig

from .datasets import make_dictionary

POSITIONS = 512
UNTRAINED = ("0" * 32, "random weights")
"""Fingerprint and origin that stand for those of a file of frozen weights."""


class Sizes(NamedTuple):
    """Sizes that all systems share.

    Attributes:
        vocab: V, including special symbols.
        layers: of the masked LM, the causal LM, the AT encoder and the deep AT decoder.
        width: C; the feed-forward width is 4 C.
        heads: H.
        prompts: P.
    """

    vocab: int = 250002
    layers: int = 12
    width: int = 768
    heads: int = 12
    prompts: int = 128

    @classmethod
    def of(cls, options: Namespace, vocab: Optional[int] = None) -> "Sizes":
        """Read the options of :func:`add_sizes`."""
        return cls(vocab or options.vocab, options.layers, options.width, options.heads)


def add_sizes(parser: ArgumentParser) -> None:
    """Add the options of the model's size, without V."""
    for name, text in (("layers", "L"), ("width", "C"), ("heads", "H")):
        default = Sizes._field_defaults[name]
        parser.add_argument(
            f"--{name}",
            type=int,
            default=default,
            help=f"{text} (default: {default})",
        )


class StubTask:
    """Task that gives a stock model its dictionaries."""

    def __init__(self, symbols: Dictionary, **settings: Any):
        self.source_dictionary = self.target_dictionary = symbols
        vars(self).update(settings)


def build_dictionary(vocab: int) -> Dictionary:
    """Build a dictionary of ``vocab`` symbols, the last one ``<mask>``."""
    pieces = vocab - len(Dictionary()) - 1
    return make_dictionary([*(f"p{number}" for number in range(pieces)), "<mask>"])


def stack_options(sizes: Sizes, decoder_layers: int) -> Dict[str, Any]:
    """Return the options of fairseq's transformer that set its size, with one embedding for all."""
    options: Dict[str, Any] = {
        "share_all_embeddings": True,
        "max_source_positions": POSITIONS,
        "max_target_positions": POSITIONS,
    }
    for side, layers in (("encoder", sizes.layers), ("decoder", decoder_layers)):
        options[f"{side}_layers"] = layers
        options[f"{side}_embed_dim"] = sizes.width
        options[f"{side}_ffn_embed_dim"] = 4 * sizes.width
        options[f"{side}_attention_heads"] = sizes.heads
    return options


def transformer_options(sizes: Sizes, decoder_layers: int) -> Dict[str, Any]:
    """Return the options of a post-norm transformer, as a checkpoint stores them."""
    options = stack_options(sizes, decoder_layers)
    options.update(
        share_decoder_input_output_embed=True,
        activation_fn="gelu",
        left_pad_source=True,
    )
    for side in ("encoder", "decoder"):
        options.update({f"{side}_normalize_before": False, f"{side}_learned_pos": False})
    return options


def build_transformer(
    sizes: Sizes,
    symbols: Dictionary,
    decoder_layers: int,
    device: torch.device,
) -> TransformerModel:
    """Build a stock post-norm transformer as deep and wide as the masked LM."""
    args = Namespace(**transformer_options(sizes, decoder_layers))
    torch.manual_seed(1)
    return prepare_for_inference(TransformerModel.build_model(args, StubTask(symbols)), device)


def prepare_for_inference(model: Any, device: torch.device) -> Any:
    """Prepare a stock model for decoding as fairseq's commands do."""
    model = model.to(device).eval()
    common_eval, generation = Namespace(retain_dropout=False), Namespace(no_beamable_mm=False)
    model.prepare_for_inference_(Namespace(common_eval=common_eval, generation=generation))
    return model


def build_prompted_lm(sizes: Sizes, symbols: Dictionary, device: torch.device) -> GPTMSPModel:
    """Build ``gpt_msp`` around a random LM of GPT-2's shape, as deep and wide as the masked LM."""
    torch.manual_seed(1)
    layout = CausalLMLayout(
        sizes.vocab,
        sizes.layers,
        sizes.width,
        4 * sizes.width,
        sizes.heads,
        POSITIONS,
    )
    lm = PrefixDecoder(layout, symbols)
    nn.init.normal_(lm.embed_tokens.weight, std=0.02)  # also the output projection
    frozen = Frozen(lm, *UNTRAINED)
    shape = (sizes.layers, sizes.prompts, sizes.width, sizes.heads)
    stages = [Prompts(*shape, scaled=True) for _ in range(3)]
    encoder = Reader(frozen, symbols, *stages[:2])
    return prepare_for_inference(
        GPTMSPModel(encoder, Writer(frozen, symbols, stages[2])),
        device,
    )


def build_sga(sizes: Sizes, device: torch.device, **options: Any) -> SGAModel:
    """Build SGA with a random masked LM of XLM-R's shape; ``options``: of the model's config."""
    lm_sizes = MaskedLMSizes(
        sizes.vocab,
        sizes.layers,
        sizes.width,
        4 * sizes.width,
        sizes.heads,
        POSITIONS,
    )
    torch.manual_seed(1)
    masked_lm = MaskedLM(lm_sizes)
    masked_lm.reset_parameters()
    cfg = JoinedModelConfig(prompt_length=sizes.prompts, **options)
    model = MODELS[str(cfg.alignment)](
        Frozen(masked_lm, *UNTRAINED), cfg, blank=0, mask=sizes.vocab - 1
    )
    return model.to(device).eval()


def make_batch(lengths: Tensor, vocab: int, device: torch.device, seed: int = 1) -> Dict[str, Any]:
    """Draw sources ``<s> pieces </s>`` and return them as a fairseq sample.

    Args:
        lengths: (B,), including special symbols.
        vocab: V.
        device: of the sample.
        seed: of the pieces.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), int(lengths.max()))
    tokens = torch.randint(4, vocab - 1, shape, generator=generator)  # B S
    tokens[:, 0] = 0
    columns = torch.arange(tokens.size(1))
    tokens[columns == lengths[:, None] - 1] = 2
    tokens[columns >= lengths[:, None]] = 1
    net_input = {"src_tokens": tokens.to(device), "src_lengths": lengths.to(device)}
    ids = torch.arange(len(lengths))
    return {"id": ids, "nsentences": len(lengths), "net_input": net_input}


def make_even_batch(
    sentences: int,
    length: int,
    vocab: int,
    device: torch.device,
) -> Dict[str, Any]:
    """Draw ``sentences`` sources of the same length."""
    return make_batch(torch.full((sentences,), length), vocab, device)


def count_parameters(model: nn.Module) -> int:
    """Count the parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())


def finish_step(model: nn.Module, loss: Tensor) -> float:
    """Run the backward pass; return the loss in nats.

    Gradients are zeroed, not freed, so that they are no part of what the next step needs.
    """
    loss.backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.zero_()
    return float(loss.detach())
