"""Tiny pretrained encoders on disk in every layout, made by stock fairseq and transformers."""

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
    """Fill a model with random weights that make every path matter; set evaluation mode.

    A parameter's values follow from its shape and name: exchanging any two changes the output.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed)
            noise = torch.randn(parameter.shape, generator=generator)
            if re.search(r"(?i)layer_?norm(_embedding)?\.weight$", name):
                parameter.copy_(1.0 + 0.2 * noise)
            else:
                large = r"embed|shared|\.(q_proj|k_proj|query|key)\.weight$"
                is_large = parameter.dim() == 2 and re.search(large, name)
                parameter.copy_((0.5 if is_large else 0.15) * noise)
    return model.eval()


dictionary, write_dict = builders.of_symbols, builders.write_symbols


def task_of(symbols):
    return builders.task_of(dictionary(symbols), max_positions=lambda: POSITIONS)


def stock_model(symbols, **options):
    """A random encoder-decoder of stock fairseq; its ``options`` are those of a checkpoint."""
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
    """Write the released layout of mBART. Returns the stock model.

    ``model.pt`` has an options namespace with ``langs``; ``dict.txt`` has neither languages nor
    ``<mask>``, whose rows follow those of the pieces.
    """
    model = stock_model(MBART_SYMBOLS, arch="mbart_large", **{**PRE_NORM, **options})
    task = {"task": "multilingual_denoising", "langs": ",".join(LANGUAGES), "add_lang_token": True}
    content = {"args": argparse.Namespace(**model.options, **task), "model": model.state_dict()}
    content.update(optimizer_history=[{"num_updates": 3}], extra_state={"epoch": 1})
    write_dict(folder / "dict.txt", PIECES)
    torch.save(content, folder / "model.pt")
    return model


def stock_checkpoint(path, model, task, namespace=False):
    """Write a checkpoint as current fairseq does, with options under ``cfg``. Returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    task = argparse.Namespace(**task) if namespace else task
    cfg = {"model": argparse.Namespace(**model.options), "task": task}
    torch.save({"args": None, "cfg": cfg, "model": model.state_dict(), "extra_state": {}}, path)
    return path


ML50 = ("en_XX", "ar_AR", "de_DE", "af_ZA")  # not in the order of the alphabet


def mbart50(folder, **task):
    """Write the released layout of mBART-50. Returns the stock model.

    ``model.pt`` names the file with its list of languages; each language has the same dictionary
    of pieces. Rows: pieces, languages, ``<mask>``.
    """
    model = stock_model([*PIECES, *tags(ML50), "<mask>"], arch="mbart_large", **PRE_NORM)
    for language in ML50:
        write_dict(folder / f"dict.{language}.txt", PIECES)
    (folder / "ML50_langs.txt").write_text("".join(f"{language}\n" for language in ML50))
    options = {"_name": "translation_multi_simple_epoch", "langs": None, "lang_tok_style": "mbart"}
    options.update({"lang_dict": "/data/ML50_langs.txt", **task})
    stock_checkpoint(folder / "model.pt", model, options, namespace=True)
    return model


def nllb_fairseq(folder):
    """Write a dense NLLB of fairseq and its dictionary of pieces. Returns the stock model."""
    model = stock_model(NLLB_SYMBOLS, arch="transformer", activation_fn="relu", **PRE_NORM)
    write_dict(folder / "dict.txt", PIECES)
    task = {"_name": "translation_multi_simple_epoch", "langs": list(NLLB_LANGUAGES)}
    task["lang_tok_style"] = "multilingual"
    stock_checkpoint(folder / "model.pt", model, task, namespace=True)
    return model


