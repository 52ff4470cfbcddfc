"""Rows of an embedding brought to a dictionary or a length; what a run starts from, and its languages."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_plugins.checkpoints.fitting import (
    compare_order,
    compare_start,
    fit_positions,
    fit_words,
    started_from,
)
from fairseq_plugins.models.nlu.nlu_pretrained import with_mask_row
from tests import nlu_builders

FILE = torch.arange(12.0).reshape(4, 3)


def test_rows_beyond_the_files_keep_the_models_values():
    """Their own ones: tied or already trained rows lie there."""
    target = -torch.arange(1.0, 22.0).reshape(7, 3)
    rows, change = fit_words(FILE, target, "--rows extend", "here")
    assert torch.equal(rows, torch.cat([FILE, target[4:]])) and "3 random rows after the file's 4" in change
    rows, change = fit_words(FILE, target[:2], "--rows truncate", "here")
    assert torch.equal(rows, FILE[:2]) and "the first 2 of 4 rows" in change
    for policy, wanted, size in (("error", "extend", 7), ("truncate", "extend", 7), ("extend", "truncate", 2)):
        with pytest.raises(ValueError, match=f"--rows is {policy}; valid here: {wanted}"):
            fit_words(FILE, target[:size], f"--rows {policy}", "here")


def test_the_row_of_a_mask_is_the_mean():
    half = FILE.half()
    rows, _ = with_mask_row(half)
    assert rows.dtype == torch.float16 and torch.equal(rows[:4], half)
    assert rows[4].tolist() == pytest.approx(FILE.mean(0).tolist())


@pytest.mark.parametrize("want", [1, 3, 4, 5])
def test_positions_are_the_first_ones_of_the_file(want):
    if want <= 4:
        assert torch.equal(fit_positions(FILE, want, 1, "here", "--max-source-positions")[0], FILE[:want])
    else:
        with pytest.raises(ValueError, match="--max-source-positions 4: here has 3 learned positions"):
            fit_positions(FILE, want, 1, "here", "--max-source-positions")


MODEL = SimpleNamespace(state_dict=dict, options={})


def options(**given):
    return SimpleNamespace(
        **{"restore_file": "checkpoint_last.pt", "save_dir": "", "finetune_from_model": None, **given}
    )


def test_the_file_that_fairseq_will_read(tmp_path):
    pretrained, own, other = tmp_path / "mbart.pt", tmp_path / "run" / "checkpoint_last.pt", tmp_path / "other.pt"
    given = options(finetune_from_model=str(pretrained), save_dir=str(own.parent))
    assert started_from(given) is None, "none of them is there"
    assert started_from(SimpleNamespace()) is None
    own.parent.mkdir()
    for path, expected in ((pretrained, pretrained), (own, own), (other, own)):
        path.write_bytes(b"x")
        assert started_from(given) == str(expected)
    assert started_from(options(restore_file=str(other), save_dir=str(own.parent))) == str(other)
    assert started_from(options(restore_file=str(tmp_path / "missing.pt"), save_dir=str(own.parent))) is None


def test_the_order_is_compared(tmp_path, caplog):
    compare_order(["en", "de"], ("en", "de"), "x.pt", "--langs")
    for langs in (["de", "en"], ["en", "de", "fr"], ["en"]):
        with pytest.raises(ValueError, match=f"--langs {','.join(langs)}: x.pt was trained with en,de; give the same"):
            compare_order(langs, ("en", "de"), "x.pt", "--langs")
    compare_order(["de", "en"], None, "x.pt", "--langs")
    assert "x.pt does not tell its languages" in caplog.text


def test_what_a_start_says(tmp_path):
    path = tmp_path / "start.pt"
    given = options(finetune_from_model=str(path))
    compare_start(["de", "en"], given, "--langs")
    for namespace in (False, True):
        task = {"_name": "translation_from_pretrained_bart", "langs": "en,de"}
        nlu_builders.stock_checkpoint(path, MODEL, task, namespace)
        compare_start(["en", "de"], given, "--langs")
        with pytest.raises(ValueError, match="start.pt was trained with en,de"):
            compare_start(["de", "en"], given, "--langs")
