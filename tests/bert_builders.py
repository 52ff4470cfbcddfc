"""Write a masked LM of the tests as the folder of a BERT without a head, as E5 is published."""

import json

import torch

from fairseq_plugins.checkpoints.writing import exported_name, save_tensors
from tests import builders

EPSILON = 1e-2


def write_encoder(folder, surplus=2, seed=4):
    """Write the encoder of ``builders.masked_lm`` with rows that no dictionary has.

    ``<mask>`` follows the pieces, as in E5; ``surplus`` rows follow it. Positions count from 0.
    """
    masked_lm = builders.masked_lm(seed, epsilon=EPSILON)
    tensors = {}
    for name, tensor in masked_lm.state_dict().items():
        if name.startswith("sentence_encoder."):
            tensors[exported_name(name, "bert")] = tensor.clone()
    words, positions = (
        f"bert.embeddings.{kind}_embeddings.weight" for kind in ("word", "position")
    )
    width = masked_lm.sizes.embed_dim
    tensors[words] = torch.cat([tensors[words], torch.ones(surplus, width)])
    types = torch.stack([torch.full((width,), 0.25), torch.full((width,), 9.0)])
    tensors[positions] = tensors[positions][builders.PAD + 1 :] - types[0]
    tensors["bert.embeddings.token_type_embeddings.weight"] = types
    save_tensors(tensors, folder / "model.safetensors")
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": width,
        "intermediate_size": masked_lm.sizes.ffn_dim,
        "layer_norm_eps": EPSILON,
        "max_position_embeddings": masked_lm.sizes.max_positions,
        "num_attention_heads": masked_lm.sizes.heads,
        "num_hidden_layers": masked_lm.sizes.layers,
        "type_vocab_size": 2,
        "vocab_size": masked_lm.sizes.vocab_size + surplus,
    }
    (folder / "config.json").write_text(json.dumps(config))
    builders.write_symbols(folder / "dict.txt", builders.dictionary().symbols[4:])
    return masked_lm
