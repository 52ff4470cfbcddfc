"""The registry: switches, unknown versions, failing patches, applying twice."""

import logging
from dataclasses import replace
from typing import Any, List

import fairseq
import numpy as np
import pytest

from fairseq_plugins import compat
from fairseq_plugins.compat.patch import ModuleProxy, Patch, instead_of, is_patched, source_has


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> List[str]:
    """Three patches in place of the real ones: one needed, one not, one that fails. Returns what was applied."""
    done: List[str] = []

    def fail() -> None:
        raise AttributeError("no such function")

    patches = (
        Patch("fails", "it fails", "#1", lambda: True, fail),
        Patch("works", "it works", "#2", lambda: True, lambda: done.append("works")),
        Patch("absent", "no defect", "#3", lambda: False, lambda: done.append("absent")),
        Patch("unclear", "cannot look", "#4", lambda: 1 / 0 > 0, lambda: done.append("unclear")),
    )
    monkeypatch.setattr(compat, "PATCHES", patches)
    monkeypatch.setattr(compat, "_applied", {})
    monkeypatch.delenv(compat.VARIABLE, raising=False)
    return done


def test_needed_ones_are_applied_once(calls: List[str], caplog: pytest.LogCaptureFixture) -> None:
    assert compat.apply() == ("works",)
    assert compat.apply() == compat.applied() == ("works",)
    assert calls == ["works"]


def test_a_failing_patch_costs_a_warning_only(calls: List[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        compat.apply()
    assert "patch fails (it fails) could not be applied: AttributeError('no such function')" in caplog.text
    assert "patch unclear (cannot look) could not be applied: ZeroDivisionError" in caplog.text


def test_a_guard_that_fails_stops_the_program_unless_switched_off(
    calls: List[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fails, works, absent, unclear = compat.PATCHES
    for guard in (fails, unclear):
        monkeypatch.setattr(compat, "PATCHES", (replace(guard, guards=True), works))
        monkeypatch.setattr(compat, "_applied", {})
        with pytest.raises(RuntimeError, match=rf"{guard.name} .*{compat.VARIABLE}={guard.name}"):
            compat.apply()
        assert calls == []
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setenv(compat.VARIABLE, guard.name)
            assert compat.apply() == ("works",)
        assert f"switches {guard.name} off" in caplog.text
        calls.clear()


def test_what_guards_against_hostile_files() -> None:
    assert [patch.name for patch in compat.PATCHES if patch.guards] == ["safe_loading", "literal_options"]


@pytest.mark.parametrize("value", ["works", "all", " absent, works ,"])
def test_switching_off(calls: List[str], monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(compat.VARIABLE, value)
    assert compat.apply() == ()
    assert calls == []


def test_unknown_names_are_reported(
    calls: List[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(compat.VARIABLE, "wroks,fails")
    with caplog.at_level(logging.WARNING):
        assert compat.apply() == ("works",)
    assert "no patch is called wroks; valid: all, fails, works, absent, unclear" in caplog.text
    assert "could not be applied: AttributeError" not in caplog.text  # the known one is off


def test_unknown_fairseq_is_a_warning(
    calls: List[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fairseq, "__version__", "9.9")
    with caplog.at_level(logging.WARNING):
        assert compat.apply() == ("works",)
    assert "fairseq 9.9 was not tested" in caplog.text


def test_every_patch_is_described_and_no_longer_needed() -> None:
    names = [patch.name for patch in compat.PATCHES]
    assert len(set(names)) == len(names)
    for patch in compat.PATCHES:
        assert patch.name.isidentifier()
        assert patch.reason
        assert "\n" not in patch.reason
        assert patch.upstream
    assert len(compat.applied()) >= 8
    assert [patch.name for patch in compat.PATCHES if patch.needed()] == []


def test_module_proxy() -> None:
    proxy = ModuleProxy(np, float=float)
    assert proxy.float is float
    assert proxy.array is np.array
    assert not hasattr(np, "float")
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = proxy.no_such_name


def test_marks_and_source() -> None:
    def stock(x: int) -> Any:
        """Stock text."""
        return [x,
                x]  # fmt: skip

    @instead_of(stock, "one")
    def first(x: int) -> Any:
        return stock(x)

    @instead_of(first, "two")
    def second(x: int) -> Any:
        return first(x)

    assert is_patched(second, "one")
    assert is_patched(second, "two")
    assert not is_patched(first, "two")
    assert not is_patched(stock, "one")
    assert second.__doc__ == "Stock text."
    assert source_has(stock, "[x, x]")
    assert not source_has(stock, "[x, y]")
