"""What is exported loads in transformers, computes the same there, and is read back bit by bit."""

import json
import random

import pytest
import sentencepiece
import torch
from fairseq import models
from torch.testing import assert_close

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import CheckpointError, read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.export.huggingface import export_huggingface
from fairseq_plugins.export.huggingface_seq2seq import import_seq2seq
from tests import adapter_builders, builders, deltalm_builders, nlu_builders, veco_builders
from tests.unit.checkpoints import builders as files

PAD = nlu_builders.PAD
NEAR = dict(rtol=0, atol=1e-5)
MULTI = {"_name": "translation_multi_simple_epoch"}
LABELS = ["<s>", "<pad>", "</s>", "<unk>", "no", "yes", "maybe", "madeupword0000"]


@pytest.fixture
def hf():
    """The package, imported by the tests that need it: that takes seconds."""
    import transformers

    return transformers


def loaded(auto, folder, absent=()):
    model, info = auto.from_pretrained(folder, output_loading_info=True)
    assert set(info["missing_keys"]) == set(absent)
    assert not info["unexpected_keys"] and not info["mismatched_keys"]
    return model.eval()


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def failure(message, *arguments, **options):
    """The export fails so, and leaves nothing."""
    with pytest.raises(ValueError, match=message):
        export_huggingface(*arguments, **options)
    assert not arguments[1].exists()


# ---- Encoder and decoder. ----


@pytest.mark.parametrize("build", [nlu_builders.mbart_cc25, nlu_builders.mbart50, nlu_builders.nllb_fairseq])
def test_an_encoder_decoder_computes_the_same_there_and_comes_back(tmp_path, hf, build):
    model, folder, back = build(tmp_path), tmp_path / "out", tmp_path / "back.pt"
    assert main(["export", str(tmp_path), str(folder), "--format=huggingface"]) == 0
    theirs = loaded(hf.AutoModelForSeq2SeqLM, folder)
    rows = model.encoder.embed_tokens.num_embeddings
    source, target = nlu_builders.tokens(rows), nlu_builders.tokens(rows, (5, 7, 2))
    with torch.no_grad():
        expected = model(source, None, target)[0]
        found = theirs(input_ids=source, attention_mask=source.ne(PAD), decoder_input_ids=target).logits
    kept = target.ne(PAD)
    assert expected[kept].std() > 0.1
    assert_close(found[kept], expected[kept], **NEAR)
    assert (folder / "dict.txt").read_text().count("\n") == rows - 4
    assert main(["import", str(folder), str(back)]) == 0
    files.assert_same(torch.load(back, weights_only=False)["model"], model.state_dict())
    with pytest.raises(SystemExit):
        main(["import", str(folder), str(back)])


def test_what_comes_back_is_built_by_its_own_options(tmp_path):
    model = nlu_builders.nllb_fairseq(tmp_path)
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    import_seq2seq(tmp_path / "out", tmp_path / "back.pt")
    state = torch.load(tmp_path / "back.pt", weights_only=False)
    again = models.build_model(state["cfg"]["model"], nlu_builders.task_of(nlu_builders.NLLB_SYMBOLS))
    again.load_state_dict(state["model"])
    source = nlu_builders.tokens(len(nlu_builders.NLLB_SYMBOLS) + 4)
    with torch.no_grad():
        assert torch.equal(again.eval()(source, None, source)[0], model(source, None, source)[0])


@pytest.mark.parametrize(("kind", "changes"), [("mbart", {}), ("mbart", {"scale_embedding": False}), ("nllb", {})])
def test_what_transformers_itself_has_written_is_decoded_by_fairseq(tmp_path, hf, kind, changes):
    symbols = nlu_builders.PIECES
    theirs = nlu_builders.huggingface(hf, kind, tmp_path / "theirs", 4 + len(symbols), **changes)
    assert main(["import", str(tmp_path / "theirs"), str(tmp_path / "model.pt")]) == 0
    state = torch.load(tmp_path / "model.pt", weights_only=False)
    ours = models.build_model(state["cfg"]["model"], nlu_builders.task_of(symbols)).eval()
    ours.load_state_dict(state["model"])
    source, target = nlu_builders.tokens(4 + len(symbols)), nlu_builders.tokens(4 + len(symbols), (5, 7, 2))
    with torch.no_grad():
        expected = theirs(input_ids=source, attention_mask=source.ne(PAD), decoder_input_ids=target).logits
        found = ours(source, None, target)[0]
    kept = target.ne(PAD)
    assert expected[kept].std() > 0.1
    assert_close(found[kept], expected[kept], **NEAR)


