"""Test that exported encoders compute the same in transformers and are read back bit by bit."""

import json

import pytest
import torch
from fairseq import models
from torch.testing import assert_close

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.export.huggingface import export_huggingface
from tests import adapter_builders, builders, deltalm_builders, nlu_builders, veco_builders
from tests.unit.checkpoints import builders as files
from tests.unit.export.comparison import PAD, TOLERANCE, assert_close_in_text, load

LABELS = ["<s>", "<pad>", "</s>", "<unk>", "no", "yes", "maybe", "madeupword0000"]


def check_refusal(message, path, folder, **options):
    """Check that an export fails with a message and writes nothing."""
    with pytest.raises(ValueError, match=message):
        export_huggingface(path, folder, **options)
    assert not folder.exists()


# ---- Masked language models. ----


def test_a_masked_lm_is_the_same_in_transformers_and_when_read_back(tmp_path, hf):
    tensors = files.masked_lm_tensors()
    path = files.write_fairseq(tmp_path / "model.pt", files.current_state(tensors))
    export_huggingface(path, tmp_path / "out")
    file = read_masked_lm(tmp_path / "out")
    files.assert_same(file.tensors, tensors)
    assert file.fingerprint == read_masked_lm(path).fingerprint
    module = builders.MaskedLM(builders.MaskedLMSizes(**file.sizes)).eval()
    tied = {"lm_head.weight": tensors["sentence_encoder.embed_tokens.weight"]}
    module.load_state_dict({**tensors, **tied})
    hf_model = load(hf.AutoModelForMaskedLM, tmp_path / "out")
    tokens = nlu_builders.tokens(file.sizes["vocab_size"])
    with torch.no_grad():
        logits = hf_model(tokens, attention_mask=tokens.ne(PAD)).logits
        assert_close_in_text(logits, module(tokens), tokens)


def test_the_frozen_masked_lm_of_an_sga_is_exported_alone(tmp_path):
    module, folder = builders.masked_lm(), tmp_path / "out"
    options = builders.Namespace(arch="sga", encoder_attention_heads=builders.HEADS)
    for name, save_weights in (("with_weights", True), ("without_weights", False)):
        model = builders.sga_model(module, frozen_options={"save_weights": save_weights})
        torch.save({"args": options, "model": model.state_dict()}, tmp_path / f"{name}.pt")
    check_refusal("no frozen masked LM", tmp_path / "without_weights.pt", folder, frozen=True)
    path = str(tmp_path / "with_weights.pt")
    assert main(["export", path, str(folder), "--format=huggingface", "--frozen"]) == 0
    file = read_masked_lm(folder)
    files.assert_same(file.tensors, dict(module.named_parameters()))
    assert file.fingerprint == model.frozen.fingerprint


def test_an_old_masked_lm_needs_its_number_of_heads(tmp_path):
    state = files.current_state(files.masked_lm_tensors())
    path = files.write_fairseq(tmp_path / "model.pt", state, encoder_attention_heads=None)
    check_refusal("--heads", path, tmp_path / "out")
    export_huggingface(path, tmp_path / "out", heads=4)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["num_attention_heads"] == 4


ENCODER_SIZES = builders.side("encoder", 2, 16, 24, 2)


def write_bert(path, **options):
    """Write a BERT of stock fairseq, with pieces and its dictionary beside it."""
    entries = ["##ed", "walk", "<mask>"]
    args = builders.Namespace(
        arch="bert_base",
        max_positions=12,
        tokens_per_sample=12,
        dropout=0.0,
        **ENCODER_SIZES,
        **options,
    )
    dictionary = nlu_builders.dictionary(entries)
    task = builders.task_of(dictionary, dictionary=dictionary)
    model = nlu_builders.randomise(models.build_model(args, task))
    nlu_builders.write_dict(path.parent / "dict.txt", entries)
    torch.save({"args": args, "model": model.state_dict()}, path)
    return model


