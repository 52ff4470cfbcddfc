"""The toy corpus: hand-written sentences in three languages, reproducible bytes, splits that never meet."""

import hashlib
import json
import os
from collections import Counter

import pytest

from data_prep import toy
from data_prep.toy import LANGUAGES, Clause, Meaning, NounPhrase, generate, realise, write_corpus
from data_prep.toy.__main__ import main
from data_prep.toy.toy_lexicon import ADJECTIVES, ADVERBS, NOUNS, PLACES, VERBS, gold_entries

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
    (
        ("often", "some wolf / chases* / the rabbit", "the hunter / sells* / a hat"),
        "Often wolves chased the rabbit because the hunter sold a hat.",
        "Oft verfolgten Wölfe das Kaninchen, weil der Jäger einen Hut verkaufte.",
        "Sıkça kurtlar tavşanı kovaladı, çünkü avcı bir şapka sattı.",
    ),
    (
        (None, "a small child / takes / a new book"),
        "A small child takes a new book.",
        "Ein kleines Kind nimmt ein neues Buch.",
        "Küçük bir çocuk yeni bir kitap alıyor.",
    ),
    (
        (None, "the tired horse / hears / a strong lion / in the forest"),
        "The tired horse hears a strong lion in the forest.",
        "Das müde Pferd hört einen starken Löwen im Wald.",
        "Yorgun at ormanda güçlü bir aslan duyuyor.",
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
    (
        (None, "3 white bird / watches / 5 black snake / on the beach"),
        "Three white birds watch five black snakes on the beach.",
        "Drei weiße Vögel beobachten fünf schwarze Schlangen am Strand.",
        "Üç beyaz kuş plajda beş siyah yılan izliyor.",
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


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_lexicon_is_one_to_one():
    entries = gold_entries()
    assert len(entries) == len(NOUNS) + len(ADJECTIVES) + len(VERBS) + len(ADVERBS) + len(PLACES) + 4 + 1
    for column, language in enumerate(LANGUAGES):
        counted = Counter(entry[column] for entry in entries)
        assert [word for word, count in counted.items() if count > 1] == [], language


def test_no_english_form_belongs_to_two_words():
    owners = {}
    for table in (NOUNS, ADJECTIVES, VERBS, ADVERBS, PLACES):
        for entry in table:
            forms = [entry.en] + [getattr(entry, name) for name in ("en_plural", "en_past") if hasattr(entry, name)]
            assert len(set(forms)) == len(forms), entry
            for form in forms:
                owners.setdefault(form, []).append(entry.en)
    assert {form: entries for form, entries in owners.items() if len(entries) > 1} == {}


def test_same_seed_same_bytes_and_manifest_hashes(tmp_path):
    manifest = write_corpus(str(tmp_path / "a"), 7, COUNTS)
    assert write_corpus(str(tmp_path / "b"), 7, COUNTS) == manifest
    first, second = (contents(tmp_path / name) for name in "ab")
    assert first == second
    assert json.loads(first.pop("manifest.json")) == manifest
    assert {name: hashlib.sha256(data).hexdigest() for name, data in first.items()} == manifest["sha256"]
    assert len(first) == 3 * 3 + 3
    assert (manifest["seed"], manifest["counts"]) == (7, COUNTS)


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


@pytest.mark.parametrize(
    ("seed", "counts", "message"),
    [
        (-1, {"train": 1}, "seed is -1; valid: an integer >= 0"),
        ("1", {"train": 1}, "seed is '1'"),
        (True, {"train": 1}, "seed is True"),
        (1, {}, "counts is empty"),
        (1, {"dev": 1}, "split 'dev' is unknown; valid: train, valid, test"),
        (1, {"train": 0}, "train count is 0; valid: an integer >= 1"),
        (1, {"test": 1.5}, "test count is 1.5"),
    ],
)
def test_bad_arguments_of_generate(seed, counts, message):
    with pytest.raises(ValueError, match=message):
        next(generate(seed, counts))


def test_command_writes_the_split_and_languages_asked_for(tmp_path):
    out = tmp_path / "corpus"
    main(["--out", str(out), "--seed", "3", "--train", "40", "--langs", "tr,en", "--split-only", "train"])
    assert sorted(os.listdir(str(out))) == ["lexicon.en-tr.tsv", "manifest.json", "train.en", "train.tr"]
    expected = [example.texts for example in generate(3, {"train": 40})]
    for language in ("en", "tr"):
        lines = (out / f"train.{language}").read_text("utf-8").split("\n")
        assert lines == [texts[language] for texts in expected] + [""]
    lexicon = [tuple(line.split("\t")) for line in (out / "lexicon.en-tr.tsv").read_text("utf-8").splitlines()]
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
    before = contents(tmp_path)

    def interrupt(done, total):
        if done == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_corpus(str(tmp_path), 2, COUNTS, progress=interrupt)
    assert contents(tmp_path) == before
