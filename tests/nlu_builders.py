"""Tiny pretrained encoders on disk in every layout: made by stock fairseq and by transformers, not by the package's tables."""

import argparse
import copy
import json
import re
import zlib

import sentencepiece
import torch
from fairseq import models
from omegaconf import OmegaConf

from tests import builders, deltalm_builders, nlu_bins

PIECES = [f"p{number}" for number in range(20)]
LANGUAGES = ("ar_AR", "de_DE", "en_XX")
TINY = LAYERS, WIDTH, FFN, HEADS, POSITIONS = 2, 16, 24, 2, 30
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
BOS, PAD, EOS = 0, 1, 2
FAMILIES = ("xlmr", "bert", "mbart", "nllb", "deltalm")
SIZES = {**builders.sides(LAYERS, WIDTH, FFN, HEADS, positions=POSITIONS), "decoder_layers": 1}


def randomise(model, seed=5):
    """Random weights under which every path matters and the positions stay apart; in evaluation mode.

    A parameter's values follow from its shape and name, so that exchanging any two changes the output.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed)
            noise = torch.randn(parameter.shape, generator=generator)
            if re.search(r"(?i)layer_?norm(_embedding)?\.weight$", name):
                parameter.copy_(1.0 + 0.2 * noise)
            else:
                large = parameter.dim() == 2 and re.search(r"embed|shared|\.(q_proj|k_proj|query|key)\.weight$", name)
                parameter.copy_((0.5 if large else 0.15) * noise)
    return model.eval()


dictionary, write_dict = builders.of_symbols, builders.write_symbols


def task_of(symbols):
    return builders.task_of(dictionary(symbols), max_positions=lambda: POSITIONS)


def stock_model(symbols, **options):
    """A random encoder-decoder of stock fairseq; ``options`` of it are those a checkpoint keeps."""
    args = argparse.Namespace(**{"share_all_embeddings": True, **SIZES, **options})
    model = models.build_model(args, task_of(symbols))
    plain = (type(None), bool, int, float, str)
    model.options = {name: value for name, value in vars(args).items() if isinstance(value, plain)}
    return randomise(model)


def tags(languages, style="[{}]"):
    return [style.format(language) for language in languages]


MBART_SYMBOLS = [*PIECES, *tags(LANGUAGES), "<mask>"]
NLLB_LANGUAGES = ("deu_Latn", "eng_Latn")
NLLB_SYMBOLS = [*PIECES, *tags(NLLB_LANGUAGES, "__{}__")]
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}


def mbart_cc25(folder, **options):
    """The released layout: ``model.pt`` with an options namespace that has ``langs``, ``dict.txt`` without languages and
    without ``<mask>``. Rows: the dictionary's, the languages, ``<mask>``. Returns the stock model."""
    model = stock_model(MBART_SYMBOLS, arch="mbart_large", **{**PRE_NORM, **options})
    task = {"task": "multilingual_denoising", "langs": ",".join(LANGUAGES), "add_lang_token": True}
    write_dict(folder / "dict.txt", PIECES)
    saved = {"args": argparse.Namespace(**{**model.options, **task}), "model": model.state_dict()}
    saved.update(optimizer_history=[{"num_updates": 3}], extra_state={"epoch": 1})
    torch.save(saved, folder / "model.pt")
    return model


def stock_checkpoint(path, model, task, namespace=False):
    """A checkpoint as current fairseq writes it: options under ``cfg``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cfg = {"model": argparse.Namespace(**model.options), "task": argparse.Namespace(**task) if namespace else task}
    torch.save({"args": None, "cfg": cfg, "model": model.state_dict(), "extra_state": {}}, path)
    return path


ML50 = ("en_XX", "ar_AR", "de_DE", "af_ZA")
"""In an order that is not the alphabet's."""


def mbart50(folder, **task):
    """The layout of released mBART-50s: ``model.pt`` that names the list of its languages and does not hold it, the list, and an
    equal dictionary of pieces for each language. Rows: pieces, languages, ``<mask>``. Returns the stock model."""
    model = stock_model([*PIECES, *tags(ML50), "<mask>"], arch="mbart_large", **PRE_NORM)
    for language in ML50:
        write_dict(folder / f"dict.{language}.txt", PIECES)
    (folder / "ML50_langs.txt").write_text("".join(f"{language}\n" for language in ML50))
    options = {"_name": "translation_multi_simple_epoch", "langs": None, "lang_tok_style": "mbart"}
    options.update({"lang_dict": "/data/ML50_langs.txt", **task})
    stock_checkpoint(folder / "model.pt", model, options, namespace=True)
    return model


