"""Check the answers of the service under load, and time them.

    python -m benchmarks.service_load MODEL TEXT    # an exported folder; sentences, one per line

32 clients, broken and oversized requests among theirs, a kill and a restart in between. Each
answer is compared with what ``translate`` gives for its texts in this process, each refusal with
the status that its defect asks for; a client whose request is interrupted by the kill sees it
fail and asks again.
"""

import argparse
import http.client
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union
from urllib.parse import urlencode

from fairseq_plugins_runtime.folder import Folder
from fairseq_plugins_runtime.translator import Translator

from . import report
from .measure import percentile, process_memory, say
from .report import Column

CLIENTS = 32
LIMITS = {"--max-texts": 20, "--max-characters": 2000, "--max-body": 65536, "--max-seconds": 600}
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
REFUSED_SHARE = 0.25
RETRY_SECONDS = 0.5
PATIENCE_SECONDS = 900.0
PHASES: Dict[str, Optional[int]] = {
    "first": None,
    "kill -9 and restart": signal.SIGKILL,
    "last": None,
}
"""Name of a phase -> signal that ends the service in it."""


class Request(NamedTuple):
    """A request and the expected answer: texts, or the status of a refusal."""

    kind: str
    path: str
    headers: Dict[str, str]
    body: bytes
    status: int
    texts: Optional[Any] = None
    chunked: bool = False


class Answer(NamedTuple):
    """Outcome of a request at its client.

    Attributes:
        request: the request.
        correct: the last answer is the expected one.
        status: status of the last answer.
        failures: names of the failures before it.
        seconds: until the last answer.
    """

    request: Request
    correct: bool
    status: int
    failures: Tuple[str, ...]
    seconds: float


