"""Test how requests are read: every way to ask means the same, and refusals name the field."""

import json

import pytest

from fairseq_plugins_runtime.serve.asking import check_request, read_fields, split_lines
from fairseq_plugins_runtime.serve.limits import Limits, Refused
from tests.runtime.hostile import JSON, MULTIPART, URLENCODED, write_form, write_part

PAIRS = [("en", "de"), ("de", "en")]
LIMITS = Limits(max_characters=5, max_texts=3)
LONE = "\ud800"  # half of a surrogate pair, which JSON can carry


def read(body=b"", content_type=JSON, query=b""):
    return check_request(read_fields(content_type, query, body), LIMITS, PAIRS)


def write_json(**changes):
    """Write a request as JSON; fields that are ``...`` are left out."""
    fields = {"q": "a", "source": "en", "target": "de", **changes}
    return json.dumps({name: fields[name] for name in fields if fields[name] is not ...}).encode()


@pytest.mark.cases(
    "body content_type query",
    (write_json(q="ä b"), JSON, b""),
    (
        write_json(q="ä b", format="text", alternatives=0, api_key="x", unknown=[1]),
        "application/json; charset=utf-8",
        b"",
    ),
    (b"q=%C3%A4+b&source=en&target=de&alternatives=0", URLENCODED, b""),
    ("q=ä b&source=en&target=de".encode(), URLENCODED, b""),
    (b"", "", b"q=%C3%A4%20b&source=en&target=de&api_key=x&format=text"),
    (b"q=%C3%A4+b", URLENCODED, b"source=en&target=de"),
    (
        write_form(
            write_part(b"q", "ä b".encode()),
            write_part(b"source", b"en"),
            write_part(b"target", b"de"),
        ),
        MULTIPART,
        b"",
    ),
)
def test_all_ways_to_ask_mean_the_same(body, content_type, query):
    request = read(body, content_type, query)
    assert request == (["ä b"], False, ("en", "de")) and request.answer(["c"]) == "c"


def test_a_list_is_answered_by_a_list():
    request = read(write_json(q=["a", "", "b"]))
    assert request.texts == ["a", "", "b"]
    assert request.answer(["c", "", "d"]) == ["c", "", "d"]
    assert read(write_json(q=["a"])).answer(["c"]) == ["c"]
    assert read(write_json(q=[""])).answer([""]) == [""]


@pytest.mark.cases(
    "words changes",
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
    (["source is missing"], dict(source="")),
    (["target is missing"], dict(target=None)),
    (["target is true or false"], dict(target=True)),
    (["auto", "en-de, de-en"], dict(source="auto")),
    (["fr to de", "en-de, de-en"], dict(source="fr")),
    (["\\ud800 to de"], dict(source=LONE)),
    (["format html", "text"], dict(format="html")),
    (["format 0", "text"], dict(format=0)),
    (["alternatives", "0"], dict(alternatives=3)),
    (["alternatives is many"], dict(alternatives="many")),
    (["alternatives is []"], dict(alternatives=[])),
    (["alternatives is Infinity"], dict(alternatives=float("inf"))),
)
def test_bad_fields_are_refused(words, changes):
    with pytest.raises(Refused) as refusal:
        read(write_json(**changes))
    message = refusal.value.message
    assert refusal.value.status == 400 and all(word in message for word in words), message
    message.encode("utf-8")


@pytest.mark.cases(
    "status words body content_type query",
    (400, "not UTF-8: byte 6", b'{"q":"\xff"}', JSON, b""),
    (400, "the body is not UTF-8", b"q=%ff&source=en&target=de", URLENCODED, b""),
    (400, "the query string is not UTF-8", b"", "", b"q=%ff&source=en&target=de"),
    (400, "not JSON", b"", JSON, b"q=a&source=en&target=de"),
    (400, "1001 objects and lists; valid: at most 1000", b"[" * 1001, JSON, b""),
    (400, "not JSON", b"[" * 1000, JSON, b""),
    (400, "is a list", b"[]", JSON, b""),
    (400, "q is given 2 times", b"q=a&q=b&source=en&target=de", URLENCODED, b""),
    (400, "q is given 2 times", b"q=a", URLENCODED, b"q=b&source=en&target=de"),
    (400, "too many fields", b"&".join(b"a%d=" % n for n in range(101)), URLENCODED, b""),
    (415, "text/plain", b"q=a", "text/plain", b""),
    (415, "Content-Type is missing", b"q=a", "", b""),
)
def test_unreadable_requests_are_refused(status, words, body, content_type, query):
    with pytest.raises(Refused) as refusal:
        read(body, content_type, query)
    assert refusal.value.status == status and words in refusal.value.message


def test_a_text_is_split_at_every_kind_of_line_end():
    assert split_lines("a\r\nb\rc\n\n d ") == ["a", "b", "c", "", "d"]


def test_brackets_within_strings_are_not_counted():
    q = "[{" * 900 + '"\\'
    body = json.dumps({"q": q, "source": "en", "target": "de"}).encode()
    assert read_fields(JSON, b"", body)["q"] == q
