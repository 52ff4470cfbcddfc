"""Test gpt_msp: beams, padding, trained parameters, checkpoints, rows, options, bad input."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.sequence_generator import SequenceGenerator

from fairseq_plugins.baselines.gpt_msp import ARCHITECTURES, GPTMSPConfig, GPTMSPModel
from tests import builders, gpt_builders

STAGES = ("encoder.encoding", "encoder.re_encoding", "decoder.decoding")
TRAINED = {f"{stage}.{name}" for stage in STAGES for name in ("key", "value", "scale")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return gpt_builders.write(tmp_path_factory.mktemp("gpt"))


@pytest.fixture
def model(folder, device):
    return gpt_builders.msp(folder).to(device)


def sample(device, **options):
    net_input = gpt_builders.net_input(**options)
    target = builders.pad(gpt_builders.pieces_rows([4, 6, 2], seed=4))
    batch = {"net_input": net_input, "target": target, "ntokens": 12, "nsentences": 3}
    return builders.to_device(batch, device)


def score(model, source, tokens):
    shifted = torch.cat([tokens[-1:], tokens[:-1]])[None]
    with torch.no_grad():
        logits = model(source[None], torch.tensor([len(source)], device=source.device), shifted)[0]
    return float(F.log_softmax(logits[0], -1).gather(1, tokens[:, None]).sum())


def test_beam_search_scores_equal_full_decoding(model, device):
    """Reordered caches give the scores of full passes over the hypotheses."""
    symbols = gpt_builders.dictionary()
    options = {"beam_size": 4, "max_len_b": 8, "normalize_scores": False}
    generator = SequenceGenerator([model], symbols, **options)
    data = sample(device, left_pad=True)
    texts = set()
    for row, beam in zip(data["net_input"]["src_tokens"], generator.generate([model], data)):
        assert len(beam) == 4
        for hypothesis in beam:
            texts.add(tuple(hypothesis["tokens"].tolist()))
            expected = score(model, row[row.ne(builders.PAD)], hypothesis["tokens"])
            assert float(hypothesis["score"]) == pytest.approx(expected, abs=1e-4)
    assert len(texts) >= 7 and max(map(len, texts)) >= 3


@pytest.mark.parametrize("options", [{"extra": 3}, {"left_pad": True, "extra": 2}], ids=str)
def test_padding_changes_no_logit(model, device, options):
    data, padded = sample(device)["net_input"], sample(device, **options)["net_input"]
    mask = data["prev_output_tokens"].ne(builders.PAD)
    with torch.no_grad():
        logits, expected = model(**padded)[0][mask], model(**data)[0][mask]
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)


def test_only_prompts_train_and_the_rest_stays_bit_equal(folder, device):
    model = gpt_builders.msp(folder).to(device).train()
    parameters = dict(model.named_parameters())
    assert {name for name in parameters if parameters[name].requires_grad} == TRAINED
    criterion = LabelSmoothedCrossEntropyCriterion(gpt_builders.task(), False, 0.1)
    # A scale of 1 sits at the edge of max(1, scale); its gradient is that of 1 and above.
    assert builders.moved(model, lambda: criterion(model, sample(device))[0]) == TRAINED
    dropping = gpt_builders.msp(folder, frozen_dropout=0.5).train()
    first, second = (dropping(**gpt_builders.net_input())[0] for _ in range(2))
    assert not torch.equal(first, second)


def test_checkpoints_hold_the_prompts_and_name_the_frozen_model(folder, tmp_path):
    model = gpt_builders.msp(folder)
    state = model.state_dict()
    marker = f"decoder.frozen.fingerprint.{model.decoder.frozen.fingerprint}"
    assert set(state) == TRAINED | {marker}
    copy = gpt_builders.msp(folder, seed=9)
    copy.load_state_dict(state)
    data = gpt_builders.net_input()
    with torch.no_grad():
        torch.testing.assert_close(copy(**data)[0], model(**data)[0])
    strange_folder = gpt_builders.write(tmp_path / "other", gpt_builders.tensors(seed=7))
    stranger = gpt_builders.msp(strange_folder)
    with pytest.raises(ValueError, match="trained on another frozen model.*--pretrained-gpt"):
        stranger.load_state_dict(state)


def test_rows_follow_the_dictionary_by_name(folder):
    """A dictionary of fewer pieces in another order, with madeupword entries, takes its rows."""
    symbols = builders.of_symbols(["p7", "p2", "madeupword0000"])
    cfg = GPTMSPConfig(pretrained_gpt=str(folder), prompt_length=3)
    decoder = GPTMSPModel.build_model(cfg, builders.task_of(symbols)).decoder
    words = decoder.lm.embed_tokens.weight
    all_words = gpt_builders.msp(folder).decoder.lm.embed_tokens.weight
    assert torch.equal(words[:6], all_words[[0, 1, 2, 3, 4 + 7, 4 + 2]])
    torch.testing.assert_close(words[6], all_words.mean(0))
    assert decoder.output_projection.weight is words


@pytest.mark.cases(
    "changes message",
    ({"prompt_length": 0}, "--prompt-length .* got 0"),
    ({"frozen_dropout": 1.0}, "--frozen-dropout .* got 1.0"),
    ({"decoder_layers": 7}, r"--decoder-layers 7 \(valid here: 3\)"),
    ({"decoder_attention_heads": 4}, r"--decoder-attention-heads 4 \(valid here: 2\)"),
    ({"max_positions": 99}, r"--max-positions 99 \(valid here: 20\)"),
    ({"pretrained_gpt": "nowhere"}, "nowhere: no such file"),
)
def test_bad_options_are_refused(folder, changes, message):
    cfg = GPTMSPConfig(**{"pretrained_gpt": str(folder), **changes})
    with pytest.raises(ValueError, match=message):
        GPTMSPModel.build_model(cfg, gpt_builders.task())


def test_bad_dictionaries_and_sentences_are_refused(model, folder, tmp_path, device):
    with pytest.raises(ValueError, match="--pretrained-gpt is needed"):
        GPTMSPModel.build_model(GPTMSPConfig(), gpt_builders.task())
    with pytest.raises(ValueError, match="no row for 2 entries .* 'p25', 'p26'"):
        gpt_builders.msp(folder, pieces=27)
    bare = gpt_builders.write(tmp_path / "bare", pieces=0)
    with pytest.raises(ValueError, match="bare: .* 29 rows"):
        gpt_builders.msp(bare)
    source, target = gpt_builders.dictionary(), gpt_builders.dictionary(3)
    task = SimpleNamespace(source_dictionary=source, target_dictionary=target)
    with pytest.raises(ValueError, match="same dictionary"):
        GPTMSPModel.build_model(GPTMSPConfig(pretrained_gpt=str(folder)), task)
    with pytest.raises(ValueError, match="21 tokens .* 20 positions"):
        model.encoder(torch.full((1, gpt_builders.POSITIONS + 1), 5, device=device))
    with pytest.raises(ValueError, match="1 of the 1 source sentences"):
        model.encoder(torch.tensor([[builders.PAD, builders.EOS]], device=device))


def build_both_ways(arch, folder):
    task, options = gpt_builders.task(), {"pretrained_gpt": str(folder)}
    return builders.built_both_ways(arch, "translation", task, **options)


def test_architectures_are_the_same_from_argparse_and_from_hydra(folder):
    """The paper's mGPT has 19M trained parameters: 3 stages, keys and values, 3 scales."""
    for arch, length in (("gpt_msp", 128), ("gpt_msp_tiny", 32)):
        model = build_both_ways(arch, folder)
        assert model.decoder.decoding.key.shape == (3, length, 16)
    message = r"--decoder-layers 24 \(valid here: 3\), --decoder-embed-dim 1024"
    with pytest.raises(ValueError, match=message):
        build_both_ways("gpt_msp_mgpt", folder)
    sizes = ARCHITECTURES["gpt_msp_mgpt"]
    prompts = sizes["decoder_layers"] * sizes["prompt_length"] * sizes["decoder_embed_dim"]
    assert 3 * (2 * prompts + 1) == 18_874_371