class Service:
    """The service in a process of its own, on the same port after a restart."""

    def __init__(self, model: str) -> None:
        self.model, self.port = model, 0
        self.process: Any = None
        self.start()

    def start(self) -> None:
        """Start the process and wait until it names its address.

        Raises:
            RuntimeError: the process ended.
        """
        command = [sys.executable, "-m", "fairseq_plugins_runtime", "serve", self.model]
        for option, limit in {"--port": self.port, **LIMITS}.items():
            command += [option, str(limit)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if match := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self.port = int(match.group(1))
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise RuntimeError(f"the service ended with status {self.process.wait()}")

    def end(self, number: int) -> None:
        """Send a signal and wait for the end of the process."""
        self.process.send_signal(number)
        self.process.wait(PATIENCE_SECONDS)

    def resident_memory(self) -> float:
        """Read the resident memory, in MB."""
        return process_memory("VmRSS", str(self.process.pid)) / 2**20


# ---- Requests. ----


class RequestMaker:
    """Draws requests with their expected answers.

    Args:
        model: translates the texts in this process.
        lines: sentences.
        seed: of what is drawn.
    """

    def __init__(self, model: Translator, lines: Sequence[str], seed: int):
        self.draw, self.lines = random.Random(seed), list(lines)
        source, target = model.pairs[0]
        self.pair = {"source": source, "target": target}
        self.expected = dict(zip(self.lines, model.translate(self.lines, source, target)))
        self.valid = {
            "query": self._query,
            "form": self._form,
            "list": self._list,
            "lines": self._lines,
        }
        self.invalid: Dict[str, Callable[[str, str], Request]] = {
            "not UTF-8": self._not_utf8,
            "not JSON": self._not_json,
            "wrong type": lambda kind, line: self._json(kind, {"q": [line, 7]}, 400),
            "unknown pair": self._unknown_pair,
            "too long": lambda kind, line: self._json(kind, {"q": "a " * 2000}, 400),
            "too many texts": lambda kind, line: self._json(kind, {"q": [line] * 30}, 400),
            "large body": lambda kind, line: self._large(kind),
            "large body in chunks": lambda kind, line: self._large(kind, chunked=True),
            "no path": lambda kind, line: Request(kind, "/../model.json", {}, b"", 404),
        }

    def make(self, count: int) -> List[Request]:
        """Draw requests; a share of ``REFUSED_SHARE`` has to be refused."""
        return [self._make() for _ in range(count)]

    def _make(self) -> Request:
        if self.draw.random() < REFUSED_SHARE:
            kind = self.draw.choice(list(self.invalid))
            return self.invalid[kind](kind, self.draw.choice(self.lines))
        kind = self.draw.choice(list(self.valid))
        return self.valid[kind](self.draw.sample(self.lines, self.draw.randint(1, 3)))

    def _json(self, kind: str, fields: Dict[str, Any], status: int, texts: Any = None) -> Request:
        body = json.dumps({**self.pair, **fields}).encode()
        return Request(kind, "/translate", JSON, body, status, texts)

    def _list(self, lines: List[str]) -> Request:
        return self._json("list", {"q": lines}, 200, [self.expected[line] for line in lines])

    def _lines(self, lines: List[str]) -> Request:
        texts = "\n".join(self.expected[line] for line in lines)
        return self._json("lines", {"q": "\n".join(lines)}, 200, texts)

    def _fields(self, line: str) -> str:
        return urlencode({"q": line, **self.pair, "api_key": "ignored"})

    def _query(self, lines: List[str]) -> Request:
        path = f"/translate?{self._fields(lines[0])}"
        return Request("query", path, {}, b"", 200, self.expected[lines[0]])

    def _form(self, lines: List[str]) -> Request:
        body = self._fields(lines[0]).encode()
        return Request("form", "/translate", FORM, body, 200, self.expected[lines[0]])

    def _not_utf8(self, kind: str, line: str) -> Request:
        request = self._json(kind, {"q": line}, 400)
        return request._replace(body=request.body.replace(b'"q": "', b'"q": "\xff'))

    def _not_json(self, kind: str, line: str) -> Request:
        request = self._json(kind, {"q": line}, 400)
        return request._replace(body=request.body[: self.draw.randint(1, len(request.body) - 1)])

    def _unknown_pair(self, kind: str, line: str) -> Request:
        pair = {"source": self.pair["target"], "target": self.pair["source"]}
        return self._json(kind, {"q": line, **pair}, 400)

    def _large(self, kind: str, chunked: bool = False) -> Request:
        return Request(kind, "/translate", JSON, b" " * 200000, 413, chunked=chunked)


# ---- Clients. ----


def ask(port: int, request: Request) -> Answer:
    """Send a request until it is answered, after a broken connection or a 503 again."""
    failures: List[str] = []
    start = time.monotonic()
    while True:
        try:
            status, content = send(port, request)
        except (OSError, http.client.HTTPException) as error:
            failures.append(type(error).__name__)
        else:
            if status != 503:
                correct = is_expected(request, status, content)
                return Answer(request, correct, status, tuple(failures), time.monotonic() - start)
            failures.append("503")
        time.sleep(RETRY_SECONDS)


def is_expected(request: Request, status: int, content: Dict[str, Any]) -> bool:
    """Return True for the expected status and texts, with ``error`` in refusals alone."""
    texts = content.get("translatedText")
    has_error = "error" in content
    return status == request.status and texts == request.texts and has_error == (status != 200)


def send(port: int, request: Request) -> Tuple[int, Any]:
    """Send a request once; returns the status and the JSON of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    body: Union[bytes, Iterable[bytes]] = request.body
    if request.chunked:
        body = [request.body[at : at + 4096] for at in range(0, len(request.body), 4096)]
    settings = {"headers": request.headers, "encode_chunked": request.chunked}
    try:
        connection.request("POST", request.path, body, **settings)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def run_phase(
    service: Service,
    requests: Sequence[Request],
    number: Optional[int],
) -> Tuple[List[Answer], float]:
    """Send all requests from all clients.

    Args:
        service: the service.
        requests: in the order in which they are sent.
        number: signal after a third of the answers, followed by a restart; None: no signal.

    Returns:
        The answers, and the seconds until the last one.
    """
    queue, lock = list(reversed(requests)), threading.Lock()
    answers: List[Answer] = []

    def run_client() -> None:
        while True:
            with lock:
                if not queue:
                    return
                request = queue.pop()
            answer = ask(service.port, request)
            with lock:
                answers.append(answer)

    start = time.monotonic()
    clients = [threading.Thread(target=run_client) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    if number is not None:
        while len(answers) < len(requests) // 3:
            time.sleep(0.005)
        service.end(number)
        service.start()
    for client in clients:
        client.join()
    return answers, time.monotonic() - start


# ---- The table. ----


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per phase."""
    text = Path(options.text).read_text(encoding="utf-8")
    lines = sorted({line.strip() for line in text.splitlines() if line.strip()})
    translator, service, rows = Translator(Folder(options.model)), Service(options.model), []
    try:
        for turn, (phase, number) in enumerate(PHASES.items()):
            maker = RequestMaker(translator, lines, options.seed + turn)
            requests = maker.make(options.requests)
            before = service.resident_memory()
            answers, seconds = run_phase(service, requests, number)
            say(f"{phase}: {len(answers)} requests in {seconds:.1f} s")
            summary = {"phase": phase, "requests": len(requests), **summarise(answers, seconds)}
            memory = {"rss_before": before, "rss_after": service.resident_memory()}
            rows.append({**summary, **memory})
    finally:
        service.end(signal.SIGTERM)
    return rows


def summarise(answers: Sequence[Answer], seconds: float) -> Dict[str, Any]:
    """Count answers; times are those of requests that were translated without a failure."""
    waits = [a.seconds for a in answers if a.status == 200 and not a.failures]
    return {
        "answered": len(answers),
        "translated": sum(a.status == 200 for a in answers),
        "refused": dict(Counter(str(a.status) for a in answers if a.status != 200)),
        "wrong": sum(not a.correct for a in answers),
        "wrong_kinds": sorted({a.request.kind for a in answers if not a.correct}),
        "interrupted": sum(bool(a.failures) for a in answers),
        "failures": dict(Counter(name for a in answers for name in a.failures)),
        "per_second": len(answers) / seconds,
        "p50": percentile(waits, 0.5),
        "p95": percentile(waits, 0.95),
    }


def list_counts(counts: Dict[str, int]) -> str:
    """Write counts by name, such as ``3 × 404``."""
    return ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()))


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    columns = [
        Column("phase", "phase"),
        Column("requests", "requests"),
        Column("translated", "translated"),
        Column("refused", lambda row: list_counts(row["refused"])),
        Column("lost", lambda row: row["requests"] - row["answered"]),
        Column("wrong", "wrong"),
        Column("interrupted, asked again, answered", "interrupted"),
        Column("what their clients saw", lambda row: list_counts(row["failures"])),
        Column("requests/s", "per_second", "{:.0f}"),
        Column("ms p50", "p50", "{:.0f}", 1000),
        Column("ms p95", "p95", "{:.0f}", 1000),
        Column("MB before", "rss_before", "{:.0f}"),
        Column("MB after", "rss_after", "{:.0f}"),
    ]
    return report.table(columns, content["results"])


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__)
    text = "a folder that `export --format onnx` wrote"
    parser.add_argument("model", metavar="MODEL", help=text)
    parser.add_argument("text", metavar="TEXT", help="sentences, one per line")
    text = "requests of each phase (default: %(default)s)"
    parser.add_argument("--requests", type=int, default=1000, metavar="N", help=text)
    text = "seed of the requests (default: %(default)s)"
    parser.add_argument("--seed", type=int, default=1, metavar="N", help=text)
    options = parser.parse_args(argv)
    rows, unstored = measure(options), ["model", "text"]
    report.publish("service_load", options, rows, render, unstored, clients=CLIENTS)


if __name__ == "__main__":
    main()