def test_a_bert_is_the_same_in_transformers_and_its_encoder_is_read_back(tmp_path, hf):
    model, folder = write_bert(tmp_path / "model.pt"), tmp_path / "out"
    export_huggingface(tmp_path / "model.pt", folder)
    tokens = nlu_builders.tokens(7, pairs=True)
    segments = tokens.eq(2).long().cumsum(1).clamp(max=1)
    with torch.no_grad():
        expected, extra = model(tokens, segment_labels=segments)
        outputs = load(hf.AutoModelForPreTraining, folder)(tokens, tokens.ne(PAD), segments)
    assert_close_in_text(outputs.prediction_logits, expected, tokens)
    assert_close(outputs.seq_relationship_logits, extra["sentence_logits"], **TOLERANCE)
    state = model.encoder.sentence_encoder.state_dict()
    for name, tensor in read_encoder(folder).tensors.items():
        expected = state[name.replace("layernorm_embedding", "emb_layer_norm")]
        if name == "embed_positions.weight":  # the first rows are never used, and written as 0
            expected = expected * (torch.arange(len(expected)) > PAD)[:, None]
        assert torch.equal(tensor, expected), name
    assert hf.AutoTokenizer.from_pretrained(folder)("Walked")["input_ids"] == [0, 5, 4, 2]


# ---- Encoders with a head. ----

HEADS = {
    "cross_lingual_classification": ("SequenceClassification", 3),
    "token_classification": ("TokenClassification", 4),
    "span_qa": ("QuestionAnswering", 2),
    "": ("", 0),
}


def write_encoder(path, task="token_classification", **options):
    """Write a checkpoint of ``nlu_encoder`` as its task does; return the model."""
    model = nlu_builders.scratch(**options)
    classes = HEADS[task][1]
    if task == "cross_lingual_classification":
        model.register_classification_head("head", classes)
    elif task:
        model.register_token_head("head", classes)
    nlu_builders.randomise(model)
    state = {
        "cfg": {"model": model.args, "task": {"_name": task}},
        "args": None,
        "model": model.state_dict(),
        "task_state": {"labels": LABELS, "languages": []},
    }
    torch.save(state, path)
    return model


@pytest.mark.cases(
    "family task",
    *(("xlmr", task) for task in HEADS),
    ("bert", "cross_lingual_classification"),
    ("bert", ""),
)
def test_an_encoder_is_the_same_in_transformers_and_when_read_back(tmp_path, hf, family, task):
    folder = tmp_path / "out"
    model = write_encoder(tmp_path / "model.pt", task, encoder_family=family)
    nlu_builders.write_dict(tmp_path / "dict.txt", nlu_builders.MBART_SYMBOLS)
    export_huggingface(tmp_path / "model.pt", folder)
    auto_class = getattr(hf, f"AutoModelFor{HEADS[task][0]}" if task else "AutoModel")
    missing = [] if task else ["pooler.dense.weight", "pooler.dense.bias"]
    hf_model = load(auto_class, folder, missing)
    tokens = nlu_builders.tokens_for(model)
    inputs = {"input_ids": tokens, "attention_mask": tokens.ne(PAD).long()}
    if family == "bert":
        inputs["token_type_ids"] = model.encoder.segment_types(tokens)
    with torch.no_grad():
        expected = model(tokens, classification_head_name="head" if task else None)[0]
        outputs = hf_model(**inputs)
    if task == "cross_lingual_classification":
        assert expected.std() > 0.1
        assert_close(outputs.logits, expected, **TOLERANCE)
        assert hf_model.config.id2label == {0: "no", 1: "yes", 2: "maybe"}
    elif task == "span_qa":
        logits = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
        assert_close_in_text(logits, expected, tokens)
    else:
        states = outputs.logits if task else outputs.last_hidden_state
        assert_close_in_text(states, expected, tokens)
    state = model.encoder.state_dict()
    for name, tensor in read_encoder(folder).tensors.items():
        rows = slice(PAD + 1 if name == "embed_positions.weight" else 0, None)
        assert torch.equal(tensor[rows], state[name][rows]), name


