"""The toy corpus: hand-written sentences in three languages, reproducible bytes, splits that never meet."""

import hashlib
import json

import pytest

from data_prep import toy
from data_prep.toy import LANGUAGES, Clause, Meaning, NounPhrase, generate, realise, write_corpus
from data_prep.toy.__main__ import main
from data_prep.toy.toy_lexicon import ADJECTIVES, ADVERBS, NOUNS, PLACES, VERBS, gold_entries
from tests.unit.data_prep.files import lines, tree

COUNTS = {"train": 300, "valid": 20, "test": 20}


def named(table, english):
    """The entry of a lexicon table with this English word (adverbs, places: the whole phrase)."""
    (found,) = [entry for entry in table if entry.en == english]
    return found


def phrase(text):
    """A noun phrase from 'the|a|some|all|2..5 [adjective] noun' ('some': dogs, 'all': the dogs)."""
    determiner, *adjective, noun = text.split()
    number = int(determiner) if determiner.isdigit() else 0
    plural = bool(number) or determiner in ("some", "all")
    adjective = named(ADJECTIVES, adjective[0]) if adjective else None
    return NounPhrase(named(NOUNS, noun), determiner in ("the", "all"), plural, number, adjective)


def clause(text):
    """A clause from 'subject / verb / object [/ place]'; a verb with '*' is in the past tense."""
    subject, verb, thing, *place = text.split(" / ")
    place = named(PLACES, place[0]) if place else None
    return Clause(phrase(subject), named(VERBS, verb.rstrip("*")), phrase(thing), verb.endswith("*"), place)


def meaning(adverb, text, reason=None):
    return Meaning(clause(text), adverb and named(ADVERBS, adverb), reason and clause(reason))


# Meaning, then English, German and Turkish, written by hand.
EXPECTED = [
    (  # inversion, and a place between verb and object
        ("now", "all child / eats / the apple / in the garden"),
        "Now the children eat the apple in the garden.",
        "Jetzt essen die Kinder den Apfel im Garten.",
        "Şimdi çocuklar bahçede elmayı yiyor.",
    ),
    (  # the verb of a reason comes last
        (None, "a girl / loves / the cat", "the cat / catches / 2 mouse / in the kitchen"),
        "A girl loves the cat because the cat catches two mice in the kitchen.",
        "Ein Mädchen liebt die Katze, weil die Katze zwei Mäuse in der Küche fängt.",
        "Bir kız kediyi seviyor, çünkü kedi mutfakta iki fare yakalıyor.",
    ),
    (  # plurals with strong endings
        ("sometimes", "some hungry dog / steals / some fresh carrot / at the market"),
        "Sometimes hungry dogs steal fresh carrots at the market.",
        "Manchmal stehlen hungrige Hunde frische Karotten auf dem Markt.",
        "Bazen aç köpekler pazarda taze havuçlar çalıyor.",
    ),
    (  # and with weak ones
        ("recently", "all happy farmer / sells* / all expensive cup"),
        "Recently the happy farmers sold the expensive cups.",
        "Neulich verkauften die glücklichen Bauern die teuren Tassen.",
        "Geçenlerde mutlu çiftçiler pahalı fincanları sattı.",
    ),
    (  # a capital dotted i
        (None, "2 cow / breaks* / 4 window"),
        "Two cows broke four windows.",
        "Zwei Kühe zerbrachen vier Fenster.",
        "İki inek dört pencere kırdı.",
    ),
    (  # consonants that change
        ("usually", "the neighbor / feeds / the wolf", "the doctor / eats / the pear"),
        "Usually the neighbor feeds the wolf because the doctor eats the pear.",
        "Gewöhnlich füttert der Nachbar den Wolf, weil der Arzt die Birne isst.",
        "Genellikle komşu kurdu besliyor, çünkü doktor armudu yiyor.",
    ),
]


@pytest.mark.parametrize(("drawn", "english", "german", "turkish"), EXPECTED)
def test_sentences_written_by_hand(drawn, english, german, turkish):
    assert [realise(meaning(*drawn), language) for language in LANGUAGES] == [english, german, turkish]


def test_lexicon_is_one_to_one():
    entries = gold_entries()
    assert len(entries) == len(NOUNS) + len(ADJECTIVES) + len(VERBS) + len(ADVERBS) + len(PLACES) + 4 + 1
    assert [len(set(column)) for column in zip(*entries)] == [len(entries)] * len(LANGUAGES)


def test_same_seed_same_bytes_and_manifest_hashes(tmp_path):
    manifest = write_corpus(str(tmp_path / "a"), 7, COUNTS)
    assert write_corpus(str(tmp_path / "b"), 7, COUNTS) == manifest
    first, second = (tree(tmp_path / name) for name in "ab")
    assert first == second
    assert json.loads(first.pop("manifest.json")) == manifest
    assert {name: hashlib.sha256(data).hexdigest() for name, data in first.items()} == manifest["sha256"]
    assert len(first) == 3 * 3 + 3 and (manifest["seed"], manifest["counts"]) == (7, COUNTS)


def test_bytes_are_the_same_on_every_python_and_machine():
    text = "".join(f"{example.split} {example.texts}\n" for example in generate(1, COUNTS))
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    assert digest == "0803512eef838995d6bb993b5b3d4773ad28692efeac7d319b5bd0e6fb347f6c", (
        "the toy corpus changed: renew models trained on it"
    )


def test_splits_never_meet_whatever_the_seed_and_language():
    splits = {language: {} for language in LANGUAGES}
    for seed in range(4):
        for example in generate(seed, {"train": 4000, "valid": 200, "test": 200}):
            assert toy.split_of(example.texts["tr"]) == example.split
            for language in LANGUAGES:
                assert splits[language].setdefault(example.texts[language], example.split) == example.split


def test_command_writes_the_split_and_languages_asked_for(tmp_path):
    out = tmp_path / "corpus"
    main(["--out", str(out), "--seed", "3", "--train", "40", "--langs", "tr,en", "--split-only", "train"])
    assert set(tree(out)) == {"lexicon.en-tr.tsv", "manifest.json", "train.en", "train.tr"}
    expected = [example.texts for example in generate(3, {"train": 40})]
    for language in ("en", "tr"):
        assert lines(out / f"train.{language}") == [texts[language] for texts in expected]
    lexicon = [tuple(line.split("\t")) for line in lines(out / "lexicon.en-tr.tsv")]
    assert lexicon == [(english, turkish) for english, _, turkish in gold_entries()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "-1"], "argument --seed: '-1' is not valid: an integer >= 0 is needed"),
        (["--seed", "one"], "argument --seed: 'one' is not valid"),
        (["--train", "0"], "argument --train: '0' is not valid: an integer >= 1 is needed"),
        (["--langs", "en,fr"], "argument --langs: langs is 'en,fr'; valid: distinct codes out of en,de,tr"),
        (["--langs", "en,en"], "argument --langs: langs is 'en,en'"),
        (["--out", "{file}/corpus"], "argument --out: "),
    ],
)
def test_bad_options(tmp_path, capsys, options, message):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SystemExit) as stop:
        main(["--out", str(tmp_path / "never"), *(word.format(file=tmp_path / "file") for word in options)])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "never").exists()


def test_an_interrupted_run_leaves_the_older_corpus_alone(tmp_path):
    write_corpus(str(tmp_path), 1, COUNTS)
    before = tree(tmp_path)

    def interrupt(done, total):
        if done == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_corpus(str(tmp_path), 2, COUNTS, progress=interrupt)
    assert tree(tmp_path) == before
