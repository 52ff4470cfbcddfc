"""Writing checkpoints: whole or not at all, with a clear reason and no endless tries."""

import errno
import os
from pathlib import Path
from typing import Any, List

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_plugins.checkpoints import writing
from fairseq_plugins.compat import saving


@pytest.fixture
def last(tmp_path: Path) -> Path:
    """A checkpoint that is there already."""
    path = tmp_path / "checkpoint_last.pt"
    torch.save({"step": 1}, path)
    return path


def failing_writes(monkeypatch: pytest.MonkeyPatch, code: int, failures: int, good_writes: int = 1) -> List[int]:
    """Let the first ``failures`` files fail after some good writes. Returns one entry for each file tried."""
    tried: List[int] = []
    stock = writing._Watched.write
    real = writing._Watched.__init__

    def start(self: Any, file: Any) -> None:
        real(self, file)
        tried.append(0)

    def write(self: Any, data: Any) -> int:
        tried[-1] += 1
        if len(tried) <= failures and tried[-1] > good_writes:
            self.error = OSError(code, os.strerror(code))
            raise self.error
        return stock(self, data)

    monkeypatch.setattr(writing._Watched, "__init__", start)
    monkeypatch.setattr(writing._Watched, "write", write)
    monkeypatch.setattr(saving, "PAUSE_SECONDS", 0.0)
    return tried


def test_a_full_disk_keeps_the_previous_checkpoint(last: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = failing_writes(monkeypatch, errno.ENOSPC, failures=99)
    with pytest.raises(OSError, match="No space left on device") as caught:
        checkpoint_utils.torch_persistent_save({"step": 2, "weights": torch.zeros(1000)}, str(last))
    assert caught.value.errno == errno.ENOSPC
    report = str(caught.value)
    assert f"checkpoint {last} could not be written" in report
    assert "bytes free there" in report
    assert "The previous checkpoint_last.pt is untouched" in report
    assert "Make room and start the same command again" in report
    assert torch.load(last) == {"step": 1}
    assert os.listdir(last.parent) == [last.name]
    assert len(tried) == 1


def test_a_first_checkpoint_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_writes(monkeypatch, errno.ENOSPC, failures=99)
    with pytest.raises(OSError, match="could not be written") as caught:
        checkpoint_utils.torch_persistent_save({"weights": torch.zeros(1000)}, str(tmp_path / "new.pt"))
    assert "untouched" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_copy_on_a_full_disk(last: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    best = last.with_name("checkpoint_best.pt")
    torch.save({"step": 2}, best)
    failing_writes(monkeypatch, errno.ENOSPC, failures=99, good_writes=0)
    with pytest.raises(OSError, match="untouched"):
        checkpoint_utils.PathManager.copy(str(best), str(last), overwrite=True)
    assert torch.load(last) == {"step": 1}


def test_a_passing_fault_is_tried_again(last: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = failing_writes(monkeypatch, errno.EIO, failures=2)
    checkpoint_utils.torch_persistent_save({"step": 2, "weights": torch.zeros(1000)}, str(last))
    assert torch.load(last)["step"] == 2
    assert len(tried) == 3


@pytest.mark.parametrize("how", ["saved", "copied"])
def test_the_second_try_writes_the_whole_file(last: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Not what was left after, or before, the place at which the first one ended."""
    monkeypatch.setattr(saving, "COPY_BYTES", 1000)
    wanted, source = {"weights": torch.arange(1000)}, last.with_name("source.pt")
    torch.save(wanted, source)
    tried = failing_writes(monkeypatch, errno.EIO, failures=1, good_writes=3)
    if how == "saved":
        checkpoint_utils.torch_persistent_save(dict(wanted), str(last))
        assert torch.equal(torch.load(last)["weights"], wanted["weights"])
    else:
        checkpoint_utils.PathManager.copy(str(source), str(last), overwrite=True)
        assert last.read_bytes() == source.read_bytes()
    assert len(tried) == 2
    assert tried[1] > 4  # the first try ended in the middle


def test_a_lasting_fault_ends(last: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = failing_writes(monkeypatch, errno.EIO, failures=99)
    with pytest.raises(OSError, match="Input/output error"):
        checkpoint_utils.torch_persistent_save({"weights": torch.zeros(1000)}, str(last))
    assert len(tried) == saving.TRIES


def test_what_cannot_be_pickled_is_not_tried_again(last: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = failing_writes(monkeypatch, errno.EIO, failures=0)
    with pytest.raises((AttributeError, TypeError), match="pickle|lambda"):
        checkpoint_utils.torch_persistent_save({"step": lambda: 1}, str(last))
    assert len(tried) == 1
    assert os.listdir(last.parent) == [last.name]
    assert torch.load(last) == {"step": 1}


def test_an_interrupt_leaves_no_temporary_file(last: Path) -> None:
    def interrupted(file: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        saving.write_whole(str(last), interrupted)
    assert os.listdir(last.parent) == [last.name]


def test_copy_and_link(last: Path, tmp_path: Path) -> None:
    """A copy is whole and independent; a name that is a link stays one."""
    target = tmp_path / "elsewhere"
    target.mkdir()
    link = tmp_path / "link.pt"
    link.symlink_to(target / "real.pt")
    assert checkpoint_utils.PathManager.copy(str(last), str(link), overwrite=True) is True
    assert link.is_symlink()
    assert torch.load(target / "real.pt") == {"step": 1}
    assert (target / "real.pt").stat().st_ino != last.stat().st_ino
    assert os.listdir(target) == ["real.pt"]
