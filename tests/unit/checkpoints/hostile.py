"""Files of torch.save that nobody should read: each a function that writes one from a good one. Shared with the tests of compat."""

import argparse
import struct
import warnings
import zipfile

import numpy as np
import torch

HUGE = 2**40
VALUES = 1000


class Call:
    """Pickles as a call."""

    def __init__(self, function, *arguments, state=None):
        self.call = (function, arguments) + ((state,) if state is not None else ())

    def __reduce__(self):
        return self.call


def good(**more):
    """The least that counts as a checkpoint."""
    state = {"model": {"w": torch.ones(VALUES)}, "args": argparse.Namespace(arch="x"), "cfg": None}
    return {**state, "extra_state": {}, "optimizer_history": [], **more}


def rewritten(target, change, compression=zipfile.ZIP_STORED):
    """A good file with the content of some records changed, and checksums that are right."""
    torch.save(good(), target)
    with zipfile.ZipFile(target) as archive:
        records = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in records.items():
            archive.writestr(name, content)


def _bomb(target):
    rewritten(target, lambda name, old: b"\0" * 10**7 if name.endswith("data/0") else old, zipfile.ZIP_DEFLATED)


def _overlapping(target):
    """Two records with one content: how a zip file of any size grows beyond it without compression."""
    rewritten(target, lambda name, old: old)
    content = target.read_bytes()
    with zipfile.ZipFile(target) as archive:
        start = archive.start_dir
        record = content[start : start + 46 + len(archive.infolist()[0].filename)]
    entries = 10 * len(content) // VALUES
    ending = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, entries, entries, len(record) * entries, start, 0)
    target.write_bytes(content[:start] + record * entries + ending)


def _twice(target):
    """Two records of one name: Python reads the second, torch may read the first."""
    rewritten(target, lambda name, old: old)
    with zipfile.ZipFile(target, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pickled = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        archive.writestr(pickled, archive.read(pickled))


def _behind_another(target):
    """Two files in one: Python reads the second, torch the first."""
    torch.save(good(), target)
    target.write_bytes(target.read_bytes() * 2)


def _many(pickled):
    number = struct.pack("<H", VALUES)
    assert b"M" + number in pickled
    return pickled.replace(b"M" + number, b"\x8a\6" + HUGE.to_bytes(6, "little"))


def _declared(target):
    rewritten(target, lambda name, old: _many(old) if name.endswith("data.pkl") else old)


def _declared_legacy(target):
    torch.save(good(), target, _use_new_zipfile_serialization=False)
    target.write_bytes(_many(target.read_bytes()))


def _deep(target):
    nested = b"\x80\x02}X\5\0\0\0model" + b"]" * 10_000 + b"a" * 9_999 + b"s."
    rewritten(target, lambda name, old: nested if name.endswith("data.pkl") else old)


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
_old = Call(torch.FloatTensor, state=(torch.ones(4).untyped_storage(), 0, (HUGE,), (0,)))
_sparse = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (HUGE,))
_forged = Call(np.dtype, "f8", False, True, state=(3, "<", (Call(np.dtype, "O"), (1,)), None, None, -1, -1, 63))
_made = np._core.multiarray._reconstruct
_array = Call(_made, np.ndarray, (0,), b"b", state=(1, (1,), _forged, False, b"AAAAAAAA"))

HOSTILE = {
    "zip bomb": (_bomb, "is compressed"),
    "overlapping records": (_overlapping, "records overlap"),
    "two records of one name": (_twice, r"its \d records have \d different names"),
    "file behind a file": (_behind_another, "its first record begins after .* other bytes"),
    "tensor beyond its record": (_declared, "needs 4,398,046,511,104 bytes of record .*data/0, which has 4,000"),
    "tensor beyond the file": (_declared_legacy, "its tensors need 4,398,046,511,104 bytes"),
    "repeated values": (_saved(x=_repeated), r"shape \(1099511627776,\)"),
    "repeated values, legacy": (_saved(zipped=False, x=_repeated), r"shape \(1099511627776,\)"),
    "repeated values of several tensors": (_saved(x=_repeats), r"\(4,194,304 bytes\) repeats a storage of 16;"),
    "repeated values of an old tensor": (_saved(zipped=False, x=_old), r"shape \(1099511627776,\)"),
    "sparse": (_saved(x=_sparse), "1,099,511,627,776 elements"),
    "bytearray": (_saved(x=Call(bytearray, HUGE)), "bytearray of 1,099,511,627,776"),
    "Tensor(2^20, 2^20)": (_saved(x=Call(torch.Tensor, 2**20, 2**20)), "torch.Tensor of 1,099,511,627,776"),
    "numpy array": (_saved(x=Call(_made, np.ndarray, (HUGE,), b"b")), "1,099,511,627,776 elements"),
    "numpy's own memory": (_saved(x=Call(np.ndarray, (1000,))), "numpy.ndarray"),
    "forged numpy type": (_saved(x=_array), "numpy type"),
    "numpy record of objects": (_saved(x=Call(np.dtype, [("a", "O")])), "numpy type"),
    "numpy objects": (_saved(x=np.array([None])), "numpy type"),
    "deep": (_deep, "nested deeper than 200"),
    "endless options": (_saved(args=argparse.Namespace(x=_endless())), "args are more than"),
    "doubling options": (_saved(args=argparse.Namespace(x=_doubling())), "args are more than"),
}
"""Name -> what writes the file, and what the refusal says."""