def test_a_stock_roberta_with_a_head_is_the_same_in_transformers(tmp_path, hf):
    dictionary = nlu_builders.dictionary(nlu_builders.MBART_SYMBOLS)
    args = builders.Namespace(
        arch="roberta_base", max_positions=30, tokens_per_sample=30, dropout=0.0, **ENCODER_SIZES
    )
    model = models.build_model(args, builders.task_of(dictionary, dictionary=dictionary))
    model.register_classification_head("head", 3)
    nlu_builders.randomise(model)
    torch.save({"args": args, "model": model.state_dict()}, tmp_path / "model.pt")
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    hf_model = load(hf.AutoModelForSequenceClassification, tmp_path / "out")
    tokens = nlu_builders.tokens(len(dictionary))
    with torch.no_grad():
        expected = model(tokens, features_only=True, classification_head_name="head")[0]
        logits = hf_model(tokens, tokens.ne(PAD).long()).logits
    assert_close(logits, expected, **TOLERANCE)


def test_a_head_that_transformers_lacks_is_left_out(tmp_path, caplog):
    task = "cross_lingual_classification"
    write_encoder(tmp_path / "model.pt", task, sentence_pooling="mean")
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    assert "--sentence-pooling mean" in caplog.text
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["XLMRobertaModel"]


def write_with_layout(path, **changes):
    """Write an encoder whose checkpoint states another layout; return the model."""
    model = write_encoder(path)
    state = torch.load(path, weights_only=False)
    state["cfg"]["model"].encoder_layout.update(changes)
    torch.save(state, path)
    return model


def test_scaled_embeddings_are_written_scaled(tmp_path):
    model = write_with_layout(tmp_path / "model.pt", scale_embedding=True)
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    embeddings = read_encoder(tmp_path / "out").tensors["embed_tokens.weight"]
    assert torch.equal(embeddings, model.encoder.embed_tokens.weight * 4)


# ---- Refused models. ----


def write_sga(path):
    model = builders.sga_model()
    torch.save({"args": builders.Namespace(arch="sga"), "model": model.state_dict()}, path)


def write_adapters(path):
    adapter_builders.write_backbone(path)
    state = torch.load(path, weights_only=False)
    state["model"]["encoder.adapters.0.down.weight"] = torch.ones(2, 2)
    torch.save(state, path)


def write_two_heads(path):
    model = write_encoder(path)
    model.register_token_head("other", 3)
    nlu_builders.saved(model, path)


def write_short_dictionary(path):
    nlu_builders.nllb_fairseq(path.parent)
    nlu_builders.write_dict(path.parent / "dict.txt", ["p0"])


def write_stock(**options):
    def write(path):
        model = nlu_builders.stock_model(nlu_builders.PIECES, arch="transformer", **options)
        nlu_builders.stock_checkpoint(path, model, {"_name": "translation"})

    return write


PRE_NORM = nlu_builders.PRE_NORM


@pytest.mark.cases(
    "write message",
    (write_sga, "is an SGA.*--frozen"),
    (deltalm_builders.write_released, "is a DeltaLM"),
    (lambda path: veco_builders.released(path.parent), "is a VECO"),
    (veco_builders.pretrained, "is a VECO"),
    (write_adapters, "has adapters"),
    (lambda path: write_encoder(path, "", encoder_family="mbart"), "family mbart"),
    (lambda path: write_with_layout(path, activation="relu"), "activation = 'relu'"),
    (
        lambda path: write_bert(path, share_encoder_input_output_embed=False),
        "output projection of its own",
    ),
    (lambda path: write_bert(path, activation_fn="relu"), "activation_fn = 'relu'"),
    (write_two_heads, "heads head, other"),
    (write_short_dictionary, "26 rows, .* 8 entries"),
    (write_stock(), "no encoder.layer_norm"),
    (write_stock(share_all_embeddings=False, **PRE_NORM), "not one matrix"),
    (write_stock(layernorm_embedding=True, **PRE_NORM), "has encoder.layernorm_embedding"),
    (write_stock(encoder_learned_pos=True, **PRE_NORM), "no encoder.layernorm_embedding"),
)
def test_models_that_transformers_lacks_are_refused(tmp_path, write, message):
    write(tmp_path / "model.pt")
    check_refusal(message, tmp_path / "model.pt", tmp_path / "out")
