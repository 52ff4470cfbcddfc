"""Building from options and a pretrained file: what is read, what is refused, and in which words."""

import shutil

import pytest
import safetensors.torch
import torch

from fairseq_plugins import checkpoints
from fairseq_plugins.sga.variants import SGA, JoinedModelConfig
from tests import builders


@pytest.fixture(scope="module")
def pretrained(path):
    lm = builders.masked_lm()
    checkpoints.write_masked_lm(path, lm.sizes, lm.state_dict(), dtype=torch.float32)
    return path


def task_of(pieces=builders.PIECES, from_checkpoint=False):
    return builders.task_of(builders.dictionary(pieces), from_checkpoint=from_checkpoint)


def build(path, pieces=builders.PIECES, from_checkpoint=False, **options):
    cfg = JoinedModelConfig(pretrained_mlm=None if path is None else str(path), **options)
    return SGA.build_model(cfg, task_of(pieces, from_checkpoint))


def test_weights_sizes_and_symbols_come_from_the_file_and_the_dictionary(pretrained):
    model = build(pretrained)
    expected = dict(builders.masked_lm().named_parameters())
    found = dict(model.frozen.module.named_parameters())
    assert set(found) == set(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert model.frozen.fingerprint == checkpoints.fingerprint(expected)
    assert (model.blank, model.mask) == (builders.BOS, builders.MASK)
    assert model.encoder_prompts.key.shape == (builders.LAYERS, 32, builders.WIDTH)
    assert not any(parameter.requires_grad for parameter in model.frozen.parameters())


def test_a_bit_that_flips_between_start_and_resume_is_refused(tmp_path):
    """Training that goes on as decoding does, also where the file does not state its fingerprint."""
    lm = builders.masked_lm()
    checkpoints.write_masked_lm(tmp_path, lm.sizes, lm.state_dict(), dtype=torch.float32)
    file = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    safetensors.torch.save_file(tensors, file)
    state = build(tmp_path).state_dict()
    name = "roberta.encoder.layer.1.output.dense.weight"
    tensors[name].view(torch.int32)[0, 0] ^= 1
    safetensors.torch.save_file(tensors, file)
    for from_checkpoint in (False, True):
        with pytest.raises(ValueError, match="another frozen model: its fingerprint is"):
            build(tmp_path, from_checkpoint=from_checkpoint).load_state_dict(state)


def test_full_checkpoints_need_no_file(pretrained):
    """--save-full-model: the checkpoint is enough to decode, and its sizes come from the recorded config."""
    cfg = JoinedModelConfig(pretrained_mlm=str(pretrained), save_full_model=True)
    written = SGA.build_model(cfg, task_of())
    cfg.pretrained_mlm = "nowhere"
    read = SGA.build_model(cfg, task_of(from_checkpoint=True))
    read.load_state_dict(written.state_dict())
    sample = builders.batch(builders.source_rows([5, 3]), builders.target_rows([2, 2]))
    ours, theirs = builders.forward_losses(read, sample), builders.forward_losses(written, sample)
    assert torch.equal(ours["denoising"], theirs["denoising"])


@pytest.mark.cases(
    "options words",
    ({"ctc_upsample": 0}, "--ctc-upsample .*at least 1 .*got 0"),
    ({"ctc_upsample": 99}, f"--ctc-upsample .*got 99; valid: 1 to {builders.POSITIONS}"),
    ({"prompt_length": -1}, "--prompt-length .*got -1"),
    ({"lora_rank": -1}, "--lora-rank .*got -1"),
    ({"ctc_blank_bias": float("inf")}, "--ctc-blank-bias .*got inf"),
    ({"ctc_blank_bias": 6.0, "alignment": "dag", "no_denoising": True}, "--ctc-blank-bias 6.0: .* no blank; valid: 0"),
    ({"frozen_dropout": 1.0}, r"--frozen-dropout must lie in \[0, 1\); got 1.0"),
    ({"ctc_blank": "nowhere"}, "--ctc-blank 'nowhere' .*valid: <s>"),
    ({"encoder_layers": 7}, rf"--encoder-layers 7 \(valid here: {builders.LAYERS}\).*sga_tiny"),
    ({"max_positions": 512}, rf"--max-positions 512 \(valid here: {builders.POSITIONS}\)"),
    ({"path": None}, "--pretrained-mlm"),
    ({"path": "nowhere"}, "--pretrained-mlm .*nowhere.*model-overrides"),
    ({"path": __file__}, "test_build.py"),
)
def test_wrong_options_and_files_are_named(pretrained, options, words):
    with pytest.raises(ValueError, match=words):
        build(**{"path": pretrained, **options})


def test_a_dictionary_that_does_not_match_is_refused(pretrained, tmp_path, caplog):
    symbols = builders.dictionary(builders.PIECES - 1)
    symbols.add_symbol("late")
    with pytest.raises(ValueError, match="<mask>"):
        SGA.build_model(JoinedModelConfig(pretrained_mlm=str(pretrained)), builders.task_of(symbols))
    build(pretrained)
    assert "no dict.txt beside it" in caplog.text
    with pytest.raises(ValueError, match=f"{builders.VOCAB + 2}.*{builders.VOCAB}"):
        build(pretrained, pieces=builders.PIECES + 2)
    shutil.copytree(pretrained, tmp_path / "named")
    pieces = builders.piece_names()
    builders.write_symbols(tmp_path / "named" / "dict.txt", pieces)
    build(tmp_path / "named")
    pieces[3:5] = pieces[4], pieces[3]
    builders.write_symbols(tmp_path / "named" / "dict.txt", pieces)
    with pytest.raises(ValueError, match="p3.*p4|p4.*p3"):
        build(tmp_path / "named")


@pytest.mark.cases(
    "options warned",
    ({"fill_blanks": True}, None),
    ({"fill_blanks": True, "no_denoising": True}, "--fill-blanks has no effect with --no-denoising"),
    ({"no_denoising": True, "ctc_upsample": 3}, None),
    (
        {"no_denoising": True, "alignment": "mask_predict", "ctc_upsample": builders.POSITIONS + 1},
        "has no effect with --alignment mask_predict and --no-denoising",
    ),
    *(({"ctc_blank": blank}, None) for blank in ("<s>", "<mask>", "<pad>")),
    *(({"ctc_blank": blank}, f"--ctc-blank '{blank}' is an ordinary piece") for blank in ("p7", "<unk>")),
)
def test_options_without_effect_and_blanks_that_can_be_pieces_are_warned_of(pretrained, options, warned, caplog):
    model = build(pretrained, **options)
    found = [text for text in caplog.messages if "no effect" in text or "ordinary piece" in text]
    assert len(found) == (warned is not None) and all(warned in text for text in found)
    assert model.blank == builders.dictionary().index(options.get("ctc_blank", "<s>"))


@pytest.mark.parametrize(("dropout", "random"), [(0.0, False), (0.4, True)])
def test_frozen_dropout_is_an_option(pretrained, dropout, random):
    model, tokens = build(pretrained, frozen_dropout=dropout).train(), builders.source_rows([8])[0][None]
    assert torch.equal(*(model.encode(tokens).prefix[-1][0] for _ in range(2))) is not random
