"""Test task sga_translation: its input format, its generator, empty sentences, errors."""

import argparse
from contextlib import nullcontext

import pytest

from fairseq_plugins.sga.tasks import UNREAD_OPTIONS
from tests import builders
from tests.builders import BOS, EOS, PAD


@pytest.fixture(scope="module")
def folder(path):
    builders.write_pair(path, "train", "de", "en")
    return path


def load_train(folder, **options):
    task = builders.read_task(folder, **options)
    task.load_dataset("train")
    return task.dataset("train")


def test_batches_have_the_input_format_of_xlmr(folder):
    task = builders.read_task(folder)
    assert task.source_dictionary.symbols == builders.dictionary().symbols
    assert task.target_dictionary.symbols == builders.dictionary().symbols
    dataset = load_train(folder)
    sources = [[BOS, *row, EOS] for row in builders.sentences(12, 1)]
    targets = [[*row, EOS] for row in builders.sentences(12, 101)]
    for index, (source, target) in enumerate(zip(sources, targets)):
        sizes = (len(source), len(target))
        assert tuple(dataset.size(index)) == tuple(dataset.sizes[index]) == sizes
        assert dataset.num_tokens(index) == max(sizes)
    batch = dataset.collater([dataset[index] for index in range(12)])
    rows = batch["id"].tolist()
    assert sorted(rows) == list(range(12))

    def pad(sentences):
        width = max(map(len, sentences))
        return [sentences[row] + [PAD] * (width - len(sentences[row])) for row in rows]

    lengths = [len(sources[row]) for row in rows]
    assert batch["net_input"]["src_tokens"].tolist() == pad(sources)
    assert batch["net_input"]["src_lengths"].tolist() == lengths
    assert batch["target"].tolist() == pad(targets)
    assert batch["host_src_lengths"].tolist() == lengths
    assert batch["host_tgt_lengths"].tolist() == [len(targets[row]) - 1 for row in rows]
    limits = (max(lengths) - 1, 1000)
    _, ignored = dataset.filter_indices_by_size(dataset.ordered_indices(), limits)
    assert sorted(ignored) == [row for row in range(12) if len(sources[row]) == max(lengths)]


def test_truncated_sources_count_the_prepended_symbol(folder):
    """Six tokens are <s>, four pieces and </s>. fairseq counts a stripped </s> once more."""
    dataset = load_train(folder, truncate_source=True, max_source_positions=6)
    items = [dataset[index]["source"] for index in range(12)]
    sizes = [int(dataset.size(index)[0]) for index in range(12)]
    assert max(map(len, items)) == max(sizes) == 6
    for item, size in zip(items, sizes):
        assert 0 <= size - len(item) <= 1
        assert int(item[-1]) == EOS


def build_generator(task, models=(), **options):
    return task.build_generator([*models], argparse.Namespace(**options))


@pytest.mark.parametrize("name", UNREAD_OPTIONS)
def test_options_without_meaning_for_sga_are_refused(name):
    default = UNREAD_OPTIONS[name]
    if isinstance(default, bool):
        value = not default
    else:
        value = "x" if default is None else default + 1
    with pytest.raises(ValueError, match=f"^--{name.replace('_', '-')}.* no meaning for SGA"):
        build_generator(builders.task(), **{name: value})


BEAM = {"iter_decode_ctc_beam": 2}
INF, NAN = float("inf"), float("nan")


