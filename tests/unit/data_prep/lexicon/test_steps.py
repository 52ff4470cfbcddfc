"""The steps from text to a lexicon: words, vectors, their text, mapping, lexicons by CSLS, scores."""

import random
import sys

import numpy as np
import pytest
from gensim.models import KeyedVectors
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


def words_of(tmp_path, *text, **options):
    text_words.write_words([write_raw(tmp_path / "in", *text)], [tmp_path / "out"], **options)
    return read_lines(tmp_path / "out")


def test_words_are_runs_of_letters_marks_and_digits(tmp_path):
    text = ["The dog's well-known: 42 µm!", "", "Éte\u0301 ÄÖ", "में हूँ", "…"]
    assert words_of(tmp_path, *text) == ["the dog s well known 42 µm", "", "été äö", "में हूँ", ""]
    assert words_of(tmp_path, "The DOG", cased=True) == ["The DOG"]


def test_a_script_without_spaces_needs_a_segmenter(tmp_path):
    for line in ("我喜欢苹果。", "私は学生です", "ฉันชอบกินข้าว"):
        assert_refused(["script without spaces", "--segmenter is not given; valid: "], words_of, tmp_path, "ok " * 2, line)
    english = [f"sentence number {number} of this text" for number in range(28)]
    without_letters = ["1 2 3 ..."] * 50  # are not counted
    assert_refused("1 of 9 lines read (11%)", words_of, tmp_path, *english[:8], "他说天气很好。", *without_letters)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
    quoted = [*english, "他说天气很好。", "“天气很好”"]
    assert words_of(tmp_path, *quoted)[28:] == ["他说天气很好", "天气很好"]


def test_segmenters(tmp_path, monkeypatch):
    assert words_of(tmp_path, "我喜欢 Apple-Saft。", segmenter="character") == ["我 喜 欢 apple saft"]
    assert words_of(tmp_path, "我 喜欢 苹果 。", segmenter="spaces") == ["我 喜欢 苹果"]
    cut = "return [text[:1], text[1:3], text[3:], '。']"
    write_raw(tmp_path / "mine_of_this_test.py", f"def cut(text): {cut}", "def wrong(text): return [3]")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert words_of(tmp_path, "我喜欢苹果", segmenter="mine_of_this_test:cut") == ["我 喜欢 苹果"]
    for name, message in [
        ("mine_of_this_test:wrong", "gives int; valid: a function that gives strings"),
        ("jieba", "--segmenter jieba: valid: character, spaces"),
    ]:
        assert_refused(message, words_of, tmp_path, "我喜欢苹果", segmenter=name)
    sys.modules.pop("mine_of_this_test", None)


def test_there_and_back_and_as_gensim_reads_it(tmp_path):
    side = vectors("w", 30)
    write_vectors([tmp_path / "v"], "--output", [side])
    found, stock = read_vectors(tmp_path / "v", "--source"), KeyedVectors.load_word2vec_format(str(tmp_path / "v"))
    stock.save_word2vec_format(str(tmp_path / "stock"))
    back = read_vectors(tmp_path / "stock", "--source")
    assert found.words == list(stock.index_to_key) == back.words == side.words
    for values in (found.vectors, stock.vectors, back.vectors):
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, side.vectors)


def test_blanks_in_words_and_repeated_words(tmp_path, capsys):
    path = write_raw(tmp_path / "v", "4 2", "New York 1 2 ", "a 3 4", "a 5 6", "b\u00a0c 7 8")
    found = read_vectors(path, "--source")
    assert found.words == ["New York", "a", "b\u00a0c"]
    assert found.vectors.tolist() == [[1, 2], [3, 4], [7, 8]]
    assert "1 words come twice" in capsys.readouterr().err


