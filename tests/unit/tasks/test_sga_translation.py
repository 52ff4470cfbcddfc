"""Task sga_translation: XLM-R's input format from a stock data-bin, its generator, its errors."""

import argparse
import dataclasses

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.logging import metrics
from fairseq.modules.fairseq_dropout import FairseqDropout
from omegaconf import OmegaConf
from sacrebleu.metrics import BLEU

from fairseq_plugins.criterions.sga_ctc import SGACTCConfig, SGACTCCriterion
from fairseq_plugins.generators.sga_denoising import UNREAD_OPTIONS
from fairseq_plugins.tasks import sga_translation as module
from tests import builders


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data-bin de-en with a training set."""
    path = tmp_path_factory.mktemp("data-bin")
    builders.write_pair(path, "train", "de", "en")
    return path


def _generator(task, **options):
    return task.build_generator([], argparse.Namespace(**options))


def bleu_log(*hypotheses):
    """What a validation batch logs for BLEU, against one reference."""
    score = BLEU().corpus_score(list(hypotheses), [["a b c d e f"] * len(hypotheses)])
    log = {"_bleu_sys_len": score.sys_len, "_bleu_ref_len": score.ref_len}
    for order in range(4):
        log.update({f"_bleu_counts_{order}": score.counts[order], f"_bleu_totals_{order}": score.totals[order]})
    return log


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


def test_raw_sentences_for_interactive_look_the_same(folder):
    tokens = [torch.tensor([5, 6, 7, builders.EOS]), torch.tensor([8, builders.EOS])]
    dataset = builders.read_task(folder).build_dataset_for_inference(tokens, [4, 2])
    batch = dataset.collater([dataset[0], dataset[1]])
    found = {int(i): row.tolist() for i, row in zip(batch["id"], batch["net_input"]["src_tokens"])}
    assert found == {0: [0, 5, 6, 7, 2], 1: [0, 8, 2, 1, 1]}
    assert sorted(batch["net_input"]["src_lengths"].tolist()) == [3, 5]
    assert [int(size) for size in dataset.src_sizes] == [5, 3]


def test_decoding_options_reach_the_generator():
    stock = {one.name: one.default for one in dataclasses.fields(GenerationConfig)}
    assert set(UNREAD_OPTIONS) <= set(stock)
    assert _generator(builders.task(), **{**stock, "beam": 5}).options == (stock["iter_decode_max_iter"], True, False)
    forced = {"iter_decode_max_iter": 4, "iter_decode_force_max_iter": True, "retain_iter_history": True}
    assert _generator(builders.task(), **forced).options == (4, False, True)
    assert _generator(builders.task(iter_decode_ctc_beam=4)).beam == (4, 20, 1)
    assert _generator(builders.task(iter_decode_ctc_beam=4, iter_decode_ctc_candidates=6), nbest=3).beam == (4, 6, 3)


@pytest.mark.parametrize("name", UNREAD_OPTIONS)
def test_options_that_nothing_would_read_are_refused(name):
    default, option = UNREAD_OPTIONS[name], "--" + name.replace("_", "-")
    value, given, valid = default, option, "leave it out"
    if default is None or default is False:
        value, given = (True, option) if default is False else ("x", f"{option} x")
    else:
        value, given, valid = default + 1, f"{option} {default + 1}", f"valid: {default}"
    with pytest.raises(ValueError, match=f"^{given} has no meaning for SGA, .*; {valid}"):
        _generator(builders.task(), **{name: value})


@pytest.mark.parametrize(
    ("cfg", "options", "message"),
    [
        ({}, {"iter_decode_max_iter": -1}, "--iter-decode-max-iter.*-1"),
        ({}, {"lenpen": 0.6}, "--lenpen 0.6 has no meaning.*valid: 1; --rerank-at reads it"),
        ({}, {"iter_decode_with_external_reranker": True}, "leave it out; use --rerank-at PATH"),
        ({"iter_decode_ctc_candidates": 7}, {}, "--iter-decode-ctc-candidates 7: .* of at least 1; got 0"),
        ({"rerank_at_weight": 0.5, "iter_decode_ctc_beam": 2}, {}, "--rerank-at-weight 0.5: .* without --rerank-at"),
        ({"rerank_at": "nowhere.pt"}, {}, "--iter-decode-ctc-beam of at least 2; got 0"),
        ({"rerank_at": "nowhere.pt", "iter_decode_ctc_beam": 2}, {"lenpen": 0.6}, "nowhere.pt: no such file"),
    ],
)
def test_wrong_decoding_options_are_named(cfg, options, message):
    with pytest.raises(ValueError, match=message):
        _generator(builders.task(**cfg), **options)


@pytest.mark.parametrize(
    ("cfg", "options", "message"),
    [
        ({"rerank_at": "at.pt"}, {}, "--rerank-at at.pt: .* trained with --alignment mask_predict and has none"),
        ({"rerank_at": "at.pt", "iter_decode_ctc_beam": 2}, {}, "--rerank-at at.pt: .* and has none"),
        ({"iter_decode_ctc_beam": 2}, {}, "--iter-decode-ctc-beam 2: .* --alignment mask_predict; valid: 0"),
        ({}, {"retain_dropout": True}, "--retain-dropout: SGAModel has no dropout that could be kept"),
    ],
)
def test_what_a_mask_predict_model_has_no_use_for_is_named(cfg, options, message):
    model = builders.sga_model(alignment="mask_predict")
    with pytest.raises(ValueError, match=message):
        builders.task(**cfg).build_generator([model], argparse.Namespace(**options))
    stock = torch.nn.Sequential(FairseqDropout(0.1))
    builders.task().build_generator([stock], argparse.Namespace(retain_dropout=True))


# ---- Packed weights. ----


def test_packing_is_asked_for_by_its_option(caplog, monkeypatch):
    model, asked, copied = builders.sga_model(), [], [3 * 2**20, 0, 0]
    model.pack_weights = lambda: asked.append(1) or copied[len(asked) - 1]
    caplog.set_level("INFO")
    for option, text in (
        (False, ""),
        (True, "3 MB"),
        (True, "no effect: every matrix of this model has fewer than 262144"),
    ):
        caplog.clear()
        builders.task(pack_weights=option).build_generator([model], argparse.Namespace())
        assert text in caplog.text and bool(caplog.text) is option
    caplog.clear()
    monkeypatch.setattr(module, "is_packed", lambda weight: weight is model.masked_lm.output_weight)  # by a call before
    builders.task(pack_weights=True).build_generator([model], argparse.Namespace())
    assert len(asked) == 3 and not caplog.text


def test_what_cannot_be_packed_names_the_option():
    """fairseq's optimizers write through ``data``, which a packed copy does not notice."""
    task, args = builders.task(pack_weights=True), argparse.Namespace()
    with pytest.raises(ValueError, match="--pack-weights is for decoding.*leave the option out in training"):
        task.build_model(OmegaConf.create({"_name": "sga_tiny"}))
    with pytest.raises(
        ValueError, match="--pack-weights: weights can be packed in float32 .*; got torch.float64 on cpu"
    ):
        task.build_generator([builders.sga_model().double()], args)
    with pytest.raises(ValueError, match="--pack-weights is for SGA models; this one is Linear"):
        task.build_generator([torch.nn.Linear(2, 2)], args)


