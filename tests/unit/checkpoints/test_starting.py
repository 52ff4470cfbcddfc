"""What a run starts from, and its languages."""

from types import SimpleNamespace

import pytest

from fairseq_plugins.checkpoints.starting import compare_order, compare_start, started_from
from tests import nlu_builders

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
