"""Test which file a run starts from, and the comparison of its languages."""

from types import SimpleNamespace

import pytest

from fairseq_plugins.checkpoints.starting import compare_order, started_from


def run_options(**changes):
    options = {"restore_file": "checkpoint_last.pt", "save_dir": "", "finetune_from_model": None}
    return SimpleNamespace(**{**options, **changes})


def test_the_file_is_the_one_that_fairseq_will_read(tmp_path):
    pretrained, last = tmp_path / "mbart.pt", tmp_path / "run" / "checkpoint_last.pt"
    unrelated, absent = tmp_path / "unrelated.pt", tmp_path / "absent.pt"
    options = run_options(finetune_from_model=str(pretrained), save_dir=str(last.parent))
    assert started_from(options) is None, "no file exists yet"
    assert started_from(SimpleNamespace()) is None
    last.parent.mkdir()
    for path, expected in ((pretrained, pretrained), (last, last), (unrelated, last)):
        path.touch()
        assert started_from(options) == str(expected)
    for path, expected in ((unrelated, str(unrelated)), (absent, None)):
        options = run_options(restore_file=str(path), save_dir=str(last.parent))
        assert started_from(options) == expected


def test_languages_have_the_order_of_the_training(caplog):
    compare_order(["en", "de"], ("en", "de"), "x.pt", "--langs")
    for languages in (["de", "en"], ["en", "de", "fr"], ["en"]):
        with pytest.raises(ValueError, match=f"--langs {','.join(languages)}: x.pt .*en,de"):
            compare_order(languages, ("en", "de"), "x.pt", "--langs")
    compare_order(["de", "en"], None, "x.pt", "--langs")
    assert "x.pt" in caplog.text
