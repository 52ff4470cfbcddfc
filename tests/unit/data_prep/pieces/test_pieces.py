"""Test sentencepiece and BPE: pieces and dictionaries are fairseq's, training repeats itself."""

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
    """Return a folder with text, text.model, dict.txt and codes; ``<2de>`` is a user symbol."""
    text = write(path / "text", *sentences())
    files = f"--inputs {text} --model {path}/text.model --dict {path}/dict.txt"
    spm.main(f"train {files} --vocab-size 60 --user-symbols <2de> <2fr>".split())
    bpe.main(f"learn --inputs {text} --codes {path}/codes --merges 40".split())
    return path


def test_training_repeats_itself_byte_for_byte(trained, tmp_path):
    text = [trained / "text"]
    options = TrainOptions(60, user_symbols=("<2de>", "<2fr>"))
    counts = train(text, tmp_path / "text.model", tmp_path / "dict.txt", options)
    for name in ("text.model", "dict.txt", "text.model.json"):
        assert (tmp_path / name).read_bytes() == (trained / name).read_bytes()
    expected = {"lines": 300, "too_long": 0, "model_pieces": 60, "dictionary_pieces": 57}
    assert counts == expected
    models = []
    for seed in (1, 1, 2):  # a sample depends on the seed alone
        options = TrainOptions(50, max_lines=100, max_line_bytes=30, seed=seed)
        counts = train(text, tmp_path / "m", tmp_path / "d", options)
        assert counts["too_long"] == sum(len(line.encode()) > 30 for line in sentences()) > 0
        models.append((tmp_path / "m").read_bytes())
    assert models[0] == models[1] != models[2]


def test_fairseq_reads_the_pieces_as_the_ids_of_the_model(trained, tmp_path):
    files = f"--inputs {trained}/text --outputs {tmp_path}/p"
    spm.main(f"apply --model {trained}/text.model {files}".split())
    model = segmenters.load_model(trained / "text.model")
    dictionary = Dictionary.load(str(trained / "dict.txt"))
    assert len(dictionary) == 57 + 4
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "<2de>", "<2fr>"]
    assert [dictionary[i] for i in range(6)] == symbols
    assert all(dictionary.index(model.id_to_piece(i)) == i + 1 for i in range(3, 60))
    assert read_dictionary(trained / "dict.txt") == segmenters.model_pieces(model)
    lines = read_lines(tmp_path / "p")
    assert len(lines) == 300
    for text, line in zip(sentences(), lines):
        expected = [index + 1 for index in model.encode(text)] + [dictionary.eos()]
        assert dictionary.encode_line(line, add_if_not_exist=False).tolist() == expected


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_text_survives_encoding_and_decoding(trained, tmp_path, model_type):
    model = tmp_path / "m"
    options = TrainOptions(50, model_type, user_symbols=("<2de>",))
    train([trained / "text"], model, tmp_path / "d", options)
    text = [*sentences(20, seed=9), "<2de>kalo mi", "", "\u4f60 unseen 42"]
    source = write(tmp_path / "in", *text)
    counts = apply_files("spm", model, [source], [tmp_path / "pieces"])["pieces"]
    files = f"--inputs {tmp_path}/pieces --outputs {tmp_path}/out"
    spm.main(f"decode --model {model} {files}".split())
    assert read_lines(tmp_path / "out") == text
    lines = read_lines(tmp_path / "pieces")
    assert "<2de>" in lines[20].split()
    assert len(text) * 50 > segmenters.BATCH_LINES  # more than one batch
    batches = segmenters.SentencePiece(model).encode(text * 50)
    assert [" ".join(pieces) for pieces in batches] == lines * 50
    sizes = [len(line.split()) for line in lines]
    expected = {"lines": 23, "without_pieces": 1, "pieces": sum(sizes), "longest": max(sizes)}
    assert expected.items() <= counts.items() and counts["unknown"] >= 3