@pytest.mark.cases(
    "content message",
    (b"a 1 2\nb 1 2\n", "line 1: 'a 1 2'; valid: the numbers of words and of dimensions"),
    (b"2 2\na 1 2\nb 1\n", "line 3: 2 columns; valid: a word and 2 numbers"),
    (b"2 2\na inf 2\nb 1 2\n", "line 2: the vector of 'a' holds NaN or an infinite number"),
    (b"3 2\na 1 2\nb 1 2\n", "2 words, but its first line says 3; valid: a complete file"),
    (b"2 2\na 1 2\nb 1 2\nc 1 2\n", "more than the 2 words that its first line says"),
    (b"2 1\na 1\n\xff 2\n", "line 3: not UTF-8"),
)
def test_vectors_that_are_refused(tmp_path, content, message):
    (tmp_path / "v").write_bytes(content)
    assert_refused(["--target ", message], read_vectors, tmp_path / "v", "--target")


@pytest.fixture
def corpus(tmp_path):
    """Words of two topics; one of them comes once."""
    rng = random.Random(3)
    lines = [" ".join(rng.choices(topic, k=6)) for topic in (["a", "b", "c"], ["x", "y", "z"]) for _ in range(40)]
    return write_raw(tmp_path / "words", *lines, "once a")


@pytest.mark.parametrize(("method", "sg"), [("skipgram", 1), ("cbow", 0)])
def test_vectors_are_gensims(corpus, method, sg):
    from gensim.models import Word2Vec

    own = {"window": 2, "negative": 2, "epochs": 2, "min_count": 2}
    text = [line.split() for line in corpus.read_text().splitlines()]
    stock = Word2Vec(text, sg=sg, seed=5, workers=1, vector_size=8, **own)
    found = train_vectors(corpus, VectorOptions(**own, dim=8, method=method, seed=5))
    assert found.words == stock.wv.index_to_key
    np.testing.assert_array_equal(found.vectors, stock.wv.vectors)


def test_nothing_to_learn_from(corpus, tmp_path, monkeypatch):
    words = "1 words come 5 times or more (--min-count); valid: 2 or"
    assert_refused(words, train_vectors, write_raw(tmp_path / "few", "one one one one one one"), VectorOptions())
    assert_refused("--method glove: valid: skipgram, cbow", VectorOptions, method="glove")
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    assert_refused("the package gensim is missing; valid: pip install gensim", train_vectors, corpus, VectorOptions())


def run(sides, out, dictionary_output=None, **options):
    outputs = out / "a.mapped", out / "b.mapped"
    return map_files(*sides, outputs, out / "map.json", MapOptions(**options), dictionary_output)


def test_a_rotation_is_undone_and_reported(tmp_path):
    counts = run(two_sides(tmp_path), tmp_path / "out", dictionary_output=tmp_path / "out/pairs")
    a, b = (read_vectors(tmp_path / "out" / name, "--source") for name in ("a.mapped", "b.mapped"))
    np.testing.assert_allclose(np.linalg.norm(a.vectors, axis=1), 1.0, atol=1e-5)
    nearest = [b.words[place] for place in (a.vectors @ b.vectors.T).argmax(1)]
    assert nearest == [f"b{word[1:]}" for word in a.words]
    assert read_candidates(tmp_path / "out/pairs", "--dictionary") == mates(a.words)
    report = read_json(tmp_path / "out/map.json")
    assert report["counts"] == counts
    assert (counts["words"], counts["seed_pairs"], counts["found"]["mutual"]) == ([200, 200], 400, 1.0)
    assert counts["converged"] and not counts["looks_random"]
    assert len(counts["objective"]) == counts["iterations"] == len(counts["keep"])
    assert counts["objective"][-1] == pytest.approx(1.0, abs=1e-4)
    assert (counts["keep"][0], counts["keep"][-1]) == (0.1, 1.0)
    assert [row["file"] for row in report["outputs"]] == ["a.mapped", "b.mapped", "pairs"]


