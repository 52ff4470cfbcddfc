"""The base of the understanding tasks: dictionary and languages, which data a subset is, several languages, every error."""

import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from fairseq.tasks import FairseqTask

from fairseq_plugins.understanding.inputs import NLUDataset
from fairseq_plugins.understanding.sentences import class_numbers
from fairseq_plugins.understanding.task import NLUConfig, NLUTask
from tests import builders, nlu_bins
from tests.builders import EOS, MASK, PAD

LABELS = ["no", "yes", "maybe"]
EN, DE, FR = (builders.sentences(count, seed) for count, seed in ((12, 1), (6, 2), (3, 3)))


class PlainTask(NLUTask):
    def load_language(self, name):
        return NLUDataset(self.inputs(name), self.input_options(name))

    def add_head(self, model):
        """None."""


@pytest.fixture(scope="module")
def folder(path):
    """Single sentences in three languages, and labels for English."""
    for name, rows in (("train.en", EN), ("train.de", DE), ("test.fr", FR), ("test", FR)):
        nlu_bins.write_texts(path, "input0", name, rows)
    nlu_bins.write_classes(path, "train.en", [LABELS[number % 3] for number in range(12)], LABELS)
    return path


def setup(folder, **options):
    return PlainTask.setup_task(NLUConfig(**{"data": str(folder), "seed": 1, **options}))


def load(task, split="train.en"):
    task.load_dataset(split)
    return task.dataset(split)


def tokens(data):
    return [data[index]["tokens"].tolist() for index in range(len(data))]


@pytest.fixture
def bare(tmp_path):
    """Dictionaries alone: the one beside the texts comes first."""
    nlu_bins.write_dictionary(tmp_path / "dict.txt", ["x"])
    nlu_bins.write_dictionary(tmp_path / "input0" / "dict.txt", ["a", "[en_XX]", "b"])
    nlu_bins.write_dictionary(tmp_path / "label" / "dict.txt", LABELS)
    return tmp_path


def test_languages_and_mask_follow_the_dictionary(folder, bare):
    assert setup(folder).dictionary.symbols[MASK:] == ["<mask>"]
    task = setup(folder, langs="en_XX,de_DE,fr_XX")
    assert task.dictionary.symbols[MASK:] == ["[en_XX]", "[de_DE]", "[fr_XX]", "<mask>"]
    assert task.source_dictionary is task.target_dictionary is task.dictionary
    assert setup(bare, langs="en_XX,de_DE").dictionary.symbols[4:] == ["a", "[en_XX]", "b", "[de_DE]", "<mask>"]
    (bare / "input0" / "dict.txt").unlink()
    assert setup(bare).dictionary.symbols[4:] == ["x", "<mask>"]
    for file, missing in (("label/dict.txt", "label/dict"), ("dict.txt", "input0/dict")):
        (bare / file).unlink()
        with pytest.raises(ValueError, match=rf"no dictionary .*{missing}\.txt: give the folder that"):
            setup(bare)


@pytest.mark.cases(
    "name langs codes symbol",
    ("test.de", "en_XX,de_DE", "", "[de_DE]"),
    ("test.de_DE", "en_XX,de_DE", "", "[de_DE]"),
    ("test.de", "eng_Latn,deu_Latn", "de=deu_Latn", "[deu_Latn]"),
    ("test.de", "de_DE,de_AT", "en=de_DE,de=de_AT", "[de_AT]"),
    ("test.de", "en_XX,fr_XX", "", "test.de: language de, .*does not have it.*de=CODE.* en_XX, fr_XX"),
    ("test.de", "de_DE,de_AT", "", "test.de: .*has de_DE, de_AT.*--language-codes"),
    ("test.de", "en_XX,de_DE", "de=deu_Latn", "language deu_Latn, .*does not have it"),
)
def test_the_symbol_of_a_subsets_language(folder, name, langs, codes, symbol):
    languages = setup(folder, langs=langs, language_codes=codes, input_format="mbart").languages
    if symbol.startswith("["):
        assert languages.symbol(name) == symbol
    else:
        with pytest.raises(ValueError, match=symbol):
            languages.symbol(name)


