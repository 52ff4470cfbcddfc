"""Test the languages of rows, read from their language tokens."""

import pytest
import torch

from fairseq_plugins.baselines.adapter_layers import LanguageAdapters, RowLanguages
from fairseq_plugins.baselines.language_tags import NONE, LanguageTags

TOKENS = {"de": 8, "en": 9, "fr": 7}


@pytest.fixture
def tags():
    return LanguageTags(TOKENS, ["fr", "de"], 10, "decoder")


def test_the_first_language_token_counts(tags):
    rows = tags(torch.tensor([[1, 1, 8, 5, 2], [7, 5, 8, 9, 1], [2, 8, 7, 5, 5]]))
    assert rows.numbers.tolist() == [1, 0, 1]
    assert rows.active.int().tolist() == [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]]


def test_rows_without_a_language_of_the_adapters_are_refused(tags):
    with pytest.raises(ValueError, match="no language token.*--decoder-langtok"):
        tags(torch.tensor([[8, 5], [4, 5]]))
    with pytest.raises(ValueError, match="language 'en' has no adapters.*: fr, de"):
        tags(torch.tensor([[8, 5], [9, 5]]))


def test_beam_search_accepts_rows_without_a_language(tags):
    """Rows beside a forced token have no language; a batch without any is refused."""
    assert tags(torch.tensor([[2], [2]]), search=True).numbers.tolist() == [NONE, NONE]
    rows = tags(torch.tensor([[2, 8], [2, 4], [2, 9]]), search=True)
    assert rows.numbers.tolist() == [1, NONE, NONE]
    with pytest.raises(ValueError, match="language 'en' has no adapters"):
        tags(torch.tensor([[2, 9], [2, 4]]), search=True)
    with pytest.raises(ValueError, match="has no language token"):
        tags(torch.tensor([[2, 4], [2, 4]]), search=True)


def test_gradients_reach_only_the_adapters_of_the_rows():
    """Tongan's code "to" is the name of a method of modules."""
    current = RowLanguages()
    adapters = LanguageAdapters(["to", "de", "en"], 4, 3, current).to(torch.float32)
    for parameter in adapters.parameters():
        torch.nn.init.normal_(parameter)
    current.set(torch.tensor([1, NONE, 0, 1]), torch.device("cpu"))
    x = torch.randn(5, 4, 4, requires_grad=True)
    y = adapters(x)
    assert torch.equal(y[:, 1], x[:, 1])
    for row, name in ((0, "de"), (2, "to"), (3, "de")):
        torch.testing.assert_close(y[:, row], x[:, row] + adapters.of[name](x[:, row]))
    y.square().sum().backward()
    parameters = dict(adapters.named_parameters())
    used = {name.split(".")[1] for name in parameters if parameters[name].grad is not None}
    assert used == {"de", "to"} and x.grad is not None
