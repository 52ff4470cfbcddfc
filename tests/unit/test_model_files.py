"""Which files ``translate MODEL`` takes; that its texts are those of fairseq-generate is in the command-line tests."""

import json
from argparse import Namespace

import pytest

from fairseq_plugins import model_files


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["average.pt"], "average.pt"),
        (["checkpoint1.pt", "checkpoint_last.pt"], "checkpoint_last.pt"),
        (["average.pt", "checkpoint_best.pt", "checkpoint_last.pt"], "checkpoint_best.pt"),
        (["a.pt", "b.pt"], None),
        ([], None),
    ],
)
def test_the_checkpoint_of_a_folder(files, found, tmp_path):
    for name in files:
        (tmp_path / name).touch()
    if found:
        assert (
            model_files.find_checkpoint(str(tmp_path))
            == model_files.find_checkpoint(str(tmp_path / found))
            == tmp_path / found
        )
        return
    with pytest.raises(ValueError, match=f"MODEL {tmp_path}: holds {', '.join(files) or 'no .pt file'}; valid"):
        model_files.find_checkpoint(str(tmp_path))


def test_the_dictionaries_are_beside_the_checkpoint_or_in_the_data_bin(tmp_path):
    run, old, other = (tmp_path / name for name in ("run", "bin", "other"))
    for folder in (run, old, other):
        folder.mkdir()
    stored, pair = Namespace(data=f"{old}:{tmp_path}"), ["de", "en"]

    def folder_of(data=None):
        return model_files.find_dictionaries(
            model_files.list_data_folders(run / "model.pt", data, stored), stored, pair
        )

    looked = f"dict.de.txt and dict.en.txt are not in {run} nor in {old}"
    with pytest.raises(ValueError, match=f"--data: {looked}; valid: the data-bin of the training"):
        folder_of()
    for folder in (old, other, run):
        for language in pair:
            (folder / f"dict.{language}.txt").touch()
        assert folder_of() == (run if folder == run else old)
    assert folder_of(str(other)) == other
    (other / "dict.en.txt").unlink()
    with pytest.raises(ValueError, match=f"are not in {other}; valid"):
        folder_of(str(other))


@pytest.mark.parametrize(
    ("stored", "given", "found"),
    [
        (("de", "en", None), (None, None), ["de", "en"]),
        (("de", "en", None), ("fr", None), ["fr", "en"]),
        ((None, None, None), (None, None), ["cs", "en"]),  # by the files, as fairseq-train does
        ((None, None, "de-en,fr-en"), ("fr", "en"), ["fr", "en"]),
        ((None, None, ["de-en", "fr-en"]), ("fr", None), None),
    ],
)
def test_the_pair(stored, given, found, tmp_path):
    (tmp_path / "train.cs-en.cs.idx").touch()
    options = Namespace(**dict(zip(("source_lang", "target_lang", "lang_pairs"), stored)))
    if found:
        assert model_files.choose_languages(tmp_path, [tmp_path / "none", tmp_path], options, given) == found
        return
    with pytest.raises(ValueError, match="--source-lang and --target-lang are needed, it was trained on de-en,fr-en"):
        model_files.choose_languages(tmp_path, [tmp_path], options, given)


def test_the_segmenter_is_what_preprocess_leaves(tmp_path):
    folders = [tmp_path / "bin", tmp_path / "run"]
    for folder in folders:
        folder.mkdir()
    codes, model = folders[1] / "codes.bpe", folders[0] / "sentencepiece.bpe.model"
    assert model_files.find_segmenter(folders) == []
    codes.touch()
    assert model_files.find_segmenter(folders) == ["--bpe", "fastbpe", "--bpe-codes", str(codes)]
    model.touch()
    assert model_files.find_segmenter(folders) == ["--bpe", "sentencepiece", "--sentencepiece-model", str(model)]


def test_a_folder_of_several_systems(tmp_path):
    """By its own path, and by that of the folder in which the workflow makes it."""
    tmp_path = tmp_path / "translator"
    tmp_path.mkdir()
    for name in ("sga", "at"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.pt").touch()
    with pytest.raises(ValueError, match=r"--system at: .* is no folder of several systems"):
        model_files.find_checkpoint(str(tmp_path), "at")
    for systems, default in (({"sga": {}, "at": {}}, "at"), ({"sga": {}, "..": {}, "../x": {}}, "../x")):
        (tmp_path / "translator.json").write_text(json.dumps({"systems": systems, "default": default}))
        assert model_files.find_checkpoint(str(tmp_path), "sga") == tmp_path / "sga" / "model.pt"
        if default == "at":
            assert model_files.find_checkpoint(str(tmp_path)) == tmp_path / "at" / "model.pt"
            assert model_files.find_checkpoint(str(tmp_path.parent)) == tmp_path / "at" / "model.pt"
            assert model_files.find_checkpoint(str(tmp_path.parent), "sga") == tmp_path / "sga" / "model.pt"
    (tmp_path.parent / "model.pt").touch()
    for asked in ("nat", "..", None):  # None: the default leads out of the folder
        with pytest.raises(ValueError, match=rf"--system {asked or '../x'}: not in .*; valid: sga$"):
            model_files.find_checkpoint(str(tmp_path), asked)
    (tmp_path / "translator.json").write_text('{"systems": 2}')
    with pytest.raises(ValueError, match="--system sga: not in .*; valid: none"):
        model_files.find_checkpoint(str(tmp_path), "sga")


def test_options_of_the_search_beside_a_checkpoint(tmp_path):
    assert model_files.read_search_options(tmp_path) == []
    file = tmp_path / "search.json"
    file.write_text(json.dumps({"beam": 5, "max-len-a": 1.2, "truncate-source": True}))
    assert model_files.read_search_options(tmp_path) == ["--beam", "5", "--max-len-a", "1.2", "--truncate-source"]
    for other in ({"user-dir": "x"}, {"beam": "5"}, {"path": 1}, {"lenpen": float("nan")}):
        file.write_text(json.dumps(other))
        with pytest.raises(ValueError, match=r"search\.json: .*; valid: numbers of beam, "):
            model_files.read_search_options(tmp_path)
