"""Test ops.linear against F.linear in float64, and which inputs it leaves to F.linear."""

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
def inputs():
    torch.manual_seed(1)
    return torch.randn(2, 5, WIDTH), torch.randn(ROWS, WIDTH), torch.randn(ROWS)


@pytest.fixture
def onednn_calls(monkeypatch):
    """Collect the arguments of each call of oneDNN's product."""
    calls, mkldnn = [], torch.ops.mkldnn

    class Operators:
        @staticmethod
        def _linear_pointwise(*args):
            calls.append(args)
            return mkldnn._linear_pointwise(*args)

    monkeypatch.setattr(torch.ops, "mkldnn", Operators)
    return calls


@pytest.mark.skipif(not module._AVAILABLE, reason="this torch is without oneDNN's linear")
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("shape", [(WIDTH,), (1, WIDTH), (2, 50, WIDTH)])
def test_large_float32_products_are_those_of_onednn(inputs, onednn_calls, has_bias, shape):
    _, weight, bias = inputs
    x, bias = torch.randn(shape), bias if has_bias else None
    with torch.no_grad():
        product = linear(x, weight, bias)
    assert len(onednn_calls) == 1
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(product.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.filterwarnings("ignore:TF32")
def test_other_inputs_are_left_to_f_linear(inputs, onednn_calls):
    x, weight, bias = inputs
    small = MIN_WEIGHTS // WIDTH - 1
    assert linear(x.requires_grad_(), weight, bias).requires_grad
    with torch.no_grad():
        for dtype in (torch.float64, torch.bfloat16):
            assert linear(*(tensor.to(dtype) for tensor in inputs)).dtype == dtype
        assert linear(x, weight[:small], bias[:small]).shape == (2, 5, small)
        assert linear(x[:, :0], weight, bias).shape == (2, 0, ROWS)
        assert linear(x, weight.t().contiguous().t(), bias).shape == (2, 5, ROWS)
        with torch.autocast("cpu", torch.bfloat16):
            assert linear(*inputs).dtype == torch.bfloat16
    assert not onednn_calls


def test_stock_layers_alone_are_replaced():
    """A subclass stays; the weights of a causal language model stay the same objects."""

    class Subclass(torch.nn.Linear):
        pass

    model = torch.nn.Sequential(torch.nn.Linear(3, 2), Subclass(2, 4))
    names, x = list(model.state_dict()), torch.randn(5, 3)
    expected = model(x)
    use_faster_linears(model)
    assert [type(child) for child in model] == [Linear, Subclass]
    assert list(model.state_dict()) == names
    assert torch.equal(model(x), expected)
    dictionary = builders.dictionary(12 - len(builders.dictionary(0)))
    decoder = PrefixDecoder(CausalLMLayout(12, 2, 8, 16, 2, 10), dictionary)
    linears = [child for child in decoder.modules() if isinstance(child, torch.nn.Linear)]
    assert len(linears) == 2 * 6 + 1 and {type(child) for child in linears} == {Linear}
    assert decoder.output_projection.weight is decoder.embed_tokens.weight
