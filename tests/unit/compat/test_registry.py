"""The registry: switches, unknown versions, failing patches, applying twice; what a patch replaces."""

import fairseq
import pytest

from fairseq_plugins import compat
from fairseq_plugins.compat import patch as patch_module
from fairseq_plugins.compat.patch import Patch

ABSENT = {
    "0.12.2": {"lost_sentences", "permute_sentences"},
    "0.12.3.1": {"encoder_fast_path", "retired_options", "unset_numbers"},
}
"""Defects that a fairseq does not have."""


@pytest.fixture
def calls(monkeypatch):
    """Four patches in place of the real ones, two of which look for no defect. Returns what was applied."""
    done = []
    monkeypatch.setattr(patch_module, "REGISTRY", [])

    def make(name, defect=None, fails=False):
        made = Patch(name, f"{name} is wrong")
        if defect:
            made.probe(defect)
        made.step(lambda: 1 / 0 if fails else done.append(name))
        return made

    made = make("fails", fails=True), make("works"), make("absent", lambda: False), make("unclear", lambda: 1 / 0 > 0)
    assert patch_module.REGISTRY == list(made)
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


def test_what_is_switched_off(calls, monkeypatch, caplog):
    compat.PATCHES[1].always = True
    everything = {"fails", "absent", "unclear"}
    for text, names in (("", set()), ("all", everything), ("absent, works,none", {"absent"}), ("none,all", everything)):
        monkeypatch.setenv(compat.VARIABLE, text)
        assert compat.disabled() == names
    assert caplog.text.count("no patch is called none; valid: all, fails, absent, unclear") == 1
    assert caplog.text.count("no patch is called none, works; valid") == 1


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


def test_the_real_ones():
    names = [patch.name for patch in compat.PATCHES]
    assert len(set(names)) == len(names) and all(name.isidentifier() for name in names)
    assert set(compat.applied()) == set(names) - ABSENT[fairseq.__version__]
    assert [patch.name for patch in compat.PATCHES if patch.needed()] == []
    assert {patch.name for patch in compat.PATCHES if patch.guards} == {"safe_loading", "literal_options"}
    assert names[-1] == "folder_lock"
