"""A tiny mBART with large random weights, built in memory."""

from argparse import Namespace

from fairseq.models.bart import BARTModel
from fairseq.models.bart.model import mbart_base_architecture

from tests import builders

SIZES = {"embed_dim": 16, "ffn_embed_dim": 24, "layers": 2, "attention_heads": 2}


def mbart(symbols=None):
    """In evaluation mode, with an embedding of its own a side."""
    args = Namespace(max_source_positions=40, max_target_positions=40)
    for side in ("encoder", "decoder"):
        vars(args).update({f"{side}_{name}": value for name, value in SIZES.items()})
    mbart_base_architecture(args)
    symbols = symbols or builders.dictionary()
    model = BARTModel.build_model(args, Namespace(source_dictionary=symbols, target_dictionary=symbols))
    builders.randomise(model, seed=1)
    return model.eval()
