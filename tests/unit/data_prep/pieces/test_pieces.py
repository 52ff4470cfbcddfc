"""Sentencepiece and BPE: pieces and dictionaries are fairseq's, training repeats itself, text survives the way there and back."""

import io
import random

import pytest
from fairseq.data import Dictionary
from fairseq.data.encoders.fastbpe import fastBPE as StockFastBPE
from subword_nmt import apply_bpe, learn_bpe

from data_prep.io import read_json
from data_prep.pieces import bpe, segmenters, spm
from data_prep.pieces.codes import load_codes, read_codes
from data_prep.pieces.dictionary import read_dictionary
from data_prep.pieces.encode import apply_files
from data_prep.pieces.spm import TrainOptions, train
from tests.nlu_bins import train_model, write
from tests.unit.data_prep.files import assert_refused, read_lines

SYLLABLES = ("ka", "lo", "mi", "tu", "ré", "ßa", "не", "to")


def sentences(count=300, seed=5):
    rng = random.Random(seed)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(80)]
    return [" ".join(rng.choices(words, k=rng.randint(2, 7))) for _ in range(count)]


@pytest.fixture(scope="module")
def trained(path):
    """A path with text, text.model, dict.txt and codes; ``<2de>`` is a user symbol."""
    write(path / "text", *sentences())
    symbols = ["--user-symbols", "<2de>", "<2fr>"]
    fixed = ["--model", f"{path}/text.model", "--dict", f"{path}/dict.txt", "--vocab-size", "60"]
    spm.main(["train", "--inputs", f"{path}/text", *fixed, *symbols])
    bpe.main(["learn", "--inputs", f"{path}/text", "--codes", f"{path}/codes", "--merges", "40"])
    return path


def test_training_repeats_itself_byte_for_byte(trained, tmp_path):
    options = TrainOptions(60, user_symbols=("<2de>", "<2fr>"))
    counts = train([trained / "text"], tmp_path / "text.model", tmp_path / "dict.txt", options)
    for name in ("text.model", "dict.txt", "text.model.json"):
        assert (tmp_path / name).read_bytes() == (trained / name).read_bytes()
    assert counts == {"lines": 300, "too_long": 0, "model_pieces": 60, "dictionary_pieces": 57}
    proto = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        options = TrainOptions(50, max_lines=100, max_line_bytes=30, seed=seed)
        counts = train([trained / "text"], tmp_path / name, tmp_path / "d", options)
        assert counts["too_long"] == sum(len(line.encode()) > 30 for line in sentences()) > 0
        proto[name] = (tmp_path / name).read_bytes()
    assert proto["a"] == proto["b"] != proto["c"], "a sample depends on the seed alone"


def test_fairseq_reads_the_pieces_as_the_ids_of_the_model(trained, tmp_path):
    spm.main(["apply", "--model", f"{trained}/text.model", "--inputs", f"{trained}/text", "--outputs", f"{tmp_path}/p"])
    model, dictionary = segmenters.load_model(trained / "text.model"), Dictionary.load(str(trained / "dict.txt"))
    assert len(dictionary) == 57 + 4
    assert [dictionary[i] for i in range(6)] == ["<s>", "<pad>", "</s>", "<unk>", "<2de>", "<2fr>"]
    assert all(dictionary.index(model.id_to_piece(i)) == i + 1 for i in range(3, 60))
    assert read_dictionary(trained / "dict.txt") == segmenters.model_pieces(model)
    found = read_lines(tmp_path / "p")
    assert len(found) == 300
    for text, line in zip(sentences(), found):
        expected = [index + 1 for index in model.encode(text)] + [dictionary.eos()]
        assert dictionary.encode_line(line, add_if_not_exist=False).tolist() == expected


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_text_survives_the_way_there_and_back(trained, tmp_path, model_type):
    model = tmp_path / "m"
    train([trained / "text"], model, tmp_path / "d", TrainOptions(50, model_type, user_symbols=("<2de>",)))
    text = [*sentences(20, seed=9), "<2de>kalo mi", "", "\u4f60 unseen 42"]
    counts = apply_files("spm", model, [write(tmp_path / "in", *text)], [tmp_path / "pieces"])["pieces"]
    spm.main(["decode", "--model", str(model), "--inputs", f"{tmp_path}/pieces", "--outputs", f"{tmp_path}/out"])
    assert read_lines(tmp_path / "out") == text
    encoded = read_lines(tmp_path / "pieces")
    assert "<2de>" in encoded[20].split()
    in_batches = segmenters.SentencePiece(model).encode(text * 50)  # more than one batch
    assert [" ".join(found) for found in in_batches] == encoded * 50 and len(text) * 50 > segmenters.BATCH_LINES
    sizes = [len(line.split()) for line in encoded]
    expected = {"lines": 23, "without_pieces": 1, "pieces": sum(sizes), "longest": max(sizes)}
    assert expected.items() <= counts.items() and counts["unknown"] >= 3


