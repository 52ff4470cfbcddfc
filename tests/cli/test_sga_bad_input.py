"""What SGA refuses before the first batch, on the tiny world of the command-line tests."""

from pathlib import Path
from typing import Any, Dict

import pytest
import torch

from fairseq_plugins.models.sga import SGAModel
from fairseq_plugins.models.sga.config import ARCHITECTURES, SGAConfig
from fairseq_plugins.modules.model_options import set_architecture
from fairseq_plugins.tasks.sga_translation import SGATranslationConfig, SGATranslationTask

from .conftest import World, write_random_masked_lm


def make_task(world: World, **options: Any) -> SGATranslationTask:
    """The task on the tiny world's data-bin."""
    cfg = SGATranslationConfig(data=str(world.data), source_lang="en", target_lang="de")
    for key, value in options.items():
        setattr(cfg, key, value)
    return SGATranslationTask.setup_task(cfg)


def make_config(world: World, arch: str = "sga_tiny", **options: Any) -> SGAConfig:
    """A model config as the command line makes it."""
    cfg = SGAConfig(pretrained_mlm=str(world.masked_lm))
    for key, value in options.items():
        setattr(cfg, key, value)
    set_architecture(cfg, ARCHITECTURES[arch])
    return cfg


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
def test_bad_options_are_named(world: World, options: Dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SGAModel.build_model(make_config(world, **options), make_task(world))


def test_blank_that_is_a_piece_is_reported(world: World, caplog: Any) -> None:
    SGAModel.build_model(make_config(world, ctc_blank="the"), make_task(world))
    assert "--ctc-blank 'the' is an ordinary piece" in caplog.text


def test_dictionary_must_match_the_masked_lm(world: World, tmp_path: Path) -> None:
    smaller = write_random_masked_lm(tmp_path / "smaller", world.pieces + 4, 1, world.root / "dict.txt")
    with pytest.raises(ValueError, match=f"dictionary has {world.pieces + 5} entries .* has {world.pieces + 4} rows"):
        SGAModel.build_model(make_config(world, pretrained_mlm=str(smaller)), make_task(world))

    lines = (world.root / "dict.txt").read_text(encoding="utf-8").splitlines()
    lines[3], lines[7] = lines[7], lines[3]
    shuffled = tmp_path / "shuffled.txt"
    shuffled.write_text("\n".join(lines) + "\n", encoding="utf-8")
    other = write_random_masked_lm(tmp_path / "other", world.pieces + 5, 1, shuffled)
    with pytest.raises(ValueError, match="dictionary differs from .* at entry 7"):
        SGAModel.build_model(make_config(world, pretrained_mlm=str(other)), make_task(world))


def test_source_longer_than_the_positions_is_named(world: World) -> None:
    model = SGAModel.build_model(make_config(world), make_task(world))
    assert model.max_positions() == (48, 96)  # 96 positions, two slots a source token
    with pytest.raises(ValueError, match="input of 97 tokens is longer than the masked LM's 96 positions"):
        model.encode(torch.full((1, 97), 5))


def test_left_padding_and_generator_options_are_refused(world: World) -> None:
    with pytest.raises(ValueError, match="--left-pad-source must be False"):
        make_task(world, left_pad_source=True)
    task = make_task(world)
    for name, value in (("beam", 4), ("eos_penalty", 1.0), ("external_reranker", True), ("max_iter", -1)):
        key = {"beam": "iter_decode_with_beam", "external_reranker": "iter_decode_with_external_reranker"}.get(
            name, f"iter_decode_{name}"
        )
        with pytest.raises(ValueError, match="--" + key.replace("_", "-")):
            task.build_generator([], type("Args", (), {key: value})())
