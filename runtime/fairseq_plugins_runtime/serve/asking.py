"""Read the fields of a request, as LibreTranslate names them, and check each of them."""

import json
import re
from collections import Counter
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from .forms import decode_utf8, read_multipart, read_urlencoded, shorten
from .limits import Limits, Refused

Pair = Tuple[str, str]
LINE_ENDS = re.compile("\r\n|\r|\n")
MAX_JSON_CONTAINERS = 1000
"""Objects and lists of a JSON body: making 350,000 stops all threads for 0.1 seconds."""
JSON_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    type(None): "null",
}


class TranslationRequest(NamedTuple):
    """Fields of a request that was checked."""

    texts: List[str]
    is_list: bool  # True if q was a list
    pair: Pair

    def answer(self, texts: List[str]) -> Any:
        """Return the texts as a list if ``q`` was a list, else the only text."""
        return texts if self.is_list else texts[0]


def read_fields(content_type: str, query: bytes, body: bytes) -> Dict[str, Any]:
    """Read a request's fields: those of its JSON body, or those of its query string and its form.

    Raises Refused if the body is none of these, is not UTF-8, or has a field twice.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _read_json(decode_utf8(body, "the body"))
    pairs = read_urlencoded(query, "the query string")
    if kind == "application/x-www-form-urlencoded":
        pairs += read_urlencoded(body, "the body")
    elif kind == "multipart/form-data":
        pairs += read_multipart(content_type, body)
    elif body:
        valid = "application/json, application/x-www-form-urlencoded, multipart/form-data"
        raise Refused(415, f"Content-Type {shorten(kind) or 'is missing'}; valid: {valid}")
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            valid = "once, or a list in a JSON body"
            raise Refused(400, f"{shorten(name)} is given {count} times; valid: {valid}")
    return dict(pairs)


def check_request(
    values: Dict[str, Any], limits: Limits, pairs: Iterable[Pair]
) -> TranslationRequest:
    """Check the fields of a request. Raises Refused with the name of the field."""
    q: Any = values.get("q")
    is_list = isinstance(q, list)
    texts = q if is_list else [q]
    if is_list and len(texts) > limits.max_texts:
        raise Refused(400, f"q has {len(texts)} texts; valid: at most {limits.max_texts}")
    if not texts or (not is_list and texts[0] in (None, "")):
        raise Refused(400, "q is missing; valid: a text or a list of texts")
    for number, text in enumerate(texts):
        _check_text(f"q[{number}]" if is_list else "q", text, limits.max_characters)
    _check_options(values)
    return TranslationRequest(list(texts), is_list, _pair(values, list(pairs)))


def split_lines(text: str) -> List[str]:
    """Split a text into the lines that a model translates one by one."""
    return [line.strip() for line in LINE_ENDS.split(text)]


def _check_text(name: str, text: Any, longest: int) -> None:
    if not isinstance(text, str):
        raise Refused(400, f"{name} is {_name_type(text)}; valid: a text")
    if len(text) > longest:
        raise Refused(400, f"{name} has {len(text)} characters; valid: at most {longest}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused(
            400, f"{name} is not Unicode text: half a surrogate pair at character {error.start}"
        ) from None


def _check_options(values: Dict[str, Any]) -> None:
    text_format = values.get("format")
    if text_format not in (None, "", "text"):
        raise Refused(400, f"format {_show(text_format)} is not supported; valid: text")
    alternatives = values.get("alternatives")
    if alternatives in (None, ""):
        return
    try:
        number = int(alternatives)
    except (TypeError, ValueError, OverflowError):
        raise Refused(400, f"alternatives is {_show(alternatives)}; valid: 0") from None
    if number > 0:
        raise Refused(
            400, "alternatives are not supported: a text has one translation here; valid: 0"
        )


def _pair(values: Dict[str, Any], pairs: Sequence[Pair]) -> Pair:
    for name in ("source", "target"):
        value = values.get(name)
        if value is None or value == "":
            raise Refused(400, f"{name} is missing; valid: the code of a language")
        if not isinstance(value, str):
            raise Refused(400, f"{name} is {_name_type(value)}; valid: the code of a language")
    pair = (values["source"], values["target"])
    valid = ", ".join("-".join(codes) for codes in pairs)
    if pair[0] == "auto":
        raise Refused(
            400,
            f"source auto is not supported: no model here detects languages; valid pairs: {valid}",
        )
    if pair not in pairs:
        raise Refused(
            400, f"{_show(pair[0])} to {_show(pair[1])} is not supported; valid pairs: {valid}"
        )
    return pair


def _read_json(text: str) -> Dict[str, Any]:
    _check_containers(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refused(400, f"the JSON body is {_name_type(value)}; valid: an object")
    return value


def _check_containers(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_JSON_CONTAINERS:
        return
    # Without escapes, every second piece between quotation marks lies outside of the strings.
    pieces = text.replace("\\\\", "").replace('\\"', "").split('"')[::2]
    count = sum(piece.count("[") + piece.count("{") for piece in pieces)
    if count > MAX_JSON_CONTAINERS:
        message = f"the JSON body has {count} objects and lists"
        raise Refused(400, f"{message}; valid: at most {MAX_JSON_CONTAINERS}")


def _name_type(value: Any) -> str:
    return JSON_NAMES.get(type(value), "a number")


def _show(value: Any) -> str:
    """Return a value of a request as JSON, or its type, short enough for a message."""
    if isinstance(value, (dict, list)) and value:
        return _name_type(value)
    return shorten(value if isinstance(value, str) else json.dumps(value))
