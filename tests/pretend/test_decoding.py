"""Test how often decoding waits for the device."""

import pytest
import torch

from fairseq_plugins.ops.masks import SOURCE_LENGTHS
from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from fairseq_plugins.sga.mask_predict import MaskPredictOptions, SGAMaskPredictGenerator
from tests import builders
from tests.pretend.waits import waits

pytestmark = pytest.mark.pretend
LENGTHS = [7, 4, 6, 5, 9, 3]


@pytest.mark.parametrize("passes", [0, 1, 9])
@pytest.mark.parametrize("alignment", ["ctc", "mask_predict"])
def test_decoding_waits_once_per_pass_and_twice_afterwards(device, alignment, passes):
    """Mask-predict also reads all lengths twice, and its masks in all iterations but the first."""
    lm = builders.masked_lm(5)
    lm.lm_head.bias.data[builders.BOS] += 2.0
    model = builders.sga_model(lm, seed=6, alignment=alignment).double().to(device)
    options = IterationOptions(passes)
    if alignment == "ctc":
        generator, waits_before = SGAGenerator(builders.dictionary(), options), 0
    else:
        mask_predict = MaskPredictOptions(iterations=3, length_beam=2)
        generator = SGAMaskPredictGenerator(builders.dictionary(), options, mask_predict)
        waits_before = 4
    sample = builders.to_device(builders.batch(builders.source_rows(LENGTHS)), device)
    sample[SOURCE_LENGTHS] = torch.tensor(LENGTHS).numpy()
    with waits() as recorded:
        output = generator.generate([model], sample)
    steps = max(hypotheses[0]["steps"] for hypotheses in output)
    assert len(recorded) <= waits_before + steps + 2, recorded
    assert steps == passes or passes == 9