@pytest.mark.parametrize(
    ("task", "start", "forced", "before", "behind"),
    [
        ({"_name": "translation_from_pretrained_bart"}, "[de_DE]", None, [], ["</s>", "[en_XX]"]),
        ({**MULTI, "encoder_langtok": "src", "decoder_langtok": True}, "</s>", "[de_DE]", ["[en_XX]"], ["</s>"]),
        ({**MULTI, "encoder_langtok": "tgt"}, "</s>", None, ["[de_DE]"], ["</s>"]),
        ({"_name": "translation"}, "</s>", None, [], ["</s>"]),
    ],
)  # fmt: skip
def test_the_tokenizer_has_the_rows_of_the_model_and_the_languages_of_its_task(
    tmp_path, hf, task, start, forced, before, behind
):
    pieces = nlu_builders.write_sentencepiece(tmp_path)[3:]
    random.Random(1).shuffle(pieces)
    nlu_builders.write_dict(tmp_path / "dict.txt", [*pieces, "madeupword0000"])
    symbols = [*pieces, "madeupword0000", "[en_XX]", "[de_DE]", "<mask>"]
    model = nlu_builders.stock_model(symbols, arch="mbart_large", **nlu_builders.PRE_NORM)
    stated = {"langs": "en_XX,de_DE", "lang_tok_style": "mbart", "source_lang": "en_XX", "target_lang": "de_DE", **task}
    nlu_builders.stock_checkpoint(tmp_path / "run" / "model.pt", model, stated)
    export_huggingface(tmp_path / "run" / "model.pt", tmp_path / "out", tmp_path)
    ids = nlu_builders.dictionary(symbols).index
    generation = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert generation["decoder_start_token_id"] == ids(start)
    assert generation.get("forced_bos_token_id") == (ids(forced) if forced else None)
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path / "out")
    ours = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.bpe.model"))
    draw = random.Random(2)
    for _ in range(40):
        text = "".join(draw.choice("abcdefghijkl  ,.éＡß\t") for _ in range(draw.randint(1, 20)))
        expected = [*before, *ours.encode(text, out_type=str), *behind]
        assert theirs(text)["input_ids"] == [ids(one) for one in expected], repr(text)
    found = read_encoder(tmp_path / "out")
    assert [*found.entries] == [*nlu_builders.SPECIAL, *symbols] and found.languages == ("en_XX", "de_DE")


# ---- Masked language models. ----


def test_a_masked_lm_computes_the_same_there_and_comes_back(tmp_path, hf):
    tensors = files.masked_lm_tensors()
    path = files.write_fairseq(tmp_path / "model.pt", files.current_state(tensors))
    export_huggingface(path, tmp_path / "out")
    back = read_masked_lm(tmp_path / "out")
    files.assert_same(back.tensors, tensors)
    assert back.fingerprint == read_masked_lm(path).fingerprint
    module = builders.MaskedLM(builders.MaskedLMSizes(**back.sizes))
    module.load_state_dict({**tensors, "lm_head.weight": tensors["sentence_encoder.embed_tokens.weight"]})
    tokens = nlu_builders.tokens(back.sizes["vocab_size"])
    with torch.no_grad():
        expected = module.eval()(tokens)
        found = loaded(hf.AutoModelForMaskedLM, tmp_path / "out")(tokens, attention_mask=tokens.ne(PAD)).logits
    assert_close(found[tokens.ne(PAD)], expected[tokens.ne(PAD)], **NEAR)


