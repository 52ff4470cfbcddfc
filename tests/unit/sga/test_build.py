"""Test building SGA from options and a pretrained file: what is read, and what is refused."""

import shutil

import pytest
import safetensors.torch
import torch

from fairseq_plugins import checkpoints
from fairseq_plugins.sga.variants import SGA, JoinedModelConfig
from tests import builders
from tests.bert_builders import EPSILON, write_encoder


def write_masked_lm(folder):
    masked_lm = builders.masked_lm()
    state = masked_lm.state_dict()
    checkpoints.write_masked_lm(folder, masked_lm.sizes, state, dtype=torch.float32)
    return folder


@pytest.fixture(scope="module")
def pretrained(path):
    return write_masked_lm(path)


def build(path, symbols=None, from_checkpoint=False, **options):
    cfg = JoinedModelConfig(pretrained_mlm=path and str(path), **options)
    task = builders.task_of(symbols or builders.dictionary(), from_checkpoint=from_checkpoint)
    return SGA.build_model(cfg, task)


def test_weights_sizes_and_symbols_come_from_file_and_dictionary(pretrained):
    model = build(pretrained)
    expected = dict(builders.masked_lm().named_parameters())
    weights = dict(model.frozen.module.named_parameters())
    assert set(weights) == set(expected)
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert model.frozen.fingerprint == checkpoints.fingerprint(expected)
    assert (model.blank, model.mask) == (builders.BOS, builders.MASK)
    assert model.encoder_prompts.key.shape == (builders.LAYERS, 32, builders.WIDTH)
    assert not any(parameter.requires_grad for parameter in model.frozen.parameters())


@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_one_changed_bit_of_the_pretrained_file_is_refused(tmp_path, from_checkpoint):
    """The file does not state its fingerprint."""
    file = write_masked_lm(tmp_path) / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    safetensors.torch.save_file(tensors, file)
    state = build(tmp_path).state_dict()
    tensors["roberta.encoder.layer.1.output.dense.weight"].view(torch.int32)[0, 0] ^= 1
    safetensors.torch.save_file(tensors, file)
    with pytest.raises(ValueError, match="another frozen model: its fingerprint is"):
        build(tmp_path, from_checkpoint=from_checkpoint).load_state_dict(state)


def test_a_full_checkpoint_needs_no_pretrained_file(pretrained):
    """The recorded config of --save-full-model has the sizes."""
    cfg = JoinedModelConfig(pretrained_mlm=str(pretrained), save_full_model=True)
    trained = SGA.build_model(cfg, builders.task_of(builders.dictionary()))
    cfg.pretrained_mlm = "nowhere"
    task = builders.task_of(builders.dictionary(), from_checkpoint=True)
    loaded = SGA.build_model(cfg, task)
    loaded.load_state_dict(trained.state_dict())
    sample = builders.sample()
    losses, expected = (builders.forward_losses(model, sample) for model in (loaded, trained))
    assert torch.equal(losses["denoising"], expected["denoising"])


@pytest.mark.cases(
    "options message",
    ({"ctc_upsample": 0}, "--ctc-upsample .*got 0"),
    ({"ctc_upsample": 99}, f"--ctc-upsample .*got 99; valid: 1 to {builders.POSITIONS}"),
    ({"prompt_length": -1}, "--prompt-length .*got -1"),
    ({"lora_rank": -1}, "--lora-rank .*got -1"),
    ({"ctc_blank_bias": float("inf")}, "--ctc-blank-bias .*got inf"),
    (
        {"ctc_blank_bias": 6.0, "alignment": "dag", "no_denoising": True},
        "--ctc-blank-bias 6.0: .*; valid: 0",
    ),
    (
        {"slot_positions": "continue", "alignment": "mask_predict"},
        "--slot-positions continue: .*mask_predict.*; valid: restart",
    ),
    (
        {"slot_positions": "continue", "alignment": "dag"},
        "--slot-positions continue: .*dag.*; valid: restart",
    ),
    ({"frozen_dropout": 1.0}, r"--frozen-dropout must lie in \[0, 1\); got 1.0"),
    ({"ctc_blank": "nowhere"}, "--ctc-blank 'nowhere' .*valid: <s>"),
    ({"encoder_layers": 7}, rf"--encoder-layers 7 \(valid here: {builders.LAYERS}\)"),
    ({"max_positions": 512}, rf"--max-positions 512 \(valid here: {builders.POSITIONS}\)"),
    ({"path": None}, "--pretrained-mlm"),
    ({"path": "nowhere"}, "--pretrained-mlm .*nowhere"),
    ({"path": __file__}, "test_build.py"),
)
def test_wrong_options_and_files_are_named(pretrained, options, message):
    with pytest.raises(ValueError, match=message):
        build(**{"path": pretrained, **options})


