"""Task sga_translation: XLM-R's input format from a stock data-bin, its generator, its errors."""

import argparse
import dataclasses

import pytest
import torch
from fairseq import tasks
from fairseq.dataclass.configs import GenerationConfig
from fairseq.logging import metrics
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.tasks.translation import TranslationTask
from omegaconf import OmegaConf
from sacrebleu.metrics import BLEU

from fairseq_plugins.criterions.sga_ctc import SGACTCConfig, SGACTCCriterion
from fairseq_plugins.generators.sga_denoising import UNREAD_OPTIONS
from fairseq_plugins.tasks import sga_translation as module
from fairseq_plugins.tasks.sga_translation import SGATranslationConfig, SGATranslationTask
from tests import builders, data_bins


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data-bin de-en with a training set."""
    path = tmp_path_factory.mktemp("data-bin")
    data_bins.write_pair(path, "train", "de", "en")
    return path


def setup(folder, **options):
    """As the trainer does."""
    shared = {
        "dataset_impl": "mmap",
        "required_seq_len_multiple": 1,
    }  # interpolated from the dataset's options otherwise
    names = {"data": str(folder), "source_lang": "de", "target_lang": "en"}
    return SGATranslationTask.setup_task(SGATranslationConfig(**{**shared, **names, **options}))


def rows(folder):
    """What was written, from the same seed."""
    return {"de": data_bins.sentences(12, 1), "en": data_bins.sentences(12, 101)}


def test_dictionary_ends_with_mask(folder):
    task = setup(folder)
    assert len(task.source_dictionary) == builders.VOCAB
    assert task.source_dictionary.index("<mask>") == builders.MASK
    assert task.target_dictionary.symbols == task.source_dictionary.symbols
    assert task.source_dictionary.symbols == builders.dictionary().symbols


def test_batches_have_xlmrs_input_format(folder):
    """<s> x </s>, padded on the right; the target is y </s>."""
    task = setup(folder)
    task.load_dataset("train")
    dataset, expected = task.dataset("train"), rows(folder)
    batch = dataset.collater([dataset[index] for index in range(12)])
    order = batch["id"].tolist()
    assert sorted(order) == list(range(12))
    sources, lengths = batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"].tolist()
    for row, index in enumerate(order):
        source = [builders.BOS, *expected["de"][index], builders.EOS]
        assert lengths[row] == len(source)
        assert sources[row].tolist() == source + [builders.PAD] * (sources.size(1) - len(source))
        target = [*expected["en"][index], builders.EOS]
        assert batch["target"][row].tolist() == target + [builders.PAD] * (batch["target"].size(1) - len(target))


def test_sizes_count_the_symbol_that_is_prepended(folder):
    """Otherwise --max-tokens and --max-source-positions are off by one a sentence."""
    task = setup(folder)
    task.load_dataset("train")
    dataset = task.dataset("train")
    for index, (source, target) in enumerate(zip(rows(folder)["de"], rows(folder)["en"])):
        assert tuple(dataset.size(index)) == (len(source) + 2, len(target) + 1)
        assert dataset.num_tokens(index) == max(len(source) + 2, len(target) + 1)
        assert tuple(dataset.sizes[index]) == (len(source) + 2, len(target) + 1)
    longest = max(len(row) for row in rows(folder)["de"]) + 2
    kept, dropped = dataset.filter_indices_by_size(dataset.ordered_indices(), (longest - 1, 1000))
    assert len(dropped) >= 1
    assert len(kept) + len(dropped) == 12


def test_truncated_sources_fit_with_the_symbol_that_is_prepended(folder):
    """--truncate-source --max-source-positions 6: six tokens, <s> and </s> counted, and not seven."""
    task = setup(folder, truncate_source=True, max_source_positions=6)
    task.load_dataset("train")
    dataset = task.dataset("train")
    lengths = [len(dataset[index]["source"]) for index in range(12)]
    assert max(lengths) == 6
    sizes = [int(dataset.size(index)[0]) for index in range(12)]
    assert max(sizes) == 6
    assert all(0 <= size - length <= 1 for size, length in zip(sizes, lengths))  # fairseq counts a stripped </s> again
    assert all(int(dataset[index]["source"][-1]) == builders.EOS for index in range(12))


def test_raw_sentences_for_interactive_look_the_same(folder):
    task = setup(folder)
    tokens = [torch.tensor([5, 6, 7, builders.EOS]), torch.tensor([8, builders.EOS])]
    dataset = task.build_dataset_for_inference(tokens, [4, 2])
    batch = dataset.collater([dataset[0], dataset[1]])
    found = {int(i): row.tolist() for i, row in zip(batch["id"], batch["net_input"]["src_tokens"])}
    assert found == {0: [0, 5, 6, 7, 2], 1: [0, 8, 2, 1, 1]}
    assert sorted(batch["net_input"]["src_lengths"].tolist()) == [3, 5]
    assert [int(size) for size in dataset.src_sizes] == [5, 3]


def _generator(task, **options):
    return task.build_generator([], argparse.Namespace(**options))


def test_fairseqs_iteration_options_reach_the_generator():
    task = builders.task()
    chosen = _generator(
        task, iter_decode_max_iter=4, iter_decode_force_max_iter=True, retain_iter_history=True, iter_decode_with_beam=1
    )
    assert chosen.options == (4, False, True)
    assert _generator(task, iter_decode_max_iter=0).options == (0, True, False)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"iter_decode_with_beam": 3}, "--iter-decode-with-beam.*3"),
        ({"iter_decode_eos_penalty": 0.5}, "--iter-decode-eos-penalty"),
        ({"iter_decode_with_external_reranker": True}, "--iter-decode-with-external-reranker"),
        ({"iter_decode_max_iter": -1}, "--iter-decode-max-iter.*-1"),
        ({"lenpen": 0.6}, "--lenpen 0.6 has no meaning.*valid: 1; --rerank-at reads it"),
        ({"unkpen": 1}, "--unkpen 1 has no meaning"),
        ({"min_len": 3}, "--min-len 3 has no meaning.*valid: 1$"),
        ({"no_repeat_ngram_size": 3}, "--no-repeat-ngram-size 3 has no meaning"),
        ({"match_source_len": True}, "--match-source-len has no meaning.*; leave it out$"),
        ({"sampling": True}, "--sampling has no meaning.*; leave it out$"),
        ({"temperature": 0.7}, "--temperature 0.7 has no meaning"),
        ({"max_len_a": 1.2}, "--max-len-a 1.2 has no meaning.*valid: 0$"),
        ({"max_len_b": 10}, "--max-len-b 10 has no meaning.*valid: 200$"),
        ({"unnormalized": True}, "--unnormalized has no meaning.*; leave it out$"),
        ({"no_early_stop": True}, "--no-early-stop has no meaning.*; leave it out$"),
        ({"sampling_topk": 5}, "--sampling-topk 5 has no meaning"),
        ({"sampling_topp": 0.9}, "--sampling-topp 0.9 has no meaning"),
        ({"diverse_beam_groups": 2}, "--diverse-beam-groups 2 has no meaning"),
        ({"diverse_beam_strength": 0.1}, "--diverse-beam-strength 0.1 has no meaning"),
        ({"diversity_rate": 0.1}, "--diversity-rate 0.1 has no meaning"),
        ({"lm_path": "lm.pt"}, "--lm-path lm.pt has no meaning"),
        ({"lm_weight": 0.3}, "--lm-weight 0.3 has no meaning"),
        ({"score_reference": True}, "--score-reference has no meaning.*; leave it out$"),
        ({"print_alignment": "hard"}, "--print-alignment hard has no meaning.*; leave it out$"),
        ({"replace_unk": ""}, "--replace-unk  has no meaning"),
        ({"decoding_format": "vote"}, "--decoding-format vote has no meaning"),
        ({"eos_token": "x"}, "--eos-token x has no meaning"),
    ],
)
def test_options_without_a_meaning_are_refused(options, word):
    with pytest.raises(ValueError, match=word):
        _generator(builders.task(), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"iter_decode_ctc_candidates": 7},
            "--iter-decode-ctc-candidates 7: .* --iter-decode-ctc-beam of at least 1; got 0",
        ),
        (
            {"iter_decode_ctc_candidates": 0, "iter_decode_ctc_beam": 2},
            "--iter-decode-ctc-candidates must be at least 1",
        ),
        ({"rerank_at_weight": 0.5}, "--rerank-at-weight 0.5: .* without --rerank-at CHECKPOINT"),
        (
            {"rerank_at_weight": 0.5, "iter_decode_ctc_beam": 2},
            "--rerank-at-weight 0.5: .* without --rerank-at CHECKPOINT",
        ),
        ({"rerank_at_weight": 1.5}, r"--rerank-at-weight must lie in \[0, 1\]; got 1.5"),
        (
            {"rerank_at_weight": -0.1, "rerank_at": "nowhere.pt", "iter_decode_ctc_beam": 2},
            r"--rerank-at-weight must lie in \[0, 1\]; got -0.1",
        ),
        ({"rerank_at": "nowhere.pt"}, "--iter-decode-ctc-beam of at least 2; got 0"),
    ],
)
def test_options_of_the_beam_without_what_they_need_are_refused(options, message):
    task = builders.task()
    for name, value in options.items():
        setattr(task.cfg, name, value)
    with pytest.raises(ValueError, match=message):
        _generator(task)


def test_stock_defaults_and_the_beam_of_every_recipe_pass():
    stock = vars(GenerationConfig())
    assert _generator(builders.task(), **{**stock, "beam": 5}).options.max_iter == stock["iter_decode_max_iter"]


def test_dropout_is_retained_where_fairseqs_modules_are():
    task, args = builders.task(), argparse.Namespace(retain_dropout=True)
    with pytest.raises(ValueError, match="--retain-dropout: SGAModel has no dropout that could be kept"):
        task.build_generator([builders.sga_model()], args)
    task.build_generator([torch.nn.Sequential(FairseqDropout(0.1))], args)


def test_the_length_penalty_is_the_rerankers():
    task = builders.task()
    task.cfg.iter_decode_ctc_beam, task.cfg.rerank_at = 2, "nowhere.pt"
    with pytest.raises(ValueError, match="--rerank-at nowhere.pt: no such file"):
        _generator(task, lenpen=0.6)
    with pytest.raises(ValueError, match="--temperature 0.7 has no meaning"):
        _generator(task, temperature=0.7)


def test_mask_predict_has_no_lists_to_rerank():
    """Not "it needs a beam": a beam would be refused too."""
    task, model = builders.task(), builders.sga_model(alignment="mask_predict")
    for beam in (0, 2):
        task.cfg.iter_decode_ctc_beam, task.cfg.rerank_at = beam, "at.pt"
        with pytest.raises(
            ValueError, match="--rerank-at at.pt: .* trained with --alignment mask_predict and has none"
        ):
            task.build_generator([model], argparse.Namespace())


def test_packing_is_asked_for_by_its_option(caplog):
    task, asked = builders.task(), []
    model = builders.sga_model()
    model.pack_weights = lambda: asked.append(1) or 3 * 2**20  # type: ignore[method-assign]
    for option in (False, True):
        task.cfg.pack_weights = option
        with caplog.at_level("INFO"):
            task.build_generator([model], argparse.Namespace())
        assert len(asked) == caplog.text.count("packed weights for decoding: 3 MB") == int(option)
        assert "no effect" not in caplog.text


def test_packing_nothing_is_warned_of(caplog, monkeypatch):
    task, model = builders.task(), builders.sga_model()
    task.cfg.pack_weights = True
    model.pack_weights = lambda: 0  # type: ignore[method-assign]
    task.build_generator([model], argparse.Namespace())
    assert "--pack-weights has no effect: every matrix of this model has fewer than 262144 values" in caplog.text
    caplog.clear()
    monkeypatch.setattr(module, "is_packed", lambda weight: weight is model.masked_lm.output_weight)  # by a call before
    task.build_generator([model], argparse.Namespace())
    assert not caplog.text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("ctc", True)),
        ({"no_denoising": True}, ("ctc", False)),
        ({"alignment": "mask_predict"}, ("mask_predict", True)),
    ],
)
def test_the_criterion_learns_what_was_built(options, expected, monkeypatch):
    task, model = builders.task(), builders.sga_model(**options)
    monkeypatch.setattr(TranslationTask, "build_model", lambda *_: model)
    assert task.build_model(None) is model
    assert (task.alignment, task.has_denoiser) == expected


def test_the_defaults_of_fairseq_generate_are_let_pass():
    """Also of a fairseq that changes one: every option that is refused is known to it, and passes as it stands there."""
    defaults = {one.name: one.default for one in dataclasses.fields(GenerationConfig)}
    assert set(UNREAD_OPTIONS) <= set(defaults)
    _generator(builders.task(), **defaults)


def test_packing_is_refused_in_training():
    """fairseq's optimizers write through ``data``, which a packed copy does not notice."""
    task, cfg = builders.task(), OmegaConf.create({"_name": "sga_tiny"})
    task.cfg.pack_weights = True
    with pytest.raises(ValueError, match="--pack-weights is for decoding.*leave the option out in training"):
        task.build_model(cfg)


