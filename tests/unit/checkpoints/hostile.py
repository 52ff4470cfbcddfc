"""Write hostile files of torch.save, each from a good one. Shared with the tests of compat."""

import argparse
import struct
import warnings
import zipfile

import numpy as np
import torch

HUGE = 2**40
VALUES = 1000


class Call:
    """An object that pickles as a call."""

    def __init__(self, function, *arguments, state=None):
        self.call = (function, arguments) + ((state,) if state is not None else ())

    def __reduce__(self):
        return self.call


def good(**more):
    """Return the smallest content that counts as a checkpoint."""
    state = {"model": {"w": torch.ones(VALUES)}, "args": argparse.Namespace(arch="x"), "cfg": None}
    return {**state, "extra_state": {}, "optimizer_history": [], **more}


def rewritten(target, change, compression=zipfile.ZIP_STORED):
    """Write a good file, change the content of its records, and correct the checksums."""
    torch.save(good(), target)
    with zipfile.ZipFile(target) as archive:
        records = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in records.items():
            archive.writestr(name, content)


def _bomb(target):
    def inflate(name, content):
        return b"\0" * 10**7 if name.endswith("data/0") else content

    rewritten(target, inflate, zipfile.ZIP_DEFLATED)


def _overlapping(target):
    """Write many records with one content: a zip file that grows without compression."""
    rewritten(target, lambda name, content: content)
    content = target.read_bytes()
    with zipfile.ZipFile(target) as archive:
        start = archive.start_dir
        record = content[start : start + 46 + len(archive.infolist()[0].filename)]
    entries = 10 * len(content) // VALUES
    directory = record * entries
    sizes = (0, 0, entries, entries, len(directory), start, 0)
    target.write_bytes(content[:start] + directory + struct.pack("<4s4H2LH", b"PK\5\6", *sizes))


def _twice(target):
    """Write two records of one name: Python reads the second, torch may read the first."""
    rewritten(target, lambda name, content: content)
    with zipfile.ZipFile(target, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pickled = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        archive.writestr(pickled, archive.read(pickled))


def _behind_another(target):
    """Write two files in one: Python reads the second, torch the first."""
    torch.save(good(), target)
    target.write_bytes(target.read_bytes() * 2)


def _declare_more(pickled):
    """Change the number of values that a pickled tensor states."""
    number = struct.pack("<H", VALUES)
    assert b"M" + number in pickled
    return pickled.replace(b"M" + number, b"\x8a\6" + HUGE.to_bytes(6, "little"))


def _declared(target):
    def change(name, content):
        return _declare_more(content) if name.endswith("data.pkl") else content

    rewritten(target, change)


def _declared_legacy(target):
    torch.save(good(), target, _use_new_zipfile_serialization=False)
    target.write_bytes(_declare_more(target.read_bytes()))


def _deep(target):
    nested = b"\x80\x02}X\5\0\0\0model" + b"]" * 10_000 + b"a" * 9_999 + b"s."
    rewritten(target, lambda name, content: nested if name.endswith("data.pkl") else content)


def _saved(zipped=True, **more):
    return lambda target: torch.save(good(**more), target, _use_new_zipfile_serialization=zipped)


def _endless():
    endless = []
    endless.append(endless)
    return endless


def _doubling():
    doubled = [1]
    for _ in range(60):
        doubled = [doubled, doubled]
    return doubled


_repeated = torch.as_strided(torch.ones(4), (HUGE,), (0,))
_repeats = [torch.as_strided(torch.ones(4), (2**20,), (0,)) for _ in range(5)]
_old_tensor = Call(torch.FloatTensor, state=(torch.ones(4).untyped_storage(), 0, (HUGE,), (0,)))
_sparse = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (HUGE,))
_sized = Call(torch.Tensor, 2**20, 2**20)
_fields = (3, "<", (Call(np.dtype, "O"), (1,)), None, None, -1, -1, 63)
_forged = Call(np.dtype, "f8", False, True, state=_fields)
_reconstruct = np._core.multiarray._reconstruct
_array = Call(_reconstruct, np.ndarray, (0,), b"b", state=(1, (1,), _forged, False, b"AAAAAAAA"))
_sized_array = Call(_reconstruct, np.ndarray, (HUGE,), b"b")

HOSTILE = {
    "zip bomb": (_bomb, "is compressed"),
    "overlapping records": (_overlapping, "records overlap"),
    "two records of one name": (_twice, r"its \d records have \d different names"),
    "file behind a file": (_behind_another, "its first record begins after .* other bytes"),
    "tensor beyond its record": (_declared, "4,398,046,511,104 bytes of record .*data/0"),
    "tensor beyond the file": (_declared_legacy, "its tensors need 4,398,046,511,104 bytes"),
    "repeated values": (_saved(x=_repeated), "1099511627776,"),
    "repeated values, legacy": (_saved(zipped=False, x=_repeated), "1099511627776,"),
    "repeated values of several tensors": (_saved(x=_repeats), r"4,194,304 bytes\) repeats"),
    "repeated values of an old tensor": (_saved(zipped=False, x=_old_tensor), "1099511627776,"),
    "sparse": (_saved(x=_sparse), "1,099,511,627,776 elements"),
    "bytearray": (_saved(x=Call(bytearray, HUGE)), "bytearray of 1,099,511,627,776"),
    "Tensor(2^20, 2^20)": (_saved(x=_sized), "torch.Tensor of 1,099,511,627,776"),
    "numpy array": (_saved(x=_sized_array), "1,099,511,627,776 elements"),
    "numpy's own memory": (_saved(x=Call(np.ndarray, (1000,))), "numpy.ndarray"),
    "forged numpy type": (_saved(x=_array), "numpy type"),
    "numpy record of objects": (_saved(x=Call(np.dtype, [("a", "O")])), "numpy type"),
    "numpy objects": (_saved(x=np.array([None])), "numpy type"),
    "deep": (_deep, "nested deeper than 200"),
    "endless options": (_saved(args=argparse.Namespace(x=_endless())), "args are more than"),
    "doubling options": (_saved(args=argparse.Namespace(x=_doubling())), "args are more than"),
}
"""Kind of file -> function that writes it, and a pattern of the refusal."""
