"""Task sga_translation: XLM-R's input format from a stock data-bin, its generator, its errors."""

import argparse
import dataclasses
from contextlib import nullcontext

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf

from fairseq_plugins.generators.sga_denoising import UNREAD_OPTIONS
from tests import builders
from tests.unit.tasks import making


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data-bin de-en with a training set."""
    path = tmp_path_factory.mktemp("data-bin")
    builders.write_pair(path, "train", "de", "en")
    return path


def _generator(task, **options):
    return task.build_generator([], argparse.Namespace(**options))


def test_batches_have_xlmrs_input_format(folder):
    """<s> x </s>, padded on the right; the target is y </s>; sizes count the symbol that is prepended."""
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


def test_decoding_options_reach_the_generator():
    stock = {one.name: one.default for one in dataclasses.fields(GenerationConfig)}
    assert _generator(builders.task(), **{**stock, "beam": 5}).options == (stock["iter_decode_max_iter"], True, False)
    forced = {"iter_decode_max_iter": 4, "iter_decode_force_max_iter": True, "retain_iter_history": True}
    assert _generator(builders.task(), **forced).options == (4, False, True)
    assert _generator(builders.task(iter_decode_ctc_beam=4)).beam == (4, 20, 1)
    assert _generator(builders.task(iter_decode_ctc_beam=4, iter_decode_ctc_candidates=6), nbest=3).beam == (4, 6, 3)


@pytest.mark.parametrize("name", UNREAD_OPTIONS)
def test_options_that_nothing_would_read_are_refused(name):
    default, option = UNREAD_OPTIONS[name], "--" + name.replace("_", "-")
    value = {None: "x", False: True}.get(default, (default or 0) + 1)
    with pytest.raises(ValueError, match=f"^{option}.* has no meaning for SGA, .*; "):
        _generator(builders.task(), **{name: value})


@pytest.mark.parametrize(
    ("alignment", "cfg", "options", "message"),
    [
        (None, {}, {"iter_decode_max_iter": -1}, "--iter-decode-max-iter.*-1"),
        (None, {}, {"lenpen": 0.6}, "--lenpen 0.6 has no meaning.*valid: 1; --rerank-at reads it"),
        (None, {}, {"iter_decode_with_external_reranker": True}, "leave it out; use --rerank-at PATH"),
        (None, {"iter_decode_ctc_candidates": 7}, {}, "--iter-decode-ctc-candidates 7: .* of at least 1; got 0"),
        (
            None,
            {"rerank_at_weight": 0.5, "iter_decode_ctc_beam": 2},
            {},
            "--rerank-at-weight 0.5: .* without --rerank-at",
        ),
        (None, {"rerank_at": "nowhere.pt"}, {}, "--iter-decode-ctc-beam of at least 2; got 0"),
        (None, {"rerank_at": "nowhere.pt", "iter_decode_ctc_beam": 2}, {"lenpen": 0.6}, "nowhere.pt: no such file"),
        ("mask_predict", {"rerank_at": "at.pt"}, {}, "--rerank-at at.pt: .* --alignment mask_predict and has none"),
        ("mask_predict", {"iter_decode_ctc_beam": 2}, {}, "--iter-decode-ctc-beam 2: .* mask_predict; valid: 0"),
        ("ctc", {}, {"retain_dropout": True}, "--retain-dropout: SGAModel has no dropout that could be kept"),
    ],
)
def test_wrong_decoding_options_are_named(alignment, cfg, options, message):
    models = [builders.sga_model(alignment=alignment)] if alignment else []
    with pytest.raises(ValueError, match=message):
        builders.task(**cfg).build_generator(models, argparse.Namespace(**options))


# ---- Packed weights. ----


@pytest.mark.parametrize("packs", [False, True])
def test_packing_is_asked_for_by_its_option(caplog, packs):
    model, asked = builders.sga_model(), []
    model.pack_weights = lambda: asked.append(1) or 0
    builders.task(pack_weights=packs).build_generator([model], argparse.Namespace())
    assert len(asked) == packs
    assert ("no effect: every matrix of this model has fewer than" in caplog.text) == packs


def test_what_cannot_be_packed_names_the_option():
    """fairseq's optimizers write through ``data``, which a packed copy does not notice."""
    task, args = builders.task(pack_weights=True), argparse.Namespace()
    with pytest.raises(ValueError, match="--pack-weights is for decoding.*leave the option out in training"):
        task.build_model(OmegaConf.create({"_name": "sga_tiny"}))
    with pytest.raises(ValueError, match="--pack-weights: weights can be packed in float32 .*; got torch.float64"):
        task.build_generator([builders.sga_model().double()], args)
    with pytest.raises(ValueError, match="--pack-weights is for SGA models; this one is Linear"):
        task.build_generator([torch.nn.Linear(2, 2)], args)


