"""Test the steps from text to a lexicon: words, vectors, mapping, lexicons by CSLS, scores."""

import random
import sys

import numpy as np
import pytest
from gensim.models import KeyedVectors, Word2Vec
from scipy.stats import binomtest

from data_prep.io import read_json
from data_prep.lexicon import score as score_lexicon
from data_prep.lexicon import words as text_words
from data_prep.lexicon.files import check_direction, read_candidates
from data_prep.lexicon.induce import LexiconOptions, induce
from data_prep.lexicon.mapping import MapOptions, map_files, word_pairs
from data_prep.lexicon.score import mcnemar, score
from data_prep.lexicon.vectors import WordVectors, read_vectors, write_vectors
from data_prep.lexicon.word_vectors import VectorOptions, train_vectors
from tests.csr_builders import mates, two_sides, vectors, write_raw
from tests.reference import lexicon_loops as loops
from tests.unit.data_prep.files import assert_refused, read_lines


def split_words(tmp_path, *text, **options):
    source = write_raw(tmp_path / "in", *text)
    text_words.write_words([source], [tmp_path / "out"], **options)
    return read_lines(tmp_path / "out")


def test_words_are_runs_of_letters_marks_and_digits(tmp_path):
    text = ["The dog's well-known: 42 µm!", "", "Éte\u0301 ÄÖ", "में हूँ", "…"]
    expected = ["the dog s well known 42 µm", "", "été äö", "में हूँ", ""]
    assert split_words(tmp_path, *text) == expected
    assert split_words(tmp_path, "The DOG", cased=True) == ["The DOG"]


def test_a_script_without_spaces_needs_a_segmenter(tmp_path):
    for line in ("我喜欢苹果。", "私は学生です", "ฉันชอบกินข้าว"):
        assert_refused("--segmenter is not given", split_words, tmp_path, "ok ok", line)
    english = [f"sentence number {number} of this text" for number in range(28)]
    numbers = ["1 2 3 ..."] * 50  # lines without letters are not counted
    text = [*english[:8], "他说天气很好。", *numbers]
    assert_refused("1 of 9 lines read (11%)", split_words, tmp_path, *text)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    text = [*english, "他说天气很好。", "“天气很好”"]
    assert split_words(tmp_path, *text)[28:] == ["他说天气很好", "天气很好"]


def test_segmenters(tmp_path, monkeypatch):
    write_raw(
        tmp_path / "segmenter_of_this_test.py",
        "def cut(text): return [text[:1], text[1:3], text[3:], '。']",
        "def wrong(text): return [3]",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for line, segmenter, expected in (
        ("我喜欢 Apple-Saft。", "character", "我 喜 欢 apple saft"),
        ("我 喜欢 苹果 。", "spaces", "我 喜欢 苹果"),
        ("我喜欢苹果", "segmenter_of_this_test:cut", "我 喜欢 苹果"),
    ):
        assert split_words(tmp_path, line, segmenter=segmenter) == [expected]
    for segmenter, message in (
        ("segmenter_of_this_test:wrong", "gives int"),
        ("jieba", "--segmenter jieba: valid: character, spaces"),
    ):
        assert_refused(message, split_words, tmp_path, "我喜欢苹果", segmenter=segmenter)
    sys.modules.pop("segmenter_of_this_test", None)


def test_gensim_reads_our_vectors_and_we_read_gensims(tmp_path):
    side = vectors("w", 30)
    write_vectors([tmp_path / "v"], "--output", [side])
    loaded = read_vectors(tmp_path / "v", "--source")
    stock = KeyedVectors.load_word2vec_format(str(tmp_path / "v"))
    stock.save_word2vec_format(str(tmp_path / "stock"))
    of_gensim = read_vectors(tmp_path / "stock", "--source")
    assert loaded.words == list(stock.index_to_key) == of_gensim.words == side.words
    for values in (loaded.vectors, stock.vectors, of_gensim.vectors):
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, side.vectors)


def test_words_with_blanks_and_repeated_words(tmp_path, capsys):
    path = write_raw(tmp_path / "v", "4 2", "New York 1 2 ", "a 3 4", "a 5 6", "b\u00a0c 7 8")
    loaded = read_vectors(path, "--source")
    assert loaded.words == ["New York", "a", "b\u00a0c"]
    assert loaded.vectors.tolist() == [[1, 2], [3, 4], [7, 8]]
    assert "1 words come twice" in capsys.readouterr().err


