"""The trainable masked LM: sizes, masked positions, the stock criterion, and a checkpoint SGA can read."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq import models, options
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fairseq_plugins import checkpoints
from fairseq_plugins.models.xlmr_mlm import XLMRMaskedLMConfig, XLMRMaskedLMModel
from tests import builders

SIZES = {"xlmr_mlm_tiny": (4, 192, 768, 4), "xlmr_mlm_small": (6, 256, 1024, 4), "xlmr_mlm_base": (12, 768, 3072, 12)}


def _task():
    return SimpleNamespace(source_dictionary=builders.dictionary(), target_dictionary=builders.dictionary())


def small(**changes):
    cfg = XLMRMaskedLMConfig(
        encoder_layers=2,
        encoder_embed_dim=16,
        encoder_ffn_embed_dim=24,
        encoder_attention_heads=2,
        tokens_per_sample=40,
        **changes,
    )
    return XLMRMaskedLMModel.build_model(cfg, _task())


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("arch", sorted(SIZES))
def test_architectures_are_the_same_from_argparse_and_from_hydra(arch):
    parser = options.get_training_parser()
    arguments = ["data", "--task", "tlm_pretraining", "--criterion", "masked_lm", "--arch", arch, "--pairs", "en-de"]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, [*arguments, "--tokens-per-sample", "64"]))
    hydra = OmegaConf.create(
        {"model": {"_name": arch}, "task": {"_name": "tlm_pretraining", "data": "data", "tokens_per_sample": 64}}
    )
    add_defaults(hydra)
    with torch.device("meta"):
        first, second = (models.build_model(each.model, _task()) for each in (cfg, hydra))
    shapes = [{name: list(p.shape) for name, p in model.named_parameters()} for model in (first, second)]
    assert shapes[0] == shapes[1]
    sizes = first.encoder.sizes
    assert (sizes.layers, sizes.embed_dim, sizes.ffn_dim, sizes.heads) == SIZES[arch]
    assert sizes.max_positions == 64
    assert sizes.vocab_size == builders.VOCAB


def test_it_starts_from_berts_initialisation():
    model = small()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            assert 0.015 < float(parameter.detach().std()) < 0.025, name
    assert all(parameter.requires_grad for parameter in model.parameters())


def _batch():
    rows = builders.source_rows([7, 5])
    sample = builders.batch(rows)
    target = torch.full((2, 7), builders.PAD)
    target[0, 2], target[0, 3], target[1, 1] = 5, 6, 7
    sample.update(target=target, ntokens=12)
    sample["net_input"]["positions"] = torch.arange(2, 9).repeat(2, 1)
    return sample, target


def test_only_masked_positions_are_projected():
    model = small().eval()
    sample, target = _batch()
    masked = target.ne(builders.PAD)
    every = model(**sample["net_input"])[0]
    assert every.shape == (2, 7, builders.VOCAB)
    torch.testing.assert_close(model(**sample["net_input"], masked_tokens=masked)[0], every[masked])


def test_stock_criterion_gives_the_cross_entropy_of_the_masked_tokens():
    model = small().eval()
    sample, target = _batch()
    loss, size, _ = MaskedLmLoss(SimpleNamespace(tpu=False), _task())(model, sample)
    masked = target.ne(builders.PAD)
    logits = model(**sample["net_input"])[0]
    torch.testing.assert_close(loss, F.cross_entropy(logits[masked], target[masked], reduction="sum"))
    assert size == 3
    loss.backward()
    untouched = [name for name, p in model.named_parameters() if p.grad is None]
    assert untouched == []


def test_positions_that_restart_change_the_output():
    model = small()
    builders.randomise(model, 1)
    model.eval()
    tokens = builders.source_rows([8])[0][None]
    restarted = torch.tensor([[2, 3, 4, 5, 2, 3, 4, 5]])
    counted = model(tokens)[0]
    torch.testing.assert_close(model(tokens, positions=torch.arange(2, 10)[None])[0], counted)
    assert float((model(tokens, positions=restarted)[0] - counted).detach().abs().max()) > 1e-2


def test_its_checkpoint_can_be_read_as_a_frozen_model(tmp_path):
    """fairseq's XLM-R layout: what SGA's --pretrained-mlm takes."""
    model = small()
    builders.randomise(model, 3)
    cfg = {"_name": "xlmr_mlm_tiny", "encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24}
    cfg.update(encoder_attention_heads=2, max_positions=40)
    torch.save({"model": model.state_dict(), "args": None, "cfg": {"model": cfg}}, tmp_path / "model.pt")
    found = checkpoints.read_masked_lm(tmp_path / "model.pt")
    expected = dict(model.encoder.named_parameters())
    assert set(found.tensors) == set(expected)
    assert all(torch.equal(found.tensors[name], expected[name]) for name in expected)
    assert found.sizes["heads"] == 2
    assert found.sizes["max_positions"] == 40
    assert model.max_positions() == 40


def test_init_from_mlm_takes_over_the_weights_and_checks_sizes(tmp_path):
    source = builders.masked_lm(seed=4, vocab_size=builders.VOCAB)
    sizes = vars(source.sizes)
    checkpoints.write_masked_lm(tmp_path, sizes, source.state_dict(), dtype=torch.float32)
    options = dict(
        encoder_layers=builders.LAYERS,
        encoder_embed_dim=builders.WIDTH,
        encoder_ffn_embed_dim=builders.FFN,
        encoder_attention_heads=builders.HEADS,
        max_positions=builders.POSITIONS,
    )
    cfg = XLMRMaskedLMConfig(**options, init_from_mlm=str(tmp_path))
    model = XLMRMaskedLMModel.build_model(cfg, _task())
    tokens = torch.tensor([[builders.BOS, 5, 9, builders.EOS]])
    torch.testing.assert_close(model.eval()(tokens)[0], source.eval()(tokens), rtol=0, atol=0)
    task = _task()
    task.from_checkpoint = True  # which has the weights: the file need not be there any more
    XLMRMaskedLMModel.build_model(XLMRMaskedLMConfig(**options, init_from_mlm=str(tmp_path / "gone")), task)
    cfg.encoder_layers = builders.LAYERS + 1
    with pytest.raises(ValueError, match=r"--init-from-mlm .* has layers = 2, this model 3"):
        XLMRMaskedLMModel.build_model(cfg, _task())