def test_dictionary_of_an_existing_model(tmp_path):
    """With other special ids, a control symbol and byte pieces: only what fairseq does not add itself is listed."""
    ids = {"unk_id": 2, "bos_id": 1, "eos_id": 0, "control_symbols": ["<ctl>"]}
    symbols = {"byte_fallback": True, "user_defined_symbols": ["<tag>", "<pad>"]}
    train_model(tmp_path / "m", sentences(), vocab_size=330, **ids, **symbols)
    spm.main(["dict", "--model", f"{tmp_path}/m", "--output", f"{tmp_path}/dict.txt"])
    listed = [line.split(" ")[0] for line in read_lines(tmp_path / "dict.txt")]
    assert listed[0] == "<tag>" and "<0x00>" in listed
    assert not {"<ctl>", "<pad>", "<unk>", "<s>", "</s>"} & set(listed)
    assert len(Dictionary.load(str(tmp_path / "dict.txt"))) == len(listed) + 4


def test_bad_training_options(trained, tmp_path):
    for options, message in (
        ({"vocab_size": 10}, "--vocab-size 10: fewer than the characters of this text; valid: "),
        ({"vocab_size": 9999}, "--vocab-size 9999: more than this text gives; valid: at most "),
        ({"vocab_size": 50, "max_line_bytes": 2}, "all 300 lines are longer than --max-line-bytes 2"),
        ({"vocab_size": 9, "user_symbols": ("<mask>",)}, "--user-symbols '<mask>': valid: "),
    ):
        made = tmp_path / "m", tmp_path / "d"
        assert_refused(message, lambda: train([trained / "text"], *made, TrainOptions(**options)))  # noqa: B023
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", [None, "text", "model", "dict", "no dict", "output"])
def test_files_are_made_again_when_what_they_are_made_from_changes(trained, tmp_path, capsys, change):
    for name in ("text.model", "dict.txt"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    text, out = write(tmp_path / "text", "kalo mi"), tmp_path / "out"
    arguments = {"dictionary": tmp_path / "dict.txt", "max_unknown": 1.0, "steps": tmp_path / "steps"}
    apply_files("spm", tmp_path / "text.model", [text], [out], **arguments)
    if change == "text":
        write(text, "mi kalo mi")
    elif change == "model":
        train([trained / "text"], tmp_path / "text.model", tmp_path / "d", TrainOptions(40))
    elif change == "dict":
        write(tmp_path / "dict.txt", *read_lines(trained / "dict.txt"), "new 1")
    elif change == "output":
        write(out, "kalo")
    elif change == "no dict":
        arguments["dictionary"] = None
    capsys.readouterr()
    again = apply_files("spm", tmp_path / "text.model", [text], [out], **arguments)
    assert ("unchanged, skipped" in capsys.readouterr().err) == (change is None)
    scratch = apply_files(
        "spm", tmp_path / "text.model", [text], [tmp_path / "scratch" / "out"], **{**arguments, "steps": None}
    )
    assert again == scratch and out.read_bytes() == (tmp_path / "scratch" / "out").read_bytes()


def test_models_and_dictionaries_that_are_none(trained, tmp_path):
    assert_refused("text: not a sentencepiece model", segmenters.load_model, trained / "text")
    for content, message in (
        (["a 1", "b"], "line 2: 'b'; valid: a piece, one space, a count"),
        (["a 1", "<s> 1"], "line 2: lists <s>; valid: the pieces without <s> <pad> </s> <unk>"),
        (["a 1", "a 1"], "line 2: 'a' is listed twice"),
    ):
        assert_refused(message, read_dictionary, write(tmp_path / "dict.txt", *content))


def test_learning_is_subword_nmts_repeats_itself_and_leaves_a_manifest(trained, tmp_path):
    counts = bpe.learn([trained / "text"], tmp_path / "codes", 40)
    assert (tmp_path / "codes").read_bytes() == (trained / "codes").read_bytes()
    plain = io.StringIO()
    learn_bpe.learn_bpe(sentences(), plain, 40)
    expected = [tuple(line.split()) for line in plain.getvalue().split("\n")[1:-1]]
    assert read_codes(trained / "codes") == expected
    assert read_json(tmp_path / "codes.json")["counts"] == counts


def test_pieces_are_those_of_subword_nmt_and_of_fairseq(trained, tmp_path):
    text = [*sentences(50, seed=9), "Unseen wörds 42 \u4f60\u597d", "", "a", "spaced   out \u00a0 words"]
    plain = [" ".join(line.split()) for line in text]
    counts = apply_files("bpe", trained / "codes", [write(tmp_path / "in", *text)], [tmp_path / "out"])["out"]
    found = read_lines(tmp_path / "out")
    merges = [" ".join(merge) for merge in read_codes(trained / "codes")]
    peer = apply_bpe.BPE(io.StringIO("\n".join(["#version: 0.2", *merges]) + "\n"))
    assert found == [peer.process_line(line) for line in plain]
    stock = StockFastBPE(type("cfg", (), {"bpe_codes": str(trained / "codes")}))  # fairseq's --bpe fastbpe
    assert found == [stock.encode(line) for line in plain]
    in_batches = segmenters.Codes(trained / "codes").encode(text * 20)  # more than one batch
    assert [" ".join(pieces) for pieces in in_batches] == found * 20 and len(found) * 20 > segmenters.BATCH_LINES
    assert (counts["lines"], counts["without_pieces"]) == (len(text), 1)
    assert counts["pieces"] == sum(len(line.split()) for line in found)
    bpe.main(["decode", "--codes", f"{trained}/codes", "--inputs", f"{tmp_path}/out", "--outputs", f"{tmp_path}/back"])
    assert read_lines(tmp_path / "back") == plain


def test_every_released_form_gives_the_same_pieces(trained, tmp_path):
    merges = read_codes(trained / "codes")
    plain = [f"{a} {b}" for a, b in merges]
    forms = {"xlm": [f"{a} {b} {1000 - i}" for i, (a, b) in enumerate(merges)], "no header": plain}
    forms.update({"subword-nmt": ["#version: 0.2", *plain], "gpt": ["#version: 0.2", *plain, ""]})
    for name, form in forms.items():
        assert read_codes(write(tmp_path / name, *form)) == merges
        apply_files("bpe", tmp_path / name, [trained / "text"], [tmp_path / f"{name}.pieces"])
    (result,) = {(tmp_path / f"{name}.pieces").read_bytes() for name in forms}
    assert b"@@ " in result


def test_codes_that_fastbpe_would_misread_are_refused(tmp_path):
    for codes, message in (
        (["#version: 0.1", "a b"], "line 1: codes of version 0.1; valid: version 0.2"),
        (["\u0120t he"], "byte-level codes, as GPT-2's"),
        (["a b 3", "a b 2"], "line 2: a b is listed twice"),
        (["a b c"], "line 1: 'a b c'; valid"),
        (["a  b"], "line 1: 'a  b'; valid"),
    ):
        assert_refused(message, load_codes, write(tmp_path / "codes", *codes))


def test_dictionary_is_fairseqs(trained, tmp_path):
    apply_files("bpe", trained / "codes", [trained / "text"], [tmp_path / "p"])
    bpe.main(["dict", "--inputs", f"{tmp_path}/p", "--output", f"{tmp_path}/dict.txt"])
    dictionary = Dictionary.load(str(tmp_path / "dict.txt"))
    found = read_lines(tmp_path / "p")
    assert {word for line in found for word in line.split()} == set(read_dictionary(tmp_path / "dict.txt"))
    assert all(dictionary.unk() not in dictionary.encode_line(line, add_if_not_exist=False).tolist() for line in found)
    bpe.write_dictionary([write(tmp_path / "equal", "c b a", "c d")], tmp_path / "ordered")
    assert read_lines(tmp_path / "ordered") == ["c 2", "a 1", "b 1", "d 1"], "equal counts: by the piece"
    assert_refused("holds the piece <pad>", bpe.write_dictionary, [write(tmp_path / "bad", "a <pad> b")], tmp_path / "x")


def test_errors_leave_no_output(trained, tmp_path):
    write(tmp_path / "joined", "fine", "odd@@ word")
    write(tmp_path / "whole", "x @ 3", "x@ @</w> 2")
    write(tmp_path / "odd", "fine", "x@@ word")
    write(tmp_path / "special", "a </s> b")
    write(tmp_path / "dict.txt", "zz 1")
    write(tmp_path / "keep", "< / 9", "</ s 8", "</s ></w> 7")
    lost = "the word 'x@@' would not come back from its pieces"
    for codes, name, more, message in (
        (tmp_path / "whole", "odd", {}, f"odd, line 2: {lost}"),
        (tmp_path / "keep", "special", {}, "special, line 1: gives the piece '</s>', which fairseq would read"),
        (trained / "codes", "joined", {"dictionary": tmp_path / "dict.txt"}, "(100.0 %) are unknown; valid: at most"),
    ):
        assert_refused(message, apply_files, "bpe", codes, [tmp_path / name], [tmp_path / "out"], **more)
    for text, options, message in (
        ("a b", {"merges": 5}, "no word has two characters"),
        ("ab cd", {"merges": 5}, "--min-frequency 2: no pair of this text is so frequent"),
    ):
        assert_refused(message, bpe.learn, [write(tmp_path / "t", text)], tmp_path / "out", **options)
    assert not list(tmp_path.glob("*out*"))
