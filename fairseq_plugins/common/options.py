"""Options of models, tasks and criterions: declaration, rules, architectures' defaults."""

import functools
import os
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import field, fields
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models import ARCH_MODEL_REGISTRY, register_model_architecture
from omegaconf import OmegaConf, open_dict

SIDES = ("encoder", "decoder")
EMBEDDING_POLICIES: Any = ChoiceEnum(["error", "extend", "truncate"])
USE_ITS_DICTIONARY = (
    "run fairseq-preprocess with that dict.txt as --srcdict and --tgtdict, new symbols at its end"
)
XLMR_WIRING: Dict[str, Any] = {
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "activation_fn": "gelu",
    "no_scale_embedding": True,
    "layernorm_embedding": True,
}
"""Options with which a stock transformer is wired as XLM-R."""


# ---- Declaration. ----


def option(default: Any, help: str) -> Any:
    """Declare an option of a dataclass with its default and help text."""
    return field(default=default, metadata={"help": help})


def embedding_mismatch_option(more: str = "") -> Any:
    """Declare --embedding-mismatch; ``more`` is appended to its help."""
    return option(
        "error",
        "where dictionary and pretrained file have different numbers of rows: error; extend = "
        "rows beyond the file's (language tags) get random values; truncate = the file's rows "
        f"beyond the dictionary's are left out{more}",
    )


def flag(name: str) -> str:
    """Spell an option as it is typed: ``ctc_blank`` -> ``--ctc-blank``."""
    return f"--{name.replace('_', '-')}"


def defaults_of(options: Any) -> Dict[str, Any]:
    """Map the name of each option of a dataclass to its default."""
    return {entry.name: entry.default for entry in fields(options) if entry.name != "_name"}


Size = Optional[int]
"""Size of a model; None = not set here: the default comes from elsewhere."""


def sizes_of(side: str, layers: Size, width: Size, ffn_width: Size, heads: Size) -> Dict[str, Any]:
    """Return option -> value of the sizes of one side, ``encoder`` or ``decoder``."""
    return {
        f"{side}_layers": layers,
        f"{side}_embed_dim": width,
        f"{side}_ffn_embed_dim": ffn_width,
        f"{side}_attention_heads": heads,
    }


def same_sides(
    layers: Size, width: Size, ffn_width: Size, heads: Size, **more: Any
) -> Dict[str, Any]:
    """Return option -> value of a stock transformer whose sides have equal sizes."""
    sizes = (layers, width, ffn_width, heads)
    return {**sizes_of("encoder", *sizes), **sizes_of("decoder", *sizes), **more}


# ---- Rules. ----


class Rule(NamedTuple):
    """A combination of options that is refused, and the message that says so."""

    is_broken: Callable[[Any], Any]
    """Takes the options and returns True if they break the rule."""
    message: str
    """Names the options and the valid values; ``{name}`` stands for the value of an option."""


def check_rules(options: Any, rules: Iterable[Rule]) -> None:
    """Raise ValueError with the message of the first rule that ``options`` break."""
    for rule in rules:
        if rule.is_broken(options):
            raise ValueError(rule.message.format_map(_Named(options)))


def warn_by_rules(options: Any, rules: Iterable[Rule], warn: Callable[[str], None]) -> None:
    """Call ``warn`` with the message of every rule that ``options`` break."""
    for rule in rules:
        if rule.is_broken(options):
            warn(rule.message.format_map(_Named(options)))


def in_range(name: str, valid: str) -> Rule:
    """Create the rule that an option lies in ``(0, 1]``, ``[1, inf)``, ...; None passes."""
    low, high = (float(end) for end in valid[1:-1].split(","))
    words = f"be at least {low:g}" if high == float("inf") else f"lie in {valid}"

    def is_outside(options: Any) -> bool:
        """Return True for a number outside the interval."""
        number = getattr(options, name, None)
        if number is None or low < number < high:
            return False
        on_closed_end = (number == low and valid[0] == "[") or (number == high and valid[-1] == "]")
        return not on_closed_end

    return Rule(is_outside, f"{flag(name)} must {words}; got {{{name}}}")