def nllb_fairseq(folder):
    """A dense NLLB of stock fairseq, with its dictionary of pieces beside it. Returns the stock model."""
    model = stock_model(NLLB_SYMBOLS, arch="transformer", activation_fn="relu", **PRE_NORM)
    write_dict(folder / "dict.txt", PIECES)
    task = {"_name": "translation_multi_simple_epoch", "langs": list(NLLB_LANGUAGES), "lang_tok_style": "multilingual"}
    stock_checkpoint(folder / "model.pt", model, task, namespace=True)
    return model


def huggingface(hf, kind, folder, rows, **changes):
    """A random model saved by transformers (``hf``), without a tokenizer. ``kind``: bert, xlmr, mbart or nllb."""
    side = {"layers": LAYERS, "ffn_dim": FFN, "attention_heads": HEADS}
    seq2seq = {"vocab_size": rows, "d_model": WIDTH, "max_position_embeddings": POSITIONS, "scale_embedding": True}
    seq2seq.update({f"{name}_{size}": value for name in ("encoder", "decoder") for size, value in side.items()})
    seq2seq["decoder_layers"] = 1
    single = {"vocab_size": rows, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "intermediate_size": FFN}
    single.update(num_attention_heads=HEADS, max_position_embeddings=POSITIONS)
    xlmr = {**single, "max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    config, model_class, values = {
        "bert": (hf.BertConfig, hf.BertForPreTraining, single),
        "xlmr": (hf.XLMRobertaConfig, hf.XLMRobertaForMaskedLM, xlmr),
        "mbart": (hf.MBartConfig, hf.MBartForConditionalGeneration, seq2seq),
        "nllb": (hf.M2M100Config, hf.M2M100ForConditionalGeneration, seq2seq),
    }[kind]
    model = randomise(model_class(config(**{"vocab_size": rows, **values, **changes})))
    model.save_pretrained(folder)
    return model


