"""Test requests that try to stop the service: each is refused, and /health goes on answering."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.runtime.hostile import CASES, JSON
from tests.runtime.serving import SECONDS
from tests.runtime.test_serve_command import folder, start_service  # noqa: F401

HEALTH_SECONDS = 0.3
TRIES = 3  # on a machine under load, a wait may have another reason; the best of these counts
TINY_CHUNKS = 300_000


@pytest.fixture(scope="module")
def url(folder):  # noqa: F811
    """Address of a service in another process, which shares no interpreter lock with the test."""
    with start_service(folder, "--port", "0", "--threads", "1") as (_, url):
        yield url


def measure_health(url, request):
    """Run a request in a thread; return its result and the longest wait for /health meanwhile."""
    longest = 0.0
    with (
        httpx.Client(timeout=SECONDS, verify=False) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        client.get(url + "/health")
        result = pool.submit(request)
        while True:
            is_last = result.done()
            start = time.perf_counter()
            assert client.get(url + "/health").json() == {"status": "ok"}
            longest = max(longest, time.perf_counter() - start)
            if is_last:
                return result.result(), longest


def measure_best_health(url, request, check):
    """Repeat a request until /health answers in time; return the shortest of the longest waits."""
    waits = []
    while len(waits) < TRIES and min(waits, default=HEALTH_SECONDS) >= HEALTH_SECONDS:
        answer, wait = measure_health(url, request)
        check(answer)
        waits.append(wait)
    return min(waits)


@pytest.mark.parametrize("name", CASES)
def test_health_answers_beside_a_hostile_body(url, name):
    case = CASES[name]

    def post():
        headers = {"content-type": case.content_type}
        return httpx.post(
            url + "/translate", content=case.body, headers=headers, timeout=SECONDS, verify=False
        )

    def check(answer):
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert case.reason in error and len(error) < 300, error

    assert measure_best_health(url, post, check) < HEALTH_SECONDS


def test_health_answers_beside_a_body_in_tiny_chunks(url):
    address = ("127.0.0.1", int(url.rpartition(":")[2]))
    head = f"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\n"
    head += "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    body = b"1\r\na\r\n" * TINY_CHUNKS + b"0\r\n\r\n"

    def post():
        with socket.create_connection(address, timeout=SECONDS) as connection:
            connection.sendall(head.encode() + body)
            return connection.makefile("rb").read()

    def check(answer):
        assert answer.startswith(b"HTTP/1.1 400") and b"not JSON" in answer

    assert measure_best_health(url, post, check) < HEALTH_SECONDS