@pytest.mark.cases(
    "content message",
    (b"a 1 2\nb 1 2\n", "line 1: 'a 1 2'"),
    (b"2 2\na 1 2\nb 1\n", "line 3: 2 columns"),
    (b"2 2\na inf 2\nb 1 2\n", "line 2: the vector of 'a' holds NaN or an infinite number"),
    (b"3 2\na 1 2\nb 1 2\n", "2 words, but its first line says 3"),
    (b"2 2\na 1 2\nb 1 2\nc 1 2\n", "more than the 2 words that its first line says"),
    (b"2 1\na 1\n\xff 2\n", "line 3: not UTF-8"),
)
def test_bad_vectors_are_refused(tmp_path, content, message):
    (tmp_path / "v").write_bytes(content)
    assert_refused(["--target ", message], read_vectors, tmp_path / "v", "--target")


@pytest.fixture
def corpus(tmp_path):
    """Write words of two topics, and one that comes once."""
    rng = random.Random(3)
    topics = (["a", "b", "c"], ["x", "y", "z"])
    lines = [" ".join(rng.choices(topic, k=6)) for topic in topics for _ in range(40)]
    return write_raw(tmp_path / "words", *lines, "once a")


@pytest.mark.parametrize(("method", "sg"), [("skipgram", 1), ("cbow", 0)])
def test_vectors_are_gensims(corpus, method, sg):
    options = {"window": 2, "negative": 2, "epochs": 2, "min_count": 2}
    text = [line.split() for line in corpus.read_text().splitlines()]
    stock = Word2Vec(text, sg=sg, seed=5, workers=1, vector_size=8, **options)
    trained = train_vectors(corpus, VectorOptions(**options, dim=8, method=method, seed=5))
    assert trained.words == stock.wv.index_to_key
    np.testing.assert_array_equal(trained.vectors, stock.wv.vectors)


def test_training_without_words_method_or_gensim_is_refused(corpus, tmp_path, monkeypatch):
    few = write_raw(tmp_path / "few", "one one one one one one")
    message = "1 words come 5 times or more (--min-count)"
    assert_refused(message, train_vectors, few, VectorOptions())
    message = "--method glove: valid: skipgram, cbow"
    assert_refused(message, VectorOptions, method="glove")
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    assert_refused("gensim is missing", train_vectors, corpus, VectorOptions())


def test_a_rotation_is_undone_and_reported(tmp_path):
    out = tmp_path / "out"
    outputs = out / "a.mapped", out / "b.mapped"
    files = *two_sides(tmp_path), outputs, out / "map.json"
    counts = map_files(*files, MapOptions(), out / "pairs")
    a, b = (read_vectors(path, "--source") for path in outputs)
    np.testing.assert_allclose(np.linalg.norm(a.vectors, axis=1), 1.0, atol=1e-5)
    nearest = [b.words[index] for index in (a.vectors @ b.vectors.T).argmax(1)]
    assert nearest == [f"b{word[1:]}" for word in a.words]
    assert read_candidates(out / "pairs", "--dictionary") == mates(a.words)
    report = read_json(out / "map.json")
    assert report["counts"] == counts
    assert (counts["words"], counts["seed_pairs"]) == ([200, 200], 400)
    assert counts["found"]["mutual"] == 1.0
    assert counts["converged"] and not counts["looks_random"]
    assert len(counts["objective"]) == counts["iterations"] == len(counts["keep"])
    assert counts["objective"][-1] == pytest.approx(1.0, abs=1e-4)
    assert (counts["keep"][0], counts["keep"][-1]) == (0.1, 1.0)
    assert [row["file"] for row in report["outputs"]] == ["a.mapped", "b.mapped", "pairs"]


