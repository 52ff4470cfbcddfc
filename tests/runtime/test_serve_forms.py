"""Test how forms are read: what multipart clients send, and what is refused with its reason."""

import time
from contextlib import suppress

import pytest

from fairseq_plugins_runtime.serve.asking import read_fields
from fairseq_plugins_runtime.serve.forms import parse_header, read_multipart
from fairseq_plugins_runtime.serve.limits import Refused
from tests.runtime.hostile import MULTIPART, write_form, write_part

DISPOSITION = b'Content-Disposition: form-data; name="q"'
END = write_form()


def read_part(headers, value=b"a"):
    """Read a form of one part."""
    return read_multipart(MULTIPART, b"--XX\r\n" + headers + b"\r\n\r\n" + value + b"\r\n" + END)


@pytest.mark.cases(
    "headers field",
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
def test_headers_of_parts_are_read(headers, field):
    value = "ä\r\n\r\n--X"
    assert read_part(headers, value.encode()) == [(field, value)]


@pytest.mark.parametrize(
    "content_type",
    ['multipart/form-data; charset=utf-8; BOUNDARY="XX";', "Multipart/Form-Data;boundary=XX"],
)
def test_boundaries_are_read(content_type):
    body = write_form(write_part(b"q"), write_part(b"source", b""))
    assert read_fields(content_type, b"", body) == {"q": "a", "source": ""}


@pytest.mark.cases(
    "body fields",
    (END, []),
    (write_part(b"q") + b"--XX--", [("q", "a")]),
    (b"\r\n" + write_part(b"q") + END + b"epilogue", [("q", "a")]),
    (write_part(b"_charset_", b"UTF-8") + END, [("_charset_", "UTF-8")]),
    (
        b"\r\n" + write_form(*(write_part(b"f%d" % n) for n in range(100))),
        [(f"f{n}", "a") for n in range(100)],
    ),
)
def test_forms_are_read(body, fields):
    assert read_multipart(MULTIPART, body) == fields


def check_refusal(words, reader, *arguments):
    """Check that a reader refuses its input, with words in the message."""
    with pytest.raises(Refused) as refusal:
        reader(*arguments)
    message = refusal.value.message
    assert refusal.value.status == 400 and all(word in message for word in words), message


@pytest.mark.cases(
    "words headers",
    (["part 1", "not a field with a name"], b"A: b"),
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
    (["part 1", "multipart/mixed"], DISPOSITION + b"\r\nContent-Type: multipart/mixed"),
    (["Content-Type of part 1"], DISPOSITION + b"\r\nContent-Type: text/plain (a)"),
    (["part 1", "latin-1"], DISPOSITION + b"\r\nContent-Type: text/plain; charset=latin-1"),
    (["part 1", "base64"], DISPOSITION + b"\r\nContent-Transfer-Encoding: base64"),
    (["part 1", "not UTF-8: byte"], DISPOSITION[:-2] + b'\xff"'),
    (["in part 1", "8 headers"], b"\r\n".join(b"A%d: b" % n for n in range(9))),
    (["in part 1", "1024 bytes"], DISPOSITION + b"\r\nA: " + b"b" * 1030),
    (["in part 1", "1024 bytes"], b"A" * 1030 + b": b"),
    (["in part 1", "1024 bytes"], b"A:" + b" " * 1030),
    (["in part 1"], DISPOSITION + b"\r\n folded"),
    (["in part 1"], b": b"),
)
def test_bad_headers_of_a_part_are_refused(words, headers):
    check_refusal(words, read_part, headers)


@pytest.mark.cases(
    "words content_type body",
    ("before part 1: it is cut off", MULTIPART, b""),
    ("before part 1: it is cut off", MULTIPART, b"--X"),
    ("in part 1: it is cut off", MULTIPART, b"--XX\r\nContent-Dispo"),
    ("in part 1: it is cut off", MULTIPART, write_part(b"q")),
    ("in part 2: it is cut off", MULTIPART, write_part(b"q") + b"--XX\r\n"),
    ("before part 1: ", MULTIPART, b"junk\r\n" + write_part(b"q") + END),
    ("before part 1: ", MULTIPART, b"--XX\n" + DISPOSITION + b"\n\na\n--XX--\n"),
    ("0 characters; valid: 1 to 70", "multipart/form-data", END),
    ("71 characters", "multipart/form-data; boundary=" + "X" * 71, END),
    ("boundary twice", MULTIPART + "; boundary=YY", END),
    ("Content-Type cannot be read", 'multipart/form-data; boundary="XX', END),
    ("Content-Type has 1025 bytes; valid: at most 1024", MULTIPART.ljust(1025), END),
    ("too many parts; valid: at most 100", MULTIPART, write_part(b"q") * 101 + END),
    ("too many parts", MULTIPART, write_part(b"q", b"\r\n--XXa" * 102) + END),
    ("_charset_ is latin-1", MULTIPART, write_part(b"_charset_", b"latin-1") + END),
    ("q is not UTF-8: byte 1", MULTIPART, write_part(b"q", b"a\xff") + END),
    ("q is given 2 times", MULTIPART, write_part(b"q") * 2 + END),
)
def test_bad_forms_are_refused(words, content_type, body):
    check_refusal([words], read_fields, content_type, b"", body)


def test_headers_of_the_greatest_length_are_read_fast():
    start = time.perf_counter()
    for filler in (";a=1", "; (", '"', '\\"', " ;", "a=", "; a="):
        text = ("form-data; name=" + filler * 1024)[:1024]
        for _ in range(20):
            with suppress(Refused):
                parse_header("Content-Type", text)
    assert time.perf_counter() - start < 1  # 140 headers; 5 ms on an idle machine
