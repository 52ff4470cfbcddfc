"""Tiny VECOs, their options, batches and pretrained states, built in memory."""

import argparse
import json
from itertools import islice

import numpy as np
import safetensors.torch
import torch
from fairseq import models
from fairseq.models.transformer import TransformerModel

import fairseq_plugins  # noqa: F401 registers the architectures
from fairseq_plugins.veco.data import VECODataset
from fairseq_plugins.veco.segments import AdjacentSegments, ParallelPairs
from tests import builders, deltalm_builders, nlu_builders
from tests.unit.checkpoints import builders as masked_lms

BOS, PAD, EOS, MASK = builders.BOS, builders.PAD, builders.EOS, builders.MASK
LAYERS = 4
KINDS = ("argparse", "omegaconf")
SIZES = {name: value for name, value in builders.SIDES.items() if name != "decoder_layers"}
SIZES["encoder_layers"] = LAYERS


def dictionary(pieces=builders.PIECES, mask=False, tags=()):
    """4 symbols, the pieces p0 p1 ..., ``<mask>`` if asked for, then the tags."""
    return builders.of_symbols([*builders.piece_names(pieces), *["<mask>"] * mask, *tags])


def task(pretrains=False, kept_rows=None, checkpoint_kind=None, **symbols):
    """A task as building a model needs it; by default only pre-training has ``<mask>``."""
    return builders.task_of(
        dictionary(**{"mask": pretrains, **symbols}),
        pretrains_veco=pretrains,
        kept_rows=kept_rows,
        checkpoint_kind=checkpoint_kind,
    )


def arguments(kind="argparse", arch="veco_tiny", **options):
    return builders.options_of(kind, arch, {**SIZES, **options})


def translator(args=None, symbols=None, **options):
    args = arguments(**options) if args is None else args
    return models.build_model(args, task(**(symbols or {})))


def pretrainer(args=None, symbols=None, **options):
    args = arguments(**options) if args is None else args
    return models.build_model(args, task(True, **(symbols or {})))


def random_pretrainer(**options):
    """A model that pre-trains, in evaluation mode; with its weights every path matters."""
    model = pretrainer(**options)
    soften(model, 5)
    return model.eval()


def soften(model, seed):
    deltalm_builders.randomise(model, seed, "embed_|output_projection|q_proj|k_proj|lm_head")


