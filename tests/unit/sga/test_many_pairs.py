"""Test task sga_translation_multi: sampling, BLEU of each pair, pairs in checkpoints, errors."""

import logging
from collections import Counter
from unittest import mock

import fairseq
import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig

from fairseq_plugins.sga.state import PAIRS
from fairseq_plugins.sga.tasks import SGATranslationTask
from tests import builders
from tests.unit.common import making

COUNTS = {"de": 24, "fr": 6, "vi": 5}
TRAINED = "de-en,fr-en"


@pytest.fixture(scope="module")
def folder(path):
    """Write a data-bin with three pairs into English; vi-en is never trained."""
    for number, (language, count) in enumerate(COUNTS.items()):
        for split in ("train", "valid"):
            seed = 7 * number + len(split)
            builders.write_pair(path, split, language, "en", count=count, seed=seed)
    return path


def set_up(folder, lang_pairs=TRAINED, **options):
    return builders.read_task(folder, lang_pairs or "", **options)


def set_up_single(folder, source="de", target="en"):
    return builders.read_task(folder, source_lang=source, target_lang=target)


def read_sources(folder, language):
    task = set_up_single(folder, language)
    task.load_dataset("train")
    dataset = task.dataset("train")
    return {tuple(dataset[index]["source"].tolist()) for index in range(COUNTS[language])}


@pytest.mark.cases("temperature expected", (1.0, 24 / 30), (1e9, 0.5), (2.0, 20 / 30))
def test_pairs_are_drawn_by_temperature_from_seed_and_epoch(folder, temperature, expected):
    def draw(epoch, **options):
        task = set_up(folder, **options)
        task.load_dataset("train", epoch=epoch)
        dataset = task.dataset("train")
        return [tuple(dataset[index][1]["source"].tolist()) for index in range(len(dataset))]

    rows = draw(1, sampling_temperature=temperature)
    sources = {language: read_sources(folder, language) for language in ("de", "fr")}
    share = sum(row in sources["de"] for row in rows) / len(rows)
    assert share == pytest.approx(expected, abs=0.03)
    uses = Counter(row for row in rows if row in sources["fr"]).values()
    assert max(uses) - min(uses) <= 1, "a sentence is repeated only after all others"
    first = draw(2)
    assert draw(2) == first
    assert draw(3) != first and draw(2, seed=4) != first


@pytest.mark.skipif(
    fairseq.__version__ == "0.12.2", reason="fairseq 0.12.2 does not ask a task when it resumes"
)
def test_a_run_is_resumed_with_the_same_pairs_by_either_task(folder):
    def resume(task, checkpoint):
        """Call fairseq's own function, with a trainer that has read this checkpoint."""
        trainer = mock.Mock(task=task)
        trainer.load_checkpoint.return_value = {"train_iterator": {"epoch": 1}, **checkpoint}
        checkpoint_utils.load_checkpoint(CheckpointConfig(), trainer)

    single, many, many_of_one = set_up_single(folder), set_up(folder), set_up(folder, "de-en")
    for trained, resumed in (
        (single, single),
        (single, many_of_one),
        (many_of_one, single),
        (many, many),
    ):
        resume(resumed, trained.get_checkpoint_dict())
    for trained, resumed in (
        (single, many),
        (many, single),
        (single, set_up_single(folder, "fr")),
        (many, many_of_one),
    ):
        with pytest.raises(ValueError, match="trained on de-en"):
            resume(resumed, trained.get_checkpoint_dict())


def test_bleu_is_logged_for_each_pair_with_the_mean_over_pairs(folder):
    """Processes log the same keys, also for a dummy batch: fairseq sums by key."""
    task, good, fair = set_up(folder, eval_bleu=True), making.REFERENCE, "a b c d x y"

    def validate(pair, *hypotheses):
        """Return what a validation batch of one pair logs."""
        stock = {**making.bleu_log(*hypotheses), "loss": 1.0}
        with mock.patch.object(SGATranslationTask, "valid_step", return_value=(1.0, 1, stock)):
            return task.valid_step({"pair": pair} if pair else {}, None, None)[2]

    logs = [validate("de-en", *[fair] * 4), validate("fr-en", good), validate("de-en", "")]
    dummy = validate(None, good)
    assert {tuple(sorted(log)) for log in logs} == {tuple(sorted(dummy))}
    metrics = making.reduced(task, logs)
    expected = making.bleu(*[fair] * 4, "").score
    assert metrics["bleu_de-en"] == pytest.approx(expected, abs=0.01)
    assert metrics["bleu_fr-en"] == pytest.approx(100.0, abs=0.01)
    assert metrics["bleu"] == pytest.approx((expected + 100.0) / 2, abs=0.02)
    metrics = making.reduced(task, [validate(pair, "") for pair in ("de-en", "fr-en")])
    assert (metrics["bleu"], metrics["bleu_de-en"]) == (0.0, 0.0)
    assert not [name for name in making.reduced(task, [{}]) if "bleu" in name]


def test_an_untrained_source_is_zero_shot_and_an_untrained_target_is_refused(folder, caplog):
    caplog.set_level(logging.INFO)

    def set_up_pair(source, target, lang_pairs=None):
        return set_up(folder, lang_pairs, source_lang=source, target_lang=target)

    state = set_up(folder).state_dict()
    assert state[PAIRS] == ["de-en", "fr-en"]
    assert set_up_single(folder).state_dict()[PAIRS] == ["de-en"]
    for task in (set_up_single(folder, "fr"), set_up(folder)):
        task.load_state_dict(state)
    set_up_single(folder, "vi").load_state_dict({})  # a checkpoint without pairs
    assert "zero-shot" not in caplog.text
    for task in (set_up_single(folder, "vi"), set_up_pair("vi", "en")):
        caplog.clear()
        task.load_state_dict(state)
        assert "zero-shot: vi-en " in caplog.text
    for task in (set_up_single(folder, "en", "de"), set_up_pair("en", "de")):
        with pytest.raises(ValueError, match="--target-lang de: .* de-en, fr-en"):
            task.load_state_dict(state)
    with pytest.raises(ValueError, match="trained on de-en, fr-en, .* de-en;"):
        set_up_pair("vi", "en", "de-en").load_state_dict(state)


def test_wrong_options_and_data_are_named(folder, tmp_path):
    for options, message in (
        ({"lang_pairs": None}, "--lang-pairs is needed"),
        ({"lang_pairs": "de-en,,"}, "--lang-pairs must be pairs"),
        ({"lang_pairs": "de-en, de-en"}, "de-en is given twice"),
        ({"source_lang": "vi"}, "--source-lang vi and --target-lang None"),
        ({"left_pad_source": True}, "--left-pad-source"),
    ):
        with pytest.raises(ValueError, match=message):
            set_up(folder, **options)
    builders.write_dictionary(folder, "ru")
    with pytest.raises(ValueError, match="--lang-pairs: ru-en has no data: .*valid"):
        set_up(folder, lang_pairs="de-en, ru-en").load_dataset("valid")
    with pytest.raises(ValueError, match="a training takes --lang-pairs alone"):
        set_up(folder, source_lang="de", target_lang="en").build_model(None)
    for language in ("de", "fr"):
        builders.write_pair(tmp_path, "train", language, "en")
    builders.write_dictionary(tmp_path, "fr", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.fr\.txt differs"):
        set_up(tmp_path)
