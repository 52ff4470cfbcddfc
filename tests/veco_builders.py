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
    """4 symbols, the pieces p0 p1 ..., ``<mask>`` where asked for, then the tags."""
    return builders.of_symbols([*builders.piece_names(pieces), *["<mask>"] * mask, *tags])


def task(pretrains=False, kept_rows=None, checkpoint_kind=None, **symbols):
    """What building a model needs of a task: pre-training has ``<mask>`` in its dictionary, translation has not."""
    read_by_model = {"pretrains_veco": pretrains, "kept_rows": kept_rows, "checkpoint_kind": checkpoint_kind}
    return builders.task_of(dictionary(**{"mask": pretrains, **symbols}), **read_by_model)


def arguments(kind="argparse", arch="veco_tiny", **options):
    return builders.options_of(kind, arch, {**SIZES, **options})


def translator(args=None, symbols=None, **options):
    return models.build_model(arguments(**options) if args is None else args, task(**(symbols or {})))


def pretrainer(args=None, symbols=None, **options):
    return models.build_model(arguments(**options) if args is None else args, task(True, **(symbols or {})))


def random_pretrainer(**options):
    """In evaluation mode, with weights under which every path matters."""
    model = pretrainer(**options)
    soften(model, 5)
    return model.eval()


def soften(model, seed):
    deltalm_builders.randomise(model, seed, "embed_|output_projection|q_proj|k_proj|lm_head")


def stock_state(layers=LAYERS, rows=None, seed=7):
    """The released layout: a stock transformer with a decoder of all layers, whose layers are those of the encoder.

    ``rows`` of the embedding; with a last one for ``<mask>`` when None.
    """
    model = stock_model(dictionary(builders.PIECES + 1 if rows is None else rows - 4), layers=layers)
    soften(model, seed)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name in list(state):
        if name.startswith("decoder.") and "encoder_attn" not in name:
            shared = name.replace("decoder.output_projection", "encoder.embed_tokens").replace("decoder.", "encoder.")
            state[name] = state[shared]
    return state


def stock_model(symbols, layers=LAYERS, scaled=True):
    args = {**SIZES, **builders.XLMR_WIRING, "encoder_layers": layers, "decoder_layers": layers}
    args.update(share_all_embeddings=True, no_scale_embedding=not scaled)
    return TransformerModel.build_model(argparse.Namespace(**args), builders.task_of(symbols)).eval()


def pair_rows(seed=3, lengths=(6, 4, 5, 7)):
    """First segments, then second ones, each ``<s> ... </s>``."""
    return builders.source_rows(lengths, seed)


def batch(seed=3, parallel=True, extra=0, lengths=(6, 4, 5, 7)):
    """A batch as the pre-training task's collater makes it; the second token of each segment and every third are masked."""
    rows = pair_rows(seed, lengths)
    half, count = len(rows) // 2, sum(map(len, rows))
    masks = [torch.arange(len(row)).remainder(2).bool() & row.ne(EOS) for row in rows]
    inputs = [row.masked_fill(mask & row.remainder(3).ne(0), MASK) for row, mask in zip(rows, masks)]
    targets = [row.masked_fill(~mask, PAD) for row, mask in zip(rows, masks)]

    def joint(parts, between, fill=PAD):
        """Both segments in one row, ``between`` in the place of the second one's ``<s>``."""
        pairs = zip(parts[:half], parts[half:])
        lines = [torch.cat([first, first.new_tensor([between]), second[1:]]) for first, second in pairs]
        return builders.pad(lines, fill, extra) if parallel else None

    net_input = {"src_tokens": builders.pad(inputs, extra=extra), "src_lengths": torch.tensor([*map(len, rows)])}
    net_input.update(masked=builders.pad(masks, False, extra), joint_masked=joint(masks, False, False))
    net_input["joint_tokens"] = joint(inputs, EOS)
    sample = {"id": torch.arange(half), "nsentences": half, "ntokens": count, "net_input": net_input}
    return {**sample, "target": builders.pad(targets, extra=extra), "joint_target": joint(targets, PAD)}


