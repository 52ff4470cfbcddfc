"""A training step without values holds what the same step holds with them, at every moment and in every part."""

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_plugins.checkpoints import write_masked_lm
from fairseq_plugins.masked_lm import model as attention
from fairseq_plugins.plan import rehearsal
from fairseq_plugins.plan.kernels import kernels
from fairseq_plugins.plan.live import GRADIENTS, OPTIMIZER, WEIGHTS
from tests import builders

SIZES = (
    "--encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-attention-heads 2"
)
# Learned positions: the table of sinusoidal ones is copied in the forward pass of fairseq 0.12.2, where it changes type or device.
POSITIONS = "--encoder-learned-pos --decoder-learned-pos"
STOCK = f"--task translation --arch transformer {SIZES} {POSITIONS} --share-all-embeddings --dropout 0.2 --criterion"
CROSS_ENTROPY = f"{STOCK} label_smoothed_cross_entropy --label-smoothing 0.1"
CHUNKED = f"{STOCK} label_smoothed_linear_cross_entropy --label-smoothing 0.1"
CTC = "--task sga_translation --arch sga_tiny --prompt-length 3 --criterion sga_ctc"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A data-bin and a masked LM for its dictionary."""
    folder = tmp_path_factory.mktemp("plan")
    builders.write_pair(folder, "train", "de", "en", count=40)
    module = builders.masked_lm()
    write_masked_lm(folder / "mlm", module.sizes, dict(module.named_parameters()), dtype=torch.float32)
    builders.write_symbols(folder / "mlm" / "dict.txt", [*builders.piece_names(), "<mask>"])
    return folder


def plan(world, text):
    line = f"{world} -s de -t en --optimizer adam --lr 0.01 --max-tokens 60 --num-workers 0 {text}"
    line += f" --pretrained-mlm {world / 'mlm'}" if "sga" in text else ""
    namespace = options.parse_args_and_arch(options.get_training_parser(), line.split())
    return rehearsal.rehearse(convert_namespace_to_omegaconf(namespace))


@pytest.mark.parametrize(
    "text",
    [
        f"{CROSS_ENTROPY} --update-freq 3 --optimizer adafactor --store-ema",
        f"{CROSS_ENTROPY} --bf16 --checkpoint-activations",
        f"{CHUNKED} --optimizer sgd --momentum 0.9 --loss-chunk-size 16",
        f"{CTC} --store-ema --ema-fp32 --fill-blanks",
    ],
)
def test_without_values_as_with_them(world, text, monkeypatch):
    planned = plan(world, f"{text} --cpu")
    monkeypatch.setattr(rehearsal, "drop_values", lambda *_: None)
    real = plan(world, f"{text} --cpu")
    assert (planned.trained, planned.frozen, planned.held) == (real.trained, real.frozen, real.held)
    for ours, theirs in zip(planned.steps, real.steps):
        assert (ours.shapes, ours.peak.phase, ours.largest) == (theirs.shapes, theirs.peak.phase, theirs.largest)
        # In half precision a layer norm on CPU keeps its statistics in half precision too.
        assert ours.activations == pytest.approx(theirs.activations, rel=0 if "bf16" not in text else 0.05)
        assert ours.peak.size == pytest.approx(theirs.peak.size, rel=0 if "bf16" not in text else 0.001)


def of_kind(found, kind):
    return sum(size for (each, _), size in found.held.items() if each == kind)


@pytest.mark.cases(
    "precision weights gradients optimizer",
    ("", 4, 4, 8),
    ("--fp16", 2, 2 + 4, 4 + 8),
    ("--memory-efficient-fp16", 2, 2, 8),
    ("--bf16", 2, 2 + 4, 4 + 8),
)
def test_bytes_of_a_trained_parameter(world, precision, weights, gradients, optimizer):
    """On a GPU, which is not here, with Adam; frozen parameters have weights alone."""
    found = plan(world, f"{CTC} {precision}")
    trained = sum(found.trained.values())
    assert found.trained.keys() == {"semantic", "encoder_prompts", "alignment_prompts", "denoiser_prompts"}
    assert of_kind(found, WEIGHTS) == pytest.approx((trained + found.frozen["frozen"]) * weights, rel=1e-3)
    assert of_kind(found, GRADIENTS) == pytest.approx(trained * gradients, rel=1e-3)
    assert of_kind(found, OPTIMIZER) == pytest.approx(trained * optimizer, rel=1e-3)


def test_only_a_cpu_writes_attention_out():
    keys = torch.zeros(1, 1, 3, 2, dtype=torch.bfloat16, device="meta", requires_grad=True)
    for gpu in (False, True):
        with kernels(gpu):
            assert attention.is_written_out(keys, keys, keys) != gpu
