"""Trainable sizes of the paper, and the same architecture from argparse and from hydra."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import models, options
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fairseq_plugins.models.sga import ARCHITECTURES, SGAConfig, SGAModel
from fairseq_plugins.models.sga import model as sga_module
from fairseq_plugins.modules.frozen import Frozen
from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes
from tests import builders

# hydra's own deprecations, called by fairseq.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# Layers, width, feed-forward width, heads of XLM-R base and large (Conneau et al. 2020, Table 5), 250,002 pieces.
XLMR = {"sga_xlmr_base": (12, 768, 3072, 12), "sga_xlmr_large": (24, 1024, 4096, 16)}


def _xlmr(arch):
    layers, width, ffn, heads = XLMR[arch]
    return Frozen(MaskedLM(MaskedLMSizes(250002, layers, width, ffn, heads, 512)), "0" * 32, arch)


def _trained(model):
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _shapes(model):
    return {name: list(p.shape) for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize(
    ("arch", "no_denoising", "prompt_scale", "expected"),
    [
        ("sga_xlmr_base", True, False, 5_899_776),
        ("sga_xlmr_base", False, False, 8_259_072),
        ("sga_xlmr_base", False, True, 8_259_075),
        ("sga_xlmr_base", True, True, 5_899_778),
        ("sga_xlmr_large", True, False, 14_682_112),
        ("sga_xlmr_large", False, False, 20_973_568),
        ("sga_xlmr_large", False, True, 20_973_571),
    ],
)
def test_trainable_sizes_are_the_papers(arch, no_denoising, prompt_scale, expected):
    """6M, 8M, 15M and 21M of Table 1; the authors' log says 8,259,075 with three scales."""
    assert ARCHITECTURES[arch]["prompt_length"] == 128
    cfg = SGAConfig(
        prompt_length=ARCHITECTURES[arch]["prompt_length"], no_denoising=no_denoising, prompt_scale=prompt_scale
    )
    with torch.device("meta"):
        model = SGAModel(_xlmr(arch), cfg, blank=0, mask=250001)
    assert _trained(model) == expected
    assert all(parameter.is_meta for parameter in model.parameters())
    # Without the frozen weights a checkpoint is small: 84 MB for large.
    assert sum(tensor.numel() for tensor in model.state_dict().values()) == expected


@pytest.fixture
def empty_files(monkeypatch):
    """Instead of reading a pretrained file: one of the sizes the config asks for, on the meta device."""

    def build(cfg, dictionary):
        sizes = {name: getattr(cfg, option) for name, option in sga_module.SIZE_OPTIONS.items()}
        defaults = dict(layers=2, embed_dim=16, ffn_dim=24, heads=2, max_positions=40)
        sizes = {name: defaults[name] if value is None else value for name, value in sizes.items()}
        return Frozen(MaskedLM(MaskedLMSizes(vocab_size=250002, **sizes)), "0" * 32, "meta")

    monkeypatch.setattr(sga_module, "build_frozen", build)


def _from_argparse(arguments):
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(
        parser, ["data", "--task", "sga_translation", "--criterion", "sga_ctc", *arguments]
    )
    cfg = convert_namespace_to_omegaconf(args)
    with torch.device("meta"):
        return models.build_model(cfg.model, SimpleNamespace(source_dictionary=builders.dictionary()))


def _from_hydra(entries):
    """What fairseq-hydra-train makes of ``model: {_name: ...}`` in a YAML."""
    cfg = OmegaConf.create({"model": entries, "task": {"_name": "sga_translation"}, "criterion": {"_name": "sga_ctc"}})
    add_defaults(cfg)
    with torch.device("meta"):
        return models.build_model(cfg.model, SimpleNamespace(source_dictionary=builders.dictionary()))


@pytest.mark.parametrize("arch", ["sga_tiny", "sga_xlmr_base", "sga_xlmr_large"])
@pytest.mark.usefixtures("empty_files")
def test_architectures_are_the_same_from_argparse_and_from_hydra(arch):
    argparse_model = _from_argparse(["--arch", arch])
    hydra_model = _from_hydra({"_name": arch})
    assert _shapes(argparse_model) == _shapes(hydra_model)
    assert argparse_model.masked_lm.sizes == hydra_model.masked_lm.sizes
    if arch in XLMR:
        sizes = argparse_model.masked_lm.sizes
        assert (sizes.layers, sizes.embed_dim, sizes.ffn_dim, sizes.heads) == XLMR[arch]
        assert sizes.max_positions == 512
        assert _trained(argparse_model) == {"sga_xlmr_base": 8_259_072, "sga_xlmr_large": 20_973_568}[arch]


@pytest.mark.usefixtures("empty_files")
def test_the_command_line_wins_over_the_architecture():
    for model in (
        _from_argparse(["--arch", "sga_xlmr_base", "--prompt-length", "5", "--ctc-upsample", "3", "--no-denoising"]),
        _from_hydra({"_name": "sga_xlmr_base", "prompt_length": 5, "ctc_upsample": 3, "no_denoising": True}),
    ):
        assert model.encoder_prompts.key.shape == (12, 5, 768)
        assert model.slot_lengths(torch.tensor([4])).tolist() == [12]
        assert not model.has_denoiser


@pytest.mark.usefixtures("empty_files")
def test_mask_predict_adds_a_length_predictor_of_256_lengths():
    """512 positions, two slots a token: C x 256 weights and 256 biases beside the 8 M."""
    for model in (
        _from_argparse(["--arch", "sga_xlmr_base", "--alignment", "mask_predict"]),
        _from_hydra({"_name": "sga_xlmr_base", "alignment": "mask_predict"}),
    ):
        assert _trained(model) == 8_259_072 + 768 * 256 + 256
        assert model.max_positions() == (512, 257)
