"""Task sga_translation_multi: sampling, validation apart, BLEU of each pair and its mean, pairs in checkpoints, errors."""

import logging
from collections import Counter
from unittest import mock

import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.logging import metrics
from sacrebleu.metrics import BLEU

from fairseq_plugins.criterions.sga_ctc import SGACTCConfig, SGACTCCriterion
from fairseq_plugins.tasks.sga_translation import PAIRS, SGATranslationConfig, SGATranslationTask
from fairseq_plugins.tasks.sga_translation_multi import SGATranslationMultiConfig, SGATranslationMultiTask, parse_pairs
from tests import builders, data_bins

COUNTS = {"de": 24, "fr": 6, "vi": 5}
PREPARED = "de-en,fr-en"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data-bin with three pairs into English; vi-en is never trained."""
    path = tmp_path_factory.mktemp("data-bin")
    for number, (language, count) in enumerate(COUNTS.items()):
        for split in ("train", "valid"):
            data_bins.write_pair(path, split, language, "en", count=count, seed=7 * number + len(split))
    return path


def setup(folder, **options):
    """As the trainer does."""
    shared = {"dataset_impl": "mmap", "required_seq_len_multiple": 1, "train_subset": "train", "seed": 3}
    cfg = SGATranslationMultiConfig(**{**shared, "data": str(folder), "lang_pairs": PREPARED, **options})
    return SGATranslationMultiTask.setup_task(cfg)


def single(folder, source="de", target="en"):
    """The task of one pair."""
    shared = {"dataset_impl": "mmap", "required_seq_len_multiple": 1}
    cfg = SGATranslationConfig(**shared, data=str(folder), source_lang=source, target_lang=target)
    return SGATranslationTask.setup_task(cfg)


def drawn(task, epoch):
    """The sources of an epoch."""
    task.load_dataset("train", epoch=epoch)
    dataset = task.dataset("train")
    return [tuple(dataset[index][1]["source"].tolist()) for index in range(len(dataset))]


def sources(folder, language, split="train"):
    task = single(folder, language)
    task.cfg.train_subset = "train"
    task.load_dataset(split)
    return [tuple(item["source"].tolist()) for item in (task.dataset(split)[i] for i in range(COUNTS[language]))]


# ---- Data. ----


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, (24, 6)), (1e9, (15, 15)), (2.0, (20, 10))])
def test_pairs_are_drawn_by_temperature(folder, temperature, expected):
    """As many sentences an epoch as leave the largest pair at its size, at most 1.5 times all; shares n^(1/T)."""
    rows = drawn(setup(folder, sampling_temperature=temperature), 1)
    counts = [sum(row in set(sources(folder, language)) for row in rows) for language in ("de", "fr")]
    share = counts[0] / len(rows)
    assert sum(counts) == len(rows)
    assert share == pytest.approx(expected[0] / sum(expected), abs=0.03)
    few = Counter(row for row in rows if row in set(sources(folder, "fr")))
    assert max(few.values()) - min(few.values()) <= 1, "a sentence comes again only after all others"


def test_the_draw_follows_from_seed_and_epoch_alone(folder):
    first = drawn(setup(folder), 2)
    assert drawn(setup(folder), 2) == first
    assert drawn(setup(folder), 3) != first
    assert drawn(setup(folder, seed=4), 2) != first


def test_batches_have_xlmrs_input_format_in_both_kinds_of_splits(folder):
    task = setup(folder)
    for split in ("train", "valid"):
        task.load_dataset(split)
        dataset = task.dataset(split)
        batch = dataset.collater([dataset[index] for index in range(4)])
        tokens, lengths = batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"]
        assert tokens[:, 0].tolist() == [builders.BOS] * 4
        assert tokens.ne(builders.PAD).sum(dim=1).tolist() == lengths.tolist()
        assert [int(row[length - 1]) for row, length in zip(tokens, lengths)] == [builders.EOS] * 4


def test_validation_has_every_sentence_once_and_pairs_apart(folder):
    task = setup(folder)
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    rows = Counter(tuple(dataset[index]["source"].tolist()) for index in range(len(dataset)))
    assert rows == Counter(sources(folder, "de", "valid") + sources(folder, "fr", "valid"))
    found = dataset.batch_by_size(dataset.ordered_indices(), max_sentences=50)
    assert sorted(dataset.collater([dataset[i] for i in batch])["pair"] for batch in found) == ["de-en", "fr-en"]


@pytest.mark.parametrize("split", ["train", "valid"])
def test_one_pair_is_decoded_with_its_own_data(folder, split):
    """Any pair, also with --lang-pairs beside it."""
    for options in ({"lang_pairs": None}, {}):
        task = setup(folder, source_lang="vi", target_lang="en", **options)
        task.load_dataset(split)
        dataset = task.dataset(split)
        assert [tuple(dataset[i]["source"].tolist()) for i in range(len(dataset))] == sources(folder, "vi", split)


# ---- BLEU. ----

REFERENCE = "a b c d e f"


def log_of(pair, *hypotheses, task):
    """What a validation batch of one pair logs, through the task's valid_step."""
    score = BLEU().corpus_score(list(hypotheses), [[REFERENCE] * len(hypotheses)])
    stock = {"_bleu_sys_len": score.sys_len, "_bleu_ref_len": score.ref_len, "loss": 1.0}
    for order in range(4):
        stock.update({f"_bleu_counts_{order}": score.counts[order], f"_bleu_totals_{order}": score.totals[order]})
    with mock.patch.object(SGATranslationTask, "valid_step", return_value=(1.0, 1, stock)):
        return task.valid_step({"pair": pair} if pair else {}, None, None)[2]


