"""Checks the metadata of a checkpoint: its options hold no code, and its versions are known.

fairseq evaluates some of the options that a checkpoint stores (``cfg``, ``args``) as Python code,
and downloads others. Options on the command line are the user's, and are not checked here.
"""

import argparse
import ast
import re
import sys
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Tuple
from urllib.parse import urlparse

from .inspection import CheckpointError

# ---- Options that fairseq would run or fetch. ----

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
"""Pattern in the paths of options whose value fairseq downloads if it is a URL."""
_STOCK = "https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe/"
STOCK_ADDRESSES = (f"{_STOCK}encoder.json", f"{_STOCK}vocab.bpe")
"""Defaults that every run with GPT-2's BPE stores."""
MOST_OPTIONS, DEEPEST_OPTION = 100_000, 50
DEEPEST_CONTENT = 200
_CONTAINERS = (Mapping, list, tuple, argparse.Namespace)
_MOST_CHARACTERS, _MOST_ELEMENTS = 10_000, 100_000
_VALID = (
    "a number, text in quotes, True, False, None, or lists, tuples and dictionaries of these, "
    "joined by + and *"
)


class _Text(NamedTuple):
    """A text among nested options. Items of a list have the path and name of the list."""

    path: str
    name: str
    text: str


def check_options(state: Any, origin: str) -> None:
    """Refuse a checkpoint whose options would make fairseq run code or download something.

    Raises:
        CheckpointError: an option would; names it. Or the content is nested too deep.
    """
    if not isinstance(state, Mapping):
        return
    _check_depth(state, origin)
    for section in ("args", "cfg"):
        for option in _list_texts(state.get(section), section, origin):
            _check_text(option, origin)


def _check_text(option: _Text, origin: str) -> None:
    """Raise CheckpointError if fairseq would run this text as code, or download it."""
    problem = f"{origin}: refused, its stored option {option.path} is {_short(option.text)}"
    if option.name in EVALUATED and option.text.strip():
        try:
            literal(option.text)
        except ValueError as error:
            reason = f"which fairseq would evaluate as code: {error}"
            raise CheckpointError(f"{problem}, {reason}") from None
    elif FETCHED.search(option.path) and option.text not in STOCK_ADDRESSES:
        if _is_address(option.text):
            reason = "which fairseq would download; valid: the path of a file here"
            raise CheckpointError(f"{problem}, {reason}")


def _check_depth(state: Mapping[str, Any], origin: str) -> None:
    """Raise CheckpointError if content is nested too deep for functions that recurse into it.

    The containers are visited level by level, each of them once.
    """
    level: List[Any] = [state]
    visited = {id(state)}
    for _ in range(DEEPEST_CONTENT):
        next_level = []
        for container in level:
            for child in _children(container):
                if isinstance(child, _CONTAINERS) and id(child) not in visited:
                    visited.add(id(child))
                    next_level.append(child)
        level = next_level
    if level:
        reason = f"its content is nested deeper than {DEEPEST_CONTENT}"
        raise CheckpointError(f"{origin}: refused, {reason}")


def _children(container: Any) -> Iterable[Any]:
    container = vars(container) if isinstance(container, argparse.Namespace) else container
    return container.values() if isinstance(container, Mapping) else container


def _list_texts(options: Any, section: str, origin: str) -> Iterator[_Text]:
    """Yield every text among nested options.

    Raises:
        CheckpointError: the options are too many, or nested too deep.
    """
    waiting = [(section, section, options, 0)]
    visited = 0
    while waiting:
        path, name, value, depth = waiting.pop()
        visited += 1
        if visited > MOST_OPTIONS or depth > DEEPEST_OPTION:
            limits = f"more than {MOST_OPTIONS:,} or nested deeper than {DEEPEST_OPTION}"
            raise CheckpointError(f"{origin}: refused, its stored options {section} are {limits}")
        if isinstance(value, argparse.Namespace):
            value = vars(value)
        if isinstance(value, bytes):
            yield _Text(path, name, value.decode("latin1"))
        elif isinstance(value, str):
            yield _Text(path, name, value)
        elif isinstance(value, Mapping):
            waiting += [(f"{path}.{key}", str(key), item, depth + 1) for key, item in value.items()]
        elif isinstance(value, (list, tuple, set)):
            waiting += [(path, name, item, depth + 1) for item in value]


def _is_address(text: str) -> bool:
    """Return True for a URL that fairseq's ``cached_path`` downloads, or a ``${reference}``.

    OmegaConf replaces a reference by the value of another option, which could be a URL.
    """
    try:
        return urlparse(text).scheme in ("http", "https", "s3") or "${" in text
    except ValueError:  # fairseq cannot parse it either
        return False


