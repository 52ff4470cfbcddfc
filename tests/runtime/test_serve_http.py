"""The service on a real socket: LibreTranslate's clients, limits, the page, the end."""

import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError

import httpx
import pytest
from deep_translator import LibreTranslator
from libretranslatepy import LibreTranslateAPI

from fairseq_plugins_runtime.model_json import ModelError
from fairseq_plugins_runtime.serve.limits import Limits
from fairseq_plugins_runtime.serve.server import build
from tests.runtime.fake_translator import FakeTranslator
from tests.runtime.serving import SECONDS, serving, until

CLIENT = httpx.Client(timeout=SECONDS, verify=False)  # one for all threads; each new one would read all certificates


@pytest.fixture(scope="module")
def server():
    """English and German both ways, by two models of two kinds."""
    with serving(FakeTranslator(), FakeTranslator([("de", "en")], kind="encoder_decoder"), max_body=1000) as server:
        yield server


@pytest.fixture
def held():
    """A model that holds its first call until ``go``."""
    model = FakeTranslator(held=True)
    yield model
    model.go.set()


def ask(server, q="a b", path="/translate", **changes):
    given = {"q": q, "source": "en", "target": "de", **changes}
    return CLIENT.post(server.url + path, json=given)


def later(pool, server, q):
    return pool.submit(ask, server, q)


def test_libretranslatepy(server):
    client = LibreTranslateAPI(server.url, api_key="ignored")
    assert client.translate("größer & älter", "en", "de") == "de:retlä & reßörg"
    assert client.translate("a\n\nb", "de", "en") == "en:a\n\nen:b"
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    with pytest.raises(HTTPError) as refused:
        client.detect("a")
    assert refused.value.code == 501 and "/detect" in json.load(refused.value)["error"]
    with pytest.raises(HTTPError) as refused:
        client.translate("a", "auto", "de")
    assert refused.value.code == 400 and "auto" in json.load(refused.value)["error"]


def test_deep_translator(server):
    client = LibreTranslator(source="en", target="de", api_key="ignored", custom_url=server.url + "/")
    assert client.translate("größer & älter?") == "de:?retlä & reßörg"
    assert client.translate_batch(["a b", "c"]) == ["de:b a", "de:c"]


def test_lists_keep_their_order_and_empty_texts(server):
    assert ask(server, ["b a", "", "\n \n", "d\r\nc"]).json() == {
        "translatedText": ["de:a b", "", "\n\n", "de:d\nde:c"]
    }


def test_a_list_is_answered_whole_or_refused_whole(server):
    long = " ".join("abcdefghijklm")
    answer = ask(server, ["a", f"b\n{long}", "c"])
    assert answer.status_code == 400 and answer.json() == {
        "error": "line 2 of q[1] has 14 tokens; valid: at most 12 a line"
    }


def test_a_failing_model_is_no_answer(server):
    answer = ask(server, ["a", "poison"])
    assert answer.status_code == 500 and list(answer.json()) == ["error"]
    assert ask(server, ["a"]).json() == {"translatedText": ["de:a"]}


def test_traces_are_of_models_with_slots(server):
    assert ask(server, "a b", "/trace").json() == {"passes": [["▁a", "▁b"], ["", "▁b"], ["", "▁b"]]}
    assert ask(server, " ", "/trace").json() == {"passes": []}
    for q, pair, named in (("a\nb", {}, "lines"), (["a"], {}, "lines"), ("a", dict(source="de", target="en"), "slots")):
        refused = ask(server, q, "/trace", **pair)
        assert refused.status_code == 400 and named in refused.json()["error"]


