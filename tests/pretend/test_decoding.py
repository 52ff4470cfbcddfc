"""How often decoding waits for the device."""

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
def test_once_for_each_pass_and_twice_afterwards(device, alignment, passes):
    """Before the passes, mask-predict needs all lengths twice, and its masks in each iteration but the first."""
    lm = builders.masked_lm(5)
    lm.lm_head.bias.data[builders.BOS] += 2.0
    model = builders.sga_model(lm, seed=6, alignment=alignment).double().to(device)
    if alignment == "ctc":
        generator, before = SGAGenerator(builders.dictionary(), IterationOptions(passes)), 0
    else:
        options = MaskPredictOptions(iterations=3, length_beam=2)
        generator, before = SGAMaskPredictGenerator(builders.dictionary(), IterationOptions(passes), options), 4
    sample = builders.to_device(builders.batch(builders.source_rows(LENGTHS)), device)
    sample[SOURCE_LENGTHS] = torch.tensor(LENGTHS).numpy()
    with waits() as recorded:
        found = generator.generate([model], sample)
    done = max(sentence[0]["steps"] for sentence in found)
    assert len(recorded) <= before + done + 2, recorded
    assert done == passes or passes == 9