def reduce(task, logs):
    criterion = SGACTCCriterion(task, SGACTCConfig(sentence_avg=False))
    with metrics.aggregate() as found:
        for log in logs:
            task.reduce_metrics([{"sample_size": 1, "nsentences": 1, "ntokens": 1, **log}], criterion)
    return found.get_smoothed_values()


GOOD, FAIR = "a b c d e f", "a b c d x y"


def test_bleu_of_each_pair_and_their_mean_whatever_their_sizes(folder):
    task = setup(folder, eval_bleu=True)
    logs = [
        log_of("de-en", FAIR, FAIR, FAIR, FAIR, task=task),
        log_of("fr-en", GOOD, task=task),
        log_of("de-en", "", task=task),
    ]
    assert len({tuple(sorted(log)) for log in logs}) == 1, "every batch logs the same keys: processes sum by key"
    found = reduce(task, logs)
    expected = BLEU().corpus_score([FAIR] * 4 + [""], [[REFERENCE] * 5]).score
    assert found["bleu_de-en"] == pytest.approx(expected, abs=0.01)
    assert found["bleu_fr-en"] == pytest.approx(100.0, abs=0.01)
    assert found["bleu"] == pytest.approx((expected + 100.0) / 2, abs=0.02)


def test_a_batch_of_the_training_counts_for_no_pair_less(folder):
    """The dummy batch of a process without data is logged too, and then ignored: its keys must be the same."""
    task = setup(folder, eval_bleu=True)
    assert set(log_of("", GOOD, task=task)) == set(log_of("de-en", GOOD, task=task))


def test_nothing_produced_is_zero(folder):
    task = setup(folder, eval_bleu=True)
    found = reduce(task, [log_of(pair, "", task=task) for pair in ("de-en", "fr-en")])
    assert (found["bleu"], found["bleu_de-en"]) == (0.0, 0.0)


def test_no_bleu_is_logged_in_training(folder):
    assert not [name for name in reduce(setup(folder, eval_bleu=True), [{}]) if "bleu" in name]


# ---- Checkpoints. ----


def test_checkpoints_keep_the_pairs(folder):
    assert setup(folder).state_dict()[PAIRS] == ["de-en", "fr-en"]
    assert single(folder).state_dict()[PAIRS] == ["de-en"]
    assert builders.task().state_dict()[PAIRS] == []


@pytest.mark.parametrize("plain", [True, False])
def test_another_source_language_is_reported_as_zero_shot(folder, plain, caplog):
    caplog.set_level(logging.INFO)
    task = single(folder, "vi") if plain else setup(folder, lang_pairs=None, source_lang="vi", target_lang="en")
    task.load_state_dict(setup(folder).state_dict())
    assert "zero-shot: vi-en is none of the pairs that the prompts were trained on: de-en, fr-en" in caplog.text


def test_a_trained_pair_is_not_zero_shot(folder, caplog):
    caplog.set_level(logging.INFO)
    for task in (single(folder, "fr"), setup(folder)):
        task.load_state_dict(setup(folder).state_dict())
    single(folder, "vi").load_state_dict({})  # a checkpoint that does not tell
    assert "zero-shot" not in caplog.text


def test_another_target_language_is_refused(folder):
    state = setup(folder).state_dict()
    for task in (single(folder, "en", "de"), setup(folder, lang_pairs=None, source_lang="en", target_lang="de")):
        with pytest.raises(ValueError, match="--target-lang de: the prompts .* trained on de-en, fr-en alone"):
            task.load_state_dict(state)


def test_a_target_language_with_a_hyphen_is_one_language(folder, caplog):
    caplog.set_level(logging.INFO)
    task = single(folder)
    task.cfg.source_lang, task.cfg.target_lang = "vi", "zh-CN"
    task.load_state_dict({PAIRS: ["de-zh-CN"]})
    assert "zero-shot: vi-zh-CN is none of" in caplog.text
    task.cfg.target_lang = "CN-zh"
    with pytest.raises(ValueError, match="--target-lang CN-zh"):
        task.load_state_dict({PAIRS: ["de-zh-CN"]})


