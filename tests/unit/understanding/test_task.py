"""Test the base of the understanding tasks: dictionary, languages, subsets, positions, errors."""

import re
from types import SimpleNamespace

import pytest
from fairseq.tasks import FairseqTask

from fairseq_plugins.understanding.inputs import NLUDataset
from fairseq_plugins.understanding.task import NLUConfig, NLUTask
from tests import builders, nlu_bins
from tests.builders import MASK
from tests.unit.common.making import load

LABELS = ["no", "yes", "maybe"]
EN, DE = builders.sentences(12, 1), builders.sentences(6, 2)


class PlainTask(NLUTask):
    """A task whose items are texts, and whose model has no head."""

    def load_language(self, name):
        return NLUDataset(self.inputs(name), self.input_options(name))

    def add_head(self, model):
        pass


def make_task(folder, **options):
    return PlainTask.setup_task(NLUConfig(**{"data": str(folder), "seed": 1, **options}))


@pytest.fixture(scope="module")
def folder(path):
    """Single sentences in two languages."""
    nlu_bins.write_texts(path, "input0", "train.en", EN)
    nlu_bins.write_texts(path, "input0", "train.de", DE)
    nlu_bins.write_dictionary(path / "label" / "dict.txt", LABELS)
    return path


@pytest.fixture
def dictionaries(tmp_path):
    """A folder of dictionaries alone: one for all texts, one beside input0, and the labels."""
    nlu_bins.write_dictionary(tmp_path / "dict.txt", ["x"])
    nlu_bins.write_dictionary(tmp_path / "input0" / "dict.txt", ["a", "[en_XX]", "b"])
    nlu_bins.write_dictionary(tmp_path / "label" / "dict.txt", LABELS)
    return tmp_path


def test_languages_and_mask_follow_the_dictionary(folder, dictionaries):
    assert make_task(folder).dictionary.symbols[MASK:] == ["<mask>"]
    task = make_task(folder, langs="en_XX,de_DE,fr_XX")
    assert task.dictionary.symbols[MASK:] == ["[en_XX]", "[de_DE]", "[fr_XX]", "<mask>"]
    assert task.source_dictionary is task.target_dictionary is task.dictionary
    # The dictionary beside input0 is read first; a language that it has is not added again.
    symbols = make_task(dictionaries, langs="en_XX,de_DE").dictionary.symbols
    assert symbols[4:] == ["a", "[en_XX]", "b", "[de_DE]", "<mask>"]
    (dictionaries / "input0" / "dict.txt").unlink()
    assert make_task(dictionaries).dictionary.symbols[4:] == ["x", "<mask>"]
    for file, missing in (("label/dict.txt", "label/dict"), ("dict.txt", "input0/dict")):
        (dictionaries / file).unlink()
        with pytest.raises(ValueError, match=rf"no dictionary .*{missing}\.txt"):
            make_task(dictionaries)


@pytest.mark.cases(
    "name langs codes symbol",
    ("test.de", "en_XX,de_DE", "", "[de_DE]"),
    ("test.de_DE", "en_XX,de_DE", "", "[de_DE]"),
    ("test.de", "eng_Latn,deu_Latn", "de=deu_Latn", "[deu_Latn]"),
    ("test.de", "de_DE,de_AT", "en=de_DE,de=de_AT", "[de_AT]"),
)
def test_a_subset_has_the_symbol_of_its_language(folder, name, langs, codes, symbol):
    task = make_task(folder, langs=langs, language_codes=codes, input_format="mbart")
    assert task.languages.symbol(name) == symbol


@pytest.mark.cases(
    "langs codes message",
    ("en_XX,fr_XX", "", "test.de: language de, .*de=CODE.* en_XX, fr_XX"),
    ("de_DE,de_AT", "", "test.de: .*has de_DE, de_AT.*--language-codes"),
    ("en_XX,de_DE", "de=deu_Latn", "language deu_Latn"),
)
def test_a_language_without_one_symbol_is_refused(folder, langs, codes, message):
    task = make_task(folder, langs=langs, language_codes=codes, input_format="mbart")
    with pytest.raises(ValueError, match=message):
        task.languages.symbol("test.de")


@pytest.mark.cases(
    "options message",
    ({"input_format": "mbart"}, "--input-format mbart needs --langs"),
    ({"langs": "en_XX,de_DE,en_XX"}, "--langs names en_XX more than once"),
    ({"langs": "en_XX", "language_template": "[]"}, r"--language-template .*'\[\]'"),
    *(({"language_codes": text}, f"--language-codes .*'{text}'") for text in ("de", "de=", "=x")),
)
def test_bad_options_are_refused_by_name(folder, options, message):
    with pytest.raises(ValueError, match=message):
        make_task(folder, **options)


def test_missing_and_empty_subsets_are_named(dictionaries):
    nlu_bins.write_rows(dictionaries / "input0", "test.de", [])
    nlu_bins.write_texts(dictionaries, "input0", "idx.en", EN)
    (dictionaries / "input0" / "idx.en.idx").unlink()
    for name, fault in (
        ("test.fr", r"test\.fr\.bin is missing; subsets there: test\.de"),
        ("test.de", r"test\.de\.bin is empty"),
        ("idx.en", r"idx\.en\.idx is missing"),
        ("valid.*", r"matches none; subsets there: test\.de"),
    ):
        with pytest.raises(ValueError, match=rf"subset {re.escape(name)}: .*{fault}"):
            load(make_task(dictionaries), name)


def test_a_pattern_is_each_row_of_its_subsets_and_sampled_in_training_only(folder):
    task = make_task(folder, sampling_temperature=5)

    def rows(split, **options):
        data = load(task, split, **options)
        return sorted(data[index]["tokens"].tolist() for index in range(len(data)))

    expected = sorted([*rows("train.en"), *rows("train.de")])
    assert rows("tr*.*") == expected != rows("train.*", combine=True)


def test_languages_and_labels_must_be_those_of_the_checkpoint(folder, dictionaries):
    state = make_task(folder, langs="en_XX,de_DE").get_checkpoint_dict()["PlainTask"]
    make_task(folder, langs="en_XX,de_DE").load_state_dict(state)
    for langs in ("de_DE,en_XX", "en_XX", ""):
        with pytest.raises(ValueError, match=r"--langs: languages are .* \['en_XX', 'de_DE'\]"):
            make_task(folder, langs=langs).set_checkpoint_dict(state)  # when a run is resumed
    nlu_bins.write_dictionary(dictionaries / "label" / "dict.txt", LABELS[::-1])
    task = make_task(dictionaries, langs="en_XX,de_DE")
    with pytest.raises(ValueError, match=r"label/dict\.txt: labels are .*'maybe', 'yes', 'no'"):
        task.load_state_dict(state)
    task.load_state_dict({})


@pytest.mark.parametrize("positions", [None, 50, (50, 60), 49, (49, 60), (60, 49)])
def test_a_model_with_fewer_positions_is_refused(folder, monkeypatch, positions):
    """An encoder-decoder has two limits."""
    model = SimpleNamespace(max_positions=lambda: positions)
    monkeypatch.setattr(FairseqTask, "build_model", lambda *arguments: model)
    task = make_task(folder, max_positions=50)
    if "49" in str(positions):
        with pytest.raises(ValueError, match="--max-positions 50: the model has 49 positions"):
            task.build_model("cfg")
    else:
        assert task.build_model("cfg") is model
