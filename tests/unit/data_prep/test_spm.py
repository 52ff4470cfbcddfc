"""Sentencepiece: the dictionary is fairseq's, training repeats itself, text survives the way there and back."""

import random

import pytest
from fairseq.data import Dictionary

from data_prep import pieces, spm
from data_prep.encode import SentencePieceSegmenter, decode_files
from data_prep.spm_train import TrainOptions, train
from tests.nlu_bins import train_model, write
from tests.unit.data_prep.files import lines, refused

SYLLABLES = ("ka", "lo", "mi", "tu", "ré", "ßa", "не", "to")


def sentences(count=300, seed=5):
    rng = random.Random(seed)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(80)]
    return [" ".join(rng.choices(words, k=rng.randint(2, 7))) for _ in range(count)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with text, text.model and dict.txt; ``<2de>`` is a user symbol."""
    folder = tmp_path_factory.mktemp("spm")
    write(folder / "text", *sentences())
    symbols = ["--user-symbols", "<2de>", "<2fr>"]
    fixed = ["--model", f"{folder}/text.model", "--dict", f"{folder}/dict.txt", "--vocab-size", "60"]
    spm.main(["train", "--inputs", f"{folder}/text", *fixed, *symbols])
    return folder


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
    model, dictionary = pieces.load_model(trained / "text.model"), Dictionary.load(str(trained / "dict.txt"))
    assert len(dictionary) == 57 + 4
    assert [dictionary[i] for i in range(6)] == ["<s>", "<pad>", "</s>", "<unk>", "<2de>", "<2fr>"]
    assert all(dictionary.index(model.id_to_piece(i)) == i + 1 for i in range(3, 60))
    assert pieces.read_dictionary(trained / "dict.txt") == pieces.model_pieces(model)
    found = lines(tmp_path / "p")
    assert len(found) == 300
    for text, line in zip(sentences(), found):
        expected = [index + 1 for index in model.encode(text)] + [dictionary.eos()]
        assert dictionary.encode_line(line, add_if_not_exist=False).tolist() == expected


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_text_survives_the_way_there_and_back(trained, tmp_path, model_type):
    model = tmp_path / "m"
    train([trained / "text"], model, tmp_path / "d", TrainOptions(50, model_type, user_symbols=("<2de>",)))
    text = [*sentences(20, seed=9), "<2de>kalo mi", "", "\u4f60 unseen 42"]
    counts = spm.apply(model, [write(tmp_path / "in", *text)], [tmp_path / "pieces"])["pieces"]
    spm.main(["decode", "--model", str(model), "--inputs", f"{tmp_path}/pieces", "--outputs", f"{tmp_path}/out"])
    assert lines(tmp_path / "out") == text
    encoded = lines(tmp_path / "pieces")
    assert "<2de>" in encoded[20].split()
    in_batches = pieces.encode_lines(pieces.load_model(model), text * 50)  # more than one batch
    assert [" ".join(found) for found in in_batches] == encoded * 50 and len(text) * 50 > pieces.BATCH_LINES
    sizes = [len(line.split()) for line in encoded]
    expected = {"lines": 23, "without_pieces": 1, "pieces": sum(sizes), "longest": max(sizes)}
    assert expected.items() <= counts.items() and counts["unknown"] >= 3


def test_dictionary_of_an_existing_model(tmp_path):
    """With other special ids, a control symbol and byte pieces: only what fairseq does not add itself is listed."""
    ids = {"unk_id": 2, "bos_id": 1, "eos_id": 0, "control_symbols": ["<ctl>"]}
    symbols = {"byte_fallback": True, "user_defined_symbols": ["<tag>", "<pad>"]}
    train_model(tmp_path / "m", sentences(), vocab_size=330, **ids, **symbols)
    spm.main(["dict", "--model", f"{tmp_path}/m", "--output", f"{tmp_path}/dict.txt"])
    listed = [line.split(" ")[0] for line in lines(tmp_path / "dict.txt")]
    assert listed[0] == "<tag>" and "<0x00>" in listed
    assert not {"<ctl>", "<pad>", "<unk>", "<s>", "</s>"} & set(listed)
    assert len(Dictionary.load(str(tmp_path / "dict.txt"))) == len(listed) + 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 10}, "--vocab-size 10: fewer than the characters of this text; valid: "),
        ({"vocab_size": 9999}, "--vocab-size 9999: more than this text gives; valid: at most "),
        ({"vocab_size": 50, "max_line_bytes": 2}, "all 300 lines are longer than --max-line-bytes 2"),
        ({"vocab_size": 3}, "--vocab-size 3: valid: 4 or more"),
        ({"vocab_size": 9, "model_type": "word"}, "--model-type word: valid: unigram, bpe"),
        ({"vocab_size": 9, "normalisation": "x"}, "--normalisation x: valid: nmt_nfkc"),
        ({"vocab_size": 9, "character_coverage": 0.5}, "--character-coverage 0.5: valid: 0.98 to 1.0"),
        ({"vocab_size": 9, "max_lines": -1}, "--max-lines -1: valid: 0 or more"),
        ({"vocab_size": 9, "user_symbols": ("<mask>",)}, "--user-symbols '<mask>': valid: "),
        ({"vocab_size": 9, "user_symbols": ("a b",)}, "--user-symbols 'a b'"),
        ({"vocab_size": 9, "user_symbols": ("a", "a")}, "--user-symbols 'a'"),
    ],
)
def test_bad_training_options(trained, tmp_path, options, message):
    refused(message, lambda: train([trained / "text"], tmp_path / "m", tmp_path / "d", TrainOptions(**options)))
    assert list(tmp_path.iterdir()) == []


def test_bad_text_keeps_its_message_in_training_and_application(trained, tmp_path):
    (tmp_path / "bad").write_bytes(b"good\n\xff\n")
    bad, made, words = tmp_path / "bad", (tmp_path / "m", tmp_path / "d"), ["--inputs ", "bad, line 2: not UTF-8"]
    refused(words, train, [trained / "text", bad], *made, TrainOptions(50))
    refused(words, spm.apply, trained / "text.model", [bad], [tmp_path / "out"])
    refused(words, decode_files, SentencePieceSegmenter(trained / "text.model"), [bad], [tmp_path / "out"])
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_unknown_pieces_above_the_share_are_refused(trained, tmp_path):
    model, text, out = (
        trained / "text.model",
        [write(tmp_path / "text", "\u4f60\u597d \u4f60", "kalo")],
        [tmp_path / "out"],
    )
    refused("are unknown; valid: at most --max-unknown 0.2; do the model, the dict", spm.apply, model, text, out)
    assert not out[0].exists()
    spm.apply(model, text, out, max_unknown=1.0)
    other = write(tmp_path / "other.txt", "x 1")
    refused("(100.0 %) are unknown", spm.apply, model, [trained / "text"], out, other)
    refused("--max-unknown 2: valid: 0 to 1", spm.apply, model, text, out, max_unknown=2)


def test_pieces_that_fairseq_would_read_as_something_else_are_refused(tmp_path):
    """A run of unknown characters becomes one piece as it stands; a model without normalisation keeps no-break spaces."""
    cyrillic = write(tmp_path / "cyrillic", *["\u043d\u0435 \u0442\u043e \u043d\u043e"] * 20)
    train([cyrillic], tmp_path / "m", tmp_path / "d", TrainOptions(9))
    for symbol in ("<s>", "</s>", "<mask>"):
        text, out = [write(tmp_path / "text", "kalo mi", f"kalo {symbol}")], [tmp_path / "out"]
        words = f"text, line 2: gives the piece '{symbol}', which fairseq would read"
        refused(words, spm.apply, tmp_path / "m", text, out, max_unknown=1.0)
    text = write(tmp_path / "text", *(line.replace(" ", "\u00a0", 1) for line in sentences()))
    train([text], tmp_path / "m", tmp_path / "d", TrainOptions(60, normalisation="identity"))
    words = ["text, line 1: gives the piece '", "\\xa0", "', which fairseq would read"]
    refused(words, spm.apply, tmp_path / "m", [text], [tmp_path / "out"])


@pytest.mark.parametrize("change", [None, "text", "model", "dict", "no dict", "max_unknown", "output"])
def test_files_are_made_again_when_what_they_are_made_from_changes(trained, tmp_path, capsys, change):
    for name in ("text.model", "dict.txt"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    text, out = write(tmp_path / "text", "kalo mi"), tmp_path / "out"
    arguments = {"dictionary": tmp_path / "dict.txt", "max_unknown": 1.0, "steps": tmp_path / "steps"}
    spm.apply(tmp_path / "text.model", [text], [out], **arguments)
    if change == "text":
        write(text, "mi kalo mi")
    elif change == "model":
        train([trained / "text"], tmp_path / "text.model", tmp_path / "d", TrainOptions(40))
    elif change == "dict":
        write(tmp_path / "dict.txt", *lines(trained / "dict.txt"), "new 1")
    elif change == "output":
        write(out, "kalo")
    else:
        arguments.update({"no dict": {"dictionary": None}, "max_unknown": {"max_unknown": 0.9}}.get(change, {}))
    capsys.readouterr()
    again = spm.apply(tmp_path / "text.model", [text], [out], **arguments)
    assert ("unchanged, skipped" in capsys.readouterr().err) == (change is None)
    scratch = spm.apply(tmp_path / "text.model", [text], [tmp_path / "scratch" / "out"], **{**arguments, "steps": None})
    assert again == scratch and out.read_bytes() == (tmp_path / "scratch" / "out").read_bytes()


def test_models_and_dictionaries_that_are_none(trained, tmp_path):
    refused("absent: no such file", pieces.load_model, tmp_path / "absent")
    (tmp_path / "empty").touch()
    for file in (trained / "text", tmp_path / "empty"):
        refused(f"{file.name}: not a sentencepiece model", pieces.load_model, file)
    for content, message in (
        (["a 1", "b"], "line 2: 'b'; valid: a piece, one space, a count"),
        (["a x"], "line 1: 'a x'"),
        (["a 1", "<s> 1"], "line 2: lists <s>; valid: the pieces without <s> <pad> </s> <unk>"),
        (["a 1", "a 1"], "line 2: 'a' is listed twice"),
        ([], "the file is empty"),
    ):
        refused(message, pieces.read_dictionary, write(tmp_path / "dict.txt", *content))
