"""Options of models, tasks and criterions: declaration, rules, architectures' defaults."""

import os
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import field, fields
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple

from fairseq.dataclass import ChoiceEnum
from fairseq.models import ARCH_MODEL_REGISTRY, register_model_architecture
from omegaconf import OmegaConf, open_dict

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


def sizes_of(side: str, *sizes: Any) -> Dict[str, Any]:
    """Name the sizes of one side: layers, width, feed-forward width, attention heads."""
    return dict(
        zip(
            (
                f"{side}_{name}"
                for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
            ),
            sizes,
        )
    )


def same_sides(*sizes: Any, **more: Any) -> Dict[str, Any]:
    """Build the defaults of a stock transformer whose sides have the same sizes."""
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
        return not (number == low and valid[0] == "[") and not (number == high and valid[-1] == "]")

    return Rule(is_outside, f"{flag(name)} must {words}; got {{{name}}}")


class _Named(Dict[str, Any]):
    """Options as a mapping, of which a message reads only those that it names."""

    def __init__(self, options: Any):
        super().__init__()
        self.options = options

    def __missing__(self, name: str) -> Any:
        return getattr(self.options, name)


def check_range(cfg: Any, valid: str, *names: str) -> None:
    """Raise ValueError for an option outside ``(0, 1]``, ``[1, inf)``, ...; None passes."""
    check_rules(cfg, [in_range(name, valid) for name in names])


def check_choices(args: Any, choices: Dict[str, Iterable[Any]]) -> None:
    """Raise ValueError for an option that is none of its choices; None is left to the model."""
    for name, choice in choices.items():
        setting, valid = getattr(args, name), [str(name) for name in choice]
        if setting is not None and str(setting) not in valid:
            raise ValueError(f"{flag(name)} must be one of {', '.join(valid)}; got {setting}")


def check_positive(args: Any, *names: str) -> None:
    """Raise ValueError for an option below 1; None is left to the model."""
    for name in names:
        number = getattr(args, name)
        if number is not None and number < 1:
            raise ValueError(f"{flag(name)} must be at least 1; got {number}")


def check_dropout(args: Any, *names: str) -> None:
    """Raise ValueError for an option outside [0, 1)."""
    for name in names:
        if not 0.0 <= getattr(args, name) < 1.0:
            raise ValueError(f"{flag(name)} must lie in [0, 1); got {getattr(args, name)}")


def check_wiring(args: Any, wiring: Mapping[str, Any], origin: str) -> None:
    """Raise ValueError for an option that contradicts ``wiring``."""
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
    """Return the pretrained file of option ``name``. Raises ValueError if there is none."""
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
    """Return a context in which new names may be set."""
    return open_dict(args) if OmegaConf.is_config(args) else nullcontext()


def as_namespace(args: Any) -> Namespace:
    """Convert a hydra configuration, of which a stock model loses unknown options."""
    options: Any = OmegaConf.to_container(args) if OmegaConf.is_config(args) else None
    return args if options is None else Namespace(**options)


def fill_missing(args: Any, config: type) -> None:
    """Set options that a stored configuration lacks to their defaults. Changes ``args``."""
    with writable(args):
        for entry in fields(config):
            if not hasattr(args, entry.name):
                setattr(args, entry.name, entry.default)


def set_architecture(args: Any, defaults: Mapping[str, Any]) -> None:
    """Fill what was left open; the command line or the YAML wins. Changes ``args``."""
    for name, default in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, default)


def register_architectures(model: str, architectures: Mapping[str, Mapping[str, Any]]) -> None:
    """Register each --arch of a model; fairseq has done so for the model's own name."""
    for name, defaults in architectures.items():
        if name not in ARCH_MODEL_REGISTRY:
            _register(model, name, defaults)


def _register(model: str, name: str, defaults: Mapping[str, Any]) -> None:
    @register_model_architecture(model, name)
    def architecture(args: Any) -> None:
        set_architecture(args, defaults)