def literal(text: str) -> Any:
    """Return the value of a Python literal.

    Sums and products of literals are valid too: ``[(512, 3)] * 4 + [(1024, 3)]``.

    Raises:
        ValueError: the text holds a name, a call or another expression, or its value is too big.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"text of {len(text):,} characters, valid: up to {_MOST_CHARACTERS:,}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        reason = f"{type(error).__name__} when read"
    except ValueError as error:
        reason = str(error)
    raise ValueError(f"{_short(text)} is no literal ({reason}); valid: {_VALID}")


def _value(node: ast.AST) -> Any:
    """Return the value of a literal, or of a sum or product of literals.

    The size of a result is checked before it is computed.

    Raises:
        ValueError: ``node`` is another expression, or the result is too big.
    """
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.Mult)):
        return ast.literal_eval(node)
    first, second = _value(node.left), _value(node.right)
    if isinstance(node.op, ast.Add):
        _check_elements(_elements(first) + _elements(second))
        return first + second
    _check_elements(_elements(first) * _elements(second))
    return first * second


def _elements(operand: Any) -> Any:
    """Return the length of a sequence, and a number as it is."""
    return len(operand) if isinstance(operand, (list, tuple, str, bytes)) else operand


def _check_elements(number: Any) -> None:
    """Raise ValueError if a sequence is too long, or a number too large to be a length."""
    if abs(number) > _MOST_ELEMENTS:
        raise ValueError(f"more than {_MOST_ELEMENTS:,} elements")


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


# ---- Versions. ----

# The package may have another name; it sets its version before it imports this module.
__version__: str = sys.modules[__name__.rsplit(".", 2)[0]].__version__

VERSIONS = "fairseq_plugins"
"""Entry of a checkpoint, the same wherever the package's folder lies and whatever its name is."""
FORMAT = 1
"""Number of the format that is written. Formats from 1 to this number are read.

It grows by one when checkpoints change so that earlier versions of this package cannot read them.
"""
RETIRED: Dict[Tuple[str, str], str] = {}
"""(name of an option, its retired value) -> last version of this package that reads it.

``arch``, ``task`` and ``criterion`` are registered names. Any other name is an option of the model,
the task or the criterion, as checkpoints store it.
"""
_SECTIONS = {"model": "arch", "task": "task", "criterion": "criterion"}
"""Section of a run's configuration -> name by which :data:`RETIRED` calls its ``_name``."""


def stamp() -> Dict[str, Any]:
    """Return the entry :data:`VERSIONS` of a checkpoint that is written now."""
    fairseq = str(getattr(sys.modules.get("fairseq"), "__version__", "not imported"))
    # torch's own object is a subclass of str, which safe loading would refuse.
    torch = str(sys.modules["torch"].__version__)
    return {"version": __version__, "format": FORMAT, "fairseq": fairseq, "torch": torch}


def stamped(state: Any) -> Any:
    """Return a copy of a checkpoint with the versions of this process; anything else unchanged."""
    return {**state, VERSIONS: stamp()} if isinstance(state, dict) and "model" in state else state


def summary() -> str:
    """Return versions and format in one line, for the log."""
    versions = stamp()
    package = f"fairseq_plugins {versions['version']} (checkpoint format {FORMAT})"
    return f"{package}, fairseq {versions['fairseq']}, torch {versions['torch']}"


def check_versions(state: Any, origin: str) -> None:
    """Refuse a checkpoint of a newer format, or one that needs something retired.

    A checkpoint of stock fairseq has no versions and passes.

    Args:
        origin: name of the file, for messages.

    Raises:
        CheckpointError: an older or newer version of this package is needed, which is named; or
            the entry of the versions is damaged.
    """
    if not isinstance(state, Mapping):
        return
    check_retired(state, origin)
    if VERSIONS not in state:
        return
    entry = state[VERSIONS]
    number = entry.get("format") if isinstance(entry, Mapping) else None
    if type(number) is not int or number < 1:
        expected = f"expected versions and a format from 1 to {FORMAT}"
        raise CheckpointError(f"{origin}: its entry {VERSIONS!r} is {entry!r}, {expected}")
    if number > FORMAT:
        version = entry.get("version")
        raise CheckpointError(
            f"{origin}: was written in format {number} by fairseq_plugins {version} (fairseq "
            f"{entry.get('fairseq')}, torch {entry.get('torch')}); this is fairseq_plugins "
            f"{__version__}, which reads formats 1 to {FORMAT}. Use fairseq_plugins {version} or "
            "newer"
        )


def check_retired(state: Mapping[str, Any], origin: str) -> None:
    """Refuse a checkpoint whose options name something of :data:`RETIRED`.

    Raises:
        CheckpointError: an option does; names it and the last version that reads it.
    """
    for name, value in _plain_options(state):
        last = RETIRED.get((name, value))
        if last is not None:
            raise CheckpointError(
                f"{origin}: needs {name} {value!r}, which fairseq_plugins {__version__} no longer "
                f"has; the last version that reads it is fairseq_plugins {last}"
            )


def _plain_options(state: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    """Yield name and value, as text, of every plain option of model, task and criterion.

    The names are those of :data:`RETIRED`; ``_name`` in a section is called ``arch``, for example.
    """
    sections = [("", state.get("args"))]
    config = state.get("cfg")
    if isinstance(config, Mapping):
        sections += [(name, config.get(section)) for section, name in _SECTIONS.items()]
    for section_name, options in sections:
        options = vars(options) if isinstance(options, argparse.Namespace) else options
        if not isinstance(options, Mapping):
            continue
        for name, value in options.items():
            if isinstance(value, (str, bool, int, float)):
                option = section_name if name == "_name" else str(name)
                yield option, str(value)
