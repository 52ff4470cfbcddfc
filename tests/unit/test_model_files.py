"""Test which files ``translate MODEL`` reads; command-line tests compare its translations."""

import json
from argparse import Namespace

import pytest

from fairseq_plugins import model_files


@pytest.mark.cases(
    "files expected",
    (["average.pt"], "average.pt"),
    (["checkpoint1.pt", "checkpoint_last.pt"], "checkpoint_last.pt"),
    (["average.pt", "checkpoint_best.pt", "checkpoint_last.pt"], "checkpoint_best.pt"),
    (["a.pt", "b.pt"], None),
    ([], None),
)
def test_the_best_checkpoint_of_a_folder_is_preferred(files, expected, tmp_path):
    for name in files:
        (tmp_path / name).touch()
    if expected is None:
        with pytest.raises(ValueError, match=f"MODEL {tmp_path}: holds "):
            model_files.find_checkpoint(str(tmp_path))
        return
    for model in (tmp_path, tmp_path / expected):
        assert model_files.find_checkpoint(str(model)) == tmp_path / expected


def test_dictionaries_are_beside_the_checkpoint_or_in_the_data_bin(tmp_path):
    run, data_bin, unrelated = (tmp_path / name for name in ("run", "bin", "unrelated"))
    for folder in (run, data_bin, unrelated):
        folder.mkdir()
    options, pair = Namespace(data=f"{data_bin}:{tmp_path}"), ["de", "en"]

    def find(data=None):
        folders = model_files.list_data_folders(run / "model.pt", data, options)
        return model_files.find_dictionaries(folders, options, pair)

    with pytest.raises(ValueError, match=f"--data: .* not in {run} nor in {data_bin}; valid: "):
        find()
    for folder, expected in ((data_bin, data_bin), (unrelated, data_bin), (run, run)):
        for language in pair:
            (folder / f"dict.{language}.txt").touch()
        assert find() == expected
    assert find(str(unrelated)) == unrelated
    (unrelated / "dict.en.txt").unlink()
    with pytest.raises(ValueError, match=f"not in {unrelated}; valid"):
        find(str(unrelated))


@pytest.mark.cases(
    "training command_line expected",
    (("de", "en", None), (None, None), ["de", "en"]),
    (("de", "en", None), ("fr", None), ["fr", "en"]),
    ((None, None, None), (None, None), ["cs", "en"]),  # by the files, as fairseq-train does
    ((None, None, "de-en,fr-en"), ("fr", "en"), ["fr", "en"]),
    ((None, None, ["de-en", "fr-en"]), ("fr", None), None),
)
def test_languages_come_from_command_line_training_or_files(
    training, command_line, expected, tmp_path
):
    (tmp_path / "train.cs-en.cs.idx").touch()
    options = Namespace(**dict(zip(("source_lang", "target_lang", "lang_pairs"), training)))
    folders = [tmp_path / "nowhere", tmp_path]
    if expected is None:
        with pytest.raises(ValueError, match="--source-lang and --target-lang .* de-en,fr-en"):
            model_files.choose_languages(tmp_path, folders, options, command_line)
        return
    assert model_files.choose_languages(tmp_path, folders, options, command_line) == expected


def test_the_segmenter_is_the_file_of_the_data_bin(tmp_path):
    folders = [tmp_path / "bin", tmp_path / "run"]
    for folder in folders:
        folder.mkdir()
    codes, model = folders[1] / "codes.bpe", folders[0] / "sentencepiece.bpe.model"
    assert model_files.find_segmenter(folders) == []
    codes.touch()
    expected = ["--bpe", "fastbpe", "--bpe-codes", str(codes)]
    assert model_files.find_segmenter(folders) == expected
    model.touch()
    expected = ["--bpe", "sentencepiece", "--sentencepiece-model", str(model)]
    assert model_files.find_segmenter(folders) == expected


def test_a_system_is_chosen_by_name_or_default(tmp_path):
    """MODEL is the folder of the systems, or the folder in which the workflow makes it."""
    folder = tmp_path / "translator"
    for name in ("sga", "at"):
        (folder / name).mkdir(parents=True)
        (folder / name / "model.pt").touch()
    with pytest.raises(ValueError, match="--system at: "):  # without an index
        model_files.find_checkpoint(str(folder), "at")
    index = {"systems": {"sga": {}, "at": {}}, "default": "at"}
    (folder / "translator.json").write_text(json.dumps(index))
    for model in (folder, tmp_path):
        assert model_files.find_checkpoint(str(model)) == folder / "at" / "model.pt"
        assert model_files.find_checkpoint(str(model), "sga") == folder / "sga" / "model.pt"


def test_a_system_outside_the_folder_is_refused(tmp_path):
    folder = tmp_path / "translator"
    (folder / "sga").mkdir(parents=True)
    for outside in (tmp_path, tmp_path / "x"):
        outside.mkdir(exist_ok=True)
        (outside / "model.pt").touch()
    systems = {"sga": {}, "..": {}, "../x": {}}
    (folder / "translator.json").write_text(json.dumps({"systems": systems, "default": "../x"}))
    for system, name in (("nat", "nat"), ("..", ".."), (None, "../x")):
        with pytest.raises(ValueError, match=rf"--system {name}: not in .*; valid: sga$"):
            model_files.find_checkpoint(str(folder), system)
    (folder / "translator.json").write_text('{"systems": 2}')
    with pytest.raises(ValueError, match="--system sga: not in .*; valid: none"):
        model_files.find_checkpoint(str(folder), "sga")


def test_search_options_beside_a_checkpoint_are_read(tmp_path):
    assert model_files.read_search_options(tmp_path) == []
    file = tmp_path / "search.json"
    file.write_text(json.dumps({"beam": 5, "max-len-a": 1.2, "truncate-source": True}))
    options = model_files.read_search_options(tmp_path)
    assert options == ["--beam", "5", "--max-len-a", "1.2", "--truncate-source"]
    for content in ({"user-dir": "x"}, {"beam": "5"}, {"path": 1}, {"lenpen": float("nan")}):
        file.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"search\.json: .*; valid: "):
            model_files.read_search_options(tmp_path)