def test_what_cannot_be_packed_names_the_option():
    task = builders.task()
    task.cfg.pack_weights = True
    with pytest.raises(
        ValueError, match="--pack-weights: weights can be packed in float32 .*; got torch.float64 on cpu"
    ):
        task.build_generator([builders.sga_model().double()], argparse.Namespace())
    with pytest.raises(ValueError, match="--pack-weights is for SGA models; this one is Linear"):
        task.build_generator([torch.nn.Linear(2, 2)], argparse.Namespace())


def test_options_that_are_not_given_have_their_defaults():
    task = builders.task()
    task.cfg.iter_decode_ctc_beam = 4
    assert _generator(task).beam == (4, 20, 1)
    task.cfg.iter_decode_ctc_candidates = 6
    assert _generator(task).beam == (4, 6, 1)


@pytest.mark.parametrize(("beam", "kept"), [(0, None), (4, 20)])
def test_defaults_that_older_checkpoints_hold_are_not_taken_for_given(folder, beam, kept):
    """As fairseq-validate and the hub interface build the task: from the options in the checkpoint."""
    shared = {"dataset_impl": "mmap", "required_seq_len_multiple": 1, "data": str(folder), "source_lang": "de"}
    old = {"iter_decode_ctc_beam": beam, "iter_decode_ctc_candidates": 20, "rerank_at_weight": 0.5}
    cfg = argparse.Namespace(task="sga_translation", target_lang="en", **shared, **old)
    task = tasks.setup_task(cfg, from_checkpoint=True)
    assert task.cfg.iter_decode_ctc_candidates == kept
    assert _generator(task).beam.size == beam
    with pytest.raises(ValueError, match="without"):
        _generator(tasks.setup_task(cfg))