# ---- Tiny documents and pairs for VECO's pre-training, as streams and as data-bins, and a way to look at batches. ----


def documents(counts, seed=1):
    """Documents of so many random sentences, without </s>; an empty row ends each."""
    sentences = iter(builders.sentences(sum(counts), seed))
    return [row for count in counts for row in [*islice(sentences, count), []]]


def _side(rows):
    tensors = [torch.tensor([*row, EOS]) for row in rows]
    return tensors, np.array([len(row) for row in tensors], dtype=np.int32)


def segments(rows, room=12):
    return AdjacentSegments(*_side(rows), room, PAD, EOS)


def pairs(left, right, room=None):
    (x, x_sizes), (y, y_sizes) = _side(left), _side(right)
    return ParallelPairs([x, y], [x_sizes, y_sizes], room)


def streams(documents_=20, sentences=30):
    left, right = builders.sentences(sentences, 11), builders.sentences(sentences, 12)
    return [segments(documents([4] * documents_)), pairs(left, right)]


def dataset(parts, probabilities=None, seed=7, mask_prob=0.15):
    return VECODataset(parts, builders.dictionary(), mask_prob, seed, probabilities)


def plain(item):
    return list(item["lengths"]), item["tokens"].tolist(), item["target"].tolist()


def whole(item):
    (first, _), tokens, target = plain(item)
    row = [old if new == PAD else new for old, new in zip(tokens, target)]
    return [row[:first], row[first:]]


def rows_of(stream, index):
    return [[BOS, *tokens.tolist()] for tokens in stream.read(index)]


def write_documents(folder, split, language, rows):
    """Monolingual documents as ``fairseq-preprocess --only-source`` writes them, and the dictionary."""
    builders.write_side(folder, split, f"{language}-None", language, rows)
    builders.write_dictionary(folder, language)


# ---- Tiny VECOs on disk in every layout: made by stock fairseq and by hand, not by the package's tables. ----