# ---- Refusals while the task is set up, and BLEU. ----


def test_padding_on_the_left_and_two_dictionaries_are_refused(folder, tmp_path):
    for option, value in (("source", True), ("source", "True"), ("target", "True")):
        with pytest.raises(ValueError, match=f"--left-pad-{option} must be False"):
            builders.read_task(folder, **{f"left_pad_{option}": value})
    builders.write_pair(tmp_path, "train", "de", "en")
    builders.write_dictionary(tmp_path, "en", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.de\.txt.*dict\.en\.txt"):
        builders.read_task(tmp_path)


@pytest.mark.parametrize("batches", [[("",)], [("",), ("a b c d x y",)], [("a b c d x y",), ("",)], [()]])
def test_bleu_is_logged_even_when_nothing_was_produced(folder, batches):
    """And not in training, whose logs have no counts."""
    task = builders.read_task(folder, eval_bleu=True)
    criterion = SGACTCCriterion(task, SGACTCConfig(sentence_avg=False))
    with metrics.aggregate() as found:
        for texts in batches:
            logged = bleu_log(*texts) if texts else {}
            task.reduce_metrics([{"sample_size": 1, "nsentences": 1, "ntokens": 1, **logged}], criterion)
    texts = [text for batch in batches for text in batch]
    if not texts:
        assert "bleu" not in found.get_smoothed_values()
        return
    expected = BLEU().corpus_score(texts, [["a b c d e f"] * len(texts)]).score
    assert found.get_smoothed_value("bleu") == pytest.approx(expected, abs=0.01)


# ---- Empty sentences are refused where they are read, with either alignment. ----


EMPTY = []
ROWS = [[5], [6, 7], [8, 9, 10], [11]]
HOLE = [*ROWS[:2], EMPTY, *ROWS[3:]]


def write(folder, split, source, target, language="de"):
    for name, rows in ((language, source), ("en", target)):
        builders.write_side(folder, split, f"{language}-en", name, rows)
        builders.write_dictionary(folder, name)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_an_empty_source_is_refused_in_every_split(tmp_path, split):
    write(tmp_path, split, HOLE, ROWS)
    with pytest.raises(ValueError, match=rf"{tmp_path}/{split}\.de-en\.de: line 3 is without a token \(1 empty"):
        builders.read_task(tmp_path).load_dataset(split)


def test_an_empty_target_is_refused_in_training_alone(tmp_path):
    """Its length and its masked tokens would cost nothing; a reference may be empty."""
    for split in ("train", "valid", "test"):
        write(tmp_path, split, ROWS, HOLE)
    task = builders.read_task(tmp_path)
    for split in ("valid", "test"):
        task.load_dataset(split)
        assert len(task.dataset(split)) == 4
    with pytest.raises(ValueError, match=rf"{tmp_path}/train\.de-en\.en: line 3 is"):
        task.load_dataset("train")
    task.from_checkpoint = True  # fairseq-generate --gen-subset train
    task.load_dataset("train")
    assert len(task.dataset("train")) == 4


def test_the_data_folder_of_the_epoch_is_named(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, rows in ((first, ROWS), (second, HOLE)):
        folder.mkdir()
        for split in ("train", "valid"):
            write(folder, split, rows, ROWS)
    task = builders.read_task(f"{first}:{second}")
    task.load_dataset("train", epoch=1)
    task.load_dataset("valid", epoch=2)
    with pytest.raises(ValueError, match=rf"{second}/train\.de-en\.de: line 3 is"):
        task.load_dataset("train", epoch=2)
    with pytest.raises(ValueError, match=rf"{second}/valid\.de-en\.de: line 3 is"):
        builders.read_task(f"{second}:{first}").load_dataset("valid", epoch=2)


def test_the_pair_of_several_is_named(tmp_path):
    for split in ("train", "valid"):
        write(tmp_path, split, ROWS, ROWS)
        write(tmp_path, split, HOLE if split == "valid" else ROWS, HOLE, language="fr")
    with pytest.raises(ValueError, match=r"valid\.fr-en\.fr: line 3 is"):
        builders.read_task(tmp_path, "de-en,fr-en").load_dataset("valid")
    with pytest.raises(ValueError, match=r"train\.fr-en\.en: line 3 is"):
        builders.read_task(tmp_path, "de-en,fr-en").load_dataset("train")
    with pytest.raises(ValueError, match=r"valid\.fr-en\.fr: line 3 is"):
        builders.read_task(tmp_path, "", source_lang="fr", target_lang="en").load_dataset("valid")


def test_sources_that_are_cut_or_without_references(tmp_path):
    """Decoding; a source cut to one token is not empty."""
    for split, rows in (("valid", HOLE), ("test", ROWS)):
        write(tmp_path, split, rows, ROWS)
    for file in tmp_path.glob("test.de-en.en.*"):
        file.unlink()
    task = builders.read_task(tmp_path, truncate_source=True, max_source_positions=3)
    task.from_checkpoint = True
    with pytest.raises(ValueError, match=r"valid\.de-en\.de: line 3 is"):
        task.load_dataset("valid")
    task.load_dataset("test")
    assert [len(task.dataset("test")[index]["source"]) for index in range(4)] == [3, 3, 3, 3]
    assert task.dataset("test").tgt is None
