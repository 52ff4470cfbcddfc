"""The options that a checkpoint brings along (``cfg``, ``args``): fairseq evaluates some of them as Python code, and opens others.

What the user types is the user's own; what comes from a file is data.
"""

import argparse
import ast
import operator
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Set, Tuple
from urllib.parse import urlparse

from .errors import CheckpointError

EVALUATED = frozenset(
    """
    adafactor_eps adam_betas adamax_betas adaptive_input_cutoff adaptive_softmax_cutoff character_filters
    conv_aggregator_layers conv_feature_layers decoder_attention decoder_layers decoder_xformers_att_config downsample
    encoder_attention encoder_layers encoder_xformers_att_config feature_encoder_spec gated_attention lamb_betas
    left_pad_source left_pad_target pipeline_balance pipeline_decoder_balance pipeline_decoder_devices pipeline_devices
    pipeline_encoder_balance pipeline_encoder_devices pretrained project_input self_attention wer_args
    xformers_att_config
    """.split()
)
"""Options whose text fairseq evaluates as Python code."""
FETCHED = re.compile(r"bpe|codes|sentencepiece|tokenizer|vocab|wordpiece")
"""Options whose path fairseq downloads where it is an address: ``--bpe`` and ``--tokenizer`` have them."""
_STOCK = "https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe/"
STOCK_ADDRESSES = (f"{_STOCK}encoder.json", f"{_STOCK}vocab.bpe")  # defaults, which every run with --bpe gpt2 stores
MOST_OPTIONS = 100_000
DEEPEST = 50
DEEPEST_CONTENT = 200
_MOST_CHARACTERS, _MOST_ELEMENTS, _LARGEST = 10_000, 100_000, 2.0**64
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_VALID = "a number, text in quotes, True, False, None, or lists, tuples and dictionaries of these, joined by + and *"


def check_options(state: Any, origin: str) -> None:
    """Refuse a checkpoint whose options would make fairseq run code or download something (CheckpointError)."""
    if not isinstance(state, Mapping):
        return
    _check_depth(state, origin)
    for path, name, value in (
        one for section in ("args", "cfg") for one in _texts(state.get(section), section, origin)
    ):
        refused = f"{origin}: refused, its stored option {path} is {_short(value)}, which fairseq would"
        if name in EVALUATED and value.strip():
            try:
                literal(value)
            except ValueError as error:
                raise CheckpointError(f"{refused} evaluate as code: {error}") from None
        elif FETCHED.search(path) and value not in STOCK_ADDRESSES and _is_address(value):
            raise CheckpointError(f"{refused} download; valid: the path of a file here")


def _check_depth(state: Mapping[str, Any], origin: str) -> None:
    """Whatever is nested without end makes the next that goes through it fail."""
    level: Dict[int, Any] = {id(state): state}  # of one depth, by their place in memory, without those met before
    seen: Set[int] = set()
    for _ in range(DEEPEST_CONTENT):
        seen |= level.keys()
        items = [item for value in level.values() for item in _items(value)]
        nested = (one for one in items if isinstance(one, (Mapping, list, tuple, argparse.Namespace)))
        level = {id(one): one for one in nested if id(one) not in seen}
    if level:
        raise CheckpointError(f"{origin}: refused, its content is nested deeper than {DEEPEST_CONTENT}")


def _items(value: Any) -> Iterable[Any]:
    value = vars(value) if isinstance(value, argparse.Namespace) else value
    return value.values() if isinstance(value, Mapping) else value


def literal(text: str) -> Any:
    """The value of a text that holds no code: literals, and lists as fairseq writes them, ``[(512, 3)] * 4 + [(1024, 3)]``.

    Raises ValueError: a name, a call, anything else that Python would compute; or a value that grows too big.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"text of {len(text):,} characters, valid: up to {_MOST_CHARACTERS:,}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)[0]
    except (SyntaxError, ValueError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__} when read"
        raise ValueError(f"{_short(text)} is no literal ({reason}); valid: {_VALID}") from None


def _value(node: ast.AST) -> Tuple[Any, int]:
    """Value of an expression, and of how many elements it is made."""
    if isinstance(node, ast.Constant):
        return node.value, len(node.value) if isinstance(node.value, (str, bytes)) else 1
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        values, counts = _all(node.elts)
        return {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)](values), counts
    if isinstance(node, ast.Dict) and None not in node.keys:
        keys, first = _all(node.keys)
        values, second = _all(node.values)
        return dict(zip(keys, values)), first + second
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        value, count = _value(node.operand)
        return (-value if isinstance(node.op, ast.USub) else +value), count
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        (left, first), (right, second) = _value(node.left), _value(node.right)
        count = first + second
        if isinstance(node.op, ast.Mult):
            sequences = (list, tuple, str, bytes)
            count *= abs(int(right if isinstance(left, sequences) else left if isinstance(right, sequences) else 1))
        if count > _MOST_ELEMENTS:
            raise ValueError(f"more than {_MOST_ELEMENTS:,} elements")
        value = _OPERATORS[type(node.op)](left, right)
        if isinstance(value, (int, float)) and abs(value) > _LARGEST:
            raise ValueError("a number beyond 2^64")
        return value, count
    raise ValueError(f"it holds {type(node).__name__}")


def _all(nodes: List[Any]) -> Tuple[List[Any], int]:
    pairs = [_value(node) for node in nodes]
    return [value for value, _ in pairs], 1 + sum(count for _, count in pairs)


def _texts(options: Any, section: str, origin: str) -> Iterator[Tuple[str, str, str]]:
    """Path, own name and text of every string among nested options. A list's items have the list's name."""
    waiting: List[Tuple[str, str, Any, int]] = [(section, section, options, 0)]
    seen = 0
    while waiting:
        path, name, value, depth = waiting.pop()
        seen += 1
        if seen > MOST_OPTIONS or depth > DEEPEST:
            raise CheckpointError(
                f"{origin}: refused, its stored options {section} hold more than {MOST_OPTIONS:,} values or are nested deeper than "
                f"{DEEPEST}"
            )
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
    """True for what fairseq's ``cached_path`` downloads. A reference to another option could turn into one."""
    try:
        return urlparse(text).scheme in ("http", "https", "s3") or "${" in text
    except ValueError:  # fairseq fails on it alike
        return False


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