def test_a_long_body_is_refused_whatever_its_headers_say(server):
    body = json.dumps({"q": "a " * 1000, "source": "en", "target": "de"}).encode()
    for content in (body, iter([body[:700], body[700:]]), b" " * 20000):
        answer = CLIENT.post(server.url + "/translate", content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 413 and "1000 bytes" in answer.json()["error"]
    assert server.service.open == 0


def test_other_paths_and_methods(server):
    for method, path, status in (
        ("GET", "/translate", 405),
        ("GET", "/page/../app.py", 404),
        ("GET", "/%2e%2e/app.py", 404),
        ("GET", "/docs", 404),
        ("GET", "/openapi.json", 404),
        ("POST", "/translate_file", 501),
    ):
        answer = CLIENT.request(method, server.url + path)
        assert answer.status_code == status and list(answer.json()) == ["error"], path
    assert CLIENT.get(server.url + "/health").json() == {"status": "ok"}
    assert CLIENT.get(server.url + "/frontend/settings").json()["charLimit"] == Limits().max_characters


def test_the_page_and_all_it_loads_come_from_here(server):
    page = CLIENT.get(server.url + "/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) == 3 and "style=" not in page.text and "<style" not in page.text
    for name in loaded:
        file = CLIENT.get(f"{server.url}/{name}")
        assert file.status_code == 200 and not re.search(r"(?<!xmlns=\")https?://|url\(|@import", file.text)
        assert file.headers["content-type"].split(";")[0] in ("text/css", "text/javascript", "image/svg+xml")
    for answer in (page, file, ask(server), ask(server, 7), CLIENT.get(server.url + "/none"), ask(server, "poison")):
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_requests_share_a_batch(held):
    with serving(held) as server, ThreadPoolExecutor(8) as pool:
        first = later(pool, server, "first")
        assert held.entered.wait(SECONDS)
        others = [later(pool, server, f"t{number}") for number in range(4)]
        until(lambda: len(server.service.batcher._jobs) == 5)
        held.go.set()
        assert [one.result().json()["translatedText"] for one in [first, *others]] == [
            "de:tsrif", "de:0t", "de:1t", "de:2t", "de:3t"
        ]  # fmt: skip
    assert held.calls[0] == ["first"] and sorted(held.calls[1]) == ["t0", "t1", "t2", "t3"]


def test_a_full_queue_says_when_to_come_again(held):
    with serving(held, max_requests=2) as server, ThreadPoolExecutor(4) as pool:
        inside = [later(pool, server, name) for name in "ab"]
        until(lambda: server.service.open == 2)
        refused = ask(server, "c")
        assert refused.status_code == 503 and refused.headers["retry-after"] == "1" and "error" in refused.json()
        held.go.set()
        assert sorted(one.result().json()["translatedText"] for one in inside) == ["de:a", "de:b"]
        assert ask(server, "c").json() == {"translatedText": "de:c"}


def test_a_request_that_takes_too_long_is_told_and_forgotten(held):
    with serving(held, max_seconds=1) as server, ThreadPoolExecutor(4) as pool:
        late = [later(pool, server, name) for name in ("a", "b")]
        assert [one.result().status_code for one in late] == [504, 504] and "error" in late[0].result().json()
        assert server.service.open == 0
        slow = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
        with slow:
            slow.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nq=")
            assert slow.recv(100).startswith(b"HTTP/1.1 504")
        held.go.set()
        assert ask(server, "c").json() == {"translatedText": "de:c"}
    assert [sorted(call) for call in held.calls] in ([["a"], ["c"]], [["b"], ["c"]], [["a", "b"], ["c"]])


def test_a_client_that_leaves_is_forgotten(held):
    with serving(held) as server, ThreadPoolExecutor(2) as pool:
        first = later(pool, server, "first")
        assert held.entered.wait(SECONDS)
        with pytest.raises(httpx.ReadTimeout):
            CLIENT.post(server.url + "/translate", json={"q": "gone", "source": "en", "target": "de"}, timeout=0.2)
        until(lambda: server.service.open == 1)
        held.go.set()
        assert first.result().json() == {"translatedText": "de:tsrif"} and ask(server, "last").status_code == 200
    assert held.calls == [["first"], ["last"]]


def test_the_end_answers_everybody(held):
    with ThreadPoolExecutor(4) as pool:
        with serving(held) as server:
            first = later(pool, server, "first")
            assert held.entered.wait(SECONDS)
            waiting = [later(pool, server, name) for name in "ab"]
            until(lambda: len(server.service.batcher._jobs) == 3)
            server.should_exit = True
            assert [one.result().status_code for one in waiting] == [503, 503]
            assert waiting[0].result().headers["retry-after"] == "1" and not first.done()
            held.go.set()
        assert first.result().json() == {"translatedText": "de:tsrif"}
    with pytest.raises(httpx.ConnectError):
        ask(server)


def test_two_models_of_one_pair():
    with pytest.raises(ModelError, match="en to de"):
        build([FakeTranslator(), FakeTranslator()], Limits())


def test_many_clients_get_each_their_own(server):
    failures = []

    def client(number):
        for turn in range(10):
            q = [f"{number} {turn} {word}" for word in ("a", "b")] if turn % 2 else f"{number} {turn}"
            wanted = [f"de:{text[::-1]}" for text in q] if turn % 2 else f"de:{q[::-1]}"
            if ask(server, q).json() != {"translatedText": wanted}:
                failures.append(q)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(12)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join(SECONDS)
    assert failures == [] and server.service.open == 0
