"""Bodies of at most 1 MiB that try to stop the service, each with the reason of its refusal."""

from typing import NamedTuple

MIB = 1 << 20
MULTIPART = "multipart/form-data; boundary=XX"
JSON = "application/json"
URLENCODED = "application/x-www-form-urlencoded"


class Case(NamedTuple):
    """A body, and words of the message that refuses it."""

    content_type: str
    body: bytes
    reason: str


def write_part(name, value=b"a", parameters=b"", headers=b""):
    """Return a part of a form whose boundary is XX."""
    disposition = b'Content-Disposition: form-data; name="%s"' % name + parameters
    return b"--XX\r\n" + disposition + b"\r\n" + headers + b"\r\n" + value + b"\r\n"


def write_form(*parts):
    """Return a complete form of parts."""
    return b"".join(parts) + b"--XX--\r\n"


def write_nested(depth):
    """Return a form whose only part holds a form whose only part holds a form."""
    head = b"--X%s\r\nContent-Type: multipart/mixed; boundary=X%s\r\n\r\n"
    numbers = [b"X"] + [b"%d" % number for number in range(depth)]
    return b"".join(head % pair for pair in zip(numbers, numbers[1:]))


HEADER = "1024 bytes of a header"
PARTS = "the form has too many parts; valid: at most 100"
FIELDS = "too many fields; valid: at most 100"
CONTAINERS = "objects and lists; valid: at most 1000"
BOUNDARY = "not multipart/form-data: before part 1"
MULTIPART_BODIES = {
    "250,000 parameters": (write_form(write_part(b"q", b"a", b";a=1" * 250_000)), HEADER),
    "20,000 parts": (write_form(write_part(b"q", b"a") * 17_000), PARTS),
    "small parts": (write_form(b"--XX\r\n\r\n\r\n" * 100_000), PARTS),
    "900 parentheses": (
        write_form(write_part(b"q", b"a", b"; " + b"(" * 900)),
        "cannot be read",
    ),
    "900 parentheses in a type": (
        write_form(write_part(b"q", headers=b"Content-Type: text/plain " + b"(" * 900 + b"\r\n")),
        "Content-Type of part 1",
    ),
    "2,000 nested parts": (write_nested(2_000), "not nested"),
    "170,000 headers": (b"--XX\r\n" + b"a: b\r\n" * 170_000, "two headers a"),
    "distinct headers": (
        b"--XX\r\n" + b"".join(b"a%d: b\r\n" % n for n in range(90_000)),
        "8 headers of a part",
    ),
    "a name of 1 MB": (b"--XX\r\n" + b"a" * (MIB - 6), HEADER),
    "spaces in a header": (b"--XX\r\na:" + b" " * (MIB - 8), HEADER),
    "almost a boundary": (b"--XX\r\nA: b\r\n\r\n" + b"\r\n--XXQ" * 140_000, PARTS),
    "dashes before the form": (b"\r\n-" * 349_000, BOUNDARY),
    "1 MiB without a newline": (b"a" * MIB, BOUNDARY),
}
CASES = {
    **{name: Case(MULTIPART, *case) for name, case in MULTIPART_BODIES.items()},
    "parentheses in the request's type": Case(
        MULTIPART + "; " + "(" * 900, write_form(), "Content-Type"
    ),
    "parameters of the request's type": Case(
        MULTIPART + ";a=1" * 15_000, write_form(), "valid: at most 1024"
    ),
    "deep lists": Case(JSON, b"[" * MIB, CONTAINERS),
    "deep objects": Case(JSON, b'{"a":' * 200_000, CONTAINERS),
    "999 deep lists": Case(JSON, b"[" * 999, "not JSON"),
    "many lists": Case(JSON, b'{"q":[' + b"[]," * 340_000 + b"[]]}", CONTAINERS),
    "many objects": Case(JSON, b'{"q":[' + b"{}," * 340_000 + b"{}]}", CONTAINERS),
    "a long number": Case(JSON, b'{"q":' + b"1" * 1_000_000 + b"}", "not JSON"),
    "an open string": Case(JSON, b'"' + b'\\"' * 500_000, "not JSON"),
    "250,000 fields": Case(URLENCODED, b"a=1&" * 250_000, FIELDS),
    "250,000 empty fields": Case(URLENCODED, b"&" * MIB, FIELDS),
}
