"""Read forms: what multipart clients send, and what is refused with its reason."""

import time
from contextlib import suppress

import pytest

from fairseq_plugins_runtime.serve.asking import read_fields
from fairseq_plugins_runtime.serve.forms import parse_header, read_multipart
from fairseq_plugins_runtime.serve.limits import Refused
from tests.runtime.hostile import CASES, MULTIPART, write_part

DISPOSITION = b'Content-Disposition: form-data; name="q"'
END = b"--XX--\r\n"


def read_part(head, value=b"a"):
    return read_multipart(MULTIPART, b"--XX\r\n" + head + b"\r\n\r\n" + value + b"\r\n" + END)


@pytest.mark.cases(
    "head field",
    (DISPOSITION, "q"),
    (b'content-disposition:form-data ;name="q" ; ', "q"),
    (b"Content-Disposition: form-data; name=q", "q"),
    (b"Content-Disposition: FORM-DATA; NAME=q", "q"),
    (rb'Content-Disposition: form-data; name="a \"b\" \\ ;c=1"', r'a "b" \ ;c=1'),
    ('Content-Disposition: form-data; name="größe"'.encode(), "größe"),
    (DISPOSITION + b"\r\nContent-Type: text/plain; charset=UTF-8", "q"),
    (DISPOSITION + b"\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: 8bit", "q"),
    (b"Content-Length: 1\r\n" + DISPOSITION, "q"),
)
def test_heads_of_parts(head, field):
    assert read_part(head, "ä\r\n\r\n--X".encode()) == [(field, "ä\r\n\r\n--X")]


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data; boundary=XX",
        'multipart/form-data; charset=utf-8; BOUNDARY="XX";',
        "Multipart/Form-Data;boundary=XX",
    ],
)
def test_boundaries(content_type):
    body = write_part(b"q") + write_part(b"source", b"") + END
    assert read_fields(content_type, b"", body) == {"q": "a", "source": ""}


@pytest.mark.cases(
    "body fields",
    (END, []),
    (write_part(b"q") + b"--XX--", [("q", "a")]),
    (b"\r\n" + write_part(b"q") + END + b"epilogue", [("q", "a")]),
    (write_part(b"_charset_", b"UTF-8") + END, [("_charset_", "UTF-8")]),
    (b"".join(write_part(b"f%d" % n) for n in range(100)) + END, [(f"f{n}", "a") for n in range(100)]),
)
def test_whole_bodies(body, fields):
    assert read_multipart(MULTIPART, body) == fields


@pytest.mark.cases(
    "names head",
    (["part 1", "not a field with a name", "form-data; name="], b"A: b"),
    (["part 1", "not a field with a name"], b"Content-Disposition: form-data"),
    (["part 1", "not a field with a name"], b'Content-Disposition: attachment; name="q"'),
    (["part 1", "file"], DISPOSITION + b'; filename="a"'),
    (["part 1", "file"], DISPOSITION + b"; filename*=utf-8''a"),
    (["part 1", "name*"], DISPOSITION + b"; name*=utf-8''a"),
    (["Content-Disposition of part 1", "name twice"], DISPOSITION + b"; name=a"),
    (["part 1", "two headers content-disposition"], DISPOSITION + b"\r\n" + DISPOSITION),
    (["cannot be read at character 9"], DISPOSITION[:-3] + b'"q'),
    (["cannot be read at character 9"], DISPOSITION[:-3] + b'"q\\"'),
    (["cannot be read at character 19"], DISPOSITION + b"; a"),
    (["part 1", "multipart/mixed", "not nested"], DISPOSITION + b"\r\nContent-Type: multipart/mixed"),
    (["Content-Type of part 1", "comment"], DISPOSITION + b"\r\nContent-Type: text/plain (a)"),
    (["part 1", "latin-1", "utf-8"], DISPOSITION + b"\r\nContent-Type: text/plain; charset=latin-1"),
    (["part 1", "base64", "8bit"], DISPOSITION + b"\r\nContent-Transfer-Encoding: base64"),
    (["a header of part 1", "not UTF-8: byte"], DISPOSITION[:-2] + b'\xff"'),
    (["in part 1", "at most 100 parts, 8 headers"], b"\r\n".join(b"A%d: b" % n for n in range(9))),
    (["in part 1", "1024 bytes of a header"], DISPOSITION + b"\r\nA: " + b"b" * 1030),
    (["in part 1", "1024 bytes of a header"], b"A" * 1030 + b": b"),
    (["in part 1", "1024 bytes of a header"], b"A:" + b" " * 1030),
    (["in part 1", "RFC 7578"], DISPOSITION + b"\r\n folded"),
    (["in part 1", "RFC 7578"], b": b"),
)  # fmt: skip
def test_refused_heads(names, head):
    with pytest.raises(Refused) as refusal:
        read_part(head)
    message = refusal.value.message
    assert refusal.value.status == 400 and all(name in message for name in names), message


@pytest.mark.cases(
    "name content_type body",
    ("before part 1: it is cut off", MULTIPART, b""),
    ("before part 1: it is cut off", MULTIPART, b"--X"),
    ("in part 1: it is cut off", MULTIPART, b"--XX\r\nContent-Dispo"),
    ("in part 1: it is cut off", MULTIPART, write_part(b"q")),
    ("in part 1: it is cut off", MULTIPART, write_part(b"q") + b"--X"),
    ("in part 2: it is cut off", MULTIPART, write_part(b"q") + b"--XX\r\n"),
    ("before part 1: Expected boundary", MULTIPART, b"junk\r\n" + write_part(b"q") + END),
    ("before part 1: ", MULTIPART, b"--XX\n" + DISPOSITION + b"\n\na\n--XX--\n"),
    ("boundary in Content-Type has 0 characters; valid: 1 to 70", "multipart/form-data", END),
    ("boundary in Content-Type has 71 characters", "multipart/form-data; boundary=" + "X" * 71, END),
    ("boundary twice", MULTIPART + "; boundary=YY", END),
    ("Content-Type cannot be read", 'multipart/form-data; boundary="XX', END),
    ("Content-Type has 1025 bytes; valid: at most 1024", MULTIPART.ljust(1025), END),
    ("too many parts; valid: at most 100", MULTIPART, write_part(b"q") * 101 + END),
    ("too many parts; valid: at most 100", MULTIPART, write_part(b"q", b"\r\n--XXa" * 102) + END),
    ("_charset_ is latin-1; valid: utf-8", MULTIPART, write_part(b"_charset_", b"latin-1") + END),
    ("q is not UTF-8: byte 1", MULTIPART, write_part(b"q", b"a\xff") + END),
    ("q is given 2 times", MULTIPART, write_part(b"q") * 2 + END),
)
def test_refused_bodies(name, content_type, body):
    with pytest.raises(Refused) as refusal:
        read_fields(content_type, b"", body)
    assert refusal.value.status == 400 and name in refusal.value.message, refusal.value.message


@pytest.mark.parametrize("name", CASES)
def test_hostile_bodies(name):
    case = CASES[name]
    with pytest.raises(Refused) as refusal:
        read_fields(case.content_type, b"", case.body)
    message = refusal.value.message
    assert refusal.value.status == 400 and case.reason in message and len(message) < 300, message


def test_headers_of_the_longest_length_take_little_time():
    start = time.perf_counter()
    for filler in (";a=1", "; (", '"', '\\"', " ;", "a=", "; a="):
        text = ("form-data; name=" + filler * 1024)[:1024]
        for _ in range(20):
            with suppress(Refused):
                parse_header("Content-Type", text)
    assert time.perf_counter() - start < 1  # 140 headers; 5 ms on an idle machine
