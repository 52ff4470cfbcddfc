"""ops.linear against F.linear in float64, and where it leaves the work to F.linear."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.baselines.prefix_decoder import PrefixDecoder
from fairseq_plugins.checkpoints.layouts import CausalLMLayout
from fairseq_plugins.ops import linear as module
from fairseq_plugins.ops.linear import MIN_WEIGHTS, Linear, linear, use_faster_linears
from tests import builders

ROWS, WIDTH = 1024, 256


@pytest.fixture
def parts():
    torch.manual_seed(1)
    return torch.randn(2, 5, WIDTH), torch.randn(ROWS, WIDTH), torch.randn(ROWS)


@pytest.fixture
def asked(monkeypatch):
    found, mkldnn = [], torch.ops.mkldnn

    class Operators:
        @staticmethod
        def _linear_pointwise(*args):
            found.append(args)
            return mkldnn._linear_pointwise(*args)

    monkeypatch.setattr(torch.ops, "mkldnn", Operators)
    return found


@pytest.mark.skipif(not module._AVAILABLE, reason="torch here is without oneDNN's linear")
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", [(WIDTH,), (1, WIDTH), (5, WIDTH), (2, 50, WIDTH)])
def test_equals_f_linear(parts, asked, biased, shape):
    _, weight, bias = parts
    x, bias = torch.randn(shape), bias if biased else None
    with torch.no_grad():
        product = linear(x, weight, bias)
    assert len(asked) == 1
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(product.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.filterwarnings("ignore:TF32")
def test_what_is_left_to_f_linear(parts, asked):
    x, weight, bias = parts
    below = MIN_WEIGHTS // WIDTH - 1
    assert linear(x.requires_grad_(), weight, bias).requires_grad
    for dtype in (torch.float64, torch.bfloat16):
        with torch.no_grad():
            assert linear(*(part.to(dtype) for part in parts)).dtype == dtype
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert linear(*parts).dtype == torch.bfloat16
    with torch.no_grad():
        assert linear(x, weight[:below], bias[:below]).shape == (2, 5, below)
        assert linear(x[:, :0], weight, bias).shape == (2, 0, ROWS)
        assert linear(x, weight.t().contiguous().t(), bias).shape == (2, 5, ROWS)
    assert not asked


def test_stock_layers_alone_are_replaced():
    """Those of the causal language model, its output projection too; weights stay the same objects under the same names."""

    class Own(torch.nn.Linear):
        pass

    module = torch.nn.Sequential(torch.nn.Linear(3, 2), Own(2, 4))
    before, x = module.state_dict(), torch.randn(5, 3)
    expected = module(x)
    use_faster_linears(module)
    assert [type(child) for child in module] == [Linear, Own] and list(module.state_dict()) == list(before)
    assert torch.equal(module(x), expected)
    decoder = PrefixDecoder(CausalLMLayout(12, 2, 8, 16, 2, 10), builders.dictionary(12 - len(builders.dictionary(0))))
    linears = [child for child in decoder.modules() if isinstance(child, torch.nn.Linear)]
    assert len(linears) == 2 * 6 + 1 and {type(child) for child in linears} == {Linear}
    assert decoder.output_projection.weight is decoder.embed_tokens.weight
