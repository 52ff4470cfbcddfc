"""Test cut or permuted target dictionaries: like the full model with the other logits at -inf."""

import copy
from argparse import Namespace

import pytest
import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_plugins import checkpoints
from fairseq_plugins.baselines.nat_ctc import NATCTCConfig, NATCTCModel
from fairseq_plugins.sga import mask_predict
from fairseq_plugins.sga.criterion import SGACTCCriterion
from fairseq_plugins.sga.extensions.reranking import ATReranker, RerankOptions
from fairseq_plugins.sga.free import MaskedTarget
from fairseq_plugins.sga.tasks import SGATranslationTask
from fairseq_plugins.sga.variants import (
    SGA,
    JoinedModelConfig,
    JoinedTranslationConfig,
    SGACTCConfig,
)
from tests import builders
from tests.unit.sga.extensions import test_reranking

SPECIAL = list(range(builders.FIRST_PIECE))
ROWS = {
    "permutation": [
        *SPECIAL,
        *range(builders.MASK - 1, builders.FIRST_PIECE - 1, -1),
        builders.MASK,
    ],
    "subset": [*SPECIAL, 20, 7, 11, 28, 5, 16, 9, 24, builders.MASK],
}
LENGTHS = [6, 3, 5]


def symbols_of(rows):
    names = builders.dictionary().symbols
    return builders.of_symbols([names[row] for row in rows[builders.FIRST_PIECE :]])


def models(rows, **options):
    """The model with a cut target, and the whole one in which no other row can win."""
    rows = torch.tensor(rows)
    cut = builders.sga_model(mask=len(rows) - 1, target_rows=rows, **options)
    whole = builders.sga_model(module=copy.deepcopy(cut.masked_lm), **options)
    is_other = torch.ones(builders.VOCAB, dtype=torch.bool).index_fill(0, rows, False)
    whole.masked_lm.lm_head.bias[is_other] = -torch.inf
    return cut.double(), whole.double(), rows


def targets_of(rows):
    """Targets of the cut dictionary, (B, U), and their lengths."""
    pieces = torch.arange(builders.FIRST_PIECE, len(rows) - 1)
    lengths = torch.tensor([3, 1, 2])
    tokens = torch.full((3, 3), builders.PAD)
    for row, length in enumerate(lengths):
        tokens[row, :length] = pieces[
            torch.randperm(len(pieces), generator=torch.Generator().manual_seed(row))
        ][:length]
    return tokens, lengths


def losses(model, tokens, lengths, **options):
    source = builders.pad(builders.source_rows(LENGTHS))
    masked = torch.tensor([[True, False, True], [True, False, False], [False, True, False]])
    target = MaskedTarget(tokens, lengths, 7, masked)
    if model.alignment != "mask_predict":
        target = target.for_ctc()
    torch.manual_seed(3)
    return model(source, torch.tensor(LENGTHS), target, **options)[0]


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.cases(
    "options more",
    ({}, {"unroll": 2}),
    ({"fill_blanks": True, "lora_rank": 2, "ctc_blank_bias": 2.0}, {}),
    ({"alignment": "dag"}, {"glancing": 0.9}),
    ({"alignment": "mask_predict", "fill_blanks": True}, {"read_all": True}),
)
def test_losses_and_gradients_equal_those_of_masked_logits(kind, options, more):
    cut, whole, rows = models(ROWS[kind], **options)
    tokens, lengths = targets_of(rows)
    results = []
    for model, labels in ((cut, tokens), (whole, rows[tokens])):
        terms = losses(model, labels, lengths, **more)
        trained = {name: part for name, part in model.named_parameters() if part.requires_grad}
        total = sum(term.sum() for term in terms.values())
        results.append(
            (
                terms,
                dict(zip(trained, torch.autograd.grad(total, trained.values(), allow_unused=True))),
            )
        )
    for ours, theirs in zip(*results):
        assert set(ours) == set(theirs)
        for name, tensor in ours.items():
            torch.testing.assert_close(tensor, theirs[name], rtol=1e-9, atol=1e-9, msg=name)
    assert all(bool((term > 0).any()) for term in results[0][0].values())


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.cases(
    "options args",
    ({}, {}),
    ({"fill_blanks": True}, {"iter_decode_force_max_iter": True, "iter_decode_blank_penalty": 1.0}),
    ({}, {"iter_decode_ctc_beam": 3, "nbest": 3}),
    ({"alignment": "dag"}, {}),
    ({"alignment": "dag", "no_denoising": True}, {}),
    ({"alignment": "mask_predict"}, {"length_beam": 2}),
)
def test_decoding_gives_the_same_pieces(kind, options, args):
    cut, whole, rows = models(ROWS[kind], **options)
    dictionaries = symbols_of(ROWS[kind]), builders.dictionary()
    sample = builders.batch(builders.source_rows(LENGTHS))
    outputs = []
    for model, target in zip((cut, whole), dictionaries):
        task = SGATranslationTask(JoinedTranslationConfig(), builders.dictionary(), target)
        sentences = task.build_generator([model], Namespace(**args)).generate([model], sample)
        outputs.append(
            [[(target.string(h["tokens"]), h["score"]) for h in sentence] for sentence in sentences]
        )
    assert any(text for sentence in outputs[0] for text, _ in sentence)
    for ours, theirs in zip(*outputs):
        assert [text for text, _ in ours] == [text for text, _ in theirs]
        torch.testing.assert_close(
            *(torch.stack([score for _, score in part]) for part in (ours, theirs))
        )