def test_inference_step_gives_text():
    """The generator as fairseq's commands call it: ids the dictionary can print."""
    task, model = builders.task(), builders.sga_model()
    sample = builders.batch(builders.source_rows([6, 4]))
    hypotheses = task.inference_step(_generator(task, iter_decode_max_iter=2), [model], sample)
    for sentence in hypotheses:
        text = task.target_dictionary.string(sentence[0]["tokens"].int().cpu())
        assert len(text.split()) <= len(sentence[0]["tokens"])


def test_padding_on_the_left_is_refused(folder):
    for value in (True, "True"):
        with pytest.raises(ValueError, match="--left-pad-source"):
            setup(folder, left_pad_source=value)


def test_target_padding_on_the_left_is_refused(folder):
    """The criterion would cut labels off: </s> and padding are expected at the end."""
    with pytest.raises(ValueError, match="--left-pad-target"):
        setup(folder, left_pad_target="True")


def test_two_dictionaries_are_refused(tmp_path):
    data_bins.write_pair(tmp_path, "train", "de", "en")
    data_bins.write_dictionary(tmp_path, "en", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.de\.txt.*dict\.en\.txt"):
        setup(tmp_path)


def bleu_log(*hypotheses):
    """What a validation batch logs for BLEU, against one reference."""
    score = BLEU().corpus_score(list(hypotheses), [["a b c d e f"] * len(hypotheses)])
    log = {"_bleu_sys_len": score.sys_len, "_bleu_ref_len": score.ref_len}
    for order in range(4):
        log.update({f"_bleu_counts_{order}": score.counts[order], f"_bleu_totals_{order}": score.totals[order]})
    return log


@pytest.mark.parametrize("batches", [[("",)], [("",), ("a b c d x y",)], [("a b c d x y",), ("",)]])
def test_bleu_is_logged_even_when_nothing_was_produced(folder, batches):
    task = setup(folder, eval_bleu=True)
    criterion = SGACTCCriterion(task, SGACTCConfig(sentence_avg=False))
    with metrics.aggregate() as found:
        for texts in batches:
            task.reduce_metrics([{"sample_size": 1, "nsentences": 1, "ntokens": 1, **bleu_log(*texts)}], criterion)
    texts = [text for batch in batches for text in batch]
    expected = BLEU().corpus_score(texts, [["a b c d e f"] * len(texts)]).score
    assert found.get_smoothed_value("bleu") == pytest.approx(expected, abs=0.01)


def test_no_bleu_is_logged_in_training(folder):
    task = setup(folder, eval_bleu=True)
    criterion = SGACTCCriterion(task, SGACTCConfig(sentence_avg=False))
    with metrics.aggregate() as found:
        task.reduce_metrics([{"sample_size": 1, "nsentences": 1, "ntokens": 1}], criterion)
    assert "bleu" not in found.get_smoothed_values()
