"""The toy corpus: hand-written sentences in three languages, reproducible bytes, splits that never meet."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from data_prep.toy import (
    LANGUAGES,
    SPLITS,
    Clause,
    Meaning,
    MeaningSampler,
    NounPhrase,
    Rates,
    generate,
    realise,
    split_of,
    write_corpus,
)
from data_prep.toy.__main__ import main
from data_prep.toy.toy_lexicon import ADJECTIVES, ADVERBS, NOUNS, PLACES, VERBS, gold_entries

REPOSITORY = Path(__file__).resolve().parents[3]
COUNTS = {"train": 300, "valid": 20, "test": 20}


def named(table, english):
    """The entry of a lexicon table with this English word (adverbs, places: the whole phrase)."""
    (found,) = [entry for entry in table if entry.en == english]
    return found


def phrase(text):
    """Builds a noun phrase from 'the|a|some|all|2..5 [adjective] noun' ('some': dogs, 'all': the dogs)."""
    determiner, *adjective, noun = text.split()
    number = int(determiner) if determiner.isdigit() else 0
    return NounPhrase(
        noun=named(NOUNS, noun),
        definite=determiner in ("the", "all"),
        plural=bool(number) or determiner in ("some", "all"),
        number=number,
        adjective=named(ADJECTIVES, adjective[0]) if adjective else None,
    )


def clause(subject, verb, thing, past=False, place=None):
    return Clause(phrase(subject), named(VERBS, verb), phrase(thing), past, place and named(PLACES, place))


def meaning(main_clause, adverb=None, reason=None):
    return Meaning(main_clause, adverb and named(ADVERBS, adverb), reason)


EXPECTED = {
    "plain": (
        meaning(clause("the man", "sees", "the dog")),
        "The man sees the dog.",
        "Der Mann sieht den Hund.",
        "Adam köpeği görüyor.",
    ),
    "inversion_after_adverb": (
        meaning(clause("the queen", "finds", "a key", True), "yesterday"),
        "Yesterday the queen found a key.",
        "Gestern fand die Königin einen Schlüssel.",
        "Dün kraliçe bir anahtar buldu.",
    ),
    "inversion_with_place": (
        meaning(clause("all child", "eats", "the apple", place="in the garden"), "now"),
        "Now the children eat the apple in the garden.",
        "Jetzt essen die Kinder den Apfel im Garten.",
        "Şimdi çocuklar bahçede elmayı yiyor.",
    ),
    "because_clause_verb_last": (
        meaning(
            clause("a girl", "loves", "the cat"),
            reason=clause("the cat", "catches", "2 mouse", place="in the kitchen"),
        ),
        "A girl loves the cat because the cat catches two mice in the kitchen.",
        "Ein Mädchen liebt die Katze, weil die Katze zwei Mäuse in der Küche fängt.",
        "Bir kız kediyi seviyor, çünkü kedi mutfakta iki fare yakalıyor.",
    ),
    "inversion_and_because_clause": (
        meaning(
            clause("some wolf", "chases", "the rabbit", True), "often", clause("the hunter", "sells", "a hat", True)
        ),
        "Often wolves chased the rabbit because the hunter sold a hat.",
        "Oft verfolgten Wölfe das Kaninchen, weil der Jäger einen Hut verkaufte.",
        "Sıkça kurtlar tavşanı kovaladı, çünkü avcı bir şapka sattı.",
    ),
    "masculine_adjectives": (
        meaning(clause("a old teacher", "carries", "the heavy table")),
        "An old teacher carries the heavy table.",
        "Ein alter Lehrer trägt den schweren Tisch.",
        "Yaşlı bir öğretmen ağır masayı taşıyor.",
    ),
    "feminine_adjectives": (
        meaning(clause("a young woman", "washes", "the red tomato", True)),
        "A young woman washed the red tomato.",
        "Eine junge Frau wusch die rote Tomate.",
        "Genç bir kadın kırmızı domatesi yıkadı.",
    ),
    "neuter_adjectives": (
        meaning(clause("a small child", "takes", "a new book")),
        "A small child takes a new book.",
        "Ein kleines Kind nimmt ein neues Buch.",
        "Küçük bir çocuk yeni bir kitap alıyor.",
    ),
    "definite_neuter_and_indefinite_masculine_object": (
        meaning(clause("the tired horse", "hears", "a strong lion", place="in the forest")),
        "The tired horse hears a strong lion in the forest.",
        "Das müde Pferd hört einen starken Löwen im Wald.",
        "Yorgun at ormanda güçlü bir aslan duyuyor.",
    ),
    "weak_noun_definite_object": (
        meaning(clause("the clever nurse", "knows", "the poor boy")),
        "The clever nurse knows the poor boy.",
        "Die kluge Krankenschwester kennt den armen Jungen.",
        "Akıllı hemşire fakir oğlanı tanıyor.",
    ),
    "indefinite_plurals_strong_endings": (
        meaning(clause("some hungry dog", "steals", "some fresh carrot", place="at the market"), "sometimes"),
        "Sometimes hungry dogs steal fresh carrots at the market.",
        "Manchmal stehlen hungrige Hunde frische Karotten auf dem Markt.",
        "Bazen aç köpekler pazarda taze havuçlar çalıyor.",
    ),
    "definite_plurals_weak_endings": (
        meaning(clause("all happy farmer", "sells", "all expensive cup", True), "recently"),
        "Recently the happy farmers sold the expensive cups.",
        "Neulich verkauften die glücklichen Bauern die teuren Tassen.",
        "Geçenlerde mutlu çiftçiler pahalı fincanları sattı.",
    ),
    "numerals_with_adjectives": (
        meaning(clause("3 white bird", "watches", "5 black snake", place="on the beach")),
        "Three white birds watch five black snakes on the beach.",
        "Drei weiße Vögel beobachten fünf schwarze Schlangen am Strand.",
        "Üç beyaz kuş plajda beş siyah yılan izliyor.",
    ),
    "turkish_capital_dotted_i": (
        meaning(clause("2 cow", "breaks", "4 window", True)),
        "Two cows broke four windows.",
        "Zwei Kühe zerbrachen vier Fenster.",
        "İki inek dört pencere kırdı.",
    ),
    "harmony_of_plural_accusatives": (
        meaning(clause("all friend", "repairs", "all clock"), reason=clause("all guest", "opens", "all door")),
        "The friends repair the clocks because the guests open the doors.",
        "Die Freunde reparieren die Uhren, weil die Gäste die Türen öffnen.",
        "Arkadaşlar saatleri onarıyor, çünkü misafirler kapıları açıyor.",
    ),
    "consonant_mutation": (
        meaning(clause("the neighbor", "feeds", "the wolf"), "usually", clause("the doctor", "eats", "the pear")),
        "Usually the neighbor feeds the wolf because the doctor eats the pear.",
        "Gewöhnlich füttert der Nachbar den Wolf, weil der Arzt die Birne isst.",
        "Genellikle komşu kurdu besliyor, çünkü doktor armudu yiyor.",
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_sentences_written_by_hand(name):
    drawn, *sentences = EXPECTED[name]
    assert [realise(drawn, language) for language in LANGUAGES] == sentences


def test_turkish_plural_accusative_follows_vowel_harmony():
    forms = {noun.en: (noun.tr_plural, noun.tr_plural_accusative) for noun in NOUNS}
    assert forms["dog"] == ("köpekler", "köpekleri")
    assert forms["book"] == ("kitaplar", "kitapları")
    assert forms["bird"] == ("kuşlar", "kuşları")
    assert forms["cake"] == ("kekler", "kekleri")
    assert forms["clock"] == ("saatler", "saatleri")


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


def test_every_gold_word_occurs_in_a_corpus():
    words = {language: set() for language in LANGUAGES}
    for example in generate(3, {"train": 8000}):
        for language in LANGUAGES:
            words[language].update(example.texts[language].rstrip(".").replace(",", "").split())
    for entry in gold_entries():
        for word, language in zip(entry, LANGUAGES):
            capitalised = ("İ" if word[0] == "i" and language == "tr" else word[0].upper()) + word[1:]
            assert {word, capitalised} & words[language], (word, language)


def test_english_and_german_tell_all_meanings_apart():
    sampler = MeaningSampler(5, Rates(adverb=0.1, adjective=0.1, place=0.1, reason=0.0))
    meanings = {sampler.draw() for _ in range(30000)}
    turkish_of = {}
    for language in ("en", "de"):
        sentences = [realise(drawn, language) for drawn in meanings]
        assert len(set(sentences)) == len(meanings), language
    for drawn in meanings:
        turkish_of.setdefault(realise(drawn, "tr"), []).append(drawn)
    assert len(turkish_of) < len(meanings)
    for group in turkish_of.values():
        without_article = {drawn.clause.subject._replace(definite=False) for drawn in group}
        assert len(without_article) == 1
        assert all(drawn.clause.subject.plural for drawn in group[1:])


def test_same_seed_same_bytes_and_manifest_hashes(tmp_path):
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    manifest = write_corpus(first, 7, COUNTS)
    assert write_corpus(second, 7, COUNTS) == manifest
    names = sorted(os.listdir(first))
    assert names == sorted(os.listdir(second)) == sorted([*manifest["sha256"], "manifest.json"])
    assert len(names) == 3 * 3 + 3 + 1
    for name in names:
        data = (tmp_path / "a" / name).read_bytes()
        assert data == (tmp_path / "b" / name).read_bytes()
        assert b"\r" not in data
        assert data.endswith(b"\n")
        if name != "manifest.json":
            assert hashlib.sha256(data).hexdigest() == manifest["sha256"][name]
    assert json.loads((tmp_path / "a" / "manifest.json").read_text("utf-8")) == manifest
    assert manifest["seed"] == 7
    assert manifest["counts"] == COUNTS


def test_bytes_are_the_same_on_every_python_and_machine():
    text = "".join(f"{example.split} {example.texts}\n" for example in generate(1, COUNTS))
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    assert digest == "0803512eef838995d6bb993b5b3d4773ad28692efeac7d319b5bd0e6fb347f6c", (
        "the toy corpus changed: renew models trained on it"
    )


def test_another_seed_gives_other_sentences():
    first, second = ({example.texts["en"] for example in generate(seed, COUNTS)} for seed in (1, 2))
    assert len(first & second) < len(first) // 10


def test_splits_never_meet_whatever_the_seed_and_language():
    splits = {language: {} for language in LANGUAGES}
    for seed in range(4):
        for example in generate(seed, {"train": 4000, "valid": 200, "test": 200}):
            assert split_of(example.texts["tr"]) == example.split
            for language in LANGUAGES:
                assert splits[language].setdefault(example.texts[language], example.split) == example.split


def test_split_shares_are_one_in_twenty():
    sampler = MeaningSampler(11)
    counted = Counter(split_of(realise(sampler.draw(), "tr")) for _ in range(20000))
    assert 800 < counted["test"] < 1200
    assert 800 < counted["valid"] < 1200


def test_counts_are_parallel_without_duplicates():
    counts = {"train": 20000, "valid": 20, "test": 20}
    texts = {(split, language): [] for split in SPLITS for language in LANGUAGES}
    for example in generate(9, counts):
        for language in LANGUAGES:
            texts[example.split, language].append(example.texts[language])
    for (split, _), sentences in texts.items():
        assert len(sentences) == counts[split] == len(set(sentences))


def test_smaller_corpus_is_the_head_of_a_larger_one():
    small = [example.texts for example in generate(4, {"train": 50})]
    large = [example.texts for example in generate(4, {"train": 120, "test": 3}) if example.split == "train"]
    assert small == large[:50]


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


def test_bad_rate():
    with pytest.raises(ValueError, match=r"rate place is 1\.5; valid: 0 to 1"):
        MeaningSampler(1, Rates(place=1.5))


def test_command_writes_the_split_and_languages_asked_for(tmp_path):
    options = ["--out", "corpus", "--seed", "3", "--train", "40", "--langs", "tr,en", "--split-only", "train"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "12"}
    command = [sys.executable, "-m", "data_prep.toy", *options]
    done = subprocess.run(command, cwd=str(tmp_path), env=environment, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    assert "40 of 40 sentences" in done.stderr
    out = tmp_path / "corpus"
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
        (["--test", "2.5"], "argument --test: '2.5' is not valid"),
        (["--langs", "en,fr"], "argument --langs: langs is 'en,fr'; valid: distinct codes out of en,de,tr"),
        (["--langs", "en,en"], "argument --langs: langs is 'en,en'"),
        (["--langs", ""], "argument --langs: langs is ''"),
        (["--split-only", "dev"], "argument --split-only: invalid choice: 'dev'"),
    ],
)
def test_bad_options(tmp_path, capsys, options, message):
    with pytest.raises(SystemExit) as stop:
        main(["--out", str(tmp_path / "never"), *options])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "never").exists()


def test_out_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SystemExit) as stop:
        main(["--out", str(tmp_path / "file" / "corpus")])
    assert stop.value.code == 2
    assert "argument --out: " in capsys.readouterr().err


def test_an_interrupted_run_leaves_the_older_corpus_alone(tmp_path):
    write_corpus(str(tmp_path), 1, COUNTS)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(str(tmp_path))}

    def interrupt(done, total):
        if done == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_corpus(str(tmp_path), 2, COUNTS, progress=interrupt)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(str(tmp_path))} == before