def test_the_dictionary_lists_only_what_fairseq_does_not_add(tmp_path):
    ids = {"unk_id": 2, "bos_id": 1, "eos_id": 0, "control_symbols": ["<ctl>"]}
    symbols = {"byte_fallback": True, "user_defined_symbols": ["<tag>", "<pad>"]}
    train_model(tmp_path / "m", sentences(), vocab_size=330, **ids, **symbols)
    spm.main(["dict", "--model", f"{tmp_path}/m", "--output", f"{tmp_path}/dict.txt"])
    pieces = [line.split(" ")[0] for line in read_lines(tmp_path / "dict.txt")]
    assert pieces[0] == "<tag>" and "<0x00>" in pieces
    assert not {"<ctl>", "<pad>", "<unk>", "<s>", "</s>"} & set(pieces)
    assert len(Dictionary.load(str(tmp_path / "dict.txt"))) == len(pieces) + 4


def test_bad_training_options_are_refused(trained, tmp_path):
    files = [trained / "text"], tmp_path / "m", tmp_path / "d"
    for options, message in (
        ({"vocab_size": 10}, "--vocab-size 10: fewer"),
        ({"vocab_size": 9999}, "--vocab-size 9999: more"),
        ({"vocab_size": 50, "max_line_bytes": 2}, "--max-line-bytes 2"),
        ({"vocab_size": 9, "user_symbols": ("<mask>",)}, "--user-symbols '<mask>': valid: "),
    ):
        assert_refused(message, lambda: train(*files, TrainOptions(**options)))  # noqa: B023
    assert list(tmp_path.iterdir()) == []


