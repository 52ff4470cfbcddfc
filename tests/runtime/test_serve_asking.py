"""From the bytes of a request to what it asks, or a refusal that names the field."""

import json

import pytest

from fairseq_plugins_runtime.serve.asking import check_request, read_fields, split_lines
from fairseq_plugins_runtime.serve.limits import Limits, Refused

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
PAIRS = [("en", "de"), ("de", "en")]
LIMITS = Limits(max_characters=5, max_texts=3)
LONE = "\ud800"  # half of a surrogate pair, which JSON can carry


def read(body=b"", kind=JSON, query=b""):
    return check_request(read_fields(kind, query, body), LIMITS, PAIRS)


def as_json(**changes):
    given = {"q": "a", "source": "en", "target": "de", **changes}
    return json.dumps({name: value for name, value in given.items() if value is not ...}).encode()


def multipart(*parts):
    body = "".join(f'--XX\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in parts)
    return (body + "--XX--\r\n").encode()


@pytest.mark.cases(
    "body kind query",
    (as_json(q="ä b"), JSON, b""),
    (as_json(q="ä b", format="text", alternatives=0, api_key="x", unknown=[1]), "application/json; charset=utf-8", b""),
    (b"q=%C3%A4+b&source=en&target=de&alternatives=0", FORM, b""),
    ("q=ä b&source=en&target=de".encode(), FORM, b""),
    (b"", "", b"q=%C3%A4%20b&source=en&target=de&api_key=x&format=text"),
    (b"q=%C3%A4+b", FORM, b"source=en&target=de"),
    (multipart(("q", "ä b"), ("source", "en"), ("target", "de")), "multipart/form-data; boundary=XX", b""),
)
def test_the_ways_to_ask_mean_the_same(body, kind, query):
    what = read(body, kind, query)
    assert what == (["ä b"], False, ("en", "de")) and what.answer(["c"]) == "c"


def test_a_list_is_answered_by_a_list():
    what = read(as_json(q=["a", "", "b"]))
    assert what.texts == ["a", "", "b"] and what.answer(["c", "", "d"]) == ["c", "", "d"]
    assert read(as_json(q=["a"])).answer(["c"]) == ["c"] and read(as_json(q=[""])).answer([""]) == [""]


@pytest.mark.cases(
    "names changes",
    (["q is missing"], dict(q=...)),
    (["q is missing"], dict(q=None)),
    (["q is missing"], dict(q="")),
    (["q is missing"], dict(q=[])),
    (["q is a number"], dict(q=7)),
    (["q is an object"], dict(q={"a": 1})),
    (["q[1] is null"], dict(q=["a", None])),
    (["q[1] is a list"], dict(q=["a", ["b"]])),
    (["q has 6 characters", "5"], dict(q="aäaäaä")),
    (["q[2] has 6 characters"], dict(q=["a", "b", "aäaäaä"])),
    (["q has 4 texts", "3"], dict(q=["a"] * 4)),
    (["q[1]", "surrogate", "character 1"], dict(q=["a", "b" + LONE])),
    (["source is missing"], dict(source=...)),
    (["source is missing"], dict(source="")),
    (["target is missing"], dict(target=None)),
    (["target is true or false"], dict(target=True)),
    (["auto", "detects", "en-de, de-en"], dict(source="auto")),
    (["fr to de", "en-de, de-en"], dict(source="fr")),
    (["en to en", "en-de, de-en"], dict(target="en")),
    (["\\ud800 to de"], dict(source=LONE)),
    (["format html", "text"], dict(format="html")),
    (["format 0", "text"], dict(format=0)),
    (["alternatives", "0"], dict(alternatives=3)),
    (["alternatives is many"], dict(alternatives="many")),
    (["alternatives is []"], dict(alternatives=[])),
    (["alternatives is Infinity"], dict(alternatives=float("inf"))),
)
def test_what_cannot_be_answered_is_named(names, changes):
    with pytest.raises(Refused) as refused:
        read(as_json(**changes))
    assert refused.value.status == 400 and all(name in refused.value.message for name in names), refused.value.message
    refused.value.message.encode("utf-8")


@pytest.mark.cases(
    "status name body kind query",
    (400, "not UTF-8: byte 6", b'{"q":"\xff"}', JSON, b""),
    (400, "the body is not UTF-8", b"q=%ff&source=en&target=de", FORM, b""),
    (400, "the query string is not UTF-8", b"", "", b"q=%ff&source=en&target=de"),
    (
        400,
        "q is not UTF-8",
        multipart(("q", "a")).replace(b"\na\r", b"\n\xff\r"),
        "multipart/form-data; boundary=XX",
        b"",
    ),
    (400, "not JSON", b'{"q": ', JSON, b""),
    (400, "not JSON", b"", JSON, b"q=a&source=en&target=de"),
    (400, "200000 objects and lists; valid: at most 1000", b"[" * 200000, JSON, b""),
    (400, "not JSON", b"[" * 999, JSON, b""),
    (400, "objects and lists", b'{"q":[' + b"[]," * 1000 + b"[]]}", JSON, b""),
    (400, "not JSON", b"1" * 5000, JSON, b""),
    (400, "is a list", b"[]", JSON, b""),
    (400, "q is given 2 times", b"q=a&q=b&source=en&target=de", FORM, b""),
    (400, "q is given 2 times", b"q=a", FORM, b"q=b&source=en&target=de"),
    (400, "too many fields", b"&".join(b"a%d=" % n for n in range(200)), FORM, b""),
    (400, "not multipart", b"q=a", "multipart/form-data; boundary=XX", b""),
    (400, "not multipart", b"q=a", "multipart/form-data", b""),
    (
        400,
        "files",
        multipart(("q", "a")).replace(b'"q"', b'"q"; filename="a"'),
        "multipart/form-data; boundary=XX",
        b"",
    ),
    (415, "text/plain", b"q=a", "text/plain", b""),
    (415, "Content-Type is missing", b"q=a", "", b""),
)
def test_what_cannot_be_read_is_named(status, name, body, kind, query):
    with pytest.raises(Refused) as refused:
        read(body, kind, query)
    assert refused.value.status == status and name in refused.value.message


def test_lines_of_a_text():
    assert split_lines("a\r\nb\rc\n\n d ") == ["a", "b", "c", "", "d"]


def test_brackets_within_strings_are_text():
    body = json.dumps({"q": "[{" * 900 + '"\\', "source": "en", "target": "de"}).encode()
    assert read_fields(JSON, b"", body)["q"] == "[{" * 900 + '"\\'
