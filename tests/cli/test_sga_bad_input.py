"""What SGA refuses before the first batch, on the tiny world of the command-line tests."""

import pytest
import torch

from fairseq_plugins.models.sga import SGAModel
from fairseq_plugins.models.sga.config import ARCHITECTURES, SGAConfig
from fairseq_plugins.modules.model_options import set_architecture
from fairseq_plugins.tasks.sga_translation import SGATranslationConfig, SGATranslationTask

from .conftest import write_random_masked_lm


def make_task(world, **options):
    cfg = SGATranslationConfig(data=str(world.data), source_lang="en", target_lang="de")
    vars(cfg).update(options)
    return SGATranslationTask.setup_task(cfg)


def build(world, arch="sga_tiny", **options):
    """The model as the command line makes it."""
    cfg = SGAConfig(pretrained_mlm=str(world.masked_lm))
    vars(cfg).update(options)
    set_architecture(cfg, ARCHITECTURES[arch])
    return SGAModel.build_model(cfg, make_task(world))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pretrained_mlm": None}, "--pretrained-mlm is needed"),
        ({"pretrained_mlm": "nowhere"}, "--pretrained-mlm nowhere: no such file or folder"),
        ({"ctc_blank": "<nothing>"}, "--ctc-blank '<nothing>' is not in the dictionary"),
        ({"ctc_upsample": 0}, "--ctc-upsample must be at least 1 slot per source token; got 0"),
        ({"prompt_length": -1}, "--prompt-length must be 0 or more; got -1"),
        ({"frozen_dropout": 1.0}, r"--frozen-dropout must lie in \[0, 1\); got 1.0"),
        ({"encoder_layers": 3}, "--encoder-layers .* asks for 3, but --pretrained-mlm .* has 2"),
        ({"arch": "sga_xlmr_base"}, "12"),
    ],
)
def test_options_are_refused_by_name(world, options, message):
    with pytest.raises(ValueError, match=message):
        build(world, **options)


def test_blank_that_is_a_piece_is_reported(world, caplog):
    build(world, ctc_blank="the")
    assert "--ctc-blank 'the' is an ordinary piece" in caplog.text


def test_dictionary_must_match_the_masked_lm(world, tmp_path):
    smaller = write_random_masked_lm(tmp_path / "smaller", world.pieces + 4, 1, world.root / "dict.txt")
    with pytest.raises(ValueError, match=f"dictionary has {world.pieces + 5} entries .* has {world.pieces + 4} rows"):
        build(world, pretrained_mlm=str(smaller))
    lines = (world.root / "dict.txt").read_text(encoding="utf-8").splitlines()
    lines[3], lines[7] = lines[7], lines[3]
    (tmp_path / "shuffled.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    other = write_random_masked_lm(tmp_path / "other", world.pieces + 5, 1, tmp_path / "shuffled.txt")
    with pytest.raises(ValueError, match="dictionary differs from .* at entry 7"):
        build(world, pretrained_mlm=str(other))


def test_source_longer_than_the_positions_is_named(world):
    model = build(world)
    assert model.max_positions() == (48, 96)  # 96 positions, two slots per source token
    with pytest.raises(ValueError, match="input of 97 tokens is longer than the masked LM's 96 positions"):
        model.encode(torch.full((1, 97), 5))


def test_left_padding_and_generator_options_are_refused(world):
    with pytest.raises(ValueError, match="--left-pad-source must be False"):
        make_task(world, left_pad_source=True)
    task = make_task(world)
    for name, value in (("with_beam", 4), ("eos_penalty", 1.0), ("with_external_reranker", True), ("max_iter", -1)):
        with pytest.raises(ValueError, match="--iter-decode-" + name.replace("_", "-")):
            task.build_generator([], type("Args", (), {f"iter_decode_{name}": value})())