class _Named(Dict[str, Any]):
    """Mapping from names to the attributes of ``options``, for ``str.format_map``."""

    def __init__(self, options: Any):
        super().__init__()
        self.options = options

    def __missing__(self, name: str) -> Any:
        return getattr(self.options, name)


def check_range(cfg: Any, valid: str, *names: str) -> None:
    """Raise ValueError for an option outside ``valid``, as ``(0, 1]``; None passes."""
    check_rules(cfg, [in_range(name, valid) for name in names])


def check_choices(args: Any, choices: Dict[str, Iterable[Any]]) -> None:
    """Raise ValueError unless each option is None or one of its choices."""
    for name, option_choices in choices.items():
        setting, valid = getattr(args, name), [str(choice) for choice in option_choices]
        if setting is not None and str(setting) not in valid:
            raise ValueError(f"{flag(name)} must be one of {', '.join(valid)}; got {setting}")


def check_wiring(args: Any, wiring: Mapping[str, Any], origin: str) -> None:
    """Raise ValueError for an option that contradicts ``wiring``, the options of an XLM-R."""
    for name, expected in wiring.items():
        setting = getattr(args, name, None)
        if setting is not None and setting != expected:
            raise ValueError(
                f"{origin}: {flag(name)} {setting} is not how XLM-R is wired; valid: {expected}, "
                "as without this option"
            )


def check_sizes(sizes: Mapping[str, Any], args: Any, origin: str, remedy: str = "") -> None:
    """Compare the sizes of a file (option -> value) with the options that are set.

    Args:
        origin: option and path of the file, for messages.
        remedy: advice that ends the message.

    Raises:
        ValueError: an option has another value; lists all of them.
    """
    wrong = []
    for name, size in sizes.items():
        option = getattr(args, name, None)
        if option is not None and str(option) != str(size):
            wrong.append(f"{flag(name)} {option} (valid here: {size})")
    if wrong:
        difference = "has other sizes than the architecture and the command line"
        raise ValueError(f"{origin} {difference}: {', '.join(wrong)}{remedy}")


def frozen_path(cfg: Any, name: str, valid: str) -> str:
    """Return the path of the frozen model that option ``name`` gives.

    Args:
        valid: what the option takes, for messages.

    Raises:
        ValueError: the option is not set, or its path does not exist.
    """
    path = getattr(cfg, name)
    if not path:
        raise ValueError(f"{flag(name)} is needed: {valid}")
    if not os.path.exists(path):
        raise ValueError(
            f"{flag(name)} {path}: no such file or folder. A checkpoint holds only the trained "
            "part; when decoding, give the pretrained model's new place with --model-overrides "
            f"\"{{'{name}': 'PATH'}}\""
        )
    return str(path)


# ---- Configurations (argparse namespace or hydra) and architectures. ----


def writable(args: Any) -> Any:
    """Return a context in which ``args`` accepts new names, which hydra configurations refuse."""
    return open_dict(args) if OmegaConf.is_config(args) else nullcontext()


def as_namespace(args: Any) -> Namespace:
    """Convert a hydra configuration to a namespace; return a namespace as it is.

    A stock transformer merges a hydra configuration into its own dataclass and so drops the options
    that the dataclass lacks. From a namespace it reads them all.
    """
    if not OmegaConf.is_config(args):
        return args
    options: Any = OmegaConf.to_container(args)
    return Namespace(**options)


def fill_missing(args: Any, config: type) -> None:
    """Set options that a stored configuration lacks to their defaults. Changes ``args``."""
    with writable(args):
        for entry in fields(config):
            if not hasattr(args, entry.name):
                setattr(args, entry.name, entry.default)


def set_architecture(args: Any, defaults: Mapping[str, Any]) -> None:
    """Set each option that is None or absent to its default. Changes ``args``."""
    for name, default in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, default)


def register_architectures(model: str, architectures: Mapping[str, Mapping[str, Any]]) -> None:
    """Register each ``--arch`` of a model.

    A name that is registered is skipped: fairseq registers the name of a model with ``dataclass=``
    as an ``--arch``.
    """
    for name, defaults in architectures.items():
        if name not in ARCH_MODEL_REGISTRY:
            set_defaults = functools.partial(set_architecture, defaults=defaults)
            register_model_architecture(model, name)(set_defaults)