def copy_state(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def stock_state(layers=LAYERS, rows=None, seed=7):
    """The released layout: a stock transformer whose decoder has all layers of the encoder.

    ``rows`` of the embedding; by default the dictionary's and a last one for ``<mask>``.
    """
    pieces = builders.PIECES + 1 if rows is None else rows - 4
    model = stock_model(dictionary(pieces), layers=layers)
    soften(model, seed)
    state = copy_state(model)
    for name in state:
        if name.startswith("decoder.") and "encoder_attn" not in name:
            source = name.replace("decoder.output_projection", "encoder.embed_tokens")
            state[name] = state[source.replace("decoder.", "encoder.")]
    return state


def stock_model(symbols, layers=LAYERS, scaled=True):
    sizes = {**SIZES, "encoder_layers": layers, "decoder_layers": layers}
    wiring = {**builders.XLMR_WIRING, "no_scale_embedding": not scaled}
    args = argparse.Namespace(**sizes, **wiring, share_all_embeddings=True)
    return TransformerModel.build_model(args, builders.task_of(symbols)).eval()


def pair_rows(seed=3, lengths=(6, 4, 5, 7)):
    """First segments, then second ones, each ``<s> ... </s>``."""
    return builders.source_rows(lengths, seed)


def batch(seed=3, parallel=True, extra=0, lengths=(6, 4, 5, 7)):
    """A batch of pre-training in which every second token of a segment is predicted."""
    rows = pair_rows(seed, lengths)
    half, count = len(rows) // 2, sum(map(len, rows))
    masks = [torch.arange(len(row)).remainder(2).bool() & row.ne(EOS) for row in rows]
    inputs = [
        row.masked_fill(mask & row.remainder(3).ne(0), MASK) for row, mask in zip(rows, masks)
    ]
    targets = [row.masked_fill(~mask, PAD) for row, mask in zip(rows, masks)]

    def join(parts, separator, fill=PAD):
        """Both segments in one row, ``separator`` in the place of the second one's ``<s>``."""
        if not parallel:
            return None
        lines = []
        for first, second in zip(parts[:half], parts[half:]):
            lines.append(torch.cat([first, first.new_tensor([separator]), second[1:]]))
        return builders.pad(lines, fill, extra)

    return {
        "id": torch.arange(half),
        "nsentences": half,
        "ntokens": count,
        "net_input": {
            "src_tokens": builders.pad(inputs, extra=extra),
            "src_lengths": torch.tensor([*map(len, rows)]),
            "masked": builders.pad(masks, False, extra),
            "joint_tokens": join(inputs, EOS),
            "joint_masked": join(masks, False, False),
        },
        "target": builders.pad(targets, extra=extra),
        "joint_target": join(targets, PAD),
    }


# ---- Documents and pairs for pre-training, as streams and as data-bins. ----


def documents(counts, seed=1):
    """Documents of random sentences without </s>; an empty row ends each."""
    sentences = iter(builders.sentences(sum(counts), seed))
    return [row for count in counts for row in [*islice(sentences, count), []]]


def _side(rows):
    tensors = [torch.tensor([*row, EOS]) for row in rows]
    return tensors, np.array([len(row) for row in tensors], dtype=np.int32)


def segments(rows, room=12):
    return AdjacentSegments(*_side(rows), room, PAD, EOS)


def pairs(source, target, room=None):
    (x, x_sizes), (y, y_sizes) = _side(source), _side(target)
    return ParallelPairs([x, y], [x_sizes, y_sizes], room)


def streams(documents_=20, sentences=30):
    source, target = (builders.sentences(sentences, seed) for seed in (11, 12))
    return [segments(documents([4] * documents_)), pairs(source, target)]


def dataset(parts, probabilities=None, seed=7, mask_prob=0.15):
    return VECODataset(parts, builders.dictionary(), mask_prob, seed, probabilities)


def plain(item):
    """Lengths, tokens and targets of an item as lists."""
    return list(item["lengths"]), item["tokens"].tolist(), item["target"].tolist()


def unmasked(item):
    """Both segments of an item, with the original tokens in the place of the masked ones."""
    (first, _), tokens, target = plain(item)
    row = [token if label == PAD else label for token, label in zip(tokens, target)]
    return [row[:first], row[first:]]


def stream_rows(stream, index):
    """Both segments of a text in a stream."""
    return [[BOS, *tokens.tolist()] for tokens in stream.read(index)]


def write_documents(folder, split, language, rows):
    """Write documents as ``fairseq-preprocess --only-source`` does, and the dictionary."""
    builders.write_side(folder, split, f"{language}-None", language, rows)
    builders.write_dictionary(folder, language)


# ---- VECOs on disk in every layout, made by stock fairseq and by hand. ----

SYMBOLS = [*nlu_builders.PIECES, "<mask>"]
ROWS = 4 + len(SYMBOLS)
SHAPE = {**builders.XLMR_WIRING, "decoder_layers": nlu_builders.LAYERS}
WORDS = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection", "lm_head")
STACK = ("self_attn", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
PROJECTIONS = {
    "self.query": "q_proj",
    "self.key": "k_proj",
    "self.value": "v_proj",
    "output.dense": "out_proj",
}
CROSS = {
    f"cross_attention.{theirs}.{kind}": f"encoder_attn.{ours}.{kind}"
    for theirs, ours in PROJECTIONS.items()
    for kind in ("weight", "bias")
}
CROSS["cross_attention.output.LayerNorm.gamma"] = "encoder_attn_layer_norm.weight"
CROSS["cross_attention.output.LayerNorm.beta"] = "encoder_attn_layer_norm.bias"
"""Names of a layer's cross-attention in the authors' folder -> in fairseq's layout."""


def stock(symbols=SYMBOLS, scaled=True, **options):
    """A stock transformer whose decoder layers are the encoder's, except for cross-attention."""
    options = {**SHAPE, "no_scale_embedding": not scaled, **options}
    model = nlu_builders.stock_model(symbols, arch="transformer", **options)
    model.options["arch"] = "veco_large"
    for part in ("embed_positions", "layernorm_embedding"):
        setattr(model.decoder, part, getattr(model.encoder, part))
    for decoder_layer, encoder_layer in zip(model.decoder.layers, model.encoder.layers):
        for part in STACK:
            setattr(decoder_layer, part, getattr(encoder_layer, part))
    return model


def released_state(model):
    """The state of a model with no shared memory, and two tensors that an encoder does not need."""
    state = copy_state(model)
    state["encoder.output_projection.weight"] = state["encoder.embed_tokens.weight"].clone()
    state["classification_heads.nli.dense.weight"] = torch.ones(2, 2)
    return state


def write(path, model, state, without=(), **changes):
    """Write a checkpoint with options as released; ``without``: options that it lacks."""
    options = {**model.options, **changes}
    args = argparse.Namespace(**{name: options[name] for name in options if name not in without})
    content = {"args": args, "model": state, "optimizer_history": [{"num_updates": 3}]}
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({**content, "extra_state": {"epoch": 1}}, path)
    return path


def released(folder, **changes):
    """Write ``model.pt`` and a ``dict.txt`` without ``<mask>``, the last row. Returns the model."""
    model = stock(**changes)
    write(folder / "model.pt", model, released_state(model))
    nlu_builders.write_dict(folder / "dict.txt", nlu_builders.PIECES)
    return model


def head(words):
    """The head of a masked LM, tied to the embedding ``words``."""
    random, width = builders.drawing(3, 0.3), nlu_builders.WIDTH
    state = {"dense.weight": random(width, width), "dense.bias": random(width)}
    state.update({"layer_norm.weight": 1 + random(width), "layer_norm.bias": random(width)})
    state.update({"weight": words, "bias": random(words.size(0))})
    return {f"lm_head.{name}": tensor for name, tensor in state.items()}


def pretrained_state(model):
    """The state of a VECO that pre-trains; tied tensors share memory."""
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    words = state["encoder.embed_tokens.weight"]
    return {**state, **head(words), "lm_head.mask_row": torch.empty(len(words) - 1, 0)}


def pretrained(path, seed_model=None, **entries):
    """Write a checkpoint of the pre-training as the trainer does. Returns the model."""
    model = stock(scaled=False) if seed_model is None else seed_model
    options = {name: value for name, value in model.options.items() if name != "arch"}
    cfg = {"model": {**options, "_name": "veco_tiny"}, "task": {"_name": "veco_pretraining"}}
    content = {
        "args": None,
        "cfg": cfg,
        "model": pretrained_state(model),
        "optimizer_history": [{"num_updates": 3}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({**content, **entries}, path)
    return model


def folder_state(with_head=True):
    """The tensors of a Hugging Face folder: an XLM-R with old names, and cross-attention."""
    state = old_names(masked_lms.huggingface_state(masked_lms.masked_lm_tensors(1)))
    state = {name: state[name] for name in state if with_head or not name.startswith("lm_head")}
    layers, width = masked_lms.SIZES["layers"], masked_lms.SIZES["embed_dim"]
    return {**state, **cross_attention(range(layers), width)}


def old_names(state):
    """Rename the tensors of layer norms as in BERT's first release."""
    renamed = {}
    for name, tensor in state.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        renamed[name.replace("LayerNorm.bias", "LayerNorm.beta")] = tensor
    return renamed


def cross_attention(layers, width):
    """Random cross-attention of these layers."""
    random = builders.drawing(7)
    return {
        f"roberta.encoder.layer.{layer}.{name}": random(
            *(width, width) if name.endswith("weight") else (width,)
        )
        for layer in layers
        for name in CROSS
    }


def write_folder(folder, state=None, **changes):
    """Write a Hugging Face folder of 12 layers, pickled as in the release."""
    state = folder_state() if state is None else state
    return masked_lms.write_huggingface(folder, state, pickled=True, **changes)


def add_cross_attention(folder):
    """Make a VECO of a folder that transformers has written. Returns the names of all tensors."""
    state = old_names(safetensors.torch.load_file(folder / "model.safetensors"))
    state.update(cross_attention(range(nlu_builders.LAYERS), nlu_builders.WIDTH))
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    config = json.loads((folder / "config.json").read_text())
    config.update(is_decoder=True, add_cross_attention=True)
    nlu_builders.write_json(folder / "config.json", config)
    return list(state)


def sizes_of_tiny():
    """The sizes of the tiny VECOs, by the names of a layout."""
    names = ("layers", "embed_dim", "ffn_dim", "heads", "max_positions")
    return dict(zip(names, nlu_builders.TINY), vocab_size=ROWS)