def huggingface(hf, kind, folder, rows, **changes):
    """Write a random model by transformers (``hf``), without a tokenizer. Returns the model.

    ``kind``: bert, xlmr, mbart or nllb.
    """
    encoder_decoder = {
        "d_model": WIDTH,
        "encoder_layers": LAYERS,
        "decoder_layers": 1,
        "encoder_ffn_dim": FFN,
        "decoder_ffn_dim": FFN,
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
        "max_position_embeddings": POSITIONS,
        "scale_embedding": True,
    }
    bert = {
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "intermediate_size": FFN,
        "num_attention_heads": HEADS,
        "max_position_embeddings": POSITIONS,
    }
    xlmr = {**bert, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    xlmr["max_position_embeddings"] = POSITIONS + 2
    config, model_class, sizes = {
        "bert": (hf.BertConfig, hf.BertForPreTraining, bert),
        "xlmr": (hf.XLMRobertaConfig, hf.XLMRobertaForMaskedLM, xlmr),
        "mbart": (hf.MBartConfig, hf.MBartForConditionalGeneration, encoder_decoder),
        "nllb": (hf.M2M100Config, hf.M2M100ForConditionalGeneration, encoder_decoder),
    }[kind]
    model = randomise(model_class(config(**{"vocab_size": rows, **sizes, **changes})))
    model.save_pretrained(folder)
    return model


def write_vocab(folder):
    """Write ``vocab.txt`` in mBERT's order: padding, unused entries, other special symbols."""
    entries = ["[PAD]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
    return entries


def write_sentencepiece(folder, pieces=40, name="sentencepiece.bpe.model"):
    """Write a tiny sentencepiece model of random words. Returns its pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = torch.randint(0, 12, (400, 5), generator=torch.Generator().manual_seed(4)).tolist()
    words = ["".join("abcdefghijkl"[letter] for letter in row) for row in letters]
    text = [" ".join(words[start : start + 8]) for start in range(0, 400, 8)]
    path = nlu_bins.train_model(folder / name, text, vocab_size=pieces)
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(index) for index in range(model.get_piece_size())]


def write_json(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def tokens(rows, lengths=(9, 4, 6), pairs=False):
    """Random ``<s> … </s>``, padded on the right; ``pairs``: with a ``</s>`` in the middle."""
    generator = torch.Generator().manual_seed(6)
    batch = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(batch, lengths):
        row[:length] = torch.randint(4, rows, (length,), generator=generator)
        row[0], row[length - 1] = BOS, EOS
        if pairs:
            row[length // 2] = EOS
    return batch


def write_any(family, folder):
    """Write an encoder of a family. Returns its path and the symbols of its rows."""
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
    """Write a BERT in Hugging Face's layout, with names written out by hand."""
    entries, random = write_vocab(folder), builders.drawing(8, 0.3)
    linears = {"pooler.dense": (WIDTH, WIDTH), "cls.predictions.transform.dense": (WIDTH, WIDTH)}
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        start = f"encoder.layer.{layer}."
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            linears[f"{start}attention.{name}"] = (WIDTH, WIDTH)
        linears[f"{start}intermediate.dense"] = (FFN, WIDTH)
        linears[f"{start}output.dense"] = (WIDTH, FFN)
        norms += [f"{start}attention.output.LayerNorm", f"{start}output.LayerNorm"]
    state = {}
    for name, rows in (("word", len(entries)), ("position", POSITIONS), ("token_type", 2)):
        state[f"embeddings.{name}_embeddings.weight"] = random(rows, WIDTH)
    for name, shape in linears.items():
        state[f"{name}.weight"], state[f"{name}.bias"] = random(*shape), random(shape[0])
    for name in norms:
        state[f"{name}.weight"], state[f"{name}.bias"] = 1 + random(WIDTH), random(WIDTH)
    state["cls.predictions.bias"] = random(len(entries))
    renamed = {name if name.startswith("cls.") else f"bert.{name}": state[name] for name in state}
    torch.save(renamed, folder / "pytorch_model.bin")
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "vocab_size": len(entries),
        "type_vocab_size": 2,
        "num_hidden_layers": LAYERS,
        "hidden_size": WIDTH,
        "intermediate_size": FFN,
        "num_attention_heads": HEADS,
        "max_position_embeddings": POSITIONS,
    }
    write_json(folder / "config.json", config)
    return folder, ["[unused1]", "[unused2]", *PIECES, "<mask>"]


def heads_of(family):
    """The number of heads if read_encoder needs it: a released DeltaLM does not state it."""
    return builders.HEADS if family == "deltalm" else None


# ---- Tiny ``nlu_encoder`` models, built and stored as a task and the trainer do. ----

KINDS = ("argparse", "omegaconf")
SCRATCH = {
    "encoder_family": "xlmr",
    "encoder_layers": LAYERS,
    "encoder_embed_dim": WIDTH,
    "encoder_ffn_embed_dim": FFN,
    "encoder_heads": HEADS,
    "max_source_positions": POSITIONS,
}


def arguments(kind="argparse", **options):
    return builders.options_of(kind, "nlu_encoder", options)


def build(args, symbols=PIECES):
    return models.build_model(args, task_of(symbols))


def scratch(seed=4, **options):
    return randomise(build(arguments(**{**SCRATCH, **options}), MBART_SYMBOLS), seed)


def from_file(path, symbols, kind="argparse", **options):
    return build(arguments(kind, pretrained_encoder=str(path), **options), symbols).eval()


def saved(model, path):
    """Write a checkpoint of a model. Returns its path."""
    args = model.args
    options = OmegaConf.to_container(args) if OmegaConf.is_config(args) else args
    torch.save({"cfg": {"model": options}, "args": None, "model": model.state_dict()}, path)
    return path


def reloaded(model, symbols, path):
    """Decode a checkpoint of a model: build from its options, load its weights."""
    content = torch.load(saved(model, path), weights_only=False)
    options = content["cfg"]["model"]
    options = OmegaConf.create(options) if isinstance(options, dict) else copy.deepcopy(options)
    decoder = build(options, symbols)
    decoder.load_state_dict(content["model"], strict=True)
    return decoder.eval()


def tokens_for(model):
    return tokens(model.encoder.layout.vocab_size, pairs=True)


def write_sentences(data, symbols):
    """Write sentence pairs of two classes; the first piece tells the class."""
    generator, count = torch.Generator().manual_seed(7), 12
    labels = ["no", "yes"]
    for split in ("train.en", "valid.en", "valid.de"):
        rows = torch.randint(6, 4 + len(symbols) - 4, (count, 5), generator=generator)
        rows[:, 0] = 4 + torch.arange(count) % 2
        for side, part in (("input0", rows[:, :3]), ("input1", rows[:, 3:])):
            nlu_bins.write_rows(data / side, split, [[*row, EOS] for row in part.tolist()])
        nlu_bins.write_classes(data, split, [labels[row % 2] for row in range(count)], labels)
    for side in ("input0", "input1"):
        write_dict(data / side / "dict.txt", symbols)
    return data


def command_line(data):
    return f"""{data} --task sentence_prediction --criterion sentence_prediction
        --arch nlu_encoder --num-classes 2 --seed 3 --cpu --max-positions 30
        --train-subset train.en --valid-subset valid.en,valid.de --optimizer adam --lr 0.01
        --batch-size 4 --num-workers 0 --log-format json""".split()
