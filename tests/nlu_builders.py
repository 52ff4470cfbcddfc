"""Tiny pretrained encoders on disk in every layout: made by stock fairseq and by transformers, not by the package's tables."""

import argparse
import copy
import json
import re
import zlib
from types import SimpleNamespace

import sentencepiece
import torch
from fairseq import models
from fairseq.data import Dictionary
from omegaconf import OmegaConf

from tests import builders, deltalm_builders, nlu_bins

PIECES = [f"p{number}" for number in range(20)]
LANGUAGES = ("ar_AR", "de_DE", "en_XX")
LAYERS, WIDTH, FFN, HEADS, POSITIONS = 2, 16, 24, 2, 30
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
BOS, PAD, EOS = 0, 1, 2
FAMILIES = ("xlmr", "bert", "mbart", "nllb", "deltalm")
SIZES = {
    "encoder_layers": LAYERS,
    "encoder_embed_dim": WIDTH,
    "encoder_ffn_embed_dim": FFN,
    "encoder_attention_heads": HEADS,
    "decoder_layers": 1,
    "decoder_embed_dim": WIDTH,
    "decoder_ffn_embed_dim": FFN,
    "decoder_attention_heads": HEADS,
    "max_source_positions": POSITIONS,
    "max_target_positions": POSITIONS,
}


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
            elif re.search(r"embed|shared", name) and parameter.dim() == 2:
                parameter.copy_(0.5 * noise)
            elif re.search(r"\.(q_proj|k_proj|query|key)\.weight$", name):
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(0.15 * noise)
    return model.eval()


def dictionary(symbols):
    """fairseq's dictionary of these symbols behind the four special ones."""
    result = Dictionary()
    for symbol in symbols:
        result.add_symbol(symbol)
    return result


def write_dict(path, symbols):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{symbol} 1\n" for symbol in symbols), encoding="utf-8")
    return path


def task_of(symbols):
    own = dictionary(symbols)
    return SimpleNamespace(source_dictionary=own, target_dictionary=own, max_positions=lambda: POSITIONS)


def stock_model(symbols, **options):
    """A random encoder-decoder of stock fairseq; ``options`` of it are those a checkpoint keeps."""
    args = argparse.Namespace(**{"share_all_embeddings": True, **SIZES, **options})
    model = models.build_model(args, task_of(symbols))
    plain = (type(None), bool, int, float, str)
    model.options = {name: value for name, value in vars(args).items() if isinstance(value, plain)}
    return randomise(model)


def tags(languages, style="[{}]"):
    return [style.format(language) for language in languages]


def mbart_cc25(folder, languages=LANGUAGES, **options):
    """The released layout: ``model.pt`` with an options namespace that has ``langs``, ``dict.txt`` without languages and
    without ``<mask>``. Rows: the dictionary's, the languages, ``<mask>``. Returns the stock model."""
    settings = {"arch": "mbart_large", "encoder_normalize_before": True, "decoder_normalize_before": True, **options}
    model = stock_model([*PIECES, *tags(languages), "<mask>"], **settings)
    task = {"task": "multilingual_denoising", "langs": ",".join(languages), "add_lang_token": True}
    write_dict(folder / "dict.txt", PIECES)
    saved = {
        "args": argparse.Namespace(**{**model.options, **task}),
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 3}],
        "extra_state": {"epoch": 1},
    }
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


def mbart50(folder, languages=ML50, **task):
    """The layout of released mBART-50s: ``model.pt`` that names the list of its languages and does not hold it, the list, and an
    equal dictionary of pieces for each language. Rows: pieces, languages, ``<mask>``. Returns the stock model."""
    model = stock_model(
        [*PIECES, *tags(languages), "<mask>"],
        arch="mbart_large",
        encoder_normalize_before=True,
        decoder_normalize_before=True,
    )
    for language in languages:
        write_dict(folder / f"dict.{language}.txt", PIECES)
    (folder / "ML50_langs.txt").write_text("".join(f"{language}\n" for language in languages))
    options = {"_name": "translation_multi_simple_epoch", "langs": None, "lang_tok_style": "mbart"}
    stock_checkpoint(
        folder / "model.pt", model, {**options, "lang_dict": "/data/ML50_langs.txt", **task}, namespace=True
    )
    return model


def nllb_fairseq(folder, languages=("deu_Latn", "eng_Latn")):
    """A dense NLLB of stock fairseq, with its dictionary of pieces beside it. Returns the stock model."""
    symbols = [*PIECES, *tags(languages, "__{}__")]
    model = stock_model(
        symbols, arch="transformer", encoder_normalize_before=True, decoder_normalize_before=True, activation_fn="relu"
    )
    write_dict(folder / "dict.txt", PIECES)
    task = {"_name": "translation_multi_simple_epoch", "langs": list(languages), "lang_tok_style": "multilingual"}
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
    model = randomise(model_class(config(**{**values, **changes})))
    model.save_pretrained(folder)
    return model


