"""The registry: switches, unknown versions, failing patches, applying twice; what a patch replaces."""

import fairseq
import pytest

from fairseq_plugins import compat
from fairseq_plugins.compat import patch as patch_module
from fairseq_plugins.compat.patch import Patch, is_patched, source_has

ABSENT = {"0.12.2": {"lost_sentences", "permute_sentences"}, "0.12.3.1": {"encoder_fast_path"}}
"""Defects that a fairseq does not have."""


@pytest.fixture
def calls(monkeypatch):
    """Four patches in place of the real ones. Returns what was applied."""
    done = []
    monkeypatch.setattr(patch_module, "REGISTRY", [])

    def make(name, defect=lambda: True, fails=False):
        made = Patch(name, f"{name} is wrong")
        made.probe(defect)
        made.step(lambda: 1 / 0 if fails else done.append(name))
        return made

    made = make("fails", fails=True), make("works"), make("absent", lambda: False), make("unclear", lambda: 1 / 0 > 0)
    monkeypatch.setattr(compat, "PATCHES", made)
    monkeypatch.setattr(compat, "_applied", {})
    monkeypatch.delenv(compat.VARIABLE, raising=False)
    return done


def test_needed_ones_are_applied_once_and_failing_ones_cost_a_warning(calls, monkeypatch, caplog):
    monkeypatch.setattr(fairseq, "__version__", "9.9")
    assert compat.apply() == ("works",)
    assert compat.apply() == compat.applied() == ("works",)
    assert calls == ["works"]
    for name in ("fails", "unclear"):
        assert f"patch {name} ({name} is wrong) could not be applied: ZeroDivisionError" in caplog.text
    assert "fairseq 9.9 was not tested" in caplog.text


@pytest.mark.parametrize("number", [0, 3])
def test_a_guard_that_fails_stops_the_program_unless_switched_off(calls, monkeypatch, caplog, number):
    guard = compat.PATCHES[number]
    guard.guards = True
    monkeypatch.setattr(compat, "PATCHES", (guard, compat.PATCHES[1]))
    with pytest.raises(RuntimeError, match=rf"{guard.name} .*{compat.VARIABLE}={guard.name}"):
        compat.apply()
    assert calls == []
    monkeypatch.setenv(compat.VARIABLE, guard.name)
    assert compat.apply() == ("works",)
    assert f"switches {guard.name} off" in caplog.text


@pytest.mark.parametrize(("value", "expected"), [("all", ()), (" absent, works ,", ()), ("wroks,fails", ("works",))])
def test_switching_off(calls, monkeypatch, caplog, value, expected):
    monkeypatch.setenv(compat.VARIABLE, value)
    assert compat.apply() == expected
    assert ("no patch is called wroks; valid: all, fails, works" in caplog.text) is ("wroks" in value)
    assert ("patch fails" in caplog.text) is ("fails" not in value and value != "all")


def test_the_real_ones():
    """All that this fairseq needs are applied, and none twice."""
    names = [patch.name for patch in compat.PATCHES]
    assert len(set(names)) == len(names) and all(name.isidentifier() for name in names)
    assert set(compat.applied()) == set(names) - ABSENT[fairseq.__version__]
    assert [patch.name for patch in compat.PATCHES if patch.needed()] == []
    assert {patch.name for patch in compat.PATCHES if patch.guards} == {"safe_loading", "literal_options"}
    assert names[-1] == "folder_lock"


class Thing:
    def double(self, number):
        """Stock text."""
        return [number,
                number]  # fmt: skip


class Part(Thing):
    pass


def test_what_a_patch_replaces(monkeypatch):
    target = f"{__name__}:Thing.double"
    monkeypatch.setattr(Thing, "double", Thing.double)  # undone after the test
    monkeypatch.setattr(patch_module, "REGISTRY", [])
    first, second, third = (Patch(name, "…") for name in ("first", "second", "third"))
    first.replace(target)(lambda stock, thing, number: [*stock(thing, number), thing])
    second.replace(target)(lambda stock, thing, number: len(stock(thing, number)))
    thing = Thing()
    assert first.needed()
    first.apply()
    assert not first.needed() and second.needed()
    assert thing.double(1) == [1, 1, thing]
    second.apply()
    assert not first.needed() and not second.needed() and not is_patched(target, "third")
    assert thing.double(1) == 3
    assert Thing.double.__doc__ == "Stock text."
    assert source_has(Thing.double, "[number, number]") and not source_has(Thing.double, "[number, other]")
    third.replace(f"{__name__}:Part.double")(lambda stock, part, number: [stock(part, number)])
    third.apply()
    monkeypatch.setattr(Thing, "double", lambda thing, number: "changed later")
    assert Part().double(1) == ["changed later"]
    monkeypatch.delattr(Part, "double")
    first.replace(f"{__name__}:Thing.gone")(lambda stock: None)
    with pytest.raises(AttributeError, match="gone"):  # before anything is changed
        first.needed()
