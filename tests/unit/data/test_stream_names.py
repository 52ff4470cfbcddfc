"""Names of languages and pairs: what is refused."""

import pytest

from fairseq_plugins.data.data_bins import check_names, is_training, split_names


def test_names_are_separated_by_commas():
    assert split_names("en-de,en-fr") == ["en-de", "en-fr"]
    assert split_names("en,") == ["en"]
    assert split_names("") == []


@pytest.mark.parametrize(
    ("pairs", "languages", "message"),
    [
        ([], [], "--pairs and --monolingual are both empty"),
        (["en"], [], "--pairs must look like en-de,en-fr; got 'en'"),
        (["en-de-fr"], [], "got 'en-de-fr'"),
        (["en-"], ["en"], "got 'en-'"),
        (["en-de", "en-de"], [], "--pairs must name each once; got en-de,en-de"),
        (["en-de"], ["en", "de", "en"], "--monolingual must name each once; got en,de,en"),
    ],
)
def test_wrong_names(pairs, languages, message):
    with pytest.raises(ValueError, match=message):
        check_names(pairs, languages)


def test_the_share_of_pairs_may_be_none_or_all():
    check_names(["en-de"], ["en"], 0.0)
    check_names(["en-de"], ["en"], 1.0)
    with pytest.raises(ValueError, match=r"--pair-share must lie in \[0, 1\]; got 1.1"):
        check_names(["en-de"], ["en"], 1.1)


def test_only_the_training_subset_of_a_training_command_is_trained_on():
    assert is_training("train", "train", {"combine": True})
    assert is_training("train", "train", {"task_cfg": None})
    assert not is_training("valid", "train", {})
    assert not is_training("train", "train", {"task_cfg": object()})
