"""Test that files and folders appear complete or not at all, and that a kill frees every lock."""

import contextlib
import errno
import fcntl
import multiprocessing
import os
import resource
import subprocess
import time

import pytest

from data_prep import files
from data_prep.corpora import ted
from data_prep.files import LockHeldError, RunLock, locked
from data_prep.io import InputError
from data_prep.pieces import binarize, cut_vocabulary
from data_prep.toy.corpus import main as toy
from data_prep.understanding import data_bin
from tests.conftest import ROOT
from tests.unit.data_prep.files import assert_refused, read_tree

OLD, NEW = b"one\ntwo\n", b"new\n"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def write_texts(paths, text, count, option="--outputs", **options):
    with files.atomic_texts(paths, option, **options) as opened:
        for file in opened:
            file.write(text * count)


def write_folder(path, content):
    with files.atomic_folder(path, replace=True) as folder:
        (folder / "a").write_bytes(content)


def write_file(path, content):
    with files.atomic_file(path) as file:
        file.write(content)


# ---- Complete or not at all. ----


def test_texts_appear_together_with_lf_and_utf8(tmp_path):
    with files.atomic_texts([tmp_path / "new" / "a", tmp_path / "b"], "--outputs") as opened:
        opened.pop().write("x\n")  # the caller may change its list
        opened.pop().write("é\n")
        assert not {"new/a", "b"} & set(read_tree(tmp_path))
    assert read_tree(tmp_path) == {"new/a": "é\n".encode(), "b": b"x\n"}


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    with files.atomic_path(tmp_path / "a") as first:
        first.write_text("first")
        with files.atomic_path(tmp_path / "a") as second:
            second.write_text("second")
        assert (tmp_path / "a").read_text() == "second"
    assert read_tree(tmp_path) == {"a": b"first"}


