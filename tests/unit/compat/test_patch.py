"""Patches in general: how a function is replaced, switches, unknown versions, failing patches."""

import fairseq
import pytest

from fairseq_plugins import compat
from fairseq_plugins.compat.patch import Harm, Patch, replace_function

ABSENT = {"0.12.2": {"lost_sentences"}, "0.12.3.1": {"encoder_fast_path", "retired_options"}}
"""Defects that a fairseq does not have."""


class Base:
    def add(self, number):
        return number + 1


class Inheriting(Base):
    """Has no ``add`` of its own."""


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
    """Replace the real patches by four, two of which have no probe; return the names applied so far."""
    names = []

    def make(name, probe=None, fails=False):
        patch = Patch(name, Harm.DATA_LOSS, f"{name} is wrong")
        if probe:
            patch.probe(probe)
        patch.step(lambda: 1 / 0 if fails else names.append(name))
        return patch

    patches = (
        make("fails", fails=True),
        make("works"),
        make("absent", lambda: False),
        make("unclear", lambda: 1 / 0 > 0),
    )
    monkeypatch.setattr(compat, "PATCHES", patches)
    monkeypatch.setattr(compat, "_applied", {})
    monkeypatch.delenv(compat.VARIABLE, raising=False)
    return names


def test_needed_ones_are_applied_once_and_failing_ones_cost_a_warning(calls, monkeypatch, caplog):
    monkeypatch.setattr(fairseq, "__version__", "9.9")
    assert compat.apply() == ("works",)
    assert compat.apply() == compat.applied() == ("works",)
    assert calls == ["works"]
    for name in ("fails", "unclear"):
        failure = f"patch {name} (data is lost: {name} is wrong) could not be applied: ZeroDivisionError"
        assert failure in caplog.text
    assert "fairseq 9.9 was not tested" in caplog.text


def test_what_is_switched_off(calls, monkeypatch, caplog):
    everything = {"fails", "works", "absent", "unclear"}
    cases = (("", set()), ("all", everything), ("absent, works,none", {"absent", "works"}), ("none,all", everything))
    for text, names in cases:
        monkeypatch.setenv(compat.VARIABLE, text)
        assert compat.disabled() == names
    assert caplog.text.count("no patch is called none; valid: all, fails, works, absent, unclear") == 2
    assert compat.apply() == () and calls == []


@pytest.mark.parametrize("number", [0, 3])
def test_a_guard_that_fails_stops_the_program_unless_switched_off(calls, monkeypatch, caplog, number):
    guard = compat.PATCHES[number]
    guard.harm = Harm.EXECUTION
    monkeypatch.setattr(compat, "PATCHES", (guard, compat.PATCHES[1]))
    with pytest.raises(RuntimeError, match=rf"{guard.name} .*{compat.VARIABLE}={guard.name}"):
        compat.apply()
    assert calls == []
    monkeypatch.setenv(compat.VARIABLE, guard.name)
    assert compat.apply() == ("works",)
    assert f"switches {guard.name} off" in caplog.text


def test_the_real_ones():
    names = [patch.name for patch in compat.PATCHES]
    assert len(set(names)) == len(names) and all(name.isidentifier() for name in names)
    assert set(compat.applied()) == set(names) - ABSENT[fairseq.__version__]
    guards = {patch.name for patch in compat.PATCHES if patch.harm is Harm.EXECUTION}
    assert guards == {"safe_loading", "literal_options"}
    assert names[-1] == "folder_lock"
