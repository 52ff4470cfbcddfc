"""The CTC blank: a symbol of the dictionary."""

import logging
from typing import Any

logger = logging.getLogger(__name__)


def check_blank(symbol: str, dictionary: Any) -> int:
    """Id of the blank; ValueError where the dictionary has no such symbol, a warning for an ordinary piece."""
    index = dictionary.index(symbol)
    if index == dictionary.unk() and symbol != dictionary[dictionary.unk()]:
        raise ValueError(
            f"--ctc-blank {symbol!r} is not in the dictionary; valid: <s>, <mask>, or any other entry of dict.txt"
        )
    if index not in (dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.index("<mask>")):
        logger.warning(
            "--ctc-blank %r is an ordinary piece: targets that contain it cannot be aligned (they are counted and left out), "
            "and it can never be produced; <s> never occurs inside a target",
            symbol,
        )
    return index
