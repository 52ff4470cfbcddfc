"""Test the service on a real socket: LibreTranslate's clients, limits, the page, the end."""

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError

import httpx
import pytest
from deep_translator import LibreTranslator
from libretranslatepy import LibreTranslateAPI

from fairseq_plugins_runtime.serve.limits import Limits
from tests.runtime.fake_translator import FakeTranslator
from tests.runtime.serving import SECONDS, serving, wait_until

# One client for all threads: every new one reads all certificates.
CLIENT = httpx.Client(timeout=SECONDS, verify=False)


@pytest.fixture(scope="module")
def server():
    """A service of two models of two kinds: English to German, and back."""
    models = [FakeTranslator(), FakeTranslator([("de", "en")], kind="encoder_decoder")]
    with serving(*models, max_body=1000) as server:
        yield server


@pytest.fixture
def blocked():
    """A model whose first call waits until ``go`` is set."""
    model = FakeTranslator(is_blocked=True)
    yield model
    model.go.set()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def ask(server, q="a b", path="/translate", **changes):
    fields = {"q": q, "source": "en", "target": "de", **changes}
    return CLIENT.post(server.url + path, json=fields)


def check_error(answer, status, words=""):
    assert answer.status_code == status
    assert list(answer.json()) == ["error"] and words in answer.json()["error"]


def texts(futures):
    return [future.result().json()["translatedText"] for future in futures]


def test_libretranslatepy_translates_and_lists_languages(server):
    client = LibreTranslateAPI(server.url, api_key="ignored")
    assert client.translate("größer & älter", "en", "de") == "de:retlä & reßörg"
    assert client.translate("a\n\nb", "de", "en") == "en:a\n\nen:b"
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    with pytest.raises(HTTPError) as refusal:
        client.detect("a")
    assert refusal.value.code == 501 and "/detect" in json.load(refusal.value)["error"]


def test_deep_translator_translates_texts_and_lists(server):
    url = server.url + "/"
    client = LibreTranslator(source="en", target="de", api_key="ignored", custom_url=url)
    assert client.translate("größer & älter?") == "de:?retlä & reßörg"
    assert client.translate_batch(["a b", "c"]) == ["de:b a", "de:c"]


def test_a_list_keeps_its_order_and_empty_texts_or_is_refused_completely(server):
    translation = ask(server, ["b a", "", "\n \n", "d\r\nc"]).json()
    assert translation == {"translatedText": ["de:a b", "", "\n\n", "de:d\nde:c"]}
    assert ask(server, ["a", " ".join("abcdefghijk")]).status_code == 200
    answer = ask(server, ["a", "b\n" + " ".join("abcdefghijkl"), "c"])
    check_error(answer, 400, "line 2 of q[1] has 13 tokens; valid: at most 12")


def test_a_request_that_makes_the_model_fail_is_no_answer(server):
    check_error(ask(server, ["a", "poison"]), 500)
    assert ask(server, ["a"]).json() == {"translatedText": ["de:a"]}


def test_traces_need_one_line_and_a_model_with_slots(server):
    passes = [["▁a", "▁b"], ["", "▁b"], ["", "▁b"]]
    assert ask(server, "a b", "/trace").json() == {"passes": passes}
    assert ask(server, " ", "/trace").json() == {"passes": []}
    check_error(ask(server, "a\nb", "/trace"), 400, "lines")
    check_error(ask(server, ["a"], "/trace"), 400, "lines")
    check_error(ask(server, "a", "/trace", source="de", target="en"), 400, "slots")


def test_a_long_body_is_refused_whatever_its_headers_say(server):
    body = json.dumps({"q": "a " * 1000, "source": "en", "target": "de"}).encode()
    headers = {"content-type": "application/json"}
    for content in (body, iter([body[:700], body[700:]]), b" " * 20000):
        answer = CLIENT.post(server.url + "/translate", content=content, headers=headers)
        check_error(answer, 413, "1000 bytes")
    assert server.service.open == 0


