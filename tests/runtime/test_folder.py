"""What is wrong with a model folder is named."""

import hashlib
import json

import pytest

from fairseq_plugins_runtime import ModelError, load
from fairseq_plugins_runtime.model_json import MAX_BYTES
from tests.runtime.folders import BLANK, EOS, SIZE, TRANSLATE, table, write_folder

PAIR = {"source": "de", "target": "en", "source_prefix": [BLANK], "source_suffix": [EOS], "target_prefix": []}


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "model")


def replace_file(folder, name, data):
    """Write a file of the folder, and its hash into ``model.json``."""
    model = json.loads((folder / "model.json").read_text())
    (folder / name).write_bytes(data)
    model["files"][name] = hashlib.sha256(data).hexdigest()
    (folder / "model.json").write_text(json.dumps(model))


def test_reads_what_a_folder_says(folder):
    model = load(folder)
    assert model.pairs == [("de", "en")]
    assert (model.kind, model.architecture, model.precision) == ("slots", "sga", "float32")
    assert model.limits == {"source_tokens": 8, "target_tokens": 16}


@pytest.mark.cases(
    "changes named",
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
    ({"pieces": "other.model"}, "pieces 'other.model'; valid: a name that `files` has"),
    ({"graphs": {"encoder": "encoder.onnx"}}, "alignment is missing"),
    ({"graphs": {"encoder": "/etc/passwd", "alignment": "alignment.onnx"}}, "encoder '/etc/passwd'"),
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
def test_entries_are_checked(tmp_path, changes, named):
    with pytest.raises(ModelError, match=named) as caught:
        load(write_folder(tmp_path / "model", **changes))
    assert "model.json" in str(caught.value) or "encoder.onnx" in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.cases(
    "data named",
    (b"", "no JSON"),
    (b"\xff\xfe{}", "no JSON"),
    (b"[1, 2]", r"holds \[1, 2\]"),
    (b"null", "holds None"),
    (b'{"format": 1', "no JSON"),
    (b'{"format": ' + b"9" * 10_000 + b"}", "no JSON|format"),
    (b"[" * 500_000, "nested too deeply"),
    (b" " * (MAX_BYTES + 1), "larger than"),
)
def test_other_files_than_ours(folder, data, named):
    (folder / "model.json").write_bytes(data)
    with pytest.raises(ModelError, match=named):
        load(folder)


@pytest.mark.parametrize("name", ["../model.onnx", "/etc/passwd", "..", "a/b.onnx", "a\\b.onnx", "C:x", "", ".", "x\0"])
def test_names_that_lead_out_of_the_folder(tmp_path, name):
    (tmp_path / "model.onnx").write_bytes(b"")
    folder = write_folder(tmp_path / "model", files={name: hashlib.sha256(b"").hexdigest()})
    with pytest.raises(ModelError, match="valid: names of files in its folder"):
        load(folder)


def test_no_folder(tmp_path):
    with pytest.raises(ModelError, match="nowhere: no such folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"model\.json: No such file"):
        load(tmp_path / "empty")


def test_a_missing_file(folder):
    (folder / "alignment.onnx").unlink()
    with pytest.raises(ModelError, match=r"alignment\.onnx: no such file"):
        load(folder)


def test_a_damaged_file(folder):
    data = bytearray((folder / "alignment.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "alignment.onnx").write_bytes(data)
    with pytest.raises(ModelError, match=r"alignment\.onnx: damaged or replaced"):
        load(folder)


def test_a_graph_of_another_model(folder, tmp_path):
    other = write_folder(tmp_path / "other", stamp="fedcba")
    replace_file(folder, "alignment.onnx", (other / "alignment.onnx").read_bytes())
    with pytest.raises(ModelError, match=r"alignment\.onnx: made from another model .*fingerprint fedcba"):
        load(folder)


def test_what_onnxruntime_cannot_read(folder):
    replace_file(folder, "alignment.onnx", b"no graph")
    with pytest.raises(ModelError, match=r"alignment\.onnx: onnxruntime"):
        load(folder)


@pytest.mark.cases("data named", (b"", "empty"), (b"<s>\n<pad>\n\xff\n", "line 3 is not UTF-8"))
def test_vocabularies(folder, data, named):
    replace_file(folder, "vocabulary.txt", data)
    with pytest.raises(ModelError, match=rf"vocabulary\.txt: {named}"):
        load(folder)


def test_ids_beyond_the_vocabulary(tmp_path):
    moves = TRANSLATE.copy()
    moves[4] = SIZE
    model = load(write_folder(tmp_path / "model", alignment=moves))
    with pytest.raises(ModelError, match=f"give id {SIZE}, the vocabulary has {SIZE} symbols"):
        model.translate(["eins"])


def test_a_source_vocabulary_longer_than_the_graph(tmp_path):
    model = load(write_folder(tmp_path / "model", alignment=table()[:-3]))
    with pytest.raises(ModelError, match=r"alignment\.onnx"):
        model.translate(["four"])


def test_threads(folder):
    with pytest.raises(ModelError, match="threads must be at least 1.*got 0"):
        load(folder, threads=0)