# ---- Refusals while the task is set up, and BLEU. ----


def test_two_dictionaries_are_refused(tmp_path):
    builders.write_pair(tmp_path, "train", "de", "en")
    builders.write_dictionary(tmp_path, "en", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.de\.txt.*dict\.en\.txt"):
        builders.read_task(tmp_path)


@pytest.mark.parametrize("batches", [[("",)], [("",), ("a b c d x y",)], [("a b c d x y",), ("",)], [()]])
def test_bleu_is_logged_even_when_nothing_was_produced(folder, batches):
    """And not in training, whose logs have no counts."""
    task = builders.read_task(folder, eval_bleu=True)
    found = making.reduced(task, [making.bleu_log(*texts) if texts else {} for texts in batches])
    texts = [text for batch in batches for text in batch]
    if texts:
        assert found["bleu"] == pytest.approx(making.bleu(*texts).score, abs=0.01)
    else:
        assert "bleu" not in found


# ---- Empty sentences are refused where they are read, with either alignment. ----

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


def test_the_data_folder_of_the_epoch_is_named(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, rows in ((first, ROWS), (second, HOLE)):
        for split in ("train", "valid"):
            write(folder, split, rows, ROWS)
    task = builders.read_task(f"{first}:{second}")
    task.load_dataset("train", epoch=1)
    task.load_dataset("valid", epoch=2)
    with refused(rf"{second}/train\.de-en\.de"):
        task.load_dataset("train", epoch=2)
    with refused(rf"{second}/valid\.de-en\.de"):
        builders.read_task(f"{second}:{first}").load_dataset("valid", epoch=2)


def test_the_pair_of_several_is_named(tmp_path):
    for split in ("train", "valid"):
        write(tmp_path, split, ROWS, ROWS)
        write(tmp_path, split, HOLE if split == "valid" else ROWS, HOLE, language="fr")
    many, one = {"pairs": "de-en,fr-en"}, {"pairs": "", "source_lang": "fr", "target_lang": "en"}
    for options, split, side in ((many, "valid", "fr"), (many, "train", "en"), (one, "valid", "fr")):
        with refused(rf"{split}\.fr-en\.{side}"):
            builders.read_task(tmp_path, **options).load_dataset(split)


def test_sources_that_are_cut_or_without_references(tmp_path):
    """Decoding; a source cut to one token is not empty."""
    for split, rows in (("valid", HOLE), ("test", ROWS)):
        write(tmp_path, split, rows, ROWS)
    for file in tmp_path.glob("test.de-en.en.*"):
        file.unlink()
    task = builders.read_task(tmp_path, truncate_source=True, max_source_positions=3)
    task.from_checkpoint = True
    with refused(r"valid\.de-en\.de"):
        task.load_dataset("valid")
    task.load_dataset("test")
    assert [len(task.dataset("test")[index]["source"]) for index in range(4)] == [3, 3, 3, 3]
    assert task.dataset("test").tgt is None