def test_noise_and_smoothing_stay_among_the_targets_entries():
    cut, _, rows = models(ROWS["subset"], alignment="mask_predict")
    task = SGATranslationTask(
        JoinedTranslationConfig(), builders.dictionary(), symbols_of(ROWS["subset"])
    )
    corrupt = SGACTCCriterion(
        task, SGACTCConfig(denoise_noise=1.0, denoise_noise_mix="random=1")
    )._noise(cut.blank)
    noisy = corrupt(torch.zeros(64, 64, dtype=torch.int64), torch.full((64,), 64))
    assert set(noisy.flatten().tolist()) == {0, *range(builders.FIRST_PIECE, len(rows) - 1)}
    tokens, lengths = targets_of(rows)
    smoothed = losses(cut, tokens, lengths, label_smoothing=0.3)
    assert bool(smoothed["alignment"].isfinite().all())
    generator = mask_predict.SGAMaskPredictGenerator(
        task.target_dictionary, mask_predict.IterationOptions(0), mask_predict.MaskPredictOptions()
    )
    hypotheses = generator.generate([cut], builders.batch(builders.source_rows(LENGTHS)))
    assert all(int(sentence[0]["tokens"].max()) < len(rows) for sentence in hypotheses)


# ---- Building and checkpoints. ----


@pytest.fixture(scope="module")
def pretrained(path):
    lm = builders.masked_lm()
    checkpoints.write_masked_lm(path, lm.sizes, lm.state_dict(), dtype=torch.float32)
    return path


def build(path, target, from_checkpoint=False, **options):
    task = Namespace(
        source_dictionary=builders.dictionary(),
        target_dictionary=target,
        from_checkpoint=from_checkpoint,
    )
    return SGA.build_model(JoinedModelConfig(pretrained_mlm=str(path), **options), task)


def test_rows_are_found_by_name_and_not_written(pretrained, caplog):
    caplog.set_level("INFO")
    whole, cut = (
        build(pretrained, builders.dictionary()),
        build(pretrained, symbols_of(ROWS["subset"])),
    )
    assert whole.target_rows is None and cut.target_rows.rows.tolist() == ROWS["subset"]
    assert (cut.blank, cut.mask) == (builders.BOS, len(ROWS["subset"]) - 1)
    assert "target: 13 of the 30 rows of the masked LM" in caplog.text
    weight, bias = cut.projection
    assert torch.equal(weight, whole.projection[0][ROWS["subset"]]) and torch.equal(
        bias, whole.projection[1][ROWS["subset"]]
    )
    assert list(cut.state_dict()) == list(whole.state_dict())
    assert [name for name, _ in cut.named_parameters()] == [
        name for name, _ in whole.named_parameters()
    ]
    cut.load_state_dict(whole.state_dict())
    half = copy.deepcopy(cut).half()
    assert half.projection[0].dtype == torch.float16 and half.target_rows.rows.dtype == torch.int64


