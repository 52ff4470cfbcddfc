"""Test that errors of a model folder are refused with the file or the entry at fault."""

import pytest

from fairseq_plugins_runtime import ModelError, load
from fairseq_plugins_runtime.model_json import MAX_BYTES
from tests.runtime import folders
from tests.runtime.folders import AFFIXES, SIZE, TRANSLATE, make_table, write_folder

PAIR = {"source": "de", "target": "en", **AFFIXES}


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "model")


def replace_file(folder, name, data):
    """Write a file of the folder, and its hash into ``model.json``."""
    (folder / name).write_bytes(data)
    description = folders.read_description(folder)
    description["files"][name] = folders.sha256(data)
    folders.write_description(folder, description)


def test_a_loaded_model_has_the_entries_of_its_folder(folder):
    model = load(folder)
    assert model.pairs == [("de", "en")]
    assert (model.kind, model.architecture, model.precision) == ("slots", "sga", "float32")
    assert model.limits == {"source_tokens": 8, "target_tokens": 16}


@pytest.mark.cases(
    "changes message",
    ({"format": 2}, "format 2 is newer"),
    ({"format": "1"}, "format '1'"),
    ({"format": True}, "format True"),
    ({"format": 0}, "format 0"),
    ({"kind": "speech"}, "kind 'speech'; valid: slots, encoder_decoder, encoder"),
    ({"kind": ["slots"]}, "kind"),
    ({"kind": "x" * 10**6}, "kind"),
    ({"precision": "int4"}, "precision 'int4'; valid: float32, int8"),
    ({"fingerprint": 7}, "fingerprint 7"),
    ({"quantised": {}}, "quantised"),
    ({"files": ["encoder.onnx"]}, "files"),
    ({"files": None}, "files is missing"),
    ({"vocabulary": "vocabulary.txt"}, "vocabulary"),
    ({"pieces": 3}, "pieces 3"),
    ({"pieces": "encoder.onnx"}, "encoder.onnx: no sentencepiece model"),
    ({"pieces": "other.model"}, "pieces 'other.model'"),
    ({"graphs": {"encoder": "encoder.onnx"}}, "alignment is missing"),
    (
        {"graphs": {"encoder": "/etc/passwd", "alignment": "alignment.onnx"}},
        "encoder '/etc/passwd'",
    ),
    ({"symbols": {"bos": 0, "pad": 1, "eos": 2, "unk": SIZE}}, f"unk {SIZE}"),
    ({"ignored": [0, SIZE]}, "ignored .*the size of the vocabulary"),
    ({"ignored": [-1]}, "ignored"),
    ({"ignored": [1.0]}, "ignored"),
    ({"pairs": []}, "pairs"),
    ({"pairs": ["de-en"]}, "pairs"),
    ({"pairs": [{**PAIR, "source_prefix": [10**30]}]}, "source_prefix"),
    ({"pairs": [{**PAIR, "target": None}]}, "target None"),
    ({"limits": {"source_tokens": 2}}, "source_tokens 2; valid: more than 2"),
    ({"limits": {"source_tokens": 10**400}}, "source_tokens"),
    ({"limits": 8}, "limits"),
    ({"slots": None}, "slots is missing"),
    ({"search": []}, "search"),
)
def test_invalid_entries_are_refused(tmp_path, changes, message):
    with pytest.raises(ModelError, match=message) as error:
        load(write_folder(tmp_path / "model", **changes))
    assert "model.json" in str(error.value) or "encoder.onnx" in str(error.value)
    assert len(str(error.value)) < 1000


@pytest.mark.cases(
    "data message",
    (b"", "no JSON"),
    (b"\xff\xfe{}", "no JSON"),
    (b"[1, 2]", r"holds \[1, 2\]"),
    (b"null", "holds None"),
    (b'{"format": 1', "no JSON"),
    (b'{"format": ' + b"9" * 10_000 + b"}", "no JSON|format"),
    (b"[" * 500_000, "nested too deeply"),
    (b" " * (MAX_BYTES + 1), "larger than"),
)
def test_a_description_that_is_no_object_is_refused(folder, data, message):
    (folder / "model.json").write_bytes(data)
    with pytest.raises(ModelError, match=message):
        load(folder)


@pytest.mark.parametrize(
    "name", ["../model.onnx", "/etc/passwd", "..", "a/b.onnx", "a\\b.onnx", "C:x", "", ".", "x\0"]
)
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path, name):
    (tmp_path / "model.onnx").write_bytes(b"")
    folder = write_folder(tmp_path / "model", files={name: folders.sha256(b"")})
    with pytest.raises(ModelError, match="valid: names of files"):
        load(folder)


def test_missing_folders_and_files_are_refused(folder, tmp_path):
    with pytest.raises(ModelError, match="nowhere: no such folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"model\.json: No such file"):
        load(tmp_path / "empty")
    (folder / "alignment.onnx").unlink()
    with pytest.raises(ModelError, match=r"alignment\.onnx: no such file"):
        load(folder)
    with pytest.raises(ModelError, match="threads .*got 0"):
        load(folder, threads=0)


def test_damaged_foreign_and_unreadable_graphs_are_refused(folder, tmp_path):
    data = bytearray((folder / "alignment.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "alignment.onnx").write_bytes(data)
    with pytest.raises(ModelError, match=r"alignment\.onnx: damaged or replaced"):
        load(folder)
    foreign = write_folder(tmp_path / "foreign", stamp="fedcba") / "alignment.onnx"
    replace_file(folder, "alignment.onnx", foreign.read_bytes())
    with pytest.raises(ModelError, match=r"alignment\.onnx: .*fingerprint fedcba"):
        load(folder)
    replace_file(folder, "alignment.onnx", b"no graph")
    with pytest.raises(ModelError, match=r"alignment\.onnx: onnxruntime"):
        load(folder)


@pytest.mark.cases("data message", (b"", "empty"), (b"<s>\n<pad>\n\xff\n", "line 3 is not UTF-8"))
def test_invalid_vocabularies_are_refused(folder, data, message):
    replace_file(folder, "vocabulary.txt", data)
    with pytest.raises(ModelError, match=rf"vocabulary\.txt: {message}"):
        load(folder)


def test_a_graph_and_a_vocabulary_of_other_sizes_are_refused(tmp_path):
    table = TRANSLATE.copy()
    table[4] = SIZE
    model = load(write_folder(tmp_path / "large_ids", alignment=table))
    with pytest.raises(ModelError, match=f"id {SIZE}, the vocabulary has {SIZE} symbols"):
        model.translate(["eins"])
    model = load(write_folder(tmp_path / "short_table", alignment=make_table()[:-3]))
    with pytest.raises(ModelError, match=r"alignment\.onnx"):
        model.translate(["four"])