def test_the_frozen_masked_lm_of_an_sga_is_written_alone(tmp_path):
    module = builders.masked_lm()
    options = builders.Namespace(arch="sga", encoder_attention_heads=builders.HEADS)
    for name, save in (("whole", True), ("trained", False)):
        model = builders.sga_model(module, frozen_options={"save_weights": save})
        torch.save({"args": options, "model": model.state_dict()}, tmp_path / f"{name}.pt")
    failure("holds no frozen masked LM", tmp_path / "trained.pt", tmp_path / "out", frozen=True)
    assert main(["export", str(tmp_path / "whole.pt"), str(tmp_path / "out"), "--format=huggingface", "--frozen"]) == 0
    found = read_masked_lm(tmp_path / "out")
    files.assert_same(found.tensors, dict(module.named_parameters()))
    assert found.fingerprint == model.frozen.fingerprint


def test_the_heads_of_an_old_masked_lm_are_given(tmp_path):
    path = files.write_fairseq(
        tmp_path / "model.pt", files.current_state(files.masked_lm_tensors()), encoder_attention_heads=None
    )
    failure("give --heads", path, tmp_path / "out")
    export_huggingface(path, tmp_path / "out", heads=4)
    assert config_of(tmp_path / "out")["num_attention_heads"] == 4


def bert(path, **options):
    """A BERT of stock fairseq, with pieces and its dictionary beside it."""
    entries = ["##ed", "walk", "<mask>"]
    args = builders.Namespace(arch="bert_base", max_positions=12, tokens_per_sample=12, dropout=0.0, **options)
    args.encoder_layers, args.encoder_embed_dim, args.encoder_ffn_embed_dim, args.encoder_attention_heads = 2, 16, 24, 2
    task = builders.task_of(nlu_builders.dictionary(entries), dictionary=nlu_builders.dictionary(entries))
    model = nlu_builders.randomise(models.build_model(args, task))
    nlu_builders.write_dict(path.parent / "dict.txt", entries)
    torch.save({"args": args, "model": model.state_dict()}, path)
    return model


def test_a_bert_computes_the_same_there_and_its_encoder_comes_back(tmp_path, hf):
    model = bert(tmp_path / "model.pt")
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    tokens = nlu_builders.tokens(7, pairs=True)
    segments = tokens.eq(2).long().cumsum(1).clamp(max=1)
    with torch.no_grad():
        expected, more = model(tokens, segment_labels=segments)
        found = loaded(hf.AutoModelForPreTraining, tmp_path / "out")(tokens, tokens.ne(PAD), segments)
    assert_close(found.prediction_logits[tokens.ne(PAD)], expected[tokens.ne(PAD)], **NEAR)
    assert_close(found.seq_relationship_logits, more["sentence_logits"], **NEAR)
    state = model.encoder.sentence_encoder.state_dict()
    for name, tensor in read_encoder(tmp_path / "out").tensors.items():
        own = state[name.replace("layernorm_embedding", "emb_layer_norm")]
        own = own * (torch.arange(len(own)) > PAD)[:, None] if name == "embed_positions.weight" else own
        assert torch.equal(tensor, own), name
    ids = hf.AutoTokenizer.from_pretrained(tmp_path / "out")("Walked")["input_ids"]
    assert ids == [0, 5, 4, 2]


# ---- Encoders with a head. ----

KINDS = {
    "cross_lingual_classification": ("SequenceClassification", 3),
    "token_classification": ("TokenClassification", 4),
    "span_qa": ("QuestionAnswering", 2),
    "": ("", 0),
}


