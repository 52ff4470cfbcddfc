"""Write tiny masked LMs in every layout; the names are not from the package's tables."""

import argparse
import json

import safetensors.torch
import torch

# Twelve layers, so that their numbers have one and two digits.
SIZES = dict(vocab_size=23, layers=12, embed_dim=8, ffn_dim=12, heads=2)
SIZES.update(max_positions=10, padding_idx=1, epsilon=1e-5)
ARGS = dict(arch="xlmr_base", encoder_layers=12, encoder_embed_dim=8, encoder_ffn_embed_dim=12)
ARGS.update(encoder_attention_heads=2, max_positions=10, activation_fn="gelu")
CONFIG = dict(model_type="xlm-roberta", hidden_act="gelu", layer_norm_eps=1e-05, vocab_size=23)
CONFIG.update(num_hidden_layers=12, hidden_size=8, intermediate_size=12, num_attention_heads=2)
CONFIG.update(max_position_embeddings=12, pad_token_id=1, type_vocab_size=1)


def masked_lm_tensors(seed=1):
    """Draw tensors in the package's layout, no two alike, without the tied ``lm_head.weight``."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=generator)

    tensors = {
        "sentence_encoder.embed_tokens.weight": random(23, 8),
        "sentence_encoder.embed_positions.weight": random(12, 8),
        "lm_head.dense.weight": random(8, 8),
        "lm_head.dense.bias": random(8),
        "lm_head.bias": random(23),
    }
    norms = ["sentence_encoder.layernorm_embedding", "lm_head.layer_norm"]
    for layer in range(12):
        start = f"sentence_encoder.layers.{layer}."
        norms += [f"{start}self_attn_layer_norm", f"{start}final_layer_norm"]
        matrices = {f"self_attn.{name}_proj": (8, 8) for name in ("q", "k", "v", "out")}
        for name, shape in {**matrices, "fc1": (12, 8), "fc2": (8, 12)}.items():
            tensors[f"{start}{name}.weight"] = random(*shape)
            tensors[f"{start}{name}.bias"] = random(shape[0])
    tensors.update({f"{norm}.{kind}": random(8) for norm in norms for kind in ("weight", "bias")})
    return tensors


def current_state(tensors):
    """Return the state dict of fairseq 0.12."""
    state = {f"encoder.{name}": tensor for name, tensor in tensors.items()}
    state["encoder.lm_head.weight"] = tensors["sentence_encoder.embed_tokens.weight"]
    state["encoder.sentence_encoder.version"] = torch.tensor([3.0])
    return state


def old_state(state):
    """Rename a state to the layout of fairseq < 0.10: ``emb_layer_norm``, ``in_proj_*``."""
    old = {}
    for name, tensor in state.items():
        name = name.replace("encoder.", "decoder.", 1)
        name = name.replace("layernorm_embedding", "emb_layer_norm")
        if ".q_proj." in name:
            start, kind = name.split("q_proj.")
            current = start.replace("decoder.", "encoder.", 1)
            parts = [state[f"{current}{part}_proj.{kind}"] for part in "qkv"]
            old[f"{start}in_proj_{kind}"] = torch.cat(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            old[name] = tensor
    return old


def huggingface_state(tensors, prefix="roberta."):
    """Return the state of an ``XLMRobertaForMaskedLM`` whose token type is zero."""
    state = {
        "embeddings.word_embeddings.weight": tensors["sentence_encoder.embed_tokens.weight"],
        "embeddings.position_embeddings.weight": tensors["sentence_encoder.embed_positions.weight"],
        "embeddings.token_type_embeddings.weight": torch.zeros(1, 8),
        "embeddings.LayerNorm.weight": tensors["sentence_encoder.layernorm_embedding.weight"],
        "embeddings.LayerNorm.bias": tensors["sentence_encoder.layernorm_embedding.bias"],
    }
    modules = {
        "attention.self.query": "self_attn.q_proj",
        "attention.self.key": "self_attn.k_proj",
        "attention.self.value": "self_attn.v_proj",
        "attention.output.dense": "self_attn.out_proj",
        "attention.output.LayerNorm": "self_attn_layer_norm",
        "intermediate.dense": "fc1",
        "output.dense": "fc2",
        "output.LayerNorm": "final_layer_norm",
    }
    for layer in range(12):
        for theirs, ours in modules.items():
            for kind in ("weight", "bias"):
                name = f"encoder.layer.{layer}.{theirs}.{kind}"
                state[name] = tensors[f"sentence_encoder.layers.{layer}.{ours}.{kind}"]
    state = {prefix + name: tensor for name, tensor in state.items()}
    state.update({name: tensor for name, tensor in tensors.items() if name.startswith("lm_head.")})
    return state


def write_fairseq(path, state, as_cfg=False, **changes):
    """Write a fairseq checkpoint with ``args`` (or ``cfg``); leave out options changed to None."""
    options = {key: value for key, value in {**ARGS, **changes}.items() if value is not None}
    entries = {"optimizer_history": [{"num_updates": 3}], "extra_state": {"epoch": 1}}
    if as_cfg:
        cfg = {"model": {"_name": "xlmr_base", **options}, "task": {"_name": "masked_lm"}}
        entries.update(args=None, cfg=cfg)
    else:
        entries["args"] = argparse.Namespace(**options)
    torch.save({"model": state, **entries}, path)
    return path


def write_huggingface(folder, state, pickled=False, **changes):
    """Write a Hugging Face folder; leave out entries of the configuration changed to None."""
    folder.mkdir(exist_ok=True)
    config = {key: value for key, value in {**CONFIG, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if pickled:
        torch.save(state, folder / "pytorch_model.bin")
    else:
        copies = {name: tensor.clone() for name, tensor in state.items()}
        safetensors.torch.save_file(copies, folder / "model.safetensors")
    return folder


def edit_checkpoint(path, edit):
    """Edit the content of a pickled checkpoint; return its path."""
    content = torch.load(path, weights_only=False)
    edit(content)
    torch.save(content, path)
    return path


def put(name, *shape):
    """Return an edit of a state that adds a tensor of ones."""
    return lambda state: state.update({name: torch.ones(*shape)})


def without(text):
    """Return an edit of a state that removes the tensors with a text in their names."""
    return lambda state: [state.pop(name) for name in list(state) if text in name]


def edited(state, change):
    """Return a changed copy of a state."""
    copy = dict(state)
    change(copy)
    return copy


def assert_same(actual, expected):
    """Assert that two states have the same names and bit-equal tensors."""
    assert set(actual) == set(expected)
    assert [name for name in expected if not torch.equal(actual[name], expected[name])] == []
