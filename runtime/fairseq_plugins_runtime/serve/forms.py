"""Read forms, urlencoded and multipart, within limits that act while they are read.

A body is untrusted: the time that it takes grows with its length alone, and nothing recurses.
"""

import re
from typing import Any, Dict, List, Tuple, Union
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from .limits import Refused

Field = Tuple[str, str]  # name, value

MAX_FIELDS = 100
"""Fields of a form."""
MAX_HEADERS = 8
"""Headers of a part."""
MAX_HEADER_BYTES = 1024
"""Bytes of a header of a part, and of the request's Content-Type."""
MAX_BOUNDARY = 70
"""Characters of a boundary (RFC 2046, section 5.1.1)."""

VALID_FORM = (
    f"RFC 7578, at most {MAX_FIELDS} parts, {MAX_HEADERS} headers of a part and "
    f"{MAX_HEADER_BYTES} bytes of a header"
)
TOKEN = r"[\w!#$%&'*+.^`|~-]+"
VALUE = re.compile(rf"[ \t]*(?:{TOKEN}(?:/{TOKEN})?)?[ \t]*", re.ASCII)
PARAMETER = re.compile(
    rf'[ \t]*;[ \t]*({TOKEN})=(?:"((?:[^"\\]|\\.)*)"|([^"\\; \t]+))', re.ASCII | re.DOTALL
)
PLAIN_ENCODINGS = ("", "7bit", "8bit", "binary")
PLAIN_CHARSETS = ("", "utf-8", "utf8", "us-ascii", "ascii")


def decode_utf8(data: Union[bytes, bytearray], name: str) -> str:
    """Decode bytes. Raises Refused with the name and the place if they are not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(400, f"{name} is not UTF-8: byte {error.start}") from None


def shorten(text: str) -> str:
    """Cut a text of a request to 40 characters of ASCII, for a message."""
    return text[:40].encode("ascii", "backslashreplace").decode("ascii")[:40]


def read_urlencoded(data: bytes, name: str) -> List[Field]:
    """Read the fields of a query string or an urlencoded body.

    Raises Refused with the name if the data are not UTF-8 or hold too many fields.
    """
    text = decode_utf8(data, name)
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError:
        raise Refused(400, f"{name} is not UTF-8") from None
    except ValueError:
        raise Refused(400, f"{name} has too many fields; valid: at most {MAX_FIELDS}") from None


def read_multipart(content_type: str, body: bytes) -> List[Field]:
    """Read the fields of a multipart/form-data body.

    Raises Refused with the number of the part if the body is not such a form, is cut off, exceeds
    a limit, or holds a file, a nested part, another charset than UTF-8 or a transfer encoding.
    """
    boundary = read_boundary(content_type)
    form = MultipartForm()
    # One delimiter more than parts ends the form. RFC 2046 forbids further ones in the values.
    if body.count(b"\r\n--" + boundary) > MAX_FIELDS + 1:
        raise form.refuse_count()
    parser = MultipartParser(
        boundary,
        form.callbacks(),
        max_header_count=MAX_HEADERS,
        max_header_size=MAX_HEADER_BYTES,
    )
    try:
        parser.write(body)
    except FormParserError as error:
        message = f"the body is not multipart/form-data: {form.place}: {error}"
        raise Refused(400, f"{message}; valid: {VALID_FORM}") from None
    if not form.is_complete:
        message = f"the body is not multipart/form-data: {form.place}: it is cut off"
        raise Refused(400, f"{message}; valid: the last boundary at the end")
    return form.fields


def read_boundary(content_type: str) -> bytes:
    """Read the boundary of a request's Content-Type; Refused if it is missing or too long."""
    if len(content_type) > MAX_HEADER_BYTES:
        length = len(content_type)
        raise Refused(400, f"Content-Type has {length} bytes; valid: at most {MAX_HEADER_BYTES}")
    _, parameters = parse_header("Content-Type", content_type)
    boundary = parameters.get("boundary", "").encode("latin-1")
    if not 1 <= len(boundary) <= MAX_BOUNDARY:
        message = "the body is not multipart/form-data: the boundary in Content-Type has"
        raise Refused(400, f"{message} {len(boundary)} characters; valid: 1 to {MAX_BOUNDARY}")
    return boundary