def test_seeds_from_words(tmp_path):
    first = WordVectors(["the", "12", "x", "٣", "7", "half½"], np.eye(6, dtype="f4"))
    second = WordVectors(["x", "7", "half½", "12", "die", "٣"], np.eye(6, dtype="f4"))
    assert word_pairs("numerals", first, second) == ([1, 3, 4], [3, 5, 1])
    assert word_pairs("identical", first, second) == ([1, 2, 3, 4, 5], [3, 0, 5, 1, 2])
    muse = write_raw(tmp_path / "muse", "the die", "the x", "unknown x", "12 unknown")
    assert word_pairs("dictionary", first, second, muse) == ([0, 0], [4, 0])
    tsv = write_raw(tmp_path / "tsv", "the\tdie\t0.5\t1", "x\tx\t0.4\t1")
    assert word_pairs("dictionary", first, second, tsv) == ([0, 2], [4, 0])
    sides = vectors("a", 9), vectors("b", 9)
    other = write_raw(tmp_path / "other", "chien hund", "chat katze")
    assert_refused("none of its source words is in the vectors", word_pairs, "dictionary", *sides, other)


def test_mapping_that_is_refused(tmp_path):
    a, b, pairs = (write_raw(tmp_path / name, "never read") for name in ("a.vec", "b.vec", "pairs"))
    for names, options, words in (
        ({"report": "a.vec"}, {}, "a.vec: is the file of --source too; valid: a file of its own"),
        ({}, {"seed_from": "luck"}, "--seed-from luck: valid: unsupervised, numerals, identical, dictionary"),
        ({}, {"seed_from": "dictionary", "dictionary": "none/x"}, "--dictionary none/x: no such file; valid: pairs of"),
    ):
        names = {"source": "am", "target": "bm", "report": "map.json", "pairs": "out.pairs", **names}
        source, target, report, written = (tmp_path / names[name] for name in ("source", "target", "report", "pairs"))
        assert_refused(words, lambda: map_files(a, b, (source, target), report, MapOptions(**options), written))  # noqa: B023
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.vec", "b.vec", "pairs"]


def mapped(folder):
    """Two sides in one space: noisy copies; the first word of the first one has a blank."""
    first = vectors("a", 40)
    noise = np.random.default_rng(4).normal(size=(30, 10)).astype("f4")
    second = WordVectors([f"b{number}" for number in range(30)], first.vectors[:30] + 0.2 * noise)
    write_vectors([folder / "a", folder / "b"], "--output", [first._replace(words=["a 0", *first.words[1:]]), second])
    return folder / "a", folder / "b"


@pytest.mark.parametrize("block", [7, 4096])
def test_the_lexicon_is_csls_by_rank_in_both_directions(tmp_path, block):
    sides = mapped(tmp_path)
    outputs = tmp_path / "a-b.tsv", tmp_path / "b-a.tsv"
    counts = induce(*sides, outputs, tmp_path / "m", LexiconOptions(top=3, neighbours=4, block=block))
    both = [read_vectors(path, "--source") for path in sides]
    scores = loops.csls(*(side.vectors.astype("f8") for side in both), 4)
    for path, (ours, theirs), table in ((outputs[0], both, scores), (outputs[1], both[::-1], list(zip(*scores)))):
        expected = [
            [ours.words[i], theirs.words[j], pytest.approx(row[j], abs=1e-5), rank]
            for i, row in enumerate(table)
            for rank, j in enumerate(loops.by_rank(row)[:3], start=1)
        ]
        found = [line.split("\t") for line in read_lines(path)]
        assert [[*cells[:2], float(cells[2]), int(cells[3])] for cells in found] == expected
    assert (counts["words"], counts["candidates"], counts["looks_random"]) == ([40, 30], 3, False)
    assert read_json(tmp_path / "m")["counts"] == counts


def test_lexicons_that_are_refused_leave_everything_as_it_was(tmp_path):
    first, second = mapped(tmp_path)
    rows = read_lines(second)
    write_raw(tmp_path / "bad", *rows[:8], f"{rows[8].rpartition(' ')[0]} nan", *rows[9:])
    write_vectors([tmp_path / "c", tmp_path / "short"], "--output", [vectors("c", 9), vectors("d", 9)])
    write_raw(tmp_path / "l", "old")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    unmapped = two_sides(tmp_path / "turned")
    for source, target, outputs, manifest, words in (
        (*unmapped, ["l"], "m", [": mutual neighbours 0", " after a random rotation", "; valid: vectors in one space"]),
        (first, tmp_path / "bad", ["l"], "m", "line 9: the vector of 'b7' holds NaN"),
        (first, second, ["l"], "a", "a: is the file of --source too; valid: a file of its own"),
    ):
        outputs = [tmp_path / name for name in outputs]
        assert_refused(words, induce, source, target, outputs, tmp_path / manifest, LexiconOptions())
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


