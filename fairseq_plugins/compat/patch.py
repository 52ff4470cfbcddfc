"""What a patch is, and what most of them use: marked wrappers, and a module as one importer sees it."""

import inspect
import types
from dataclasses import dataclass
from functools import wraps
from typing import Any, Callable, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
MARK = "_fairseq_plugins_patch"


@dataclass(frozen=True)
class Patch:
    """One defect of a stock fairseq and its repair.

    ``name`` switches it off in ``FAIRSEQ_PLUGINS_DISABLE_PATCHES``, ``reason`` is one line on what goes wrong without it,
    ``upstream`` the issue or pull request. ``needed()`` is True where the installed fairseq has the defect (and it is
    not patched yet); ``apply()`` repairs it in this process and may raise, which then only costs a warning; where it ``guards``
    against hostile files, it stops the program.
    """

    name: str
    reason: str
    upstream: str
    needed: Callable[[], bool]
    apply: Callable[[], None]
    guards: bool = False


class ModuleProxy(types.ModuleType):
    """A module as one importer sees it: some attributes replaced, every other one looked up in the real module."""

    def __init__(self, module: types.ModuleType, **replaced: Any) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(replaced)
        self.__dict__["_real_module"] = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_real_module"], name)


def instead_of(stock: Callable[..., Any], patch: str) -> Callable[[F], F]:
    """Decorator for a function that takes the place of ``stock``: keeps its name and docstring, and notes the patch."""

    def decorate(function: F) -> F:
        wraps(stock)(function)  # works in place: name, docstring and __wrapped__
        setattr(function, MARK, patch)
        return function

    return decorate


def is_patched(function: Any, patch: str) -> bool:
    """True if ``function``, or one that it wraps, was put there by the patch of that name."""
    while function is not None:
        if getattr(function, MARK, None) == patch:
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def source_has(thing: Any, text: str) -> bool:
    """True if the source code of ``thing`` contains ``text``, whatever the spaces and line breaks in either."""
    return "".join(text.split()) in "".join(inspect.getsource(thing).split())