def test_wrong_options_and_missing_and_empty_subsets_are_named(folder, bare):
    for options, message in (
        ({"input_format": "mbart"}, "--input-format mbart needs --langs"),
        ({"langs": "en_XX,de_DE,en_XX"}, "--langs names en_XX more than once"),
        ({"langs": "en_XX", "language_template": "[]"}, r"--language-template must hold {}.*'\[\]'"),
        *(({"language_codes": text}, f"--language-codes .*'{text}'") for text in ("de", "de=", "=deu_Latn")),
    ):
        with pytest.raises(ValueError, match=message):
            setup(folder, **options)
    nlu_bins.write_rows(bare / "input0", "test.de", [])
    nlu_bins.write_texts(bare, "input0", "idx.en", EN)
    (bare / "input0" / "idx.en.idx").unlink()
    for name, wrong in (
        ("test.fr", r"test\.fr\.bin is missing; subsets there: test\.de"),
        ("test.de", r"test\.de\.bin is empty"),
        ("idx.en", r"idx\.en\.idx is missing"),
        ("valid.*", r"matches none; subsets there: test\.de"),
    ):
        with pytest.raises(ValueError, match=rf"subset {re.escape(name)}: .*{wrong}"):
            load(setup(bare), name)


def test_a_pattern_is_all_subsets_of_it_each_row_once_whatever_the_temperature(folder):
    task = setup(folder, sampling_temperature=5)
    found = sorted(tokens(load(task, "tr*.*")))
    assert found == sorted(tokens(load(task, "train.en")) + tokens(load(task, "train.de")))
    task.load_dataset("train.*", combine=True)
    assert sorted(tokens(task.dataset("train.*"))) != found, "training is drawn by the temperature"


def test_other_languages_and_labels_than_the_checkpoints_are_refused(folder, bare):
    kept = setup(folder, langs="en_XX,de_DE").get_checkpoint_dict()["PlainTask"]
    setup(folder, langs="en_XX,de_DE").load_state_dict(kept)
    for langs in ("de_DE,en_XX", "en_XX", ""):
        with pytest.raises(ValueError, match=r"--langs: languages are .*, the checkpoint .* with \['en_XX', 'de_"):
            setup(folder, langs=langs).set_checkpoint_dict(kept)  # when a run is resumed
    nlu_bins.write_dictionary(bare / "label" / "dict.txt", LABELS[::-1])
    other = setup(bare, langs="en_XX,de_DE")
    with pytest.raises(ValueError, match=r"label/dict\.txt: labels are .*'maybe', 'yes', 'no'.* trained with"):
        other.load_state_dict(kept)
    other.load_state_dict({})


def test_a_model_with_fewer_positions_is_refused(folder, monkeypatch):
    for most in (None, 50, (50, 60), 49, (49, 60), (60, 49)):  # an encoder-decoder has two limits
        model = SimpleNamespace(max_positions=lambda most=most: most)
        monkeypatch.setattr(FairseqTask, "build_model", lambda *arguments, model=model: model)
        message = "--max-positions 50: the model has 49 positions; valid: 1 to 49"
        with pytest.raises(ValueError, match=message) if "49" in str(most) else nullcontext():
            assert setup(folder, max_positions=50).build_model("cfg") is model


def test_wrong_labels_are_counted_or_named():
    for rows, message in (
        ([[4], [EOS]], "row 2 of label has 0 symbols"),
        ([[4], [5], [4, 5, EOS]], "row 3 of label has 2 symbols"),
        ([[4], [3], [3, EOS]], "2 rows have a label .*valid: no, yes, maybe"),
        ([[4], [PAD]], "1 rows have"),
    ):
        with pytest.raises(ValueError, match=f"subset test.de: {message}"):
            class_numbers([torch.tensor(row) for row in rows], nlu_bins.label_dictionary(LABELS), "test.de")
