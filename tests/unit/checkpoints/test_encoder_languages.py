"""Test the languages of fairseq models: where they are stated, and which rows are theirs."""

import re

import pytest

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import CheckpointError
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.vocabulary import read_dictionary
from tests import nlu_builders
from tests.nlu_builders import LANGUAGES, ML50, PIECES, tags
from tests.unit.checkpoints.builders import edit_checkpoint

SYMBOLS = [*PIECES, *tags(LANGUAGES), "<mask>"]
MULTI = {"_name": "translation_multi_simple_epoch", "langs": None, "lang_tok_style": "mbart"}
DENOISING = {"_name": "multilingual_denoising", "langs": ",".join(LANGUAGES)}
PRETRAINED_BART = {**DENOISING, "_name": "translation_from_pretrained_bart"}


def write_mbart(folder, task, symbols=SYMBOLS):
    model = nlu_builders.stock_model(symbols, arch="mbart_base")
    return nlu_builders.stock_checkpoint(folder / "model.pt", model, task)


@pytest.mark.cases(
    "task languages",
    ({**DENOISING, "add_lang_token": True}, LANGUAGES),
    ({**DENOISING, "add_lang_token": False}, None),
    ({**MULTI, "langs": list(LANGUAGES)}, LANGUAGES),
    ({**MULTI, "lang_dict": "langs.txt", "lang_pairs": "a-b"}, None),
    (PRETRAINED_BART, LANGUAGES),
)
def test_the_task_states_the_languages_in_their_order(tmp_path, task, languages):
    assert read_encoder(write_mbart(tmp_path, task)).languages == languages


def test_the_released_layout_and_a_task_state_have_languages(tmp_path):
    nlu_builders.mbart_cc25(tmp_path)
    assert read_encoder(tmp_path).languages == LANGUAGES

    def add_task_state(content):
        content["task_state"] = {"languages": {"langs": ["en_XX", "ar_AR", "de_DE"]}}

    path = edit_checkpoint(tmp_path / "model.pt", add_task_state)
    assert read_encoder(path).languages == ("en_XX", "ar_AR", "de_DE")


def test_languages_of_the_dictionary_are_not_added_again(tmp_path):
    """Keep the order of the rows; --lang-pairs names some of their languages, sorted."""
    rows = ["en_XX", "fr_XX", "ar_AR", "de_DE"]
    symbols = [*PIECES, *tags(rows), "<mask>"]
    nlu_builders.write_dict(tmp_path / "dict.txt", symbols[:-1])
    task = {**MULTI, "lang_dict": None, "lang_pairs": "en_XX-de_DE,ar_AR-en_XX"}
    actual = read_encoder(write_mbart(tmp_path, task, symbols))
    assert actual.languages == tuple(rows) and list(actual.entries[4:]) == symbols


# ---- mBART-50. ----


@pytest.mark.cases("task", {}, {"langs": ",".join(ML50), "lang_dict": None}, {"lang_dict": None})
def test_an_mbart50_has_a_list_and_a_dictionary_for_each_language(tmp_path, task):
    nlu_builders.mbart50(tmp_path, **task)
    actual = read_encoder(tmp_path)
    assert actual.languages == ML50
    assert list(actual.entries[4:]) == [*PIECES, *tags(ML50), "<mask>"]


def test_the_checkpoint_counts_before_the_files_beside_it(tmp_path):
    """Prefer stated languages to a list, and a list that is named to the one of releases."""
    reverse = ML50[::-1]
    nlu_builders.mbart50(tmp_path, lang_dict="reverse.txt")
    (tmp_path / "reverse.txt").write_text("\n".join(reverse))
    assert read_encoder(tmp_path).languages == reverse
    nlu_builders.mbart50(tmp_path, langs=list(reverse), lang_dict=None)
    assert read_encoder(tmp_path).languages == reverse


def test_different_dictionaries_are_refused(tmp_path):
    nlu_builders.mbart50(tmp_path)
    nlu_builders.write_dict(tmp_path / "dict.de_DE.txt", PIECES[::-1])
    with pytest.raises(CheckpointError, match=r"dict\.af_ZA\.txt: .*dict\.de_DE\.txt"):
        read_encoder(tmp_path)
    nlu_builders.write_dict(tmp_path / "dict.txt", PIECES)
    assert read_encoder(tmp_path).languages == ML50
    (tmp_path / "ML50_langs.txt").write_text("ar\nar\n")
    with pytest.raises(CheckpointError, match=r"ML50_langs\.txt: ar,"):
        read_encoder(tmp_path)


# ---- The command. ----


def test_the_command_takes_the_languages_as_a_list_or_a_file(tmp_path, capsys):
    nlu_builders.mbart50(tmp_path)
    file, output = tmp_path / "languages.txt", tmp_path / "entries.txt"
    (tmp_path / "ML50_langs.txt").rename(file)
    with pytest.raises(SystemExit):
        main(["dictionary", str(tmp_path), str(output)])
    assert "--langs" in capsys.readouterr().err
    for languages in (",".join(ML50), str(file)):
        assert main(["dictionary", str(tmp_path), str(output), "--langs", languages]) == 0
        assert read_dictionary(output)[4:] == [*PIECES, *tags(ML50), "<mask>"]
        output.unlink()


@pytest.mark.cases(
    "has_list languages message",
    (True, "ar_AR,en_XX,de_DE,af_ZA", "languages en_XX,ar_AR,de_DE,af_ZA; given were ar_AR,en_XX"),
    (False, "ar,bg,cs,da,de,el", r"fewer rows .*\(ar,bg"),
    (False, "ar,ar", "languages .* ar, expected every language once"),
)
def test_the_command_refuses_other_languages(tmp_path, has_list, languages, message, capsys):
    nlu_builders.mbart50(tmp_path)
    if not has_list:
        (tmp_path / "ML50_langs.txt").unlink()
    with pytest.raises(SystemExit):
        main(["dictionary", str(tmp_path), str(tmp_path / "entries.txt"), "--langs", languages])
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "entries.txt").exists()