def test_seed_pairs_by_number_spelling_and_dictionary(tmp_path):
    first = WordVectors(["the", "12", "x", "٣", "7", "half½"], np.eye(6, dtype="f4"))
    second = WordVectors(["x", "7", "half½", "12", "die", "٣"], np.eye(6, dtype="f4"))
    assert word_pairs("numerals", first, second) == ([1, 3, 4], [3, 5, 1])
    assert word_pairs("identical", first, second) == ([1, 2, 3, 4, 5], [3, 0, 5, 1, 2])
    muse = write_raw(tmp_path / "muse", "the die", "the x", "unknown x", "12 unknown")
    assert word_pairs("dictionary", first, second, muse) == ([0, 0], [4, 0])
    tsv = write_raw(tmp_path / "tsv", "the\tdie\t0.5\t1", "x\tx\t0.4\t1")
    assert word_pairs("dictionary", first, second, tsv) == ([0, 2], [4, 0])
    french = write_raw(tmp_path / "french", "chien hund", "chat katze")
    message = "none of its source words"
    assert_refused(message, word_pairs, "dictionary", first, second, french)


def test_bad_mappings_are_refused_before_anything_is_read(tmp_path):
    a, b, pairs = (write_raw(tmp_path / name, "never read") for name in ("a", "b", "pairs"))
    outputs, report = (tmp_path / "am", tmp_path / "bm"), tmp_path / "map.json"
    files, out_pairs = (a, b, outputs), tmp_path / "out.pairs"
    no_dictionary = {"seed_from": "dictionary", "dictionary": "none/x"}
    for path, options, message in (
        (a, {}, "a: is the file of --source too"),
        (report, {"seed_from": "luck"}, "--seed-from luck: valid: unsupervised, numerals"),
        (report, no_dictionary, "--dictionary none/x: no such file"),
    ):
        call = lambda: map_files(*files, path, MapOptions(**options), out_pairs)  # noqa: B023, E731
        assert_refused(message, call)
    assert sorted(tmp_path.iterdir()) == [a, b, pairs]


def write_mapped(folder):
    """Write two sides in one space, noisy copies; the first word of the first side has a blank."""
    first = vectors("a", 40)
    noise = np.random.default_rng(4).normal(size=(30, 10)).astype("f4")
    names = [f"b{number}" for number in range(30)]
    second = WordVectors(names, first.vectors[:30] + 0.2 * noise)
    first = first._replace(words=["a 0", *first.words[1:]])
    write_vectors([folder / "a", folder / "b"], "--output", [first, second])
    return folder / "a", folder / "b"


@pytest.mark.parametrize("block", [7, 4096])
def test_the_lexicon_is_csls_by_rank_in_both_directions(tmp_path, block):
    paths = write_mapped(tmp_path)
    outputs = tmp_path / "a-b.tsv", tmp_path / "b-a.tsv"
    options = LexiconOptions(top=3, neighbours=4, block=block)
    counts = induce(*paths, outputs, tmp_path / "m", options)
    sides = [read_vectors(path, "--source") for path in paths]
    scores = loops.csls(*(side.vectors.astype("f8") for side in sides), 4)
    for path, (source, target), table in (
        (outputs[0], sides, scores),
        (outputs[1], sides[::-1], list(zip(*scores))),
    ):
        expected = [
            [source.words[i], target.words[j], pytest.approx(row[j], abs=1e-5), rank]
            for i, row in enumerate(table)
            for rank, j in enumerate(loops.by_rank(row)[:3], start=1)
        ]
        rows = [line.split("\t") for line in read_lines(path)]
        assert [[*row[:2], float(row[2]), int(row[3])] for row in rows] == expected
    assert (counts["words"], counts["candidates"]) == ([40, 30], 3)
    assert not counts["looks_random"]
    assert read_json(tmp_path / "m")["counts"] == counts


def test_bad_vectors_leave_the_old_lexicon(tmp_path):
    first, second = write_mapped(tmp_path)
    rows = read_lines(second)
    rows[8] = f"{rows[8].rpartition(' ')[0]} nan"
    bad = write_raw(tmp_path / "bad", *rows)
    write_raw(tmp_path / "l", "old")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    unmapped = two_sides(tmp_path / "turned")
    for source, target, manifest, words in (
        (*unmapped, "m", [": mutual neighbours 0", "random rotation"]),
        (first, bad, "m", "line 9: the vector of 'b7' holds NaN"),
        (first, second, "a", "a: is the file of --source too"),
    ):
        files = source, target, [tmp_path / "l"], tmp_path / manifest
        assert_refused(words, induce, *files, LexiconOptions())
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


