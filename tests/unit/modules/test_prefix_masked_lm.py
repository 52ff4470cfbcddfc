"""MaskedLM: tied output, selected positions, initialisation, names of the state dict."""

import torch
import torch.nn.functional as F

from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes
from tests import builders


def test_output_is_tied_to_the_embedding(device):
    lm = builders.masked_lm().to(device)
    tokens = builders.source_rows([6])[0][None].to(device)
    hidden = lm.lm_head.transform(lm.sentence_encoder(tokens)[-1])
    assert lm.output_weight is lm.sentence_encoder.embed_tokens.weight
    torch.testing.assert_close(lm(tokens), F.linear(hidden, lm.sentence_encoder.embed_tokens.weight, lm.lm_head.bias))
    names = [name for name, _ in lm.named_parameters()]
    assert "lm_head.bias" in names
    assert "lm_head.weight" not in names, "the projection is shared with the embedding, not a parameter of its own"


def test_initialisation_is_berts():
    lm = MaskedLM(MaskedLMSizes(vocab_size=500, layers=1, embed_dim=64, ffn_dim=128, heads=2, max_positions=50))
    lm.reset_parameters()
    for name, parameter in lm.named_parameters():
        if parameter.dim() == 1:
            norm_weight = "norm" in name and name.endswith("weight")
            assert bool((parameter == (1.0 if norm_weight else 0.0)).all()), name
        else:
            assert 0.018 < float(parameter.detach().std()) < 0.022, name
    assert bool((lm.sentence_encoder.embed_tokens.weight[1] == 0).all())
