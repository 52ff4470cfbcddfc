"""Build tiny dictionaries, masked LMs, SGA models and batches in memory, and write data-bins.

The weights are far larger than those of an initialised model, so that attention is not uniform and
every path through the model (prefix, guidance, position, mask) changes the output visibly.
"""

from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from fairseq import models
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_training_parser, parse_args_and_arch
from fairseq.utils import apply_to_sample
from omegaconf import OmegaConf
from torch.nn.utils.rnn import pad_sequence

from fairseq_plugins import checkpoints
from fairseq_plugins.common.frozen import Frozen
from fairseq_plugins.common.slot_model import Target
from fairseq_plugins.masked_lm.model import MaskedLM, MaskedLMSizes
from fairseq_plugins.sga.many_pairs import SGATranslationMultiConfig, SGATranslationMultiTask
from fairseq_plugins.sga.tasks import SGATranslationTask
from fairseq_plugins.sga.variants import (
    MODELS,
    JoinedModelConfig,
    JoinedTranslationConfig,
    start_guidance,
)

BOS, PAD, EOS, UNK = 0, 1, 2, 3
FIRST_PIECE = 4
PIECES = 25
MASK = FIRST_PIECE + PIECES
VOCAB = MASK + 1
LAYERS, WIDTH, FFN, HEADS, POSITIONS = 2, 16, 24, 2, 40
SOURCES, TARGETS = [6, 3, 5], [4, 2, 3]


def side(name, *sizes):
    """Name the sizes of one side of a stock transformer: layers, width, FFN width, heads."""
    options = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    return {f"{name}_{option}": size for option, size in zip(options, sizes)}


def sides(*sizes, positions=POSITIONS):
    """Return the options of a stock transformer whose sides have the same sizes."""
    return {
        **side("encoder", *sizes),
        **side("decoder", *sizes),
        "max_source_positions": positions,
        "max_target_positions": positions,
    }


SIDES = sides(LAYERS, WIDTH, FFN, HEADS)
XLMR_WIRING = {
    "layernorm_embedding": True,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "activation_fn": "gelu",
}


def of_symbols(symbols):
    """Build fairseq's dictionary: its four special symbols, then these."""
    dictionary = Dictionary()
    for symbol in symbols:
        dictionary.add_symbol(symbol)
    return dictionary


def dictionary(pieces=PIECES):
    """Build ``<s> <pad> </s> <unk> p0 p1 ... <mask>``, as XLM-R orders its symbols."""
    return of_symbols([*piece_names(pieces), "<mask>"])


def piece_names(pieces=PIECES):
    return [f"p{number}" for number in range(pieces)]


def task_of(symbols, **more):
    """Imitate a task as far as building a model needs it: one dictionary, and ``more``."""
    return SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols, **more)


def options_of(kind, arch, values):
    """Return options as the command line (Namespace) or a YAML file (DictConfig) gives them."""
    if kind == "omegaconf":
        return OmegaConf.create({"_name": arch, **values})
    return Namespace(arch=arch, **values)


def drawing(seed, scale=1.0):
    """Return a function that draws normal values of a shape, times ``scale``, in sequence."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: scale * torch.randn(*shape, generator=generator)


def write_symbols(path, symbols):
    """Write a ``dict.txt``, which lacks fairseq's four special symbols."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{symbol} 1\n" for symbol in symbols), encoding="utf-8")
    return path


def randomise(module, seed):
    """Overwrite every parameter with random values that make each of them matter."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            values = 0.3 * values + (1.0 if bool((parameter == 1).all()) else 0.0)
        else:
            values = values * 0.7 * (parameter.shape[-1] / WIDTH) ** -0.5
        parameter.data.copy_(values)


def masked_lm(seed=1, dropout=0.0, attention_dropout=0.0, **changes):
    sizes = {
        "vocab_size": VOCAB,
        "layers": LAYERS,
        "embed_dim": WIDTH,
        "ffn_dim": FFN,
        "heads": HEADS,
        "max_positions": POSITIONS,
        "padding_idx": PAD,
    }
    module = MaskedLM(MaskedLMSizes(**{**sizes, **changes}), dropout, attention_dropout)
    randomise(module, seed)
    return module


def frozen(module=None, **options):
    module = masked_lm() if module is None else module
    fingerprint = checkpoints.fingerprint(dict(module.named_parameters()))
    return Frozen(module, fingerprint, "tiny masked LM", **options)


def sga_model(
    module=None, seed=2, blank=BOS, frozen_options=None, mask=MASK, target_rows=None, **options
):
    """Build an SGA model with P = 3 and random prompts, in evaluation mode."""
    cfg = JoinedModelConfig(**{"prompt_length": 3, **options})
    model_class = MODELS[str(cfg.alignment)]
    model = model_class(frozen(module, **(frozen_options or {})), cfg, blank, mask, target_rows)
    start_guidance(model, cfg)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and not name.endswith("scale"):
            size = 0.7 if parameter.dim() > 1 else 0.3
            parameter.data.copy_(size * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def task(pieces=PIECES, **options):
    symbols = dictionary(pieces)
    return SGATranslationTask(JoinedTranslationConfig(**options), symbols, symbols)


def read_task(folder, pairs=None, **options):
    """Set up an SGA task over a data-bin: of one pair (de-en), or of ``pairs`` (--lang-pairs)."""
    common = {
        "data": str(folder),
        "dataset_impl": "mmap",
        "required_seq_len_multiple": 1,
        "train_subset": "train",
    }
    if pairs is None:
        languages = {"source_lang": "de", "target_lang": "en"}
        cfg = JoinedTranslationConfig(**{**common, **languages, **options})
        return SGATranslationTask.setup_task(cfg)
    cfg = SGATranslationMultiConfig(**{**common, "seed": 3, "lang_pairs": pairs or None, **options})
    return SGATranslationMultiTask.setup_task(cfg)


def source_rows(lengths, seed=3):
    """Draw sources ``<s> pieces </s>``; ``lengths`` count the two symbols."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for length in lengths:
        pieces = torch.randint(FIRST_PIECE, MASK, (length - 2,), generator=generator)
        rows.append(torch.tensor([BOS, *pieces, EOS]))
    return rows


