"""Task sga_translation: XLM-R's input format from a stock data-bin, its generator, its errors."""

import argparse
from contextlib import nullcontext

import pytest

from fairseq_plugins.sga.tasks import UNREAD_OPTIONS
from tests import builders


@pytest.fixture(scope="module")
def folder(path):
    builders.write_pair(path, "train", "de", "en")
    return path


def _generator(task, models=(), **options):
    return task.build_generator([*models], argparse.Namespace(**options))


def test_batches_have_xlmrs_input_format(folder):
    task = builders.read_task(folder)
    assert task.source_dictionary.symbols == task.target_dictionary.symbols == builders.dictionary().symbols
    task.load_dataset("train")
    dataset, expected = task.dataset("train"), {"de": builders.sentences(12, 1), "en": builders.sentences(12, 101)}
    batch = dataset.collater([dataset[index] for index in range(12)])
    assert sorted(batch["id"].tolist()) == list(range(12))
    sources, lengths = batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"].tolist()
    for row, index in enumerate(batch["id"].tolist()):
        source = [builders.BOS, *expected["de"][index], builders.EOS]
        target = [*expected["en"][index], builders.EOS]
        assert lengths[row] == len(source)
        assert sources[row].tolist() == source + [builders.PAD] * (sources.size(1) - len(source))
        assert batch["target"][row].tolist() == target + [builders.PAD] * (batch["target"].size(1) - len(target))
        assert tuple(dataset.size(index)) == tuple(dataset.sizes[index]) == (len(source), len(target))
        assert dataset.num_tokens(index) == max(len(source), len(target))
    on_host = batch["host_src_lengths"], batch["host_tgt_lengths"]
    assert [array.tolist() for array in on_host] == [
        lengths,
        [len(expected["en"][index]) for index in batch["id"].tolist()],
    ]
    kept, dropped = dataset.filter_indices_by_size(dataset.ordered_indices(), (max(lengths) - 1, 1000))
    assert len(dropped) >= 1 and len(kept) + len(dropped) == 12


def test_truncated_sources_fit_with_the_symbol_that_is_prepended(folder):
    """--truncate-source --max-source-positions 6: six tokens, <s> and </s> counted, and not seven."""
    task = builders.read_task(folder, truncate_source=True, max_source_positions=6)
    task.load_dataset("train")
    dataset = task.dataset("train")
    lengths = [len(dataset[index]["source"]) for index in range(12)]
    sizes = [int(dataset.size(index)[0]) for index in range(12)]
    assert max(lengths) == max(sizes) == 6 == task.cfg.max_source_positions
    assert all(0 <= size - length <= 1 for size, length in zip(sizes, lengths))  # fairseq counts a stripped </s> again
    assert all(int(dataset[index]["source"][-1]) == builders.EOS for index in range(12))


@pytest.mark.parametrize("name", UNREAD_OPTIONS)
def test_options_that_nothing_would_read_are_refused(name):
    default, option = UNREAD_OPTIONS[name], "--" + name.replace("_", "-")
    value = {None: "x", False: True}.get(default, (default or 0) + 1)
    with pytest.raises(ValueError, match=f"^{option}.* has no meaning for SGA, .*; "):
        _generator(builders.task(), **{name: value})


