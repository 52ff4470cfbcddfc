"""BPE: fastBPE gives subword-nmt's pieces, every released form of codes is read, text survives the way there and back."""

import io
import random
from types import SimpleNamespace

import pytest
from fairseq.data import Dictionary
from fairseq.data.encoders.fastbpe import fastBPE as StockFastBPE
from subword_nmt import apply_bpe, learn_bpe

from data_prep import bpe, bpe_codes
from data_prep.io import read_json, sha256
from data_prep.pieces import read_dictionary
from tests.nlu_bins import write
from tests.unit.data_prep.files import lines, refused

SYLLABLES = ("ka", "lo", "mi", "tu", "ré", "ßa", "не", "to")


def sentences(count=200, seed=5):
    rng = random.Random(seed)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(80)]
    return [" ".join(rng.choices(words, k=rng.randint(2, 7))) for _ in range(count)]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A folder with text and codes."""
    folder = tmp_path_factory.mktemp("bpe")
    write(folder / "text", *sentences())
    bpe.main(["learn", "--inputs", f"{folder}/text", "--codes", f"{folder}/codes", "--merges", "40"])
    return folder


def test_learning_is_subword_nmts_repeats_itself_and_leaves_a_manifest(learned, tmp_path):
    counts = bpe.learn([learned / "text"], tmp_path / "codes", 40)
    assert (tmp_path / "codes").read_bytes() == (learned / "codes").read_bytes()
    plain = io.StringIO()
    learn_bpe.learn_bpe(sentences(), plain, 40)
    expected = [tuple(line.split()) for line in plain.getvalue().split("\n")[1:-1]]
    assert bpe_codes.read_codes(learned / "codes") == expected
    manifest = read_json(tmp_path / "codes.json")
    assert manifest["counts"] == counts == {"lines": 200, "words": counts["words"], "merges": 40}
    assert manifest["outputs"][0]["sha256"] == sha256(tmp_path / "codes")


def test_pieces_are_those_of_subword_nmt_and_of_fairseq(learned, tmp_path):
    text = [*sentences(50, seed=9), "Unseen wörds 42 \u4f60\u597d", "", "a", "spaced   out \u00a0 words"]
    plain = [" ".join(line.split()) for line in text]
    counts = bpe.apply(learned / "codes", [write(tmp_path / "in", *text)], [tmp_path / "out"])["out"]
    found = lines(tmp_path / "out")
    merges = [" ".join(merge) for merge in bpe_codes.read_codes(learned / "codes")]
    peer = apply_bpe.BPE(io.StringIO("\n".join(["#version: 0.2", *merges]) + "\n"))
    assert found == [peer.process_line(line) for line in plain]
    stock = StockFastBPE(type("cfg", (), {"bpe_codes": str(learned / "codes")}))  # fairseq's --bpe fastbpe
    assert found == [stock.encode(line) for line in plain]
    in_batches = bpe_codes.encode_lines(bpe_codes.load_codes(learned / "codes"), text * 20)  # more than one batch
    assert [" ".join(pieces) for pieces in in_batches] == found * 20 and len(found) * 20 > bpe_codes.BATCH_LINES
    assert (counts["lines"], counts["without_pieces"]) == (len(text), 1)
    assert counts["pieces"] == sum(len(line.split()) for line in found)
    bpe.main(["decode", "--codes", f"{learned}/codes", "--inputs", f"{tmp_path}/out", "--outputs", f"{tmp_path}/back"])
    assert lines(tmp_path / "back") == plain


def test_every_released_form_gives_the_same_pieces(learned, tmp_path):
    merges = bpe_codes.read_codes(learned / "codes")
    plain = [f"{a} {b}" for a, b in merges]
    forms = {"xlm": [f"{a} {b} {1000 - i}" for i, (a, b) in enumerate(merges)], "no header": plain}
    forms.update({"subword-nmt": ["#version: 0.2", *plain], "gpt": ["#version: 0.2", *plain, ""]})
    for name, form in forms.items():
        assert bpe_codes.read_codes(write(tmp_path / name, *form)) == merges
        bpe.apply(tmp_path / name, [learned / "text"], [tmp_path / f"{name}.pieces"])
    (result,) = {(tmp_path / f"{name}.pieces").read_bytes() for name in forms}
    assert b"@@ " in result


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (["#version: 0.1", "a b"], "line 1: codes of version 0.1; valid: version 0.2"),
        (["a </w>"], "the end of a word is a symbol of its own"),
        (["\u0120t he"], "byte-level codes, as GPT-2's"),
        (["a b 3", "a b 2"], "line 2: a b is listed twice"),
        (["a b 3", "b c"], "line 2: 'b c'; valid: two symbols and a count"),
        (["a b c"], "line 1: 'a b c'; valid"),
        (["ab"], "line 1: 'ab'; valid"),
        (["a  b"], "line 1: 'a  b'; valid"),
        (["#version: 0.2"], "lists no merge"),
    ],
)
def test_codes_that_fastbpe_would_misread_are_refused(tmp_path, codes, message):
    refused(message, bpe_codes.load_codes, write(tmp_path / "codes", *codes))


def test_dictionary_is_fairseqs(learned, tmp_path):
    bpe.apply(learned / "codes", [learned / "text"], [tmp_path / "p"])
    bpe.main(["dict", "--inputs", f"{tmp_path}/p", "--output", f"{tmp_path}/dict.txt"])
    dictionary = Dictionary.load(str(tmp_path / "dict.txt"))
    found = lines(tmp_path / "p")
    assert {word for line in found for word in line.split()} == set(read_dictionary(tmp_path / "dict.txt"))
    assert all(dictionary.unk() not in dictionary.encode_line(line, add_if_not_exist=False).tolist() for line in found)
    counts = [int(line.split()[1]) for line in lines(tmp_path / "dict.txt")]
    assert counts == sorted(counts, reverse=True) and sum(counts) == sum(len(line.split()) for line in found)
    assert bpe.write_dictionary([tmp_path / "p"], tmp_path / "few", counts[0])["kept"] < len(counts)
    bpe.write_dictionary([write(tmp_path / "equal", "c b a", "c d")], tmp_path / "ordered")
    assert lines(tmp_path / "ordered") == ["c 2", "a 1", "b 1", "d 1"], "equal counts: by the piece"
    refused("holds the piece <pad>", bpe.write_dictionary, [write(tmp_path / "bad", "a <pad> b")], tmp_path / "x")


def test_errors_leave_no_output(learned, tmp_path):
    write(tmp_path / "joined", "fine", "odd@@ word")
    write(tmp_path / "whole", "x @ 3", "x@ @</w> 2")
    write(tmp_path / "odd", "fine", "x@@ word")
    write(tmp_path / "odd_end", "fine x@@")
    write(tmp_path / "special", "a </s> b")
    write(tmp_path / "dict.txt", "zz 1")
    write(tmp_path / "keep", "< / 9", "</ s 8", "</s ></w> 7")
    lost = "the word 'x@@' would not come back from its pieces"
    for codes, name, more, message in (
        (tmp_path / "whole", "odd", {}, f"odd, line 2: {lost}"),
        (tmp_path / "whole", "odd_end", {}, f"odd_end, line 1: {lost}"),
        (tmp_path / "keep", "special", {}, "special, line 1: gives the piece '</s>', which fairseq would read"),
        (learned / "codes", "joined", {"dictionary": tmp_path / "dict.txt"}, "(100.0 %) are unknown; valid: at most"),
        (learned / "codes", "joined", {"max_unknown": 2}, "--max-unknown 2: valid: 0 to 1"),
        (learned / "codes", "missing", {}, "missing: no such file"),
    ):
        refused(message, bpe.apply, codes, [tmp_path / name], [tmp_path / "out"], **more)
    for text, options, message in (
        ("a b", {"merges": 5}, "no word has two characters"),
        ("ab cd", {"merges": 5}, "--min-frequency 2: no pair of this text is so frequent"),
        ("ab", {"merges": 0}, "--merges 0: valid: 1 or more"),
    ):
        refused(message, bpe.learn, [write(tmp_path / "t", text)], tmp_path / "out", **options)
    assert not list(tmp_path.glob("*out*"))


def test_another_fastbpe_makes_the_pieces_again(learned, tmp_path, monkeypatch, capsys):
    for version, made in (("1", True), ("1", False), ("2", True)):
        monkeypatch.setattr(bpe, "metadata", SimpleNamespace(version=lambda name, version=version: version))
        bpe.apply(learned / "codes", [learned / "text"], [tmp_path / "out"], steps=tmp_path / "steps")
        assert ("unchanged, skipped" in capsys.readouterr().err) != made