def test_full_checkpoints_fill_the_selected_rows(pretrained):
    target = symbols_of(ROWS["subset"])
    written = build(pretrained, target, save_full_model=True)
    options = {**written.recorded_options, "save_full_model": True}
    loaded = build("nowhere", target, from_checkpoint=True, **options)
    assert not bool(loaded.projection[0].any())
    loaded.load_state_dict(written.state_dict())
    for ours, theirs in zip(loaded.projection, written.projection):
        assert torch.equal(ours, theirs)


@pytest.mark.cases(
    "change words",
    (
        ["p3", "elsewhere", "<mask>"],
        "dict.en.txt in .*: dict.de.txt in .* lacks its entry 'elsewhere'; valid: ",
    ),
    (["p3", "<mask>", "p2"], "dict.en.txt in .*: <mask> must stand after the pieces"),
)
def test_what_the_source_lacks_is_refused(tmp_path, change, words):
    builders.write_pair(tmp_path, "train", "de", "en")
    builders.write_symbols(tmp_path / "dict.en.txt", change)
    with pytest.raises(ValueError, match=words):
        builders.read_task(tmp_path)


@pytest.mark.parametrize("pairs", [None, "de-en,fr-en"])
def test_tasks_read_both_dictionaries(tmp_path, pairs):
    for source in ("de", "fr"):
        builders.write_pair(tmp_path, "train", source, "en")
    builders.write_symbols(tmp_path / "dict.en.txt", ["p3", "p1"])
    task = builders.read_task(tmp_path, pairs=pairs)
    assert len(task.source_dictionary) == builders.VOCAB
    assert task.target_dictionary.symbols[builders.FIRST_PIECE :] == ["p3", "p1", "<mask>"]
    if pairs:
        builders.write_symbols(tmp_path / "dict.fr.txt", ["p3", "p1"])
        with pytest.raises(ValueError, match="dict.fr.txt differs from .*dict.de.txt"):
            builders.read_task(tmp_path, pairs=pairs)


def test_nat_ctc_has_one_dictionary():
    task = SGATranslationTask(
        JoinedTranslationConfig(), builders.dictionary(), symbols_of(ROWS["subset"])
    )
    with pytest.raises(ValueError, match="--arch nat_ctc has one embedding"):
        NATCTCModel.build_model(NATCTCConfig(), task)


def test_a_reranker_reads_sources_and_hypotheses_by_their_own_dictionaries():
    source, target = (
        test_reranking.at_dictionary(),
        builders.of_symbols([f"p{number}" for number in (16, 3, 7, 24)]),
    )
    task = TranslationTask(TranslationConfig(), source, target)
    args = Namespace(dropout=0.0, **builders.sides(1, 16, 24, 2, positions=60))
    base_architecture(args)
    model = TransformerModel.build_model(args, task)
    builders.randomise(model, seed=1)
    ours = builders.dictionary(), builders.of_symbols([*target.symbols[4:], "<mask>"])
    reranker = ATReranker([model.double()], task, ours[1], RerankOptions("at.pt"), ours[0])
    tokens = torch.tensor([5, 4, 7])
    sentences = [[{"tokens": tokens, "score": torch.tensor(-1.0)}]]
    row = torch.tensor([builders.BOS, 20, 9, builders.EOS])
    rescored = reranker.rescore(row[None], sentences)[0][0]
    expected = test_reranking.slow_log_prob([model], row[1:], tokens.tolist())
    assert float(rescored["at_score"]) == pytest.approx(expected, abs=1e-4)
    with pytest.raises(ValueError, match="its dictionary has .* that of the source"):
        ATReranker([model], task, ours[1], RerankOptions("at.pt"))
