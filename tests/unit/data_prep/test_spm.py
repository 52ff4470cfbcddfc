"""Sentencepiece: the dictionary is fairseq's, training repeats itself, text survives the way there and back."""

import io
import random

import pytest
import sentencepiece
from fairseq.data import Dictionary

from data_prep import pieces, spm
from data_prep.encode import SentencePieceSegmenter, decode_files
from data_prep.io import InputError, read_json
from data_prep.spm_train import TrainOptions, train

SYLLABLES = ("ka", "lo", "mi", "tu", "ré", "ßa", "не", "to")


def sentences(count=300, seed=5):
    rng = random.Random(seed)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(80)]
    return [" ".join(rng.choices(words, k=rng.randint(2, 7))) for _ in range(count)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with text, text.model and dict.txt; ``<2de>`` is a user symbol."""
    folder = tmp_path_factory.mktemp("spm")
    (folder / "text").write_text("".join(line + "\n" for line in sentences()), encoding="utf-8")
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
    assert read_json(tmp_path / "text.model.json")["counts"] == counts


def test_dictionary_has_the_pieces_in_the_order_of_the_model(trained):
    model = pieces.load_model(trained / "text.model")
    dictionary = Dictionary.load(str(trained / "dict.txt"))
    assert len(dictionary) == 57 + 4
    assert [dictionary[i] for i in range(6)] == ["<s>", "<pad>", "</s>", "<unk>", "<2de>", "<2fr>"]
    assert [model.id_to_piece(i) for i in range(3)] == ["<unk>", "<s>", "</s>"]
    assert all(dictionary.index(model.id_to_piece(i)) == i + 1 for i in range(3, 60))
    assert {line.split(" ")[1] for line in (trained / "dict.txt").read_text().splitlines()} == {"1"}
    assert pieces.read_dictionary(trained / "dict.txt") == pieces.model_pieces(model)


def test_fairseq_reads_the_pieces_as_the_ids_of_the_model(trained, tmp_path):
    spm.main(["apply", "--model", f"{trained}/text.model", "--inputs", f"{trained}/text", "--outputs", f"{tmp_path}/p"])
    model, dictionary = pieces.load_model(trained / "text.model"), Dictionary.load(str(trained / "dict.txt"))
    lines = (tmp_path / "p").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 300
    for text, line in zip(sentences(), lines):
        expected = [index + 1 for index in model.encode(text)] + [dictionary.eos()]
        assert dictionary.encode_line(line, add_if_not_exist=False).tolist() == expected


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_text_survives_the_way_there_and_back(trained, tmp_path, model_type):
    model = tmp_path / "m"
    train([trained / "text"], model, tmp_path / "d", TrainOptions(50, model_type, user_symbols=("<2de>",)))
    lines = [*sentences(20, seed=9), "<2de>kalo mi", "", "\u4f60 unseen 42"]
    (tmp_path / "in").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    counts = spm.apply(model, [tmp_path / "in"], [tmp_path / "pieces"])["pieces"]
    spm.main(["decode", "--model", str(model), "--inputs", f"{tmp_path}/pieces", "--outputs", f"{tmp_path}/out"])
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines() == lines
    encoded = (tmp_path / "pieces").read_text(encoding="utf-8").splitlines()
    assert "<2de>" in encoded[20].split()
    in_batches = pieces.encode_lines(pieces.load_model(model), lines * 50)  # more than one batch
    assert [" ".join(found) for found in in_batches] == encoded * 50 and len(lines) * 50 > pieces.BATCH_LINES
    assert counts["lines"] == 23
    assert counts["without_pieces"] == 1
    assert counts["unknown"] >= 3
    assert counts["pieces"] == sum(len(line.split()) for line in encoded)
    assert counts["longest"] == max(len(line.split()) for line in encoded)


def test_dictionary_of_an_existing_model(trained, tmp_path):
    """With other special ids, a control symbol and byte pieces: only what fairseq does not add itself is listed."""
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_writer=writer,
        vocab_size=330,
        hard_vocab_limit=False,
        byte_fallback=True,
        unk_id=2,
        bos_id=1,
        eos_id=0,
        control_symbols=["<ctl>"],
        user_defined_symbols=["<tag>", "<pad>"],
        minloglevel=2,
    )
    (tmp_path / "m").write_bytes(writer.getvalue())
    spm.main(["dict", "--model", f"{tmp_path}/m", "--output", f"{tmp_path}/dict.txt"])
    listed = [line.split(" ")[0] for line in (tmp_path / "dict.txt").read_text(encoding="utf-8").splitlines()]
    assert listed[0] == "<tag>"
    assert "<0x00>" in listed
    assert not {"<ctl>", "<pad>", "<unk>", "<s>", "</s>"} & set(listed)
    assert len(Dictionary.load(str(tmp_path / "dict.txt"))) == len(listed) + 4


def test_a_sample_depends_on_the_seed_alone(trained, tmp_path):
    proto = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        options = TrainOptions(50, max_lines=100, seed=seed)
        train([trained / "text"], tmp_path / name, tmp_path / "d", options)
        proto[name] = (tmp_path / name).read_bytes()
    assert proto["a"] == proto["b"] != proto["c"]


def test_long_lines_are_left_out_and_counted(trained, tmp_path):
    counts = train([trained / "text"], tmp_path / "m", tmp_path / "d", TrainOptions(50, max_line_bytes=30))
    assert counts["too_long"] == sum(len(line.encode()) > 30 for line in sentences()) > 0
    with pytest.raises(InputError, match="all 300 lines are longer than --max-line-bytes 2"):
        train([trained / "text"], tmp_path / "m", tmp_path / "d", TrainOptions(50, max_line_bytes=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 10}, r"--vocab-size 10: fewer than the characters of this text; valid: \d+ or more"),
        ({"vocab_size": 9999}, r"--vocab-size 9999: more than this text gives; valid: at most \d+"),
        ({"vocab_size": 3}, "--vocab-size 3: valid: 4 or more"),
        ({"vocab_size": 9, "model_type": "word"}, "--model-type word: valid: unigram, bpe"),
        ({"vocab_size": 9, "normalisation": "x"}, "--normalisation x: valid: nmt_nfkc"),
        ({"vocab_size": 9, "character_coverage": 0.5}, r"--character-coverage 0\.5: valid: 0\.98 to 1\.0"),
        ({"vocab_size": 9, "max_lines": -1}, "--max-lines -1: valid: 0 or more"),
        ({"vocab_size": 9, "user_symbols": ("<mask>",)}, "--user-symbols '<mask>': valid: .* none of </s>"),
        ({"vocab_size": 9, "user_symbols": ("<s>",)}, "--user-symbols '<s>'"),
        ({"vocab_size": 9, "user_symbols": ("a b",)}, "--user-symbols 'a b'"),
        ({"vocab_size": 9, "user_symbols": ("a", "a")}, "--user-symbols 'a'"),
    ],
)
def test_bad_training_options(trained, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        train([trained / "text"], tmp_path / "m", tmp_path / "d", TrainOptions(**options))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"good\n\xff\n", "--inputs .*bad, line 2: not UTF-8"),
        (b"", "--inputs .*bad: the file is empty"),
        ("a\x85b\n".encode(), r"--inputs .*bad, line 1: character U\+0085"),
        (b"a\r\n", r"--inputs .*bad, line 1: character U\+000D"),
    ],
)
def test_bad_text_keeps_its_message_in_training_and_application(trained, tmp_path, content, message):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(InputError, match=message):
        train([trained / "text", tmp_path / "bad"], tmp_path / "m", tmp_path / "d", TrainOptions(50))
    with pytest.raises(InputError, match=message):
        train([tmp_path / "bad"], tmp_path / "m", tmp_path / "d", TrainOptions(50))
    with pytest.raises(InputError, match=message):
        spm.apply(trained / "text.model", [tmp_path / "bad"], [tmp_path / "out"])
    with pytest.raises(InputError, match=message):
        decode_files(SentencePieceSegmenter(trained / "text.model"), [tmp_path / "bad"], [tmp_path / "out"])
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_unknown_pieces_above_the_share_are_refused(trained, tmp_path):
    (tmp_path / "text").write_text("\u4f60\u597d \u4f60\nkalo\n", encoding="utf-8")
    inputs, outputs = [tmp_path / "text"], [tmp_path / "out"]
    with pytest.raises(InputError, match=r"are unknown; valid: at most --max-unknown 0\.2; do the model, the dict"):
        spm.apply(trained / "text.model", inputs, outputs)
    assert not outputs[0].exists()
    spm.apply(trained / "text.model", inputs, outputs, max_unknown=1.0)
    (tmp_path / "other.txt").write_text("x 1\n")
    with pytest.raises(InputError, match=r"\(100\.0 %\) are unknown"):
        spm.apply(trained / "text.model", [trained / "text"], outputs, tmp_path / "other.txt")
    with pytest.raises(InputError, match="--max-unknown 2: valid: 0 to 1"):
        spm.apply(trained / "text.model", inputs, outputs, max_unknown=2)


def test_white_space_inside_a_piece_is_refused(trained, tmp_path):
    """A model without normalisation keeps no-break spaces, at which fairseq would cut the piece."""
    text = tmp_path / "text"
    text.write_text("".join(line.replace(" ", "\u00a0", 1) + "\n" for line in sentences()), encoding="utf-8")
    train([text], tmp_path / "m", tmp_path / "d", TrainOptions(60, normalisation="identity"))
    with pytest.raises(InputError, match=r"text, line 1: gives the piece '.*\\xa0.*', which fairseq would read"):
        spm.apply(tmp_path / "m", [text], [tmp_path / "out"])


@pytest.mark.parametrize("symbol", ["<s>", "</s>", "<mask>"])
def test_symbols_of_fairseq_in_the_text_are_refused(trained, tmp_path, symbol):
    """A run of unknown characters becomes one piece as it stands, and would reach fairseq as its own symbol."""
    (tmp_path / "text").write_text(f"kalo mi\nkalo {symbol}\n")
    with pytest.raises(InputError, match=f"text, line 2: gives the piece '{symbol}', which fairseq would read"):
        spm.apply(pieces_without_latin(tmp_path), [tmp_path / "text"], [tmp_path / "out"], max_unknown=1.0)


def pieces_without_latin(folder):
    """A model that knows Cyrillic only."""
    (folder / "cyrillic").write_text("\u043d\u0435 \u0442\u043e \u043d\u043e\n" * 20, encoding="utf-8")
    train([folder / "cyrillic"], folder / "m", folder / "d", TrainOptions(9))
    return folder / "m"


@pytest.mark.parametrize("change", [None, "text", "model", "dict", "no dict", "max_unknown", "output"])
def test_files_are_made_again_when_what_they_are_made_from_changes(trained, tmp_path, capsys, change):
    for name in ("text.model", "dict.txt"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_text("kalo mi\n")
    arguments = {"dictionary": tmp_path / "dict.txt", "max_unknown": 1.0, "steps": tmp_path / "steps"}

    spm.apply(tmp_path / "text.model", [text], [out], **arguments)
    if change == "text":
        text.write_text("mi kalo mi\n")
    elif change == "model":
        train([trained / "text"], tmp_path / "text.model", tmp_path / "d", TrainOptions(40))
    elif change == "dict":
        (tmp_path / "dict.txt").write_text(
            (trained / "dict.txt").read_text(encoding="utf-8") + "new 1\n", encoding="utf-8"
        )
    elif change == "no dict":
        arguments["dictionary"] = None
    elif change == "max_unknown":
        arguments["max_unknown"] = 0.9
    elif change == "output":
        out.write_text("kalo\n")
    capsys.readouterr()
    again = spm.apply(tmp_path / "text.model", [text], [out], **arguments)
    assert ("unchanged, skipped" in capsys.readouterr().err) == (change is None)
    scratch = spm.apply(tmp_path / "text.model", [text], [tmp_path / "scratch" / "out"], **{**arguments, "steps": None})
    assert again == scratch and out.read_bytes() == (tmp_path / "scratch" / "out").read_bytes()


def test_models_and_dictionaries_that_are_none(trained, tmp_path):
    with pytest.raises(InputError, match="--model .*absent: no such file"):
        pieces.load_model(tmp_path / "absent")
    (tmp_path / "empty").touch()
    for file in (trained / "text", tmp_path / "empty"):
        with pytest.raises(InputError, match=f"{file}: not a sentencepiece model"):
            pieces.load_model(file)
    for content, message in (
        ("a 1\nb\n", "line 2: 'b'; valid: a piece, one space, a count"),
        ("a x\n", "line 1: 'a x'"),
        ("a 1\n<s> 1\n", "line 2: lists <s>; valid: the pieces without <s> <pad> </s> <unk>"),
        ("a 1\na 1\n", "line 2: 'a' is listed twice"),
        ("", "the file is empty"),
    ):
        (tmp_path / "dict.txt").write_text(content)
        with pytest.raises(InputError, match=message):
            pieces.read_dictionary(tmp_path / "dict.txt")
