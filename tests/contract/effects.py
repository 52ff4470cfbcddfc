"""How it shows that an option does something: the table of every option of the package, filled by ``effects_*.py``.

An entry is ``flips(KEY, ARGUMENTS, OBSERVE)``: the base command line of what declares the option (``BASES``) is parsed as
fairseq-train parses it, once as it is and once with the arguments behind it; OBSERVE must give two different values. Where only
a command can show it, ``seen_by(KEY, TEST)`` names the test that does.
"""

import functools
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq import criterions, models, options, scoring, tasks

from fairseq_plugins.checkpoints import write_masked_lm
from tests import builders, data_bins

SOURCES, TARGETS = [6, 3, 5], [4, 2, 3]


class World(NamedTuple):
    """Folders that command lines name as ``{data}``, ``{other_data}``, ``{mlm}``, ``{other_mlm}``."""

    data: Path
    other_data: Path
    mlm: Path
    other_mlm: Path


class Effect(NamedTuple):
    """An entry of the table.

    Attributes:
        base: in front of the flip, beside the base command line.
        flip: what is added; a pair (word, other word) replaces a word of the base command line instead.
        observe: run -> value; the values with and without the flip must differ.
        test: id of the test that shows it, instead of all these.
    """

    base: Sequence[str] = ()
    flip: Sequence[Any] = ()
    observe: Optional[Callable[["Run"], Any]] = None
    test: str = ""


EFFECTS: Dict[str, Effect] = {}
BASES: Dict[str, List[str]] = {}
"""Where an option is declared (``model sga``) -> a command line that builds it at tiny size."""


def flips(key: str, flip: Sequence[Any], observe: Callable[["Run"], Any], base: Sequence[str] = ()) -> None:
    """Enter an option, named as in ``model sga: prompt_length``."""
    assert key not in EFFECTS, f"{key} is entered twice"
    EFFECTS[key] = Effect(base, flip, observe)


def seen_by(key: str, test: str) -> None:
    """Enter an option that an existing test flips through the command line."""
    assert key not in EFFECTS, f"{key} is entered twice"
    EFFECTS[key] = Effect(test=test)


def make_world(folder: Path) -> World:
    """Two data-bins en-de and en-fr of one dictionary, and two masked LMs."""
    world = World(*(folder / name for name in World._fields))
    for number, data in enumerate((world.data, world.other_data)):
        data.mkdir()
        for language in ("de", "fr"):
            data_bins.write_pair(data, "train", "en", language, seed=1 + number, count=12 - 4 * number)
    for seed, path in ((1, world.mlm), (9, world.other_mlm)):
        lm = builders.masked_lm(seed)
        write_masked_lm(path, vars(lm.sizes), lm.state_dict(), dtype=torch.float32)
    return world


class Run:
    """What a command line builds, made when it is asked for; every random number is seeded."""

    def __init__(self, arguments: Sequence[str]):
        self.arguments = list(arguments)

    @functools.cached_property
    def args(self) -> Any:
        """The options, parsed as the stock commands parse them (without hydra's second step, which takes a second)."""
        scores = "--scoring" in self.arguments
        parser = options.get_generation_parser() if scores else options.get_training_parser()
        return options.parse_args_and_arch(parser, self.arguments)

    def model_options(self) -> Any:
        """What the model's ``build_model`` gets, as fairseq takes it from the command line."""
        dataclass = getattr(models.ARCH_MODEL_REGISTRY[self.args.arch], "__dataclass", None)
        if dataclass is None:
            return self.args
        cfg = dataclass.from_namespace(self.args)
        cfg._name = self.args.arch
        return cfg

    @functools.cached_property
    def task(self) -> Any:
        """The task, with its dictionaries."""
        return tasks.setup_task(self.args)

    @functools.cached_property
    def dataset(self) -> Any:
        """The training set."""
        self.task.load_dataset("train")
        return self.task.dataset("train")

    @functools.cached_property
    def model(self) -> Any:
        """The model, its trained part random and large, in evaluation mode."""
        torch.manual_seed(1)
        model = self.task.build_model(self.model_options()).eval()
        generator = torch.Generator().manual_seed(2)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and not name.endswith("scale"):
                parameter.data.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
        return model

    @functools.cached_property
    def criterion(self) -> Any:
        """The criterion."""
        return criterions.build_criterion(self.args, self.task)

    @functools.cached_property
    def scorer(self) -> Any:
        """The scorer of --scoring."""
        return scoring.build_scorer(self.args, None)

    def shapes(self) -> Dict[str, Tuple[int, ...]]:
        """Name -> shape of every parameter."""
        return {name: tuple(parameter.shape) for name, parameter in self.model.named_parameters()}

    def loss(self, training: bool = False) -> float:
        """The criterion's loss of one batch."""
        self.model.train(training)
        torch.manual_seed(3)
        with torch.no_grad():
            return float(self.criterion(self.model, self.sample())[0])

    def sample(self) -> Dict[str, Any]:
        """A batch of the tiny dictionary."""
        return builders.batch(builders.source_rows(SOURCES), builders.target_rows(TARGETS))


def outcome(build: Callable[[], Any]) -> str:
    """Return "built", or the message of the ValueError that refuses the option."""
    try:
        build()
    except ValueError as error:
        return str(error)
    return "built"


def command_line(key: str, world: World, flipped: bool) -> List[str]:
    """The arguments of one side of an entry."""
    effect, words = EFFECTS[key], list(BASES[key.split(": ")[0]])
    if flipped:
        replaced = dict(item for item in effect.flip if isinstance(item, tuple))
        words = [replaced.get(word, word) for word in words]
    words += effect.base
    if flipped:
        words += [item for item in effect.flip if not isinstance(item, tuple)]
    return [word.format(**{name: str(path) for name, path in world._asdict().items()}) for word in words]