@pytest.mark.cases(
    "alignment cfg options message",
    (None, {}, {"iter_decode_max_iter": -1}, "--iter-decode-max-iter.*-1"),
    (None, {}, {"lenpen": 0.6}, "--lenpen 0.6 .*valid: 1; "),
    (None, {"iter_decode_ctc_candidates": 7}, {}, "--iter-decode-ctc-candidates 7: .*; got 0"),
    (None, {"iter_decode_ctc_bonus": 0.5}, {}, "--iter-decode-ctc-bonus 0.5: .*; got 0"),
    (None, {"iter_decode_ctc_bonus": INF, **BEAM}, {}, "--iter-decode-ctc-bonus .* got inf"),
    (None, {"iter_decode_blank_penalty": NAN}, {}, "--iter-decode-blank-penalty .* got nan"),
    (None, {"rerank_at_weight": 0.5, **BEAM}, {}, "--rerank-at-weight 0.5: .*--rerank-at"),
    (None, {"rerank_at": "nowhere.pt"}, {}, "--iter-decode-ctc-beam of at least 2; got 0"),
    (None, {"rerank_at": "nowhere.pt", **BEAM}, {"lenpen": 0.6}, "nowhere.pt: no such file"),
    ("mask_predict", {"rerank_at": "at.pt"}, {}, "--rerank-at at.pt: .* mask_predict"),
    ("mask_predict", BEAM, {}, "--iter-decode-ctc-beam 2: .* mask_predict; valid: 0"),
    ("dag", BEAM, {}, "--iter-decode-ctc-beam 2: .* dag; valid: 0"),
    ("dag", {"dag_decoding": "beam"}, {}, "--dag-decoding beam: valid: lookahead, "),
    ("dag", {}, {"lenpen": 2.0}, "--lenpen 2.0: .* viterbi alone; valid: 1"),
    ("dag", {"length_beam": 2}, {}, "--length-beam 2: .*--alignment dag"),
    ("ctc", {"length_beam": 1}, {}, "--length-beam 1: .*--alignment ctc"),
    ("mask_predict", {"length_beam": 21}, {}, r"--length-beam must lie in \[1, 20\].*got 21"),
    ("mask_predict", {"mask_predict_iterations": 0}, {}, "at least 1 .* got 0"),
    ("ctc", {"dag_decoding": "greedy"}, {}, "--dag-decoding greedy: .*--alignment dag"),
    ("ctc", {}, {"retain_dropout": True}, "--retain-dropout: SGAModel "),
)
def test_wrong_decoding_options_are_named(alignment, cfg, options, message):
    models = [builders.sga_model(alignment=alignment)] if alignment else []
    with pytest.raises(ValueError, match=message):
        build_generator(builders.task(**cfg), models, **options)


@pytest.mark.cases("no_denoising passes", (True, 10), (False, 0))
def test_a_blank_penalty_needs_a_pass_with_blanks(no_denoising, passes):
    model = builders.sga_model(alignment="dag", no_denoising=no_denoising)
    task = builders.task(iter_decode_blank_penalty=1.0)
    with pytest.raises(ValueError, match="--iter-decode-blank-penalty 1.0: .* dag, "):
        build_generator(task, [model], iter_decode_max_iter=passes)


def test_a_source_with_fewer_entries_than_the_target_is_refused(tmp_path):
    builders.write_pair(tmp_path, "train", "de", "en")
    builders.write_dictionary(tmp_path, "de", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.en\.txt.*dict\.de\.txt .*lacks its entry 'p24'"):
        builders.read_task(tmp_path)


ROWS = [[5], [6, 7], [8, 9, 10], [11]]
WITH_EMPTY = [*ROWS[:2], [], *ROWS[3:]]


def write_pair(folder, split, source, target, language="de"):
    folder.mkdir(exist_ok=True)
    for name, rows in ((language, source), ("en", target)):
        builders.write_side(folder, split, f"{language}-en", name, rows)
        builders.write_dictionary(folder, name)


def refused(path):
    return pytest.raises(ValueError, match=rf"{path}: line 3 is without a token \(1 empty")


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_empty_sources_are_refused_and_empty_targets_in_training(tmp_path, split):
    """Training on an empty target would cost nothing; a reference may be empty."""
    write_pair(tmp_path / "source", split, WITH_EMPTY, ROWS)
    with refused(rf"{tmp_path}/source/{split}\.de-en\.de"):
        builders.read_task(tmp_path / "source").load_dataset(split)
    write_pair(tmp_path / "target", split, ROWS, WITH_EMPTY)
    task = builders.read_task(tmp_path / "target")
    is_refused = split == "train"
    with refused(rf"{tmp_path}/target/train\.de-en\.en") if is_refused else nullcontext():
        task.load_dataset(split)
    task.from_checkpoint = True  # fairseq-generate --gen-subset train
    task.load_dataset(split)
    assert len(task.dataset(split)) == 4


def test_an_empty_sentence_is_named_with_its_pair(tmp_path):
    for language, rows in (("de", ROWS), ("fr", WITH_EMPTY)):
        write_pair(tmp_path, "valid", rows, ROWS, language)
    with refused(r"valid\.fr-en\.fr"):
        builders.read_task(tmp_path, pairs="de-en,fr-en").load_dataset("valid")