def trained(path, task, classes, **options):
    """A checkpoint of ``nlu_encoder`` as its task leaves it. Returns the model."""
    model = nlu_builders.scratch(**options)
    if task == "cross_lingual_classification":
        model.register_classification_head("head", classes)
    elif task:
        model.register_token_head("head", classes)
    nlu_builders.randomise(model)
    state = {"cfg": {"model": model.args, "task": {"_name": task}}, "args": None, "model": model.state_dict()}
    torch.save({**state, "task_state": {"labels": LABELS, "languages": []}}, path)
    return model


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("family", ["xlmr", "bert"])
def test_an_encoder_computes_the_same_there_and_comes_back(tmp_path, hf, family, task):
    purpose, classes = KINDS[task]
    model = trained(tmp_path / "model.pt", task, classes, encoder_family=family)
    nlu_builders.write_dict(tmp_path / "dict.txt", nlu_builders.MBART_SYMBOLS)
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    absent = [] if task else ["pooler.dense.weight", "pooler.dense.bias"]
    theirs = loaded(getattr(hf, f"AutoModel{'For' if task else ''}{purpose}"), tmp_path / "out", absent)
    tokens = nlu_builders.tokens_for(model)
    types = {"token_type_ids": model.encoder.segment_types(tokens)} if family == "bert" else {}
    with torch.no_grad():
        expected = model(tokens, classification_head_name="head" if task else None)[0]
        found = theirs(input_ids=tokens, attention_mask=tokens.ne(PAD).long(), **types)
    if task == "span_qa":
        found = torch.stack([found.start_logits, found.end_logits], dim=-1)
    else:
        found = found.logits if task else found.last_hidden_state
    kept = slice(None) if task == "cross_lingual_classification" else tokens.ne(PAD)
    assert expected[kept].std() > 0.1
    assert_close(found[kept], expected[kept], **NEAR)
    if task == "cross_lingual_classification":
        assert theirs.config.id2label == {0: "no", 1: "yes", 2: "maybe"}
    back, own = read_encoder(tmp_path / "out"), model.encoder.state_dict()
    for name, tensor in back.tensors.items():
        rows = slice(PAD + 1, None) if name == "embed_positions.weight" else slice(None)
        assert torch.equal(tensor[rows], own[name][rows]), name


def test_a_stock_roberta_with_a_head_computes_the_same_there(tmp_path, hf):
    entries = nlu_builders.dictionary(nlu_builders.MBART_SYMBOLS)
    sizes = builders.side("encoder", 2, 16, 24, 2)
    args = builders.Namespace(arch="roberta_base", max_positions=30, tokens_per_sample=30, dropout=0.0, **sizes)
    model = models.build_model(args, builders.task_of(entries, dictionary=entries))
    model.register_classification_head("head", 3)
    nlu_builders.randomise(model)
    torch.save({"args": args, "model": model.state_dict()}, tmp_path / "model.pt")
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    tokens = nlu_builders.tokens(len(entries))
    with torch.no_grad():
        expected = model(tokens, features_only=True, classification_head_name="head")[0]
        found = loaded(hf.AutoModelForSequenceClassification, tmp_path / "out")(tokens, tokens.ne(PAD).long()).logits
    assert_close(found, expected, **NEAR)


def test_a_head_that_transformers_does_not_have_is_left_out(tmp_path, hf, caplog):
    trained(tmp_path / "model.pt", "cross_lingual_classification", 3, sentence_pooling="mean")
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    assert "its head is left out, for transformers has none with --sentence-pooling mean" in caplog.text
    assert config_of(tmp_path / "out")["architectures"] == ["XLMRobertaModel"]


def test_scaled_embeddings_are_written_scaled(tmp_path):
    model = trained(tmp_path / "model.pt", "token_classification", 4)
    state = torch.load(tmp_path / "model.pt", weights_only=False)
    state["cfg"]["model"].encoder_layout["scale_embedding"] = True
    torch.save(state, tmp_path / "model.pt")
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    words = model.encoder.embed_tokens.weight
    assert torch.equal(read_encoder(tmp_path / "out").tensors["embed_tokens.weight"], words * 4)


# ---- Refused. ----


def sga(folder):
    model = builders.sga_model()
    torch.save({"args": builders.Namespace(arch="sga"), "model": model.state_dict()}, folder / "model.pt")


def deltalm(folder):
    deltalm_builders.write_released(folder / "model.pt")


def adapters(folder):
    adapter_builders.write_backbone(folder / "model.pt")
    state = torch.load(folder / "model.pt", weights_only=False)
    state["model"]["encoder.adapters.0.down.weight"] = torch.ones(2, 2)
    torch.save(state, folder / "model.pt")