def parse_header(name: str, text: str) -> Tuple[str, Dict[str, str]]:
    """Split ``form-data; name="q"`` into its value and its parameters, both names in lower case.

    Args:
        name: name of the header, for messages.
        text: at most MAX_HEADER_BYTES characters.

    Raises Refused with the name of the header if it is malformed or has a parameter twice.
    """
    value = text.partition(";")[0]
    if not VALUE.fullmatch(value):
        raise Refused(
            400, f"{name} is {shorten(value)}; valid: one name or type, without a comment"
        )
    parameters: Dict[str, str] = {}
    position, end = len(value), len(text.rstrip("; \t"))
    while position < end:
        match = PARAMETER.match(text, position)
        if match is None:
            message = f"{name} cannot be read at character {position}"
            raise Refused(400, f'{message}; valid: parameters of the form name="value" after ;')
        key, quoted, token = match.groups()
        if key.lower() in parameters:
            raise Refused(400, f"{name} has {shorten(key)} twice; valid: once")
        parameters[key.lower()] = token if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = match.end()
    return value.strip().lower(), parameters


class MultipartForm:
    """Collect the fields of a form from the events of a MultipartParser.

    Attributes:
        fields: name and value of each part that is complete.
        number: number of the part being read, from 1; 0 before the first.
        is_complete: True after the last boundary.
    """

    def __init__(self) -> None:
        self.fields: List[Field] = []
        self.number = 0
        self.is_complete = False
        self._headers: Dict[str, str] = {}
        self._header_name, self._header_value, self._value = bytearray(), bytearray(), bytearray()
        self._field_name = ""

    def callbacks(self) -> Any:
        """Return the table of callbacks that the parser calls."""
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": self._collect(self._header_name),
            "on_header_value": self._collect(self._header_value),
            "on_header_end": self._end_header,
            "on_headers_finished": self._check_headers,
            "on_part_data": self._collect(self._value),
            "on_part_end": self._end_part,
            "on_end": self._end,
        }

    @property
    def place(self) -> str:
        """Return where the parser is, for messages."""
        return f"in part {self.number}" if self.number else "before part 1"

    @staticmethod
    def refuse_count() -> Refused:
        """Return the refusal of a form with too many parts."""
        return Refused(400, f"the form has too many parts; valid: at most {MAX_FIELDS}")

    @staticmethod
    def _collect(buffer: bytearray) -> Any:
        def append(data: bytes, start: int, end: int) -> None:
            """Append a part of the data to the buffer."""
            buffer.extend(memoryview(data)[start:end])

        return append

    def _begin_part(self) -> None:
        if self.number == MAX_FIELDS:
            raise self.refuse_count()
        self.number += 1
        self._headers = {}

    def _end_header(self) -> None:
        name = self._header_name.decode("ascii").lower()  # the parser lets tokens through only
        if name in self._headers:
            message = f"part {self.number} of the form has two headers {shorten(name)}"
            raise Refused(400, f"{message}; valid: one")
        value = decode_utf8(self._header_value, f"a header of part {self.number} of the form")
        self._headers[name] = value.strip(" \t")
        self._header_name.clear()
        self._header_value.clear()

    def _check_headers(self) -> None:
        part = f"part {self.number} of the form"
        kind, parameters = self._parse("content-type")
        if kind.startswith("multipart/"):
            raise Refused(400, f"{part} is {shorten(kind)}; valid: a field, parts are not nested")
        charset = parameters.get("charset", "")
        if charset.lower() not in PLAIN_CHARSETS:
            raise Refused(400, f"{part} has the charset {shorten(charset)}; valid: utf-8")
        kind, parameters = self._parse("content-disposition")
        name = parameters.get("name")
        if any(key.startswith("filename") for key in parameters):
            raise Refused(400, f"{part} is a file; valid: a field, files are not supported")
        if "name*" in parameters:
            raise Refused(400, f'{part} has a name of RFC 5987, name*; valid: name="…", in UTF-8')
        if kind != "form-data" or name is None:
            message = f"{part} is not a field with a name"
            raise Refused(400, f'{message}; valid: Content-Disposition: form-data; name="…"')
        encoding = self._headers.get("content-transfer-encoding", "")
        if encoding.lower() not in PLAIN_ENCODINGS:
            message = f"{part} has the transfer encoding {shorten(encoding)}"
            raise Refused(400, f"{message}; valid: none, 8bit or binary")
        self._field_name = name

    def _parse(self, header: str) -> Tuple[str, Dict[str, str]]:
        title = f"{header.title()} of part {self.number} of the form"
        return parse_header(title, self._headers.get(header, ""))

    def _end_part(self) -> None:
        value = decode_utf8(self._value, shorten(self._field_name))
        if self._field_name == "_charset_" and value.strip().lower() not in PLAIN_CHARSETS:
            raise Refused(400, f"_charset_ is {shorten(value)}; valid: utf-8")
        self.fields.append((self._field_name, value))
        self._value.clear()

    def _end(self) -> None:
        self.is_complete = True