def test_pairs_that_are_named_must_be_those_of_the_checkpoint(folder):
    state = setup(folder).state_dict()
    for pairs in ("fr-en,de-en", PREPARED):  # in any order
        setup(folder, lang_pairs=pairs, source_lang="vi", target_lang="en").load_state_dict(state)
    for pairs in ("de-en", "de-en,vi-en", "de-en,fr-en,vi-en"):
        task = setup(folder, lang_pairs=pairs, source_lang="vi", target_lang="en")
        with pytest.raises(
            ValueError, match=f"trained on de-en, fr-en, this command line names {', '.join(pairs.split(','))}"
        ):
            task.load_state_dict(state)


def resume(task, extra_state):
    """fairseq's own function, with a trainer that has read this checkpoint."""
    trainer = mock.Mock(task=task)
    trainer.load_checkpoint.return_value = {"train_iterator": {"epoch": 1}, **extra_state}
    checkpoint_utils.load_checkpoint(CheckpointConfig(), trainer)


def test_a_run_is_resumed_with_the_same_pairs_by_either_task(folder):
    one, many = single(folder), setup(folder)
    same = setup(folder, lang_pairs="de-en")
    for trained, resumed in ((one, one), (one, same), (same, one), (many, many)):
        resume(resumed, trained.get_checkpoint_dict())
    for trained, resumed in ((one, many), (many, one), (one, single(folder, "fr")), (many, same)):
        with pytest.raises(ValueError, match="the checkpoint to continue has prompts trained on de-en"):
            resume(resumed, trained.get_checkpoint_dict())


@pytest.mark.parametrize("multi", [False, True])
def test_checkpoints_from_before_name_one_task(folder, multi):
    """They hold the state under the name of the class that wrote them, which goes on as it did."""
    task, other = (
        (setup(folder), setup(folder, lang_pairs="fr-en")) if multi else (single(folder), single(folder, "fr"))
    )
    old = {type(task).__name__: {PAIRS: task.trained_pairs()}}
    resume(task, old)
    with pytest.raises(ValueError, match="the checkpoint to continue"):
        resume(other, old)
    resume(other, {})  # older still: it does not tell


@pytest.mark.parametrize("pairs", ["fr-en", PREPARED])
def test_pairs_that_are_named_are_compared_with_a_checkpoint_of_one_pair_too(folder, pairs):
    setup(folder, lang_pairs="de-en", source_lang="vi", target_lang="en").load_state_dict(single(folder).state_dict())
    with pytest.raises(ValueError, match="the checkpoint has prompts trained on de-en, this command line names"):
        setup(folder, lang_pairs=pairs, source_lang="vi", target_lang="en").load_state_dict(single(folder).state_dict())


def test_a_run_is_not_resumed_with_other_pairs(folder):
    task = setup(folder)
    kept = task.get_checkpoint_dict()["SGATranslationMultiTask"]
    setup(folder).set_checkpoint_dict(kept)
    with pytest.raises(ValueError, match="the checkpoint to continue has prompts trained on de-en, fr-en"):
        setup(folder, lang_pairs="de-en").set_checkpoint_dict(kept)
    with pytest.raises(ValueError, match="--finetune-from-model"):
        single(folder, "vi").set_checkpoint_dict(single(folder).state_dict())


# ---- Errors. ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lang_pairs": None}, "--lang-pairs is needed"),
        ({"lang_pairs": "de-en,fren"}, "--lang-pairs must be pairs .* got 'fren'"),
        ({"lang_pairs": "de-en,de-en"}, "de-en is given twice"),
        ({"source_lang": "vi"}, "--source-lang vi and --target-lang None: give both"),
        ({"sampling_temperature": 0.5}, "--sampling-temperature must be at least 1; got 0.5"),
        ({"sampling_temperature": float("inf")}, "--sampling-temperature must be at least 1; got inf"),
        ({"left_pad_source": True}, "--left-pad-source"),
    ],
)
def test_bad_options_are_named(folder, options, message):
    with pytest.raises(ValueError, match=message):
        setup(folder, **options)


def test_a_pair_without_data_is_named(folder):
    data_bins.write_dictionary(folder, "ru")
    task = setup(folder, lang_pairs="de-en,ru-en")
    with pytest.raises(ValueError, match="--lang-pairs: ru-en has no data: .*valid"):
        task.load_dataset("valid")


def test_a_language_with_another_dictionary_is_refused(folder, tmp_path):
    for language in ("de", "fr"):
        data_bins.write_pair(tmp_path, "train", language, "en")
    data_bins.write_dictionary(tmp_path, "fr", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.fr\.txt differs"):
        setup(tmp_path)


def test_a_training_takes_no_single_pair(folder):
    with pytest.raises(ValueError, match="a training takes --lang-pairs alone"):
        setup(folder, source_lang="de", target_lang="en").build_model(None)


def test_pairs_are_read_in_order():
    assert parse_pairs("de-en, fr-en") == [("de", "en"), ("fr", "en")]
    assert parse_pairs(None) == parse_pairs("") == []
    for text in ("de", "de-", "-en", "de-en-fr", "de-en,,"):
        with pytest.raises(ValueError, match="--lang-pairs must be pairs"):
            parse_pairs(text)