def wired(**changes):
    def write(folder):
        trained(folder / "model.pt", "token_classification", 4)
        state = torch.load(folder / "model.pt", weights_only=False)
        state["cfg"]["model"].encoder_layout.update(changes)
        torch.save(state, folder / "model.pt")

    return write


def untied_bert(folder):
    bert(folder / "model.pt", share_encoder_input_output_embed=False)


def several(folder):
    model = trained(folder / "model.pt", "token_classification", 4)
    model.register_token_head("other", 3)
    nlu_builders.saved(model, folder / "model.pt")


def other_rows(folder):
    nlu_builders.nllb_fairseq(folder)
    nlu_builders.write_dict(folder / "dict.txt", ["p0"])


def stock(**options):
    def write(folder):
        model = nlu_builders.stock_model(nlu_builders.PIECES, arch="transformer", **options)
        nlu_builders.stock_checkpoint(folder / "model.pt", model, {"_name": "translation"})

    return write


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (sga, "is an SGA.*--frozen writes"),
        (deltalm, "is a DeltaLM"),
        (veco_builders.released, "is a VECO"),
        (lambda folder: veco_builders.pretrained(folder / "model.pt"), "is a VECO"),
        (adapters, "has adapters"),
        (lambda folder: nlu_builders.saved(nlu_builders.scratch(encoder_family="mbart"), folder / "model.pt"), "family mbart"),
        (wired(activation="relu"), "family xlmr with activation = 'relu', expected 'gelu'"),
        (untied_bert, "has an output projection of its own"),
        (lambda folder: bert(folder / "model.pt", activation_fn="relu"), "activation_fn = 'relu', expected 'gelu'"),
        (several, "has the heads head, other"),
        (other_rows, "has 26 rows, .* 8 entries"),
        (stock(), "has no encoder.layer_norm"),
        (stock(share_all_embeddings=False, **nlu_builders.PRE_NORM), "are not one matrix"),
        (stock(layernorm_embedding=True, **nlu_builders.PRE_NORM), "has encoder.layernorm_embedding"),
        (stock(encoder_learned_pos=True, **nlu_builders.PRE_NORM), "has no encoder.layernorm_embedding"),
    ],
)  # fmt: skip
def test_what_transformers_does_not_have_is_refused(tmp_path, write, message):
    write(tmp_path)
    failure(message, tmp_path / "model.pt", tmp_path / "out")


def test_pieces_that_no_tokenizer_can_repeat_are_named(tmp_path, caplog):
    pieces = nlu_builders.write_sentencepiece(tmp_path)[3:]
    symbols = [*pieces[1:], "<mask>"]
    nlu_builders.write_dict(tmp_path / "dict.txt", pieces[1:])
    model = nlu_builders.stock_model(symbols, arch="mbart_large", **nlu_builders.PRE_NORM)
    nlu_builders.stock_checkpoint(tmp_path / "model.pt", model, {"_name": "translation"})
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    assert "no tokenizer.json: 1 of its pieces" in caplog.text
    assert not (tmp_path / "out" / "tokenizer.json").exists()
    assert (tmp_path / "out" / "sentencepiece.bpe.model").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"final_logits_bias": torch.ones(1, 28)}, "final_logits_bias is not 0"),
        ({"model.decoder.layers.0.adapter.weight": torch.ones(2)}, "unknown tensors .*adapter"),
        ({"model.encoder.layers.1.fc1.weight": torch.ones(3, 16)}, r"wrong shapes: encoder\.layers\.1\.fc1\.weight"),
    ],
)
def test_a_folder_that_fairseq_cannot_hold_is_refused(tmp_path, change, message):
    nlu_builders.mbart_cc25(tmp_path)
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    tensors = files.safetensors.torch.load_file(tmp_path / "out" / "model.safetensors")
    files.safetensors.torch.save_file({**tensors, **change}, tmp_path / "out" / "model.safetensors")
    with pytest.raises(CheckpointError, match=message):
        import_seq2seq(tmp_path / "out", tmp_path / "back.pt")
    assert not (tmp_path / "back.pt").exists()