def write_vocab(folder):
    """``vocab.txt`` in mBERT's order: padding first, the other special symbols behind some unused ones."""
    entries = ["[PAD]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
    return entries


def write_sentencepiece(folder, pieces=40, name="sentencepiece.bpe.model"):
    """A tiny sentencepiece model of random words. Returns its pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = torch.randint(0, 12, (400, 5), generator=torch.Generator().manual_seed(4)).tolist()
    words = ["".join("abcdefghijkl"[letter] for letter in row) for row in letters]
    text = [" ".join(words[at : at + 8]) for at in range(0, 400, 8)]
    path = nlu_bins.train_model(folder / name, text, vocab_size=pieces)
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(index) for index in range(model.get_piece_size())]


def write_json(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def tokens(rows, lengths=(9, 4, 6), pairs=False):
    """Random ``<s> … </s>`` of these lengths, padded on the right; ``pairs``: a ``</s>`` in the middle as well."""
    generator = torch.Generator().manual_seed(6)
    found = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in enumerate(lengths):
        found[row, :length] = torch.randint(4, rows, (length,), generator=generator)
        found[row, 0], found[row, length - 1] = BOS, EOS
        if pairs:
            found[row, length // 2] = EOS
    return found


def write_any(family, folder):
    """An encoder of a family on disk. Returns its path, and the symbols of a dictionary with one entry a row."""
    folder.mkdir(parents=True, exist_ok=True)
    if family == "bert":
        return write_bert(folder)
    if family == "mbart":
        mbart_cc25(folder)
        return folder, MBART_SYMBOLS
    if family == "nllb":
        nllb_fairseq(folder)
        return folder, NLLB_SYMBOLS
    write_dict(folder / "dict.txt", PIECES)
    if family == "xlmr":
        deltalm_builders.write_mlm(folder, layers=LAYERS, vocab_size=4 + len(PIECES) + 1)
        return folder, [*PIECES, "<mask>"]
    tensors = deltalm_builders.released_tensors(rows=4 + len(PIECES), layers=LAYERS, blocks=1)
    return deltalm_builders.write_released(folder / "deltalm.pt", tensors), list(PIECES)


def write_bert(folder):
    """A BERT in Hugging Face's layout, with names written out by hand."""
    entries, random = write_vocab(folder), builders.drawing(8, 0.3)
    linears = {"pooler.dense": (WIDTH, WIDTH), "cls.predictions.transform.dense": (WIDTH, WIDTH)}
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        start = f"encoder.layer.{layer}."
        names = (*(f"attention.self.{name}" for name in ("query", "key", "value")), "attention.output.dense")
        linears.update({start + name: (WIDTH, WIDTH) for name in names})
        linears.update({start + "intermediate.dense": (FFN, WIDTH), start + "output.dense": (WIDTH, FFN)})
        norms += [start + "attention.output.LayerNorm", start + "output.LayerNorm"]
    rows = {"word": len(entries), "position": POSITIONS, "token_type": 2}
    state = {f"embeddings.{name}_embeddings.weight": random(count, WIDTH) for name, count in rows.items()}
    for name, shape in linears.items():
        state[f"{name}.weight"], state[f"{name}.bias"] = random(*shape), random(shape[0])
    for name in norms:
        state[f"{name}.weight"], state[f"{name}.bias"] = 1 + random(WIDTH), random(WIDTH)
    state["cls.predictions.bias"] = random(len(entries))
    state = {name if name.startswith("cls.") else f"bert.{name}": tensor for name, tensor in state.items()}
    torch.save(state, folder / "pytorch_model.bin")
    config = {"model_type": "bert", "hidden_act": "gelu", "vocab_size": len(entries), "type_vocab_size": 2}
    config.update(num_hidden_layers=LAYERS, hidden_size=WIDTH, intermediate_size=FFN, num_attention_heads=HEADS)
    write_json(folder / "config.json", {**config, "max_position_embeddings": POSITIONS})
    return folder, ["[unused1]", "[unused2]", *PIECES, "<mask>"]


def heads_of(family):
    """What read_encoder must be told; only a released DeltaLM does not tell its heads."""
    return builders.HEADS if family == "deltalm" else None


# ---- Tiny ``nlu_encoder`` models, built and stored as a task and the trainer do. ----

KINDS = ("argparse", "omegaconf")
SCRATCH = {"encoder_family": "xlmr", "encoder_layers": LAYERS, "encoder_embed_dim": WIDTH, "encoder_ffn_embed_dim": FFN}
SCRATCH.update(encoder_heads=HEADS, max_source_positions=POSITIONS)


def arguments(kind="argparse", **options):
    return builders.options_of(kind, "nlu_encoder", options)


def build(args, symbols=PIECES):
    return models.build_model(args, task_of(symbols))


def scratch(seed=4, **options):
    return randomise(build(arguments(**{**SCRATCH, **options}), MBART_SYMBOLS), seed)


def from_file(path, symbols, kind="argparse", **options):
    return build(arguments(kind, pretrained_encoder=str(path), **options), symbols).eval()


def saved(model, path):
    args = model.args
    held = OmegaConf.to_container(args) if OmegaConf.is_config(args) else args
    torch.save({"cfg": {"model": held}, "args": None, "model": model.state_dict()}, path)
    return path


def reloaded(model, symbols, path):
    """What decoding does with a checkpoint: build from its options, load its weights."""
    content = torch.load(saved(model, path), weights_only=False)
    held = content["cfg"]["model"]
    again = build(OmegaConf.create(held) if isinstance(held, dict) else copy.deepcopy(held), symbols)
    again.load_state_dict(content["model"], strict=True)
    return again.eval()


def tokens_for(model):
    return tokens(model.encoder.layout.vocab_size, pairs=True)


def write_sentences(data, symbols):
    """Sentence pairs of two classes for the stock task: ``SPLIT.en`` and ``valid.de``; the class follows from the first piece."""
    generator, count = torch.Generator().manual_seed(7), 12
    for split in ("train.en", "valid.en", "valid.de"):
        rows = torch.randint(6, 4 + len(symbols) - 4, (count, 5), generator=generator)
        rows[:, 0] = 4 + torch.arange(count) % 2
        for side, part in (("input0", rows[:, :3]), ("input1", rows[:, 3:])):
            nlu_bins.write_rows(data / side, split, [[*row, EOS] for row in part.tolist()])
        nlu_bins.write_classes(data, split, [("no", "yes")[row % 2] for row in range(count)], ["no", "yes"])
    for side in ("input0", "input1"):
        write_dict(data / side / "dict.txt", symbols)
    return data


def command_line(data):
    return f"""{data} --task sentence_prediction --criterion sentence_prediction --arch nlu_encoder --num-classes 2 --seed 3 --cpu
        --max-positions 30 --train-subset train.en --valid-subset valid.en,valid.de --optimizer adam --lr 0.01 --batch-size 4
        --num-workers 0 --log-format json""".split()