SYMBOLS = [*nlu_builders.PIECES, "<mask>"]
ROWS = 4 + len(SYMBOLS)
SHAPE = {**builders.XLMR_WIRING, "decoder_layers": nlu_builders.LAYERS}
WORDS = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection", "lm_head")
STACK = ("self_attn", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
PROJECTIONS = {"self.query": "q_proj", "self.key": "k_proj", "self.value": "v_proj", "output.dense": "out_proj"}
PARTS = [(*names, kind) for names in PROJECTIONS.items() for kind in ("weight", "bias")]
CROSS = {f"cross_attention.{theirs}.{kind}": f"encoder_attn.{ours}.{kind}" for theirs, ours, kind in PARTS}
CROSS["cross_attention.output.LayerNorm.gamma"] = "encoder_attn_layer_norm.weight"
CROSS["cross_attention.output.LayerNorm.beta"] = "encoder_attn_layer_norm.bias"
"""As the authors gave it: name in the folder of a layer's cross-attention -> name in fairseq's layout."""


def stock(symbols=SYMBOLS, scaled=True, **options):
    """A stock transformer whose decoder layers are the encoder's, cross-attention apart, as while it is pre-trained."""
    model = nlu_builders.stock_model(symbols, arch="transformer", no_scale_embedding=not scaled, **{**SHAPE, **options})
    model.options["arch"] = "veco_large"
    for part in ("embed_positions", "layernorm_embedding"):
        setattr(model.decoder, part, getattr(model.encoder, part))
    for own, other in zip(model.decoder.layers, model.encoder.layers):
        for part in STACK:
            setattr(own, part, getattr(other, part))
    return model


def released_state(model):
    """Every tensor apart, and what an encoder has no use for beside them."""
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state["encoder.output_projection.weight"] = state["encoder.embed_tokens.weight"].clone()
    state["classification_heads.nli.dense.weight"] = torch.ones(2, 2)
    return state


def write(path, model, state, without=(), **changes):
    """A checkpoint with an options namespace, as released; ``without``: options that it lacks."""
    options = {name: value for name, value in {**model.options, **changes}.items() if name not in without}
    path.parent.mkdir(parents=True, exist_ok=True)
    saved = {"args": argparse.Namespace(**options), "model": state}
    saved.update(optimizer_history=[{"num_updates": 3}], extra_state={"epoch": 1})
    torch.save(saved, path)
    return path


def released(folder, **changes):
    """The released layout: ``model.pt``, and ``dict.txt`` without ``<mask>``, which is the last row. Returns the model."""
    model = stock(**changes)
    write(folder / "model.pt", model, released_state(model))
    nlu_builders.write_dict(folder / "dict.txt", nlu_builders.PIECES)
    return model


def head(words):
    """Of a masked LM, tied to the embedding."""
    random, width = builders.drawing(3, 0.3), nlu_builders.WIDTH
    state = {"dense.weight": random(width, width), "dense.bias": random(width)}
    state.update({"layer_norm.weight": 1 + random(width), "layer_norm.bias": random(width)})
    state.update({"weight": words, "bias": random(words.size(0))})
    return {f"lm_head.{name}": tensor for name, tensor in state.items()}


def pretrained_state(model):
    """What a VECO that is being pre-trained here has in its state; what is tied shares memory."""
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    words = state["encoder.embed_tokens.weight"]
    return {**state, **head(words), "lm_head.mask_row": torch.empty(len(words) - 1, 0)}


def pretrained(path, seed_model=None, **entries):
    """A checkpoint of the pre-training, as the trainer writes it. Returns the model."""
    model = stock(scaled=False) if seed_model is None else seed_model
    options = {name: value for name, value in model.options.items() if name != "arch"}
    path.parent.mkdir(parents=True, exist_ok=True)
    cfg = {"model": {**options, "_name": "veco_tiny"}, "task": {"_name": "veco_pretraining"}}
    saved = {"args": None, "cfg": cfg, "model": pretrained_state(model), "optimizer_history": [{"num_updates": 3}]}
    torch.save({**saved, "extra_state": {"train_iterator": {"epoch": 1}}, **entries}, path)
    return model


def folder_state(with_head=True):
    """Names of the Hugging Face folder: those of XLM-R, with old names of norms, and cross-attention in each of 12 layers."""
    state = old_names(masked_lms.huggingface_state(masked_lms.masked_lm_tensors(1)))
    state = {name: tensor for name, tensor in state.items() if with_head or not name.startswith("lm_head")}
    return {**state, **cross_attention(range(masked_lms.SIZES["layers"]), masked_lms.SIZES["embed_dim"])}


def old_names(state):
    old = {name: name.replace("LayerNorm.weight", "LayerNorm.gamma") for name in state}
    return {old[name].replace("LayerNorm.bias", "LayerNorm.beta"): tensor for name, tensor in state.items()}


def cross_attention(layers, width):
    """Of these layers, random."""
    random = builders.drawing(7)
    return {
        f"roberta.encoder.layer.{layer}.{name}": random(*(width, width) if name.endswith("weight") else (width,))
        for layer in layers
        for name in CROSS
    }


def write_folder(folder, state=None, **changes):
    """A Hugging Face folder of 12 layers, pickled as in the release."""
    return masked_lms.write_huggingface(folder, folder_state() if state is None else state, pickled=True, **changes)


def add_cross_attention(folder):
    """Make a VECO of a folder that transformers has written. Returns the names of all tensors."""
    state = old_names(safetensors.torch.load_file(folder / "model.safetensors"))
    state.update(cross_attention(range(nlu_builders.LAYERS), nlu_builders.WIDTH))
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    config = json.loads((folder / "config.json").read_text())
    nlu_builders.write_json(folder / "config.json", {**config, "is_decoder": True, "add_cross_attention": True})
    return list(state)


def sizes_of_tiny():
    """What the fairseq files made here have, by the names of a layout."""
    names = ("layers", "embed_dim", "ffn_dim", "heads", "max_positions")
    return dict(zip(names, nlu_builders.TINY), vocab_size=ROWS)
