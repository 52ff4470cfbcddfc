"""Test patches in general: replaced functions, switches, unknown versions, failing patches."""

import fairseq
import pytest

from fairseq_plugins import compat
from fairseq_plugins.compat.patch import Harm, Patch, replace_function

ABSENT = {"0.12.2": {"lost_sentences"}, "0.12.3.1": {"encoder_fast_path", "retired_options"}}
"""Version of fairseq -> patches that it does not need."""


class Base:
    def add(self, number):
        return number + 1


class Inheriting(Base):
    """Inherits ``add``."""


def double(stock, *args):
    return 2 * stock(*args)


def test_a_replacement_gets_the_function_that_it_replaces(monkeypatch):
    monkeypatch.setattr(Base, "add", Base.add)
    replace_function(f"{__name__}:Base.add", double)
    replace_function(f"{__name__}:Base.add", double)
    assert Base().add(1) == 8
    assert Base.add.__wrapped__.__wrapped__(Base(), 1) == 2


def test_an_inherited_method_is_looked_up_when_it_is_called(monkeypatch):
    monkeypatch.setattr(Inheriting, "add", Inheriting.add)
    del Inheriting.add
    replace_function(f"{__name__}:Inheriting.add", double)
    monkeypatch.setattr(Base, "add", lambda self, number: number + 10)
    assert Inheriting().add(1) == 22 and Base().add(1) == 11


@pytest.fixture
def calls(monkeypatch):
    """Replace the real patches by four; record which of them are applied."""
    names = []

    def make(name, action=lambda: None, probe=None):
        patch = Patch(name, Harm.DATA_LOSS, f"{name} is wrong")
        if probe:
            patch.probe(probe)
        patch.step(lambda: (action(), names.append(name)))
        return patch

    patches = (
        make("fails", action=lambda: 1 / 0),
        make("works"),
        make("absent", probe=lambda: False),
        make("unclear", probe=lambda: 1 / 0 > 0),
    )
    monkeypatch.setattr(compat, "PATCHES", patches)
    monkeypatch.setattr(compat, "_applied", {})
    monkeypatch.delenv(compat.VARIABLE, raising=False)
    return names


def test_patches_are_applied_once_and_a_failing_one_is_a_warning(calls, monkeypatch, caplog):
    monkeypatch.setattr(fairseq, "__version__", "9.9")
    assert compat.apply() == compat.apply() == compat.applied() == ("works",)
    assert calls == ["works"]
    for name in ("fails", "unclear"):
        assert f"patch {name} (data is lost: {name} is wrong)" in caplog.text
    assert "ZeroDivisionError" in caplog.text and "fairseq 9.9" in caplog.text


def test_the_environment_switches_patches_off(calls, monkeypatch, caplog):
    every_patch = {"fails", "works", "absent", "unclear"}
    for text, names in (
        ("", set()),
        ("all", every_patch),
        ("absent, works,none", {"absent", "works"}),
        ("none,all", every_patch),
    ):
        monkeypatch.setenv(compat.VARIABLE, text)
        assert compat.disabled() == names
    valid = "none; valid: all, fails, works, absent, unclear"
    assert caplog.text.count(valid) == 2
    assert compat.apply() == () and calls == []


@pytest.mark.parametrize("number", [0, 3])
def test_a_failing_guard_stops_the_program_unless_switched_off(calls, monkeypatch, number):
    guard, working = compat.PATCHES[number], compat.PATCHES[1]
    guard.harm = Harm.EXECUTION
    monkeypatch.setattr(compat, "PATCHES", (guard, working))
    with pytest.raises(RuntimeError, match=rf"{guard.name} .*{compat.VARIABLE}={guard.name}"):
        compat.apply()
    assert calls == []
    monkeypatch.setenv(compat.VARIABLE, guard.name)
    assert compat.apply() == ("works",)


def test_the_needed_patches_are_applied():
    names = [patch.name for patch in compat.PATCHES]
    assert len(set(names)) == len(names) and all(name.isidentifier() for name in names)
    assert set(compat.applied()) == set(names) - ABSENT[fairseq.__version__]
    guards = {patch.name for patch in compat.PATCHES if patch.harm is Harm.EXECUTION}
    assert guards == {"safe_loading", "literal_options"}
    assert names[-1] == "folder_lock"