def write_vocab(folder, pieces=PIECES):
    """``vocab.txt`` in mBERT's order: padding first, the other special symbols behind some unused ones."""
    entries = ["[PAD]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
    return entries


def write_sentencepiece(folder, pieces=40, name="sentencepiece.bpe.model"):
    """A tiny sentencepiece model of random words. Returns its pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(4)
    letters = torch.randint(0, 12, (400, 5), generator=generator).tolist()
    text = [
        " ".join("".join("abcdefghijkl"[letter] for letter in row) for row in letters[at : at + 8])
        for at in range(0, 400, 8)
    ]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_prefix=str(folder / "spm"),
        vocab_size=pieces,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "spm.model").rename(folder / name)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / name))
    return [model.id_to_piece(index) for index in range(model.get_piece_size())]


def write_json(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def tokens(rows, lengths=(9, 4, 6), pairs=False, seed=6):
    """Random ``<s> … </s>`` of these lengths, padded on the right; ``pairs``: a ``</s>`` in the middle as well."""
    generator = torch.Generator().manual_seed(seed)
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
    if family == "mbart":
        mbart_cc25(folder)
        return folder, [*PIECES, *tags(LANGUAGES), "<mask>"]
    if family == "nllb":
        nllb_fairseq(folder)
        return folder, [*PIECES, *tags(("deu_Latn", "eng_Latn"), "__{}__")]
    if family == "xlmr":
        deltalm_builders.write_mlm(folder, layers=LAYERS, vocab_size=4 + len(PIECES) + 1)
        write_dict(folder / "dict.txt", PIECES)
        return folder, [*PIECES, "<mask>"]
    if family == "deltalm":
        path = deltalm_builders.write_released(
            folder / "deltalm.pt", deltalm_builders.released_tensors(rows=4 + len(PIECES), layers=LAYERS, blocks=1)
        )
        write_dict(folder / "dict.txt", PIECES)
        return path, list(PIECES)
    return write_bert(folder)


def write_bert(folder):
    """A BERT in Hugging Face's layout, with names written out by hand."""
    entries = write_vocab(folder)
    generator = torch.Generator().manual_seed(8)

    def random(*shape):
        return 0.3 * torch.randn(*shape, generator=generator)

    def norm(name):
        return {f"{name}.weight": 1 + random(WIDTH), f"{name}.bias": random(WIDTH)}

    def linear(name, inputs, outputs):
        return {f"{name}.weight": random(outputs, inputs), f"{name}.bias": random(outputs)}

    state = {
        "bert.embeddings.word_embeddings.weight": random(len(entries), WIDTH),
        "bert.embeddings.position_embeddings.weight": random(POSITIONS, WIDTH),
        "bert.embeddings.token_type_embeddings.weight": random(2, WIDTH),
        **norm("bert.embeddings.LayerNorm"),
        **linear("bert.pooler.dense", WIDTH, WIDTH),
        **linear("cls.predictions.transform.dense", WIDTH, WIDTH),
        "cls.predictions.bias": random(len(entries)),
    }
    for layer in range(LAYERS):
        start = f"bert.encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            state.update(linear(f"{start}attention.self.{name}", WIDTH, WIDTH))
        state.update(linear(start + "attention.output.dense", WIDTH, WIDTH))
        state.update(norm(start + "attention.output.LayerNorm"))
        state.update(linear(start + "intermediate.dense", WIDTH, FFN))
        state.update(linear(start + "output.dense", FFN, WIDTH))
        state.update(norm(start + "output.LayerNorm"))
    torch.save(state, folder / "pytorch_model.bin")
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "vocab_size": len(entries),
        "num_hidden_layers": LAYERS,
        "hidden_size": WIDTH,
        "intermediate_size": FFN,
        "num_attention_heads": HEADS,
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
    }
    write_json(folder / "config.json", config)
    return folder, ["[unused1]", "[unused2]", *PIECES, "<mask>"]


def heads_of(family):
    """What read_encoder must be told; only a released DeltaLM does not tell its heads."""
    return builders.HEADS if family == "deltalm" else None


# ---- Tiny ``nlu_encoder`` models, built and stored as a task and the trainer do. ----

KINDS = ("argparse", "omegaconf")
MBART_SYMBOLS = [*PIECES, *tags(LANGUAGES), "<mask>"]
SCRATCH = {
    "encoder_family": "xlmr",
    "encoder_layers": 2,
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24,
    "encoder_heads": 2,
    "max_source_positions": 30,
}


def arguments(kind="argparse", **options):
    """Options as the command line (a Namespace) or a YAML (a DictConfig) gives them."""
    if kind == "omegaconf":
        return OmegaConf.create({"_name": "nlu_encoder", **options})
    return argparse.Namespace(arch="nlu_encoder", **options)


def build(args, symbols=PIECES):
    return models.build_model(args, task_of(symbols))


def scratch(symbols=MBART_SYMBOLS, seed=4, **options):
    model = randomise(build(arguments(**{**SCRATCH, **options}), symbols), seed)
    return model


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


def tokens_for(model, pairs=True):
    return tokens(model.encoder.layout.vocab_size, pairs=pairs)


def write_sentences(data, symbols, count=12):
    """Sentence pairs of two classes for the stock task: ``SPLIT.en`` and ``valid.de``; the class follows from the first piece."""
    generator = torch.Generator().manual_seed(7)
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
    return [
        str(data), "--task", "sentence_prediction", "--criterion", "sentence_prediction", "--arch", "nlu_encoder",
        "--num-classes", "2", "--max-positions", "30", "--train-subset", "train.en", "--valid-subset", "valid.en,valid.de",
        "--optimizer", "adam", "--lr", "0.01", "--batch-size", "4", "--seed", "3", "--num-workers", "0", "--cpu",
        "--log-format", "json",
    ]  # fmt: skip
