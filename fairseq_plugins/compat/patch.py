"""What a patch is: a defect of the installed fairseq, how it shows, and what takes the place of the functions that have it."""

import dataclasses
import functools
import importlib
import inspect
import types
from typing import Any, Callable, List, Tuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
MARK = "_fairseq_plugins_patch"
REGISTRY: List["Patch"] = []
"""Every patch, in the order in which it was made."""


@dataclasses.dataclass(eq=False)
class Patch:
    """One defect of fairseq and its repair in this process."""

    name: str  # switches it off in FAIRSEQ_PLUGINS_DISABLE_PATCHES
    reason: str  # one line on what goes wrong without it
    upstream: str = "no report found"  # the issue or pull request
    guards: bool = False  # protects against hostile files, so that the program stops where it cannot be applied
    last: bool = False  # applied after all others, so that it comes first when the patched function is called
    always: bool = False  # cannot be switched off

    def __post_init__(self) -> None:
        self._targets: List[str] = []
        self._steps: List[Callable[[], None]] = []
        self._has_defect: Callable[[], bool] = lambda: True
        REGISTRY.append(self)

    def probe(self, function: Callable[[], bool]) -> Callable[[], bool]:
        """Decorator of the function that tells whether the installed fairseq has the defect. Without one, every fairseq has."""
        self._has_defect = function
        return function

    def replace(self, *targets: str) -> Callable[[F], F]:
        """Decorator of a function that takes the place of ``targets``: ``"module:function"`` or ``"module:Class.method"``.

        It gets the function that it replaces as its first argument, then the arguments of the call.
        """

        def register(function: F) -> F:
            for target in targets:
                self._targets.append(target)
                self._steps.append(functools.partial(put_instead, target, function, self.name))
            return function

        return register

    def step(self, function: Callable[[], None]) -> Callable[[], None]:
        """Decorator of a function that does another part of the repair."""
        self._steps.append(function)
        return function

    def needed(self) -> bool:
        """True where the installed fairseq has the defect and this patch is not applied yet."""
        return not any(is_patched(target, self.name) for target in self._targets) and self._has_defect()

    def apply(self) -> None:
        """Repair the defect. Raises whatever an unknown fairseq makes of it."""
        for step in self._steps:
            step()


def _find(target: str) -> Tuple[Any, str]:
    module, _, path = target.partition(":")
    *parents, name = path.split(".")
    return functools.reduce(getattr, parents, importlib.import_module(module)), name


def put_instead(target: str, function: Callable[..., Any], mark: str) -> None:
    """Let ``function`` be called in the place of ``target``, with the stock function as its first argument."""
    owner, name = _find(target)
    stock = getattr(owner, name)
    if inspect.isclass(owner) and name not in vars(owner):  # found when it is called

        @functools.wraps(stock)
        def inherited(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(super(owner, self), name)(*args, **kwargs)

        stock = inherited

    @functools.wraps(stock)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        return function(stock, *args, **kwargs)

    setattr(replacement, MARK, mark)
    setattr(owner, name, replacement)


def is_patched(target: str, mark: str) -> bool:
    """True if ``target``, or a function that it wraps, was put there under the name ``mark``."""
    owner, name = _find(target)
    function = getattr(owner, name)
    while function is not None and getattr(function, MARK, None) != mark:
        function = getattr(function, "__wrapped__", None)
    return function is not None


class ModuleProxy(types.ModuleType):
    """A module as one importer sees it: some attributes replaced, every other one looked up in the real module."""

    def __init__(self, module: types.ModuleType, **replaced: Any) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(replaced, _real_module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_real_module"], name)


def source_has(target: Any, text: str) -> bool:
    """True if the source code of ``target`` contains ``text``, whatever the spaces and line breaks in either."""
    return "".join(text.split()) in "".join(inspect.getsource(target).split())
