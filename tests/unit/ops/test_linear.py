"""ops.linear against F.linear in float64, where it leaves the work to F.linear, and packed weights."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.checkpoints.layouts import CausalLMLayout
from fairseq_plugins.modules.linear import Linear, faster_linears
from fairseq_plugins.modules.prefix_decoder import PrefixDecoder
from fairseq_plugins.ops import linear as module
from fairseq_plugins.ops.linear import MIN_WEIGHTS, is_packed, linear, linear_rows, pack
from tests import builders

ROWS, WIDTH = 1024, 256
CLOSE = dict(rtol=1e-5, atol=1e-3)


@pytest.fixture
def parts():
    torch.manual_seed(1)
    return torch.randn(2, 5, WIDTH), torch.randn(ROWS, WIDTH), torch.randn(ROWS)


@pytest.fixture
def asked(monkeypatch):
    found, mkldnn = [], torch.ops.mkldnn

    class Operators:
        _reorder_linear_weight = staticmethod(getattr(mkldnn, "_reorder_linear_weight", None))

        @staticmethod
        def _linear_pointwise(*args):
            found.append(args)
            return mkldnn._linear_pointwise(*args)

    monkeypatch.setattr(torch.ops, "mkldnn", Operators)
    return found


def packed(asked):
    """Of each product, whether its weight was in oneDNN's layout."""
    return [args[1].is_mkldnn for args in asked]


needs_packing = pytest.mark.skipif(not module._PACKABLE, reason="torch without oneDNN's linear")


@needs_packing
@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", [(WIDTH,), (1, WIDTH), (5, WIDTH), (2, 50, WIDTH)])
def test_equals_f_linear_with_a_plain_and_with_a_packed_weight(parts, asked, packs, biased, shape):
    _, weight, bias = parts
    small = weight[: MIN_WEIGHTS // WIDTH - 1]
    if packs:
        assert pack(weight) == ROWS * WIDTH * 4
        assert pack(small) == 0 and not is_packed(small)
    x, bias = torch.randn(shape), bias if biased else None
    with torch.no_grad():
        found = linear(x, weight, bias)
    assert packed(asked) == [packs]
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)


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
    faster_linears(module)
    assert [type(child) for child in module] == [Linear, Own] and list(module.state_dict()) == list(before)
    assert torch.equal(module(x), expected)
    decoder = PrefixDecoder(CausalLMLayout(12, 2, 8, 16, 2, 10), builders.dictionary(12 - len(builders.dictionary(0))))
    linears = [child for child in decoder.modules() if isinstance(child, torch.nn.Linear)]
    assert len(linears) == 2 * 6 + 1 and {type(child) for child in linears} == {Linear}
    assert decoder.output_projection.weight is decoder.embed_tokens.weight


@needs_packing
def test_packed_rows_are_found_by_part(parts, asked):
    """The last part is shorter; rows that are no part of their own come from the plain weight."""
    x, weight, bias = parts
    large, biases = torch.cat([weight, weight + 1.0, weight - 1.0]), torch.cat([bias, bias, bias + 2.0])
    assert pack(large, 2 * ROWS) == large.numel() * 4 and pack(large, 2 * ROWS) == 0
    whole = [(0, 2 * ROWS), (2 * ROWS, 3 * ROWS)]
    others = [(0, ROWS), (ROWS, 3 * ROWS), (0, 3 * ROWS), (1, 2 * ROWS + 1), (0, 2 * ROWS - 1)]
    for start, end in whole + others:
        with torch.no_grad():
            found = linear_rows(x, large, biases, start, end)
        torch.testing.assert_close(found, F.linear(x, large[start:end], biases[start:end]), **CLOSE)
    assert packed(asked) == [True] * 2 + [False] * 5
    assert pack(large) == large.numel() * 4, "in one part: another copy"


@needs_packing
@pytest.mark.parametrize("change", ["in place", "other storage", "went and came back"])
def test_a_weight_that_changed_is_multiplied_as_it_is(parts, asked, change):
    """One that came back: without the old memory being kept it often lands where it was, and the version does not tell."""
    x, weight, bias = parts
    pack(weight)
    if change == "in place":
        weight.mul_(2.0)
    elif change == "other storage":
        weight.data = weight.data * 2.0
    else:
        weight.data = weight.data.bfloat16()
        weight.data = weight.data.float()
    with torch.no_grad():
        found = linear(x, weight, bias)
        assert packed(asked) == [False]
        torch.testing.assert_close(found, F.linear(x, weight, bias), **CLOSE)
        assert pack(weight) > 0
        torch.testing.assert_close(linear(x, weight, bias), found, **CLOSE)
    assert packed(asked) == [False, True]


@needs_packing
def test_a_packed_weight_is_saved_without_its_copy_and_trained_without_it(parts, asked, tmp_path):
    x, layer = parts[0], Linear(WIDTH, ROWS)
    pack(layer.weight)
    torch.save(layer, tmp_path / "layer.pt")
    read = torch.load(tmp_path / "layer.pt", weights_only=False)
    assert torch.equal(read.weight, layer.weight) and not is_packed(read.weight)
    assert pack(read.weight) > 0 and is_packed(layer.weight)
    layer(x).sum().backward()
    assert not asked
    torch.testing.assert_close(layer.weight.grad, x.flatten(0, 1).sum(dim=0).expand(ROWS, -1), rtol=1e-5, atol=1e-4)
