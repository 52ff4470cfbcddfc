"""Test options of the stock commands: --bf16 is no TPU, and sentencepiece is joined once."""

import pytest
from fairseq import options

import fairseq_plugins  # noqa: F401  patches the stock functions

PIECES = "sentencepiece"


def parse(*words, parser=options.get_training_parser):
    return options.parse_args_and_arch(parser(), ["data", *words])


def test_bf16_is_no_tpu():
    assert not parse("--arch", "transformer", "--bf16").tpu
    assert parse("--arch", "transformer", "--bf16", "--tpu").tpu


@pytest.mark.parametrize(
    "parser", [options.get_generation_parser, options.get_interactive_generation_parser]
)
def test_pieces_are_joined_once(parser):
    def decode(*words):
        return parse("--path", "model.pt", *words, parser=parser)

    assert decode("--bpe", PIECES).post_process is None
    assert decode("--remove-bpe", PIECES).bpe is None
    assert decode("--bpe", PIECES, "--remove-bpe").bpe == PIECES  # joins pieces that end in @@
    with pytest.raises(ValueError, match=f"--bpe {PIECES} and --remove-bpe {PIECES}"):
        decode("--bpe", PIECES, "--remove-bpe", PIECES)
