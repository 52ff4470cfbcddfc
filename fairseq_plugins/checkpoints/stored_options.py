"""Refuses stored options that would make fairseq run code or download something.

fairseq evaluates some of the options that a checkpoint brings along (``cfg``, ``args``) as Python
code, and downloads others. What the user types is the user's own; what comes from a file is data.
"""

import argparse
import ast
import operator
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Set, Tuple
from urllib.parse import urlparse

from .inspection import CheckpointError

EVALUATED = frozenset(
    """
    adafactor_eps adam_betas adamax_betas adaptive_input_cutoff adaptive_softmax_cutoff
    character_filters conv_aggregator_layers conv_feature_layers decoder_attention decoder_layers
    decoder_xformers_att_config downsample encoder_attention encoder_layers
    encoder_xformers_att_config feature_encoder_spec gated_attention lamb_betas left_pad_source
    left_pad_target pipeline_balance pipeline_decoder_balance pipeline_decoder_devices
    pipeline_devices pipeline_encoder_balance pipeline_encoder_devices pretrained project_input
    self_attention wer_args xformers_att_config
    """.split()
)
"""Options whose text fairseq evaluates as Python code."""
FETCHED = re.compile(r"bpe|codes|sentencepiece|tokenizer|vocab|wordpiece")
"""Options of ``bpe`` and ``tokenizer`` whose path fairseq downloads if it is an address."""
_STOCK = "https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe/"
STOCK_ADDRESSES = (f"{_STOCK}encoder.json", f"{_STOCK}vocab.bpe")
"""Defaults that every run with GPT-2's BPE stores."""
MOST_OPTIONS = 100_000
DEEPEST = 50
DEEPEST_CONTENT = 200
_MOST_CHARACTERS, _MOST_ELEMENTS = 10_000, 100_000
_LITERALS = (
    "a number, text in quotes, True, False, None, or lists, tuples and dictionaries of these"
)
_VALID = f"{_LITERALS}, joined by + and *"


def check_options(state: Any, origin: str) -> None:
    """Refuse a checkpoint whose options would make fairseq run code or download something.

    Raises:
        CheckpointError: names the option.
    """
    if not isinstance(state, Mapping):
        return
    _check_depth(state, origin)
    options = [
        option
        for section in ("args", "cfg")
        for option in _texts(state.get(section), section, origin)
    ]
    for path, name, value in options:
        refused = (
            f"{origin}: refused, its stored option {path} is {_short(value)}, which fairseq would"
        )
        if name in EVALUATED and value.strip():
            try:
                literal(value)
            except ValueError as error:
                raise CheckpointError(f"{refused} evaluate as code: {error}") from None
        elif FETCHED.search(path) and value not in STOCK_ADDRESSES and _is_address(value):
            raise CheckpointError(f"{refused} download; valid: the path of a file here")


def _check_depth(state: Mapping[str, Any], origin: str) -> None:
    """Refuse content that is nested without end, which no later step could walk through."""
    # The containers of one depth by their place in memory, without those of smaller depths.
    level: Dict[int, Any] = {id(state): state}
    visited: Set[int] = set()
    for _ in range(DEEPEST_CONTENT):
        visited |= level.keys()
        children = [child for container in level.values() for child in _children(container)]
        containers = (Mapping, list, tuple, argparse.Namespace)
        level = {
            id(child): child
            for child in children
            if isinstance(child, containers) and id(child) not in visited
        }
    if level:
        raise CheckpointError(
            f"{origin}: refused, its content is nested deeper than {DEEPEST_CONTENT}"
        )


def _children(container: Any) -> Iterable[Any]:
    container = vars(container) if isinstance(container, argparse.Namespace) else container
    return container.values() if isinstance(container, Mapping) else container


_UNREADABLE = (
    SyntaxError,
    ValueError,
    TypeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)


def literal(text: str) -> Any:
    """Return the value of a text that holds no code.

    Valid are literals, and lists as fairseq writes them: ``[(512, 3)] * 4 + [(1024, 3)]``.

    Raises:
        ValueError: a name, a call, anything else that Python would compute; or a value that grows
            too big.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"text of {len(text):,} characters, valid: up to {_MOST_CHARACTERS:,}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except _UNREADABLE as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__} when read"
        raise ValueError(f"{_short(text)} is no literal ({reason}); valid: {_VALID}") from None


def _value(node: ast.AST) -> Any:
    """Return a literal, or several joined by + and repeated by *. Raises ValueError: too many."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.Mult)):
        return ast.literal_eval(node)
    left, right = _value(node.left), _value(node.right)
    operation = operator.add if isinstance(node.op, ast.Add) else operator.mul
    if abs(operation(_length(left), _length(right))) > _MOST_ELEMENTS:
        raise ValueError(f"more than {_MOST_ELEMENTS:,} elements")
    return operation(left, right)


def _length(operand: Any) -> Any:
    return len(operand) if isinstance(operand, (list, tuple, str, bytes)) else operand


def _texts(options: Any, section: str, origin: str) -> Iterator[Tuple[str, str, str]]:
    """Yield path, name and text of every string among nested options.

    The items of a list have the list's name.
    """
    waiting: List[Tuple[str, str, Any, int]] = [(section, section, options, 0)]
    visited = 0
    while waiting:
        path, name, value, depth = waiting.pop()
        visited += 1
        if visited > MOST_OPTIONS or depth > DEEPEST:
            limits = f"more than {MOST_OPTIONS:,} or nested deeper than {DEEPEST}"
            raise CheckpointError(f"{origin}: refused, its stored options {section} are {limits}")
        if isinstance(value, bytes):
            value = value.decode("latin1")
        if isinstance(value, str):
            yield path, name, value
        elif isinstance(value, argparse.Namespace):
            waiting.append((path, name, vars(value), depth))
        elif isinstance(value, Mapping):
            waiting += [(f"{path}.{key}", str(key), item, depth + 1) for key, item in value.items()]
        elif isinstance(value, (list, tuple, set)):
            waiting += [(path, name, item, depth + 1) for item in value]


def _is_address(text: str) -> bool:
    """Return True for a text that fairseq's ``cached_path`` downloads.

    A reference to another option could turn into an address.
    """
    try:
        return urlparse(text).scheme in ("http", "https", "s3") or "${" in text
    except ValueError:  # fairseq fails on it alike
        return False


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
