"""Test that an encoder of BERT's shape without a head starts masked-LM training."""

from argparse import Namespace

import pytest
import torch
from fairseq import models

from fairseq_plugins.checkpoints import CheckpointError, read_masked_lm
from fairseq_plugins.masked_lm.training import XLMRMaskedLMConfig
from tests import builders
from tests.bert_builders import EPSILON, write_encoder


def build(folder, **options):
    defaults = vars(XLMRMaskedLMConfig(init_from_mlm=str(folder), **options))
    args = Namespace(**{**defaults, "arch": "xlmr_mlm", "tokens_per_sample": builders.POSITIONS})
    return models.build_model(args, builders.task()), args


def test_rows_and_sizes_come_from_the_file_and_the_head_is_new(tmp_path, caplog):
    """The truncated encoder is the file's; checkpoints record every size and the epsilon."""
    masked_lm = write_encoder(tmp_path)
    with pytest.raises(ValueError, match="--embedding-mismatch is error; valid here: truncate"):
        build(tmp_path)
    model, args = build(tmp_path, embedding_mismatch="truncate")
    tokens = torch.tensor([[builders.BOS, 5, 9, builders.EOS, builders.PAD]])
    expected = masked_lm.eval().sentence_encoder(tokens)[-1]
    actual = model.eval().encoder.sentence_encoder(tokens)[-1]
    torch.testing.assert_close(actual[:, :4], expected[:, :4], rtol=0, atol=1e-5)
    assert "has no head of a masked LM: training starts with a new one" in caplog.text
    assert not bool(model.encoder.lm_head.bias.any())
    recorded = {name: getattr(args, name) for name in model.recorded_options}
    assert recorded == dict(model.recorded_options) and recorded["layer_norm_epsilon"] == EPSILON
    assert recorded["encoder_attention_heads"] == builders.HEADS


def test_a_checkpoint_of_it_is_read_with_its_epsilon(tmp_path):
    write_encoder(tmp_path)
    model, args = build(tmp_path, embedding_mismatch="truncate")
    torch.save({"model": model.state_dict(), "args": args, "cfg": None}, tmp_path / "mlm.pt")
    assert read_masked_lm(tmp_path / "mlm.pt").sizes["epsilon"] == EPSILON


def test_a_reader_that_needs_the_head_refuses_it(tmp_path):
    write_encoder(tmp_path)
    with pytest.raises(CheckpointError, match="no head of a masked LM"):
        read_masked_lm(tmp_path)
