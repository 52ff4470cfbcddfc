"""Task sga_translation_multi: sampling, validation apart, BLEU of each pair and its mean, pairs in checkpoints, errors."""

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
PREPARED = "de-en,fr-en"


@pytest.fixture(scope="module")
def folder(path):
    """A data-bin with three pairs into English; vi-en is never trained."""
    for number, (language, count) in enumerate(COUNTS.items()):
        for split in ("train", "valid"):
            builders.write_pair(
                path, split, language, "en", count=count, seed=7 * number + len(split)
            )
    return path


def setup(folder, lang_pairs=PREPARED, **options):
    return builders.read_task(folder, lang_pairs or "", **options)


def single(folder, source="de", target="en"):
    return builders.read_task(folder, source_lang=source, target_lang=target)


def drawn(task, epoch):
    task.load_dataset("train", epoch=epoch)
    dataset = task.dataset("train")
    return [tuple(dataset[index][1]["source"].tolist()) for index in range(len(dataset))]


def sources(folder, language, split="train"):
    task = single(folder, language)
    task.load_dataset(split)
    return [
        tuple(item["source"].tolist())
        for item in (task.dataset(split)[i] for i in range(COUNTS[language]))
    ]


def resume(task, extra_state):
    """fairseq's own function, with a trainer that has read this checkpoint."""
    trainer = mock.Mock(task=task)
    trainer.load_checkpoint.return_value = {"train_iterator": {"epoch": 1}, **extra_state}
    checkpoint_utils.load_checkpoint(CheckpointConfig(), trainer)


@pytest.mark.skipif(
    fairseq.__version__ == "0.12.2",
    reason="fairseq 0.12.2 asks a task nothing when a run is resumed",
)
def test_a_run_is_resumed_with_the_same_pairs_by_either_task(folder):
    one, many = single(folder), setup(folder)
    same = setup(folder, lang_pairs="de-en")
    for trained, resumed in ((one, one), (one, same), (same, one), (many, many)):
        resume(resumed, trained.get_checkpoint_dict())
    for trained, resumed in ((one, many), (many, one), (one, single(folder, "fr")), (many, same)):
        with pytest.raises(
            ValueError, match="the checkpoint to continue has prompts trained on de-en"
        ):
            resume(resumed, trained.get_checkpoint_dict())


def log_of(pair, *hypotheses, task):
    """What a validation batch of one pair logs, through the task's valid_step."""
    stock = {**making.bleu_log(*hypotheses), "loss": 1.0}
    with mock.patch.object(SGATranslationTask, "valid_step", return_value=(1.0, 1, stock)):
        return task.valid_step({"pair": pair} if pair else {}, None, None)[2]


def test_bleu_of_each_pair_and_their_mean_whatever_their_sizes(folder):
    """Every batch logs the same keys, also the dummy batch of a process without data: processes sum by key."""
    task, good, fair = setup(folder, eval_bleu=True), making.REFERENCE, "a b c d x y"
    made = [("de-en", (fair,) * 4), ("fr-en", (good,)), ("de-en", ("",)), ("", (good,))]
    logs = [log_of(pair, *texts, task=task) for pair, texts in made]
    assert len({tuple(sorted(log)) for log in logs}) == 1
    found = making.reduced(task, logs[:3])
    expected = making.bleu(*[fair] * 4, "").score
    assert found["bleu_de-en"] == pytest.approx(expected, abs=0.01)
    assert found["bleu_fr-en"] == pytest.approx(100.0, abs=0.01)
    assert found["bleu"] == pytest.approx((expected + 100.0) / 2, abs=0.02)
    nothing = making.reduced(task, [log_of(pair, "", task=task) for pair in ("de-en", "fr-en")])
    assert (nothing["bleu"], nothing["bleu_de-en"]) == (0.0, 0.0)
    assert not [name for name in making.reduced(task, [{}]) if "bleu" in name]


def test_languages_that_were_never_trained(folder, caplog):
    """Another source is logged as zero-shot, another target refused; a language may have a hyphen."""
    caplog.set_level(logging.INFO)
    state = setup(folder).state_dict()
    assert (state[PAIRS], single(folder).state_dict()[PAIRS]) == (["de-en", "fr-en"], ["de-en"])
    for task in (single(folder, "fr"), setup(folder)):
        task.load_state_dict(state)
    single(folder, "vi").load_state_dict({})  # a checkpoint that does not tell
    assert "zero-shot" not in caplog.text
    for task in (
        single(folder, "vi"),
        setup(folder, lang_pairs=None, source_lang="vi", target_lang="en"),
    ):
        caplog.clear()
        task.load_state_dict(state)
        assert (
            "zero-shot: vi-en is none of the pairs that the prompts were trained on: de-en, fr-en"
            in caplog.text
        )
    for task in (
        single(folder, "en", "de"),
        setup(folder, lang_pairs=None, source_lang="en", target_lang="de"),
    ):
        with pytest.raises(
            ValueError, match="--target-lang de: the prompts .* trained on de-en, fr-en alone"
        ):
            task.load_state_dict(state)
    with pytest.raises(ValueError, match="trained on de-en, fr-en, this command line names de-en;"):
        setup(folder, lang_pairs="de-en", source_lang="vi", target_lang="en").load_state_dict(state)


def test_bad_options_and_data_are_named(folder, tmp_path):
    for options, message in (
        ({"lang_pairs": None}, "--lang-pairs is needed"),
        ({"lang_pairs": "de-en,,"}, "--lang-pairs must be pairs"),
        ({"lang_pairs": "de-en, de-en"}, "de-en is given twice"),
        ({"source_lang": "vi"}, "--source-lang vi and --target-lang None: give both"),
        ({"left_pad_source": True}, "--left-pad-source"),
    ):
        with pytest.raises(ValueError, match=message):
            setup(folder, **options)
    builders.write_dictionary(folder, "ru")
    with pytest.raises(ValueError, match="--lang-pairs: ru-en has no data: .*valid"):
        setup(folder, lang_pairs="de-en, ru-en").load_dataset("valid")
    for language in ("de", "fr"):
        builders.write_pair(tmp_path, "train", language, "en")
    builders.write_dictionary(tmp_path, "fr", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.fr\.txt differs"):
        setup(tmp_path)
    with pytest.raises(ValueError, match="a training takes --lang-pairs alone"):
        setup(folder, source_lang="de", target_lang="en").build_model(None)


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, 24 / 30), (1e9, 0.5), (2.0, 20 / 30)])
def test_pairs_are_drawn_by_temperature_from_seed_and_epoch(folder, temperature, expected):
    rows = drawn(setup(folder, sampling_temperature=temperature), 1)
    assert sum(row in set(sources(folder, "de")) for row in rows) / len(rows) == pytest.approx(
        expected, abs=0.03
    )
    few = Counter(row for row in rows if row in set(sources(folder, "fr")))
    assert max(few.values()) - min(few.values()) <= 1, (
        "a sentence comes again only after all others"
    )
    first = drawn(setup(folder), 2)
    assert drawn(setup(folder), 2) == first
    assert drawn(setup(folder), 3) != first and drawn(setup(folder, seed=4), 2) != first