def test_other_paths_and_methods_are_refused(server):
    for method, path, status in (
        ("GET", "/translate", 405),
        ("GET", "/page/../app.py", 404),
        ("GET", "/%2e%2e/app.py", 404),
        ("GET", "/docs", 404),
        ("GET", "/openapi.json", 404),
        ("POST", "/translate_file", 501),
    ):
        check_error(CLIENT.request(method, server.url + path), status)
    assert CLIENT.get(server.url + "/health").json() == {"status": "ok"}
    settings = CLIENT.get(server.url + "/frontend/settings").json()
    assert settings["charLimit"] == Limits().max_characters


def test_the_page_and_all_it_loads_come_from_the_service(server):
    page = CLIENT.get(server.url + "/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(links) == 3 and "style=" not in page.text and "<style" not in page.text
    for link in links:
        file = CLIENT.get(f"{server.url}/{link}")
        assert file.status_code == 200
        assert not re.search(r"(?<!xmlns=\")https?://|url\(|@import", file.text)
        content_type = file.headers["content-type"].split(";")[0]
        assert content_type in ("text/css", "text/javascript", "image/svg+xml")
    missing = CLIENT.get(server.url + "/none")
    for answer in (page, file, missing, ask(server), ask(server, 7), ask(server, "poison")):
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_waiting_requests_share_a_batch(pool, blocked):
    with serving(blocked) as server:
        first = pool.submit(ask, server, "first")
        assert blocked.entered.wait(SECONDS)
        waiting = [pool.submit(ask, server, f"t{number}") for number in range(4)]
        wait_until(lambda: len(server.service.batcher._jobs) == 5)
        blocked.go.set()
        assert texts([first]) == ["de:tsrif"]
        assert texts(waiting) == ["de:0t", "de:1t", "de:2t", "de:3t"]
    assert blocked.calls[0] == ["first"]
    assert sorted(blocked.calls[1]) == ["t0", "t1", "t2", "t3"]


def test_a_full_queue_refuses_with_a_time_to_retry(pool, blocked):
    with serving(blocked, max_requests=2) as server:
        futures = [pool.submit(ask, server, q) for q in "ab"]
        wait_until(lambda: server.service.open == 2)
        answer = ask(server, "c")
        check_error(answer, 503)
        assert answer.headers["retry-after"] == "1"
        blocked.go.set()
        assert texts(futures) == ["de:a", "de:b"]
        assert ask(server, "c").json() == {"translatedText": "de:c"}


def test_a_request_that_takes_too_long_is_answered_and_dropped(pool, blocked):
    with serving(blocked, max_seconds=1) as server:
        futures = [pool.submit(ask, server, q) for q in "ab"]
        for future in futures:
            check_error(future.result(), 504)
        assert server.service.open == 0
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        with socket.create_connection(address) as slow:
            slow.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nq=")
            assert slow.recv(100).startswith(b"HTTP/1.1 504")
        blocked.go.set()
        assert ask(server, "c").json() == {"translatedText": "de:c"}
    first, last = map(sorted, blocked.calls)
    assert first in (["a"], ["b"], ["a", "b"]) and last == ["c"]


def test_a_request_whose_client_left_is_dropped(pool, blocked):
    with serving(blocked) as server:
        first = pool.submit(ask, server, "first")
        assert blocked.entered.wait(SECONDS)
        fields = {"q": "gone", "source": "en", "target": "de"}
        with pytest.raises(httpx.ReadTimeout):
            CLIENT.post(server.url + "/translate", json=fields, timeout=0.2)
        wait_until(lambda: server.service.open == 1)
        blocked.go.set()
        assert texts([first]) == ["de:tsrif"]
        assert ask(server, "last").status_code == 200
    assert blocked.calls == [["first"], ["last"]]


def test_a_service_that_stops_answers_every_request(pool, blocked):
    with serving(blocked) as server:
        first = pool.submit(ask, server, "first")
        assert blocked.entered.wait(SECONDS)
        waiting = [pool.submit(ask, server, q) for q in "ab"]
        wait_until(lambda: len(server.service.batcher._jobs) == 3)
        server.should_exit = True
        for future in waiting:
            check_error(future.result(), 503)
            assert future.result().headers["retry-after"] == "1"
        assert not first.done()
        blocked.go.set()
    assert texts([first]) == ["de:tsrif"]
    with pytest.raises(httpx.ConnectError):
        ask(server)