@contextlib.contextmanager
def full_disk(size):
    """Let no file grow beyond a size: the system refuses the write as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("count", [100, 100_000])  # noticed at the end, and while lines are written
def test_a_full_disk_keeps_the_old_content_and_is_named(tmp_path, count):
    first, second, inside = (write(tmp_path / name, OLD) for name in ("a", "b", "folder/a"))
    content = NEW * count
    message = r"File too large \([\d,]+ bytes free there\): '{}"
    for call, path in (
        (lambda: write_texts([first], "new\n", count), first),
        (lambda: write_texts([first, second], "new\n", count), tmp_path),
        (lambda: files.write_bytes(first, content), first),
        (lambda: write_file(first, content), first),
        (lambda: write_folder(inside.parent, content), inside.parent),
    ):
        with full_disk(20), pytest.raises(OSError, match=message.format(path)):
            call()
    assert read_tree(tmp_path) == dict.fromkeys(("a", "b", "folder/a"), OLD)


@pytest.mark.parametrize("write_old", [write_file, write_folder])
def test_other_errors_and_kills_keep_the_old_content(tmp_path, write_old):
    target = tmp_path / "a"
    write_old(target, OLD)
    before = read_tree(tmp_path)
    with pytest.raises(TypeError):
        write_old(target, 7)
    assert read_tree(tmp_path) == before and os.listdir(tmp_path) == ["a"]
    child = os.fork()
    if not child:
        os.replace = lambda *_: os.kill(os.getpid(), 9)
        write_old(target, NEW)
    os.waitpid(child, 0)
    assert before.items() <= read_tree(tmp_path).items()
    assert len(files.leftovers(tmp_path, "a")) == 1


def test_a_full_disk_is_named_where_the_library_hides_it(tmp_path):
    """Write as torch.save does, which raises a RuntimeError without the reason."""

    def save(file):
        with contextlib.suppress(OSError):
            file.write(bytes(100_000))
        raise RuntimeError("write failed")

    too_large = pytest.raises(OSError, match="File too large")
    with full_disk(20), too_large as error, files.atomic_file(tmp_path / "a") as file:
        save(file)
    assert error.value.errno == errno.EFBIG and error.value.filename == str(tmp_path / "a")


def test_errors_about_inputs_keep_their_file_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="'missing'"), files.atomic_path(tmp_path / "a"):
        open("missing")
    with pytest.raises(OSError, match="^bad archive$"), files.atomic_path(tmp_path / "a"):
        raise OSError("bad archive")  # not the system's
    assert read_tree(tmp_path) == {}


def test_bad_outputs_are_refused(tmp_path):
    source = write(tmp_path / "a", OLD)
    (tmp_path / "folder").mkdir()
    for name, message in (
        ("folder/../a", "would overwrite an input"),
        ("folder", "a folder"),
        ("b", "b: no line"),
    ):
        assert_refused(message, write_texts, [tmp_path / name], "", 0, inputs=[source])
    same_file = [tmp_path / "b", tmp_path / "folder" / ".." / "b"]
    assert_refused("named twice", write_texts, same_file, "", 0)
    assert_refused("no/b: no such folder", write_file, tmp_path / "no" / "b", b"")
    assert read_tree(tmp_path) == {"a": OLD}
    write_texts([tmp_path / "b"], "", 0, empty_ok=True)
    assert read_tree(tmp_path) == {"a": OLD, "b": b""}


def test_links_stay_and_pipes_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for call in (write_file, lambda path, content: write_texts([path], content.decode(), 1)):
        assert_refused("pipe: no file", call, tmp_path / "pipe", NEW)
        assert (tmp_path / "pipe").is_fifo()
        (tmp_path / "link").symlink_to(tmp_path / "file")
        call(tmp_path / "link", NEW)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == NEW
        (tmp_path / "link").unlink()


def test_a_folder_with_files_is_replaced_only_on_request(tmp_path):
    old = write(tmp_path / "folder" / "a", OLD)
    with pytest.raises(OSError, match="not empty"), files.atomic_folder(old.parent):
        pass
    assert read_tree(tmp_path) == {"folder/a": OLD} and os.listdir(tmp_path) == ["folder"]
    write_folder(old.parent, NEW)
    (tmp_path / "empty").mkdir()
    with files.atomic_folder(tmp_path / "empty") as folder:
        write(folder / "deep" / "b", NEW)
    assert read_tree(tmp_path) == {"folder/a": NEW, "empty/deep/b": NEW}


def test_a_folder_that_a_kill_moved_away_is_put_back(tmp_path):
    """Start where a run was killed after it moved the old folder away."""
    user_folder = tmp_path / ".out.tmp-of-a-user"
    user_folder.mkdir()
    manifest = b'{"verb": "nlu tags"}'
    write(tmp_path / ".out.tmp-0123abcd" / "old" / "manifest.json", manifest)
    with pytest.raises(InputError, match="later"), data_bin.whole_folder(tmp_path / "out", []):
        raise InputError("later")
    assert sorted(os.listdir(tmp_path)) == [user_folder.name, "out"]
    assert read_tree(tmp_path) == {"out/manifest.json": manifest}


def test_leftovers_are_those_of_one_name_or_of_all(tmp_path):
    names = [f".{name}.tmp-0123abcd" for name in ("a", "b", "a.b", "[ab]")]
    for name in (*names, ".a.tmp-1", "a.tmp-0123abcd"):
        write(tmp_path / name, b"")
    assert [path.name for path in files.leftovers(tmp_path)] == sorted(names)
    assert [path.name for path in files.leftovers(tmp_path, "[ab]")] == [names[-1]]
    assert files.leftovers(tmp_path / "missing") == []


# ---- Locks. ----


@pytest.fixture
def start():
    """Return a function that runs another one in a child, which stays until it is killed."""
    context, children = multiprocessing.get_context("fork"), []

    def run(function):
        ready = context.Event()
        child = context.Process(target=lambda: (function(), ready.set(), time.sleep(60)))
        children.append(child)
        child.start()
        assert ready.wait(30)
        return child

    yield run
    for child in children:
        child.kill()
        child.join()


def read_holder(path):
    with pytest.raises(LockHeldError) as error:
        RunLock(path).acquire()
    return str(error.value)


def test_a_kill_frees_a_lock_without_removing_its_file(tmp_path, start):
    path = tmp_path / "lock"
    child = start(lambda: globals().update(lock=RunLock(path)) or globals()["lock"].acquire())
    for _ in range(2):  # a refused run does not erase the name of the holder
        assert read_holder(path).startswith(f"process {child.pid} on {os.uname().nodename}: ")
    child.kill()
    child.join()
    assert os.listdir(tmp_path) == ["lock"]
    lock = RunLock(path)
    lock.acquire()
    assert read_holder(path).startswith(f"process {os.getpid()} on ")
    lock.release()
    assert os.listdir(tmp_path) == []


def test_a_lock_is_released_as_often_as_acquired_and_not_by_children(tmp_path, start):
    path = tmp_path / "lock"
    lock = RunLock(path)
    lock.acquire()
    lock.acquire()
    lock.release()

    def use_in_child():
        assert not lock.is_held
        lock.release()  # without effect there
        read_holder(path)

    start(use_in_child)
    assert lock.is_held and os.listdir(tmp_path) == ["lock"]
    lock.release()
    assert not lock.is_held and os.listdir(tmp_path) == []
    start(lambda: RunLock(path).acquire())  # while the first child is alive


def test_a_lock_file_removed_between_opening_and_locking_is_made_again(tmp_path, monkeypatch):
    stock, calls = fcntl.flock, []

    def flock(descriptor, flags):
        if not calls:
            calls.append((tmp_path / "lock").unlink())
        stock(descriptor, flags)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = RunLock(tmp_path / "lock")
    lock.acquire()
    assert os.listdir(tmp_path) == ["lock"]
    lock.release()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch, capsys, code):
    def flock(descriptor, flags):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "new" / "lock", "--out x"):
        pass
    assert f"warning: --out x: {os.strerror(code)}" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_a_lock_that_cannot_be_opened_is_an_error(tmp_path):
    (tmp_path / "lock").symlink_to("elsewhere")  # another user's trap
    with pytest.raises(OSError, match="lock"), locked(tmp_path / "lock", "--out x"):
        pass
    assert os.listdir(tmp_path) == ["lock"]


def test_the_folder_of_a_lock_is_removed_if_the_lock_made_it(tmp_path):
    with locked(tmp_path / "new" / "lock", "--out x"):
        assert [path.name for path in tmp_path.rglob("*")] == ["new", "lock"]
        second = locked(tmp_path / "new" / "lock", "--out x")
        assert_refused("--out x: another run is at work there (process ", second.__enter__)
    assert os.listdir(tmp_path) == []
    (tmp_path / "older").mkdir()
    with locked(tmp_path / "older" / "lock", "--out x"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["older"]


SCRIPT = ". data_prep/lock.sh; lock_output verb {} '--out x'; echo at work; {}"


def run_script(*arguments):
    line = ["bash", "-c", SCRIPT.format(*arguments)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(line, cwd=ROOT, text=True, **pipes)


def test_scripts_lock_as_the_verbs_do(tmp_path):
    path = tmp_path / "lock"
    first = run_script(path, "read -r")
    assert first.stdout.readline() == "at work\n"
    assert read_holder(path).startswith(f"process {first.pid} on {os.uname().nodename}")
    second = run_script(path, "true")
    output, errors = second.communicate()
    assert second.returncode == 1 and output == ""
    assert f"verb: error: --out x: another run is at work there (process {first.pid} on " in errors
    first.communicate("\n")
    assert run_script(path, "true").communicate() == ("at work\n", "")


def run_binarize(out):
    dictionary = write(out.parent / "dict.txt", b"a 1\n")
    line = f"--pieces {out.parent} --pairs de-en --dict {dictionary} --output {out}"
    binarize.main(line.split())


def run_nlu(out):
    with data_bin.whole_folder(out, []):
        pass


TED = ["--raw", "none", "--pairs", "de-en", "--output"]
CUT = ["--checkpoint", "none.pt", "--dict", "none.txt", "--pieces", "none", "--output"]


@pytest.mark.cases(
    "lock_name run_verb",
    ("out/.lock", lambda out: toy(["--out", str(out)])),
    ("out/.steps/binarize.lock", run_binarize),
    ("out/.steps/lock", lambda out: ted.main([*TED, str(out)])),
    (".out.lock", lambda out: cut_vocabulary.main([*CUT, str(out)])),
    (".out.lock", run_nlu),
)
def test_a_second_run_of_a_verb_is_refused(tmp_path, capsys, lock_name, run_verb):
    path, out = write(tmp_path / lock_name, b"process 17"), tmp_path / "out"
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises((InputError, SystemExit)) as error:
            run_verb(out)
    messages = f"{error.value}{capsys.readouterr().err}"
    assert f"{out}: another run is at work there (process 17)" in messages
    assert set(read_tree(tmp_path)) - {"dict.txt"} == {lock_name}
