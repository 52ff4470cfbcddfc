"""From the bytes of a request to what it asks: fields as LibreTranslate names them, each checked, or refused by name."""

import email.parser
import email.policy
import json
import re
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple
from urllib.parse import parse_qsl

from .limits import Limits, Refused

Pair = Tuple[str, str]
FIELDS = 100
"""At most so many of a form; they are few, and each costs."""
LINE_ENDS = re.compile("\r\n|\r|\n")
JSON_NAMES = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


class Asked(NamedTuple):
    """A request that was checked."""

    texts: List[str]
    several: bool  # whether q was a list
    pair: Pair

    def answer(self, texts: List[str]) -> Any:
        """As q: a list where q was one."""
        return texts if self.several else texts[0]


def fields(content_type: str, query: bytes, body: bytes) -> Dict[str, Any]:
    """The fields of a request: of its JSON body; or of its query string and its form, as strings.

    Raises Refused: what is neither, not UTF-8, or has a field twice.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _json(_utf8(body, "the body"))
    found = list(_urlencoded(query, "the query string"))
    if kind == "application/x-www-form-urlencoded":
        found += _urlencoded(body, "the body")
    elif kind == "multipart/form-data":
        found += _multipart(content_type, body)
    elif body:
        valid = "application/json, application/x-www-form-urlencoded, multipart/form-data"
        raise Refused(415, f"Content-Type {kind or 'is missing'}; valid: {valid}")
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise Refused(400, f"{name} is given {names.count(name)} times; valid: once, or a list in a JSON body")
    return dict(found)


def asked(given: Dict[str, Any], limits: Limits, pairs: Iterable[Pair]) -> Asked:
    """Check what is asked for. Raises Refused: naming the field."""
    q: Any = given.get("q")
    several = isinstance(q, list)
    texts = q if several else [q]
    if several and len(texts) > limits.max_texts:
        raise Refused(400, f"q has {len(texts)} texts; valid: at most {limits.max_texts}")
    if not texts or (not several and texts[0] in (None, "")):
        raise Refused(400, "q is missing; valid: a text or a list of texts")
    for number, text in enumerate(texts):
        _check_text(f"q[{number}]" if several else "q", text, limits.max_characters)
    _check_options(given)
    return Asked(list(texts), several, _pair(given, list(pairs)))


def lines(text: str) -> List[str]:
    """The lines of a text: what a model takes one by one."""
    return [line.strip() for line in LINE_ENDS.split(text)]


def _check_text(name: str, text: Any, longest: int) -> None:
    if not isinstance(text, str):
        raise Refused(400, f"{name} is {_name(text)}; valid: a text")
    if len(text) > longest:
        raise Refused(400, f"{name} has {len(text)} characters; valid: at most {longest}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused(400, f"{name} is not Unicode text: half a surrogate pair at character {error.start}") from None


def _check_options(given: Dict[str, Any]) -> None:
    wanted = given.get("format")
    if wanted not in (None, "", "text"):
        raise Refused(400, f"format {_shown(wanted)} is not supported; valid: text")
    alternatives = given.get("alternatives")
    if alternatives in (None, ""):
        return
    try:
        number = int(alternatives)
    except (TypeError, ValueError, OverflowError):
        raise Refused(400, f"alternatives is {_shown(alternatives)}; valid: 0") from None
    if number > 0:
        raise Refused(400, "alternatives are not supported: a text has one translation here; valid: 0")


def _pair(given: Dict[str, Any], pairs: Sequence[Pair]) -> Pair:
    for name in ("source", "target"):
        value = given.get(name)
        if value is None or value == "":
            raise Refused(400, f"{name} is missing; valid: the code of a language")
        if not isinstance(value, str):
            raise Refused(400, f"{name} is {_name(value)}; valid: the code of a language")
    pair = (given["source"], given["target"])
    valid = ", ".join("-".join(known) for known in pairs)
    if pair[0] == "auto":
        raise Refused(400, f"source auto is not supported: no model here detects languages; valid pairs: {valid}")
    if pair not in pairs:
        raise Refused(400, f"{_shown(pair[0])} to {_shown(pair[1])} is not supported; valid pairs: {valid}")
    return pair


def _json(text: str) -> Dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refused(400, f"the JSON body is {_name(found)}; valid: an object")
    return found


def _urlencoded(data: bytes, name: str) -> Iterator[Tuple[str, str]]:
    text = _utf8(data, name)
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS)
    except UnicodeDecodeError:
        raise Refused(400, f"{name} is not UTF-8") from None
    except ValueError:
        raise Refused(400, f"{name} has too many fields; valid: at most {FIELDS}") from None
    yield from pairs


def _multipart(content_type: str, body: bytes) -> Iterator[Tuple[str, str]]:
    head = b"Content-Type: " + content_type.encode("latin-1") + b"\r\n\r\n"
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    parts: Any = message.get_payload()
    if not isinstance(parts, list) or not 0 < len(parts) <= FIELDS or message.defects:
        raise Refused(400, "the body is not multipart/form-data")
    for part in parts:
        name = part.get_param("name", header="content-disposition")
        payload = part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(payload, bytes) or part.get_filename() is not None:
            raise Refused(400, "a part of the form is not a field with a name; files are not supported")
        yield name, _utf8(payload, name)


def _utf8(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(400, f"{name} is not UTF-8: byte {error.start}") from None


def _name(value: Any) -> str:
    return JSON_NAMES.get(type(value), "a number")


def _shown(value: Any) -> str:
    """A value of a request, short enough for a message, as JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("ascii", "backslashreplace").decode("ascii")[:40]