LEXICON = {"dog": ["katze", "hund", "tier"], "cat": ["katze", "hund"], "sun": ["mond", "stern"], "one": ["eins"]}
DICTIONARY = {"dog": ["hund", "köter"], "cat": ["katze"], "sun": ["sonne"], "tree": ["baum"]}


def test_precision_and_coverage_by_hand():
    both = dict.fromkeys(("p@2", "p@5"), pytest.approx(200 / 3))
    expected = {"words": 3, "coverage": 75.0, "p@1": pytest.approx(100 / 3), **both}
    assert score(LEXICON, DICTIONARY, [1, 2, 5]) == expected
    # The sun's translation is not in the target vocabulary: it cannot be found and does not count.
    fewer = score(LEXICON, DICTIONARY, [1], targets={"hund", "katze", "mond", "stern"})
    assert fewer == {"words": 2, "coverage": 50.0, "p@1": 50.0}
    baseline = {"dog": ["hund"], "cat": ["hund", "katze"], "moon": ["mond"]}
    found = score(LEXICON, DICTIONARY, [1, 2], baseline=baseline)  # on common words
    assert (found["words"], found["p@1"], found["baseline"]["p@1"]) == (2, 50.0, 50.0)
    assert found["mcnemar"] == {"only_first": 1, "only_second": 1, "p": 1.0}


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (3, 9)])
def test_mcnemar_is_the_binomial_test(first, second):
    right = {number: number < first for number in range(first + second + 4)}
    other = {number: first <= number < first + second for number in right}
    found = mcnemar({**right, -1: True}, {**other, -1: True})
    assert (found["only_first"], found["only_second"]) == (first, second)
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    assert found["p"] == pytest.approx(expected)


def test_the_wrong_direction_and_language():
    names = ("--lexicon L", "--dictionary D")
    assert check_direction(LEXICON, DICTIONARY, *names) is None
    turned = {"hund": ["dog"], "katze": ["cat"], "sonne": ["sun"]}
    for dictionary, words in (
        (turned, "0 of 3 pairs have both words in --lexicon L, but 2 the"),
        ({"dog": ["chien"], "cat": ["chat"]}, "none of its pairs is in --lexicon L"),
    ):
        assert_refused(["--dictionary D: ", words], check_direction, LEXICON, dictionary, *names)


def test_the_command_line(tmp_path, capsys):
    rows = [f"{word}\t{each}\t0.5\t{rank}" for word, found in LEXICON.items() for rank, each in enumerate(found, 1)]
    lexicon = write_raw(tmp_path / "l.tsv", *rows)
    dictionary = write_raw(tmp_path / "d.txt", "DOG Hund", "dog Köter", "Cat Katze", "sun sonne", "tree baum")
    baseline = write_raw(tmp_path / "b.txt", "dog hund", "cat hund", "sun mond")
    line = ["--lexicon", str(lexicon), "--dictionary", str(dictionary), "--baseline", str(baseline)]
    score_lexicon.main([*line, "--json", str(tmp_path / "s.json"), "--at", "1,2"])
    shown = capsys.readouterr().out
    assert "| lexicon | 3 | 75.0 | 33.3 | 66.7 |\n| baseline | 3 | 75.0 | 33.3 | 33.3 |" in shown
    assert read_json(tmp_path / "s.json")["words"] == 3
    before = lexicon.read_bytes()
    assert_refused(": is the file of --lexicon too", score_lexicon.main, [*line, "--json", str(lexicon)])
    assert lexicon.read_bytes() == before
    (tmp_path / "latin").write_bytes(b"caf\xe9 x\n")
    words = ["--lexicon: lexicon ", "line 1: byte 0xe9 is not UTF-8"]
    assert_refused(words, score_lexicon.main, ["--lexicon", str(tmp_path / "latin"), *line[2:]])
