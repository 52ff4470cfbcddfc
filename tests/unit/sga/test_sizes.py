"""Test the trainable sizes of the paper, and that argparse and hydra build the same."""

import pytest

from fairseq_plugins.common.frozen import Frozen
from fairseq_plugins.masked_lm.model import MaskedLM, MaskedLMSizes
from fairseq_plugins.sga import variants
from fairseq_plugins.sga.config import SIZE_OPTIONS
from tests import builders

BASE, LARGE = (12, 768, 3072, 12, 512), (24, 1024, 4096, 16, 512)
"""Layers, width, FFN width, heads and positions of XLM-R (Conneau et al. 2020, Table 5)."""
TINY = (2, 16, 24, 2, 40)


@pytest.fixture
def _no_pretrained_file(monkeypatch):
    """Build the frozen model by the sizes in the config, on the meta device."""

    def build(cfg, dictionary):
        sizes = {}
        for (name, option), default in zip(SIZE_OPTIONS.items(), TINY):
            size = getattr(cfg, option)
            sizes[name] = default if size is None else size
        return Frozen(MaskedLM(MaskedLMSizes(vocab_size=250002, **sizes)), "0" * 32, "meta")

    monkeypatch.setattr(variants, "build_frozen", build)


@pytest.mark.cases(
    "arch options sizes trainable",
    ("sga_tiny", {}, TINY, 6_688),
    ("sga_xlmr_base", {}, BASE, 8_259_072),
    ("sga_xlmr_base", {"no_denoising": True}, BASE, 5_899_776),
    ("sga_xlmr_base", {"prompt_scale": True}, BASE, 8_259_075),
    ("sga_xlmr_large", {}, LARGE, 20_973_568),
    ("sga_xlmr_large", {"no_denoising": True}, LARGE, 14_682_112),
    # The length predictor projects to the 256 lengths whose slots fit into 512 positions.
    ("sga_xlmr_base", {"alignment": "mask_predict"}, BASE, 8_259_072 + 768 * 256 + 256),
)
@pytest.mark.usefixtures("_no_pretrained_file")
def test_architectures_have_the_sizes_of_the_paper(arch, options, sizes, trainable):
    """Table 1 rounds to 6M, 8M, 15M and 21M; the authors' log has 8,259,075 with scales."""
    task = builders.task_of(builders.dictionary())
    model = builders.built_both_ways(arch, "sga_translation", task, "meta", **options)
    masked_lm = model.masked_lm.sizes
    assert tuple(getattr(masked_lm, name) for name in SIZE_OPTIONS) == sizes
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert sum(parameter.numel() for parameter in parameters) == trainable
    assert sum(tensor.numel() for tensor in model.state_dict().values()) == trainable
    assert model.has_denoiser is not bool(options.get("no_denoising"))
    positions = masked_lm.max_positions
    longest = (512, 257) if "alignment" in options else (positions // 2, positions)
    assert model.max_positions() == longest