def target_rows(lengths, seed=4):
    """Draw targets ``pieces </s>`` without repeats; ``lengths`` do not count ``</s>``."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for length in lengths:
        pieces = torch.randperm(PIECES, generator=generator)[:length] + FIRST_PIECE
        rows.append(torch.tensor([*pieces, EOS]))
    return rows


def pad(rows, value=PAD, extra=0):
    """Stack rows, padded on the right, and add ``extra`` columns of padding."""
    stacked = pad_sequence(list(rows), batch_first=True, padding_value=value)
    return F.pad(stacked, (0, extra), value=value)


def left_padded(tokens):
    return torch.stack([row.roll(int(row.eq(PAD).sum())) for row in tokens])


def batch(sources, targets=None, extra=0):
    """Make a sample as the translation task's collater does, with ``extra`` columns of padding."""
    lengths = torch.tensor([len(row) for row in sources])
    sample = {"id": torch.arange(len(sources)), "nsentences": len(sources)}
    sample["net_input"] = {"src_tokens": pad(sources, extra=extra), "src_lengths": lengths}
    if targets is not None:
        sample["target"] = pad(targets, extra=extra)
        sample["ntokens"] = sum(len(row) for row in targets)
        sample["net_input"]["prev_output_tokens"] = sample["target"].roll(1, 1)
    return sample


def to_device(value, device):
    return apply_to_sample(lambda tensor: tensor.to(device), value)


def sample(device="cpu", extra=0, targets=TARGETS):
    """Make a batch of three pairs of different lengths."""
    return to_device(batch(source_rows(SOURCES), target_rows(targets), extra), device)


def collated(data, rows, device):
    """Collate items of a dataset."""
    return to_device(data.collater([data[row] for row in rows]), device)


def forward_losses(model, sample, **options):
    """Return the losses of the model's forward, (B,) nats each."""
    targets, net_input = sample["target"], sample["net_input"]
    lengths = (targets.ne(PAD) & targets.ne(EOS)).sum(1)
    target = Target(targets, lengths)
    return model(net_input["src_tokens"], net_input["src_lengths"], target, **options)[0]


def moved(model, loss, steps=1):
    """Return the names of the parameters that steps of Adam change."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return {
        name
        for name, parameter in model.named_parameters()
        if not torch.equal(before[name], parameter)
    }


def built_both_ways(arch, task_name, task, device="cpu", **options):
    """Build a model from argparse; check that hydra builds one with the same parameters."""
    words = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        words.append(option if value is True else f"{option}={value}")
    line = ["data", "--arch", arch, "--task", task_name, *words]
    args = parse_args_and_arch(get_training_parser(), line)
    argparse_cfg = convert_namespace_to_omegaconf(args)
    hydra_cfg = OmegaConf.create(
        {"model": {"_name": arch, **options}, "task": {"_name": task_name, "data": "x"}}
    )
    add_defaults(hydra_cfg)
    parameters = []
    with torch.device(device):
        for cfg in (hydra_cfg, argparse_cfg):
            model = models.build_model(cfg.model, task)
            entries = model.named_parameters()
            parameters.append([(name, part.shape, part.requires_grad) for name, part in entries])
    assert parameters[0] == parameters[1]
    return model


# ---- Data-bins, as fairseq-preprocess writes them. ----


def sentences(count, seed, low=2, high=8):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(low, high + 1, (count,), generator=generator).tolist()
    return [
        torch.randint(FIRST_PIECE, MASK, (length,), generator=generator).tolist()
        for length in lengths
    ]


def write_rows(folder, name, rows):
    """Write ``FOLDER/NAME.bin`` and ``.idx``, every row as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    builder = MMapIndexedDatasetBuilder(str(folder / f"{name}.bin"), dtype=np.int32)
    for row in rows:
        builder.add_item(torch.tensor(list(row), dtype=torch.int64))
    builder.finalize(str(folder / f"{name}.idx"))


def write_side(folder, split, pair, language, rows):
    """Write ``SPLIT.PAIR.LANGUAGE.bin`` and ``.idx``, every row with </s> behind it."""
    write_rows(folder, f"{split}.{pair}.{language}", [[*row, EOS] for row in rows])


def write_dictionary(folder, language, pieces=PIECES):
    write_symbols(folder / f"dict.{language}.txt", piece_names(pieces))


def write_pair(folder, split, source, target, count=12, seed=1):
    """Write both sides of a random pair and their dictionaries; return the rows by language."""
    rows = {source: sentences(count, seed), target: sentences(count, seed + 100)}
    for language, side in rows.items():
        write_side(folder, split, f"{source}-{target}", language, side)
        write_dictionary(folder, language)
    return rows