def test_a_dictionary_that_does_not_match_is_refused(pretrained, tmp_path, caplog):
    symbols = builders.dictionary(builders.PIECES - 1)
    symbols.add_symbol("late")
    with pytest.raises(ValueError, match="<mask>"):
        build(pretrained, symbols)
    with pytest.raises(ValueError, match=f"{builders.VOCAB + 2}.*{builders.VOCAB}"):
        build(pretrained, builders.dictionary(builders.PIECES + 2))
    build(pretrained)
    assert "no vocabulary beside it" in caplog.text
    folder = shutil.copytree(pretrained, tmp_path / "named")
    pieces = builders.piece_names()
    builders.write_symbols(folder / "dict.txt", pieces)
    build(folder)
    pieces[3:5] = pieces[4], pieces[3]
    builders.write_symbols(folder / "dict.txt", pieces)
    with pytest.raises(ValueError, match="p3.*p4|p4.*p3"):
        build(folder)


def test_an_encoder_needs_a_head_and_its_surplus_rows_a_policy(tmp_path):
    """Leave out rows beyond the dictionary's, if asked to; record the epsilon of the file."""
    masked_lm = write_encoder(tmp_path)
    with pytest.raises(ValueError, match=r"without the head.*--init-from-mlm"):
        build(tmp_path)
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    head = {"transform.dense": "dense", "transform.LayerNorm": "layer_norm"}
    for theirs, ours in head.items():
        for kind in ("weight", "bias"):
            tensor = getattr(getattr(masked_lm.lm_head, ours), kind).detach().clone()
            tensors[f"cls.predictions.{theirs}.{kind}"] = tensor
    bias = masked_lm.lm_head.bias.detach()
    tensors["cls.predictions.bias"] = torch.cat([bias, torch.ones(2)])
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="--embedding-mismatch is error; valid here: truncate"):
        build(tmp_path)
    model = build(tmp_path, embedding_mismatch="truncate")
    actual = model.masked_lm.state_dict()
    for name, expected in masked_lm.state_dict().items():
        rows = slice(builders.PAD + 1, None) if "embed_positions" in name else slice(None)
        torch.testing.assert_close(actual[name][rows], expected[rows], msg=name)
    assert model.recorded_options["layer_norm_epsilon"] == EPSILON


@pytest.mark.cases(
    "options warning",
    ({"fill_blanks": True}, None),
    ({"fill_blanks": True, "no_denoising": True}, "--fill-blanks has no effect"),
    ({"no_denoising": True, "ctc_upsample": 3}, None),
    (
        {"no_denoising": True, "alignment": "mask_predict", "ctc_upsample": builders.POSITIONS + 1},
        "has no effect with --alignment mask_predict",
    ),
    ({"ctc_blank": "<mask>"}, None),
    ({"ctc_blank": "<pad>"}, None),
    ({"ctc_blank": "p7"}, "--ctc-blank 'p7' is an ordinary piece"),
    ({"ctc_blank": "<unk>"}, "--ctc-blank '<unk>' is an ordinary piece"),
)
def test_useless_options_and_unusual_blanks_are_warned_of(pretrained, options, warning, caplog):
    model = build(pretrained, **options)
    words = ("no effect", "ordinary piece")
    texts = [text for text in caplog.messages if any(word in text for word in words)]
    assert len(texts) == (warning is not None)
    assert all(warning in text for text in texts)
    assert model.blank == builders.dictionary().index(options.get("ctc_blank", "<s>"))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_frozen_dropout_is_an_option(pretrained, dropout):
    model, tokens = build(pretrained, frozen_dropout=dropout).train(), builders.source_rows([8])[0]
    first, second = (model.encode(tokens[None]).prefix[-1][0] for _ in range(2))
    assert torch.equal(first, second) == (dropout == 0)