LEXICON = {
    "dog": ["katze", "hund", "tier"],
    "cat": ["katze", "hund"],
    "sun": ["mond", "stern"],
    "one": ["eins"],
}
DICTIONARY = {"dog": ["hund", "köter"], "cat": ["katze"], "sun": ["sonne"], "tree": ["baum"]}


def test_precision_and_coverage_by_hand():
    third, two_thirds = pytest.approx(100 / 3), pytest.approx(200 / 3)
    expected = {"words": 3, "coverage": 75.0, "p@1": third, "p@2": two_thirds, "p@5": two_thirds}
    assert score(LEXICON, DICTIONARY, [1, 2, 5]) == expected
    # The sun's translation is not in the target vocabulary and does not count.
    fewer = score(LEXICON, DICTIONARY, [1], targets={"hund", "katze", "mond", "stern"})
    assert fewer == {"words": 2, "coverage": 50.0, "p@1": 50.0}
    baseline = {"dog": ["hund"], "cat": ["hund", "katze"], "moon": ["mond"]}
    scores = score(LEXICON, DICTIONARY, [1, 2], baseline=baseline)  # on common words
    assert (scores["words"], scores["p@1"], scores["baseline"]["p@1"]) == (2, 50.0, 50.0)
    assert scores["mcnemar"] == {"only_first": 1, "only_second": 1, "p": 1.0}


@pytest.mark.parametrize(("only_first", "only_second"), [(0, 0), (5, 0), (3, 9)])
def test_mcnemar_is_the_binomial_test(only_first, only_second):
    total = only_first + only_second
    first = {number: number < only_first for number in range(total + 4)}
    second = {number: only_first <= number < total for number in first}
    counts = mcnemar({**first, -1: True}, {**second, -1: True})
    assert (counts["only_first"], counts["only_second"]) == (only_first, only_second)
    expected = binomtest(only_first, total).pvalue if total else 1.0
    assert counts["p"] == pytest.approx(expected)


def test_a_dictionary_of_another_direction_or_language_is_refused():
    names = ("--lexicon L", "--dictionary D")
    assert check_direction(LEXICON, DICTIONARY, *names) is None
    german = {"hund": ["dog"], "katze": ["cat"], "sonne": ["sun"]}
    french = {"dog": ["chien"], "cat": ["chat"]}
    for dictionary, words in (
        (german, ["--dictionary D: 0 of 3", "--lexicon L, but 2"]),
        (french, ["--dictionary D: none", "--lexicon L"]),
    ):
        assert_refused(words, check_direction, LEXICON, dictionary, *names)


def test_the_command_prints_and_stores_scores(tmp_path, capsys):
    rows = [
        f"{source}\t{target}\t0.5\t{rank}"
        for source, targets in LEXICON.items()
        for rank, target in enumerate(targets, 1)
    ]
    lexicon = write_raw(tmp_path / "l.tsv", *rows)
    pairs = ("DOG Hund", "dog Köter", "Cat Katze", "sun sonne", "tree baum")
    dictionary = write_raw(tmp_path / "d.txt", *pairs)
    baseline = write_raw(tmp_path / "b.txt", "dog hund", "cat hund", "sun mond")
    files = ["--dictionary", str(dictionary), "--baseline", str(baseline), "--lexicon"]
    scores = tmp_path / "s.json"
    score_lexicon.main([*files, str(lexicon), "--json", str(scores), "--at", "1,2"])
    table = capsys.readouterr().out
    assert "| lexicon | 3 | 75.0 | 33.3 | 66.7 |\n| baseline | 3 | 75.0 | 33.3 | 33.3 |" in table
    assert read_json(scores)["words"] == 3
    before = lexicon.read_bytes()
    same_file = [*files, str(lexicon), "--json", str(lexicon)]
    assert_refused(": is the file of --lexicon too", score_lexicon.main, same_file)
    assert lexicon.read_bytes() == before
    (tmp_path / "latin").write_bytes(b"caf\xe9 x\n")
    words = ["--lexicon", "line 1: byte 0xe9 is not UTF-8"]
    assert_refused(words, score_lexicon.main, [*files, str(tmp_path / "latin")])