def test_pieces_are_made_again_only_when_their_sources_change(trained, tmp_path, capsys):
    for name in ("text.model", "dict.txt"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    model, text, out = tmp_path / "text.model", tmp_path / "text", tmp_path / "out"
    dictionary = tmp_path / "dict.txt"
    write(text, "kalo mi")
    options = {"dictionary": dictionary, "max_unknown": 1.0}

    def apply(target, **more):
        return apply_files("spm", model, [text], [target], **options, **more)

    apply(out, steps=tmp_path / "steps")
    for change in (
        None,
        lambda: write(text, "mi kalo mi"),
        lambda: train([trained / "text"], model, tmp_path / "d", TrainOptions(40)),
        lambda: write(dictionary, *read_lines(trained / "dict.txt"), "new 1"),
        lambda: options.update(dictionary=None),
        lambda: write(out, "kalo"),
    ):
        if change is not None:
            change()
        capsys.readouterr()
        counts = apply(out, steps=tmp_path / "steps")
        assert ("unchanged, skipped" in capsys.readouterr().err) == (change is None)
        assert counts == apply(tmp_path / "scratch" / "out")
        assert out.read_bytes() == (tmp_path / "scratch" / "out").read_bytes()


def test_bad_models_and_dictionaries_are_refused(trained, tmp_path):
    message = "text: not a sentencepiece model"
    assert_refused(message, segmenters.load_model, trained / "text")
    for content, message in (
        (["a 1", "b"], "line 2: 'b'"),
        (["a 1", "<s> 1"], "line 2: lists <s>"),
        (["a 1", "a 1"], "line 2: 'a' is listed twice"),
    ):
        assert_refused(message, read_dictionary, write(tmp_path / "dict.txt", *content))


def test_learned_codes_are_those_of_subword_nmt(trained, tmp_path):
    counts = bpe.learn([trained / "text"], tmp_path / "codes", 40)
    assert (tmp_path / "codes").read_bytes() == (trained / "codes").read_bytes()
    stock = io.StringIO()
    learn_bpe.learn_bpe(sentences(), stock, 40)
    expected = [tuple(line.split()) for line in stock.getvalue().split("\n")[1:-1]]
    assert read_codes(trained / "codes") == expected
    assert read_json(tmp_path / "codes.json")["counts"] == counts


def test_pieces_are_those_of_subword_nmt_and_of_fairseq(trained, tmp_path):
    codes = trained / "codes"
    text = [*sentences(50, seed=9), "Unseen wörds 42 \u4f60\u597d", "", "a"]
    text.append("spaced   out \u00a0 words")
    plain = [" ".join(line.split()) for line in text]
    source = write(tmp_path / "in", *text)
    counts = apply_files("bpe", codes, [source], [tmp_path / "out"])["out"]
    lines = read_lines(tmp_path / "out")
    merges = [" ".join(merge) for merge in read_codes(codes)]
    subword_nmt = apply_bpe.BPE(io.StringIO("\n".join(["#version: 0.2", *merges]) + "\n"))
    assert lines == [subword_nmt.process_line(line) for line in plain]
    stock = StockFastBPE(type("cfg", (), {"bpe_codes": str(codes)}))  # fairseq's --bpe fastbpe
    assert lines == [stock.encode(line) for line in plain]
    assert len(text) * 20 > segmenters.BATCH_LINES  # more than one batch
    batches = segmenters.Codes(codes).encode(text * 20)
    assert [" ".join(pieces) for pieces in batches] == lines * 20
    assert (counts["lines"], counts["without_pieces"]) == (len(text), 1)
    assert counts["pieces"] == sum(len(line.split()) for line in lines)
    files = f"--inputs {tmp_path}/out --outputs {tmp_path}/back"
    bpe.main(f"decode --codes {codes} {files}".split())
    assert read_lines(tmp_path / "back") == plain


def test_every_released_form_of_codes_gives_the_same_pieces(trained, tmp_path):
    merges = read_codes(trained / "codes")
    plain = [f"{a} {b}" for a, b in merges]
    forms = {
        "xlm": [f"{line} {1000 - i}" for i, line in enumerate(plain)],
        "no header": plain,
        "subword-nmt": ["#version: 0.2", *plain],
        "gpt": ["#version: 0.2", *plain, ""],
    }
    for name, form in forms.items():
        codes = write(tmp_path / name, *form)
        assert read_codes(codes) == merges
        apply_files("bpe", codes, [trained / "text"], [tmp_path / f"{name}.pieces"])
    (content,) = {(tmp_path / f"{name}.pieces").read_bytes() for name in forms}
    assert b"@@ " in content


def test_codes_that_fastbpe_would_misread_are_refused(tmp_path):
    for codes, message in (
        (["#version: 0.1", "a b"], "line 1: codes of version 0.1"),
        (["\u0120t he"], "byte-level codes"),
        (["a b 3", "a b 2"], "line 2: a b is listed twice"),
        (["a b c"], "line 1: 'a b c'; valid"),
        (["a  b"], "line 1: 'a  b'; valid"),
    ):
        assert_refused(message, load_codes, write(tmp_path / "codes", *codes))


def test_the_dictionary_of_pieces_is_fairseqs(trained, tmp_path):
    apply_files("bpe", trained / "codes", [trained / "text"], [tmp_path / "p"])
    bpe.main(["dict", "--inputs", f"{tmp_path}/p", "--output", f"{tmp_path}/dict.txt"])
    dictionary = Dictionary.load(str(tmp_path / "dict.txt"))
    pieces = {piece for line in read_lines(tmp_path / "p") for piece in line.split()}
    assert pieces == set(read_dictionary(tmp_path / "dict.txt"))
    assert dictionary.unk() not in {dictionary.index(piece) for piece in pieces}
    ties = write(tmp_path / "ties", "c b a", "c d")
    bpe.write_dictionary([ties], tmp_path / "ordered")
    assert read_lines(tmp_path / "ordered") == ["c 2", "a 1", "b 1", "d 1"]
    bad = write(tmp_path / "bad", "a <pad> b")
    assert_refused("<pad>", bpe.write_dictionary, [bad], tmp_path / "x")


def test_errors_of_bpe_leave_no_output(trained, tmp_path):
    out, unknown = tmp_path / "out", write(tmp_path / "dict.txt", "zz 1")
    ambiguous = write(tmp_path / "ambiguous", "x @ 3", "x@ @</w> 2")
    special = write(tmp_path / "special", "< / 9", "</ s 8", "</s ></w> 7")
    for codes, lines, options, message in (
        (ambiguous, ["fine", "x@@ word"], {}, "text, line 2: the word 'x@@'"),
        (special, ["a </s> b"], {}, "text, line 1: gives the piece '</s>'"),
        (trained / "codes", ["odd@@ word"], {"dictionary": unknown}, "(100.0 %) are unknown"),
    ):
        text = write(tmp_path / "text", *lines)
        assert_refused(message, apply_files, "bpe", codes, [text], [out], **options)
    for line, message in (
        ("a b", "no word has two characters"),
        ("ab cd", "--min-frequency 2"),
    ):
        assert_refused(message, bpe.learn, [write(tmp_path / "text", line)], out, 5)
    assert not list(tmp_path.glob("*out*"))