def test_wrong_decoding_options_are_named():
    beam = {"iter_decode_ctc_beam": 2}
    for alignment, cfg, options, message in (
        (None, {}, {"iter_decode_max_iter": -1}, "--iter-decode-max-iter.*-1"),
        (None, {}, {"lenpen": 0.6}, "--lenpen 0.6 has no meaning.*valid: 1; --rerank-at and"),
        (None, {"iter_decode_ctc_candidates": 7}, {}, "--iter-decode-ctc-candidates 7: .* of at least 1; got 0"),
        (None, {"iter_decode_ctc_bonus": 0.5}, {}, "--iter-decode-ctc-bonus 0.5: .* of at least 1; got 0"),
        (
            None,
            {"iter_decode_ctc_bonus": float("inf"), **beam},
            {},
            "--iter-decode-ctc-bonus must be a finite .* got inf",
        ),
        (
            None,
            {"iter_decode_blank_penalty": float("nan")},
            {},
            "--iter-decode-blank-penalty must be a finite number of nats; got nan",
        ),
        (None, {"rerank_at_weight": 0.5, **beam}, {}, "--rerank-at-weight 0.5: .* without --rerank-at"),
        (None, {"rerank_at": "nowhere.pt"}, {}, "--iter-decode-ctc-beam of at least 2; got 0"),
        (None, {"rerank_at": "nowhere.pt", **beam}, {"lenpen": 0.6}, "nowhere.pt: no such file"),
        ("mask_predict", {"rerank_at": "at.pt"}, {}, "--rerank-at at.pt: .* --alignment mask_predict and has none"),
        ("mask_predict", beam, {}, "--iter-decode-ctc-beam 2: .* mask_predict; valid: 0"),
        ("dag", beam, {}, "--iter-decode-ctc-beam 2: .* dag; valid: 0"),
        ("dag", {"dag_decoding": "beam"}, {}, "--dag-decoding beam: valid: lookahead, greedy, viterbi"),
        ("dag", {}, {"lenpen": 2.0}, "--lenpen 2.0: .* viterbi alone; valid: 1"),
        ("dag", {"length_beam": 2}, {}, "--length-beam 2: this model has --alignment dag"),
        ("ctc", {"dag_decoding": "greedy"}, {}, "--dag-decoding greedy: .* not trained with --alignment dag"),
        ("ctc", {}, {"retain_dropout": True}, "--retain-dropout: SGAModel has no dropout that could be kept"),
    ):
        models = [builders.sga_model(alignment=alignment)] if alignment else []
        with pytest.raises(ValueError, match=message):
            _generator(builders.task(**cfg), models, **options)
    for no_denoising, passes in ((True, 10), (False, 0)):
        graph = builders.sga_model(alignment="dag", no_denoising=no_denoising)
        with pytest.raises(ValueError, match="--iter-decode-blank-penalty 1.0: .* dag, without a denoising pass"):
            _generator(builders.task(iter_decode_blank_penalty=1.0), [graph], iter_decode_max_iter=passes)


def test_a_source_with_fewer_entries_than_the_target_is_refused(tmp_path):
    builders.write_pair(tmp_path, "train", "de", "en")
    builders.write_dictionary(tmp_path, "de", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.en\.txt.*dict\.de\.txt .*lacks its entry 'p24'"):
        builders.read_task(tmp_path)


ROWS = [[5], [6, 7], [8, 9, 10], [11]]
HOLE = [*ROWS[:2], [], *ROWS[3:]]


def write(folder, split, source, target, language="de"):
    folder.mkdir(exist_ok=True)
    for name, rows in ((language, source), ("en", target)):
        builders.write_side(folder, split, f"{language}-en", name, rows)
        builders.write_dictionary(folder, name)


def refused(path):
    return pytest.raises(ValueError, match=rf"{path}: line 3 is without a token \(1 empty")


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_an_empty_source_is_refused_and_an_empty_target_in_training_alone(tmp_path, split):
    """A target's length and masked tokens would cost nothing; a reference may be empty."""
    write(tmp_path / "source", split, HOLE, ROWS)
    with refused(rf"{tmp_path}/source/{split}\.de-en\.de"):
        builders.read_task(tmp_path / "source").load_dataset(split)
    write(tmp_path / "target", split, ROWS, HOLE)
    task = builders.read_task(tmp_path / "target")
    with refused(rf"{tmp_path}/target/train\.de-en\.en") if split == "train" else nullcontext():
        task.load_dataset(split)
    task.from_checkpoint = True  # fairseq-generate --gen-subset train
    task.load_dataset(split)
    assert len(task.dataset(split)) == 4


def test_the_pair_of_several_is_named(tmp_path):
    for language, rows in (("de", ROWS), ("fr", HOLE)):
        write(tmp_path, "valid", rows, ROWS, language)
    with refused(r"valid\.fr-en\.fr"):
        builders.read_task(tmp_path, pairs="de-en,fr-en").load_dataset("valid")
