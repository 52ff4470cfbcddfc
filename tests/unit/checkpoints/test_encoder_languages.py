"""Languages of fairseq models: what checkpoints and the files beside them say, and which rows are theirs."""

import re

import pytest
import torch

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import CheckpointError
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.vocabulary import read_dictionary
from tests import nlu_builders
from tests.nlu_builders import LANGUAGES, PIECES, tags

SYMBOLS = [*PIECES, *tags(LANGUAGES), "<mask>"]


def change(path, edit):
    """Edit a pickled checkpoint."""
    content = torch.load(path, weights_only=False)
    edit(content)
    torch.save(content, path)
    return path


def test_what_a_checkpoint_says_comes_before_the_list_beside_it(tmp_path):
    """Also where both fit the rows; and the list that it names before the one that releases have."""
    other = nlu_builders.ML50[::-1]
    nlu_builders.mbart50(tmp_path, lang_dict="own.txt")
    (tmp_path / "own.txt").write_text("\n".join(other))
    assert read_encoder(tmp_path).languages == other
    nlu_builders.mbart50(tmp_path, langs=list(other), lang_dict=None)
    assert read_encoder(tmp_path).languages == other


MULTI, DENOISING = {"_name": "translation_multi_simple_epoch"}, {"_name": "multilingual_denoising"}
CSV = ",".join(LANGUAGES)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({**DENOISING, "langs": CSV, "add_lang_token": True}, LANGUAGES),
        ({**DENOISING, "langs": CSV, "add_lang_token": False}, None),
        ({**MULTI, "langs": list(LANGUAGES), "lang_tok_style": "mbart"}, LANGUAGES),
        ({**MULTI, "langs": None, "lang_dict": "langs.txt", "lang_pairs": "a-b"}, None),
        ({"_name": "translation_from_pretrained_bart", "langs": CSV}, LANGUAGES),
    ],
)
@pytest.mark.parametrize("namespace", [False, True])
def test_languages_in_the_order_of_the_training(tmp_path, task, expected, namespace):
    model = nlu_builders.stock_model(SYMBOLS, arch="mbart_base")
    path = nlu_builders.stock_checkpoint(tmp_path / "model.pt", model, task, namespace)
    assert read_encoder(path).languages == expected


def test_languages_of_the_released_layout_and_of_a_kept_state(tmp_path):
    nlu_builders.mbart_cc25(tmp_path)
    assert read_encoder(tmp_path).languages == LANGUAGES

    def keep(content):
        content["task_state"] = {"languages": {"langs": ["en_XX", "ar_AR", "de_DE"]}}

    assert read_encoder(change(tmp_path / "model.pt", keep)).languages == ("en_XX", "ar_AR", "de_DE")


def _pairs(folder, symbols, dictionary, pairs):
    """A translation model whose task tells pairs of languages alone."""
    model = nlu_builders.stock_model(symbols, arch="mbart_base")
    task = {"_name": "translation_multi_simple_epoch", "langs": None, "lang_dict": None, "lang_pairs": pairs}
    nlu_builders.write_dict(folder / "dict.txt", dictionary)
    return nlu_builders.stock_checkpoint(folder / "model.pt", model, {**task, "lang_tok_style": "mbart"})


def test_languages_are_those_of_the_rows_in_their_order(tmp_path):
    """What the dictionary has already is not added again; --lang-pairs name some of them, sorted."""
    rows = ["en_XX", "fr_XX", "ar_AR", "de_DE"]
    symbols = [*PIECES, *tags(rows), "<mask>"]
    actual = read_encoder(_pairs(tmp_path, symbols, symbols[:-1], "en_XX-de_DE,ar_AR-en_XX"))
    assert actual.languages == tuple(rows) and list(actual.entries[4:]) == symbols


# ---- mBART-50. ----


@pytest.mark.parametrize("task", [{}, {"langs": "en_XX,ar_AR,de_DE,af_ZA", "lang_dict": None}, {"lang_dict": None}])
def test_an_mbart50_has_a_list_and_a_dictionary_for_each_language(tmp_path, task):
    nlu_builders.mbart50(tmp_path, **task)
    actual = read_encoder(tmp_path)
    assert actual.languages == nlu_builders.ML50
    assert list(actual.entries[4:]) == [*PIECES, *tags(nlu_builders.ML50), "<mask>"]


def test_dictionaries_that_differ_are_refused(tmp_path):
    nlu_builders.mbart50(tmp_path)
    nlu_builders.write_dict(tmp_path / "dict.de_DE.txt", PIECES[::-1])
    with pytest.raises(CheckpointError, match=r"dict\.af_ZA\.txt: differs from dict\.de_DE\.txt; expected equal ones"):
        read_encoder(tmp_path)
    nlu_builders.write_dict(tmp_path / "dict.txt", PIECES)
    assert read_encoder(tmp_path).languages == nlu_builders.ML50
    (tmp_path / "ML50_langs.txt").write_text("ar\nar\n")
    with pytest.raises(CheckpointError, match=r"languages .*ML50_langs\.txt: ar, expected every language once"):
        read_encoder(tmp_path)


# ---- The command. ----


@pytest.mark.parametrize("form", ["list", "file"])
def test_the_command_takes_the_languages(tmp_path, form, capsys):
    nlu_builders.mbart50(tmp_path)
    (tmp_path / "ML50_langs.txt").rename(tmp_path / "languages.txt")
    with pytest.raises(SystemExit):
        main(["dictionary", str(tmp_path), str(tmp_path / "whole.txt")])
    assert "no list of its languages; give them" in capsys.readouterr().err
    given = ",".join(nlu_builders.ML50) if form == "list" else str(tmp_path / "languages.txt")
    assert main(["dictionary", str(tmp_path), str(tmp_path / "whole.txt"), "--langs", given]) == 0
    entries = read_dictionary(tmp_path / "whole.txt")
    assert entries[4:] == [*PIECES, *tags(nlu_builders.ML50), "<mask>"]


@pytest.mark.parametrize(
    ("kept", "given", "message"),
    [
        (True, "ar_AR,en_XX,de_DE,af_ZA", "has the languages en_XX,ar_AR,de_DE,af_ZA; given were ar_AR,en_XX"),
        (False, "ar,bg,cs,da,de,el", r"fewer rows after its pieces than languages were given \(ar,bg"),
        (False, "ar,ar", "languages that were given: ar, expected every language once"),
    ],
)
def test_languages_that_are_not_the_encoders_are_refused(tmp_path, kept, given, message, capsys):
    nlu_builders.mbart50(tmp_path)
    if not kept:
        (tmp_path / "ML50_langs.txt").unlink()
    with pytest.raises(SystemExit):
        main(["dictionary", str(tmp_path), str(tmp_path / "whole.txt"), "--langs", given])
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "whole.txt").exists()
