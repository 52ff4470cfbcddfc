"""Load exported folders with transformers, and compare states."""

from torch.testing import assert_close

from tests import nlu_builders

PAD = nlu_builders.PAD
TOLERANCE = dict(rtol=0, atol=1e-5)


def load(auto_class, folder, missing=()):
    """Load a folder with transformers; every tensor must have its place."""
    model, info = auto_class.from_pretrained(folder, output_loading_info=True)
    assert set(info["missing_keys"]) == set(missing)
    assert not info["unexpected_keys"] and not info["mismatched_keys"]
    return model.eval()


def assert_close_in_text(actual, expected, tokens):
    """Compare states (B, S, C), padding excepted; they must not be all alike."""
    is_token = tokens.ne(PAD)
    assert expected[is_token].std() > 0.1
    assert_close(actual[is_token], expected[is_token], **TOLERANCE)
