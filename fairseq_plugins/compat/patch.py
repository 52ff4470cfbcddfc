"""Describe patches: a patch names a defect of fairseq and holds the functions that repair it."""

import dataclasses
import enum
import functools
import importlib
import inspect
import types
from typing import Any, Callable, List, Tuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Harm(enum.Enum):
    """Harm that a patch prevents. Convenience is not a reason for a patch."""

    EXECUTION = "a file can execute"
    DATA_LOSS = "data is lost"
    WRONG_RESULT = "a result is wrong"
    PAPER_BLOCKED = "a paper cannot run"


@dataclasses.dataclass(eq=False)
class Patch:
    """Hold a defect of fairseq and its repair in this process.

    Attributes:
        name: switches the patch off in ``FAIRSEQ_PLUGINS_DISABLE_PATCHES``.
        harm: the kind of harm without the patch. If the patch cannot be applied, the program stops
            for ``Harm.EXECUTION`` and warns for the other kinds.
        defect: the harm in a sentence.
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
            """Add a step for each target."""
            for target in targets:
                self._steps.append(functools.partial(replace_function, target, function))
            return function

        return register

    def step(self, function: Callable[[], None]) -> Callable[[], None]:
        """Decorate a function that repairs the defect, or a part of it, in another way."""
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
    if inspect.isclass(owner) and name not in vars(owner):
        stock = _inherited_method(owner, name)
    else:
        stock = getattr(owner, name)

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
    """Build a method that calls the base classes' method of the same name.

    It looks the method up at each call, so a later patch of a base class is not bypassed.
    """

    @functools.wraps(getattr(owner, name))
    def inherited(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the method of the base classes."""
        return getattr(super(owner, self), name)(*args, **kwargs)

    return inherited


class ModuleProxy(types.ModuleType):
    """Stand in for a module with some attributes replaced; all others are the real module's.

    It is bound to a name in another module, which alone sees the replacements.
    """

    def __init__(self, module: types.ModuleType, **replaced: Any) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(replaced, _real_module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_real_module"], name)


def source_has(target: Any, text: str) -> bool:
    """Return True if the source code of ``target`` contains ``text``, blanks ignored in both."""
    return "".join(text.split()) in "".join(inspect.getsource(target).split())
