"""Describe a patch: one defect of the installed fairseq and the functions that repair it."""

import dataclasses
import enum
import functools
import importlib
import inspect
import types
from typing import Any, Callable, List, Tuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Harm(enum.Enum):
    """The four reasons for which a patch may exist; a convenience is none."""

    EXECUTION = "a file can execute"
    DATA_LOSS = "data is lost"
    WRONG_RESULT = "a result is wrong"
    PAPER_BLOCKED = "a paper cannot run"


@dataclasses.dataclass(eq=False)
class Patch:
    """Hold one defect of fairseq and its repair in this process.

    Attributes:
        name: switches the patch off in ``FAIRSEQ_PLUGINS_DISABLE_PATCHES``.
        harm: the kind of harm without the patch. After a failed repair of ``Harm.EXECUTION`` the
            program stops; after another one it goes on with a warning.
        defect: the harm in one line.
        upstream: issue or pull request that reports the defect.
    """

    name: str
    harm: Harm
    defect: str
    upstream: str = "no report found"

    def __post_init__(self) -> None:
        self._steps: List[Callable[[], None]] = []
        self._probe: Callable[[], bool] = lambda: True

    @property
    def reason(self) -> str:
        """Return harm and defect as one line."""
        return f"{self.harm.value}: {self.defect}"

    def probe(self, function: Callable[[], bool]) -> Callable[[], bool]:
        """Decorate the function that returns True if the installed fairseq has the defect.

        A patch without a probe is applied to every fairseq.
        """
        self._probe = function
        return function

    def replace(self, *targets: str) -> Callable[[F], F]:
        """Decorate a function that takes the place of every target.

        The function gets the stock function as its first argument, then the arguments of the call.

        Args:
            targets: ``"module:function"`` or ``"module:Class.method"``.
        """

        def register(function: F) -> F:
            """Note one step per target."""
            for target in targets:
                self._steps.append(functools.partial(replace_function, target, function))
            return function

        return register

    def step(self, function: Callable[[], None]) -> Callable[[], None]:
        """Decorate a function that does a part of the repair without replacing one function."""
        self._steps.append(function)
        return function

    def is_needed(self) -> bool:
        """Return True if the installed fairseq has the defect."""
        return self._probe()

    def apply(self) -> None:
        """Repair the defect. Errors of an unknown fairseq reach the caller."""
        for step in self._steps:
            step()


def replace_function(target: str, function: Callable[..., Any]) -> None:
    """Call ``function`` in place of ``target``, with the stock function as its first argument."""
    owner, name = _locate(target)
    stock = getattr(owner, name)
    if inspect.isclass(owner) and name not in vars(owner):
        stock = _inherited_method(owner, name)

    @functools.wraps(stock)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        """Pass the stock function on with the arguments."""
        return function(stock, *args, **kwargs)

    setattr(owner, name, replacement)


def _locate(target: str) -> Tuple[Any, str]:
    """Return the module or class that holds ``target``, and the last part of its name."""
    module, _, path = target.partition(":")
    *parents, name = path.split(".")
    return functools.reduce(getattr, parents, importlib.import_module(module)), name


def _inherited_method(owner: Any, name: str) -> Callable[..., Any]:
    """Build a method that looks its namesake up in the base classes at each call."""

    @functools.wraps(getattr(owner, name))
    def inherited(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the method of the base classes."""
        return getattr(super(owner, self), name)(*args, **kwargs)

    return inherited


class ModuleProxy(types.ModuleType):
    """A module as one importer sees it: some attributes replaced, all others of the real module."""

    def __init__(self, module: types.ModuleType, **replaced: Any) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(replaced, _real_module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_real_module"], name)


def source_has(target: Any, text: str) -> bool:
    """Return True if the source code of ``target`` contains ``text``, blanks ignored in both."""
    return "".join(text.split()) in "".join(inspect.getsource(target).split())
