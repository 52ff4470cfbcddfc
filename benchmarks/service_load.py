"""The service under load: 32 clients, broken and oversized requests among theirs, a kill and a restart in between.

Every answer is compared with what ``translate`` gives for its texts in this process; every refused request has the status that its
defect asks for; every request that a kill interrupts is seen to fail by its client, which asks again.

    python -m benchmarks.service_load MODEL TEXT    # an exported folder; sentences, one per line
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
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union
from urllib.parse import urlencode

import torch

from fairseq_plugins_runtime.folder import Folder
from fairseq_plugins_runtime.translator import Translator

from . import report
from .measure import percentile, say

CLIENTS = 32
LIMITS = {"--max-texts": 20, "--max-characters": 2000, "--max-body": 65536, "--max-seconds": 600}
JSON, FORM = {"Content-Type": "application/json"}, {"Content-Type": "application/x-www-form-urlencoded"}
RETRY_SECONDS = 0.5
PATIENCE_SECONDS = 900.0
PHASES: Dict[str, Optional[int]] = {
    "first": None,
    "kill -9 and restart": signal.SIGKILL,
    "last": None,
}
Body = Union[bytes, Iterable[bytes]]


class Request(NamedTuple):
    """What a client sends, and what has to come back: texts, or the status of a refusal."""

    kind: str
    path: str
    headers: Dict[str, str]
    body: bytes
    status: int
    texts: Optional[Any] = None
    chunked: bool = False


class Seen(NamedTuple):
    """What became of a request: its last answer, the failures before it by name, seconds until the answer."""

    request: Request
    right: bool
    status: int
    failures: Tuple[str, ...]
    seconds: float


class Process:
    """The service in a process of its own, always on the same port once it has one."""

    def __init__(self, model: str) -> None:
        self.model, self.port = model, 0
        self.process: Any = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it says where it listens."""
        options = [str(word) for pair in LIMITS.items() for word in pair]
        command = [
            sys.executable,
            "-m",
            "fairseq_plugins_runtime",
            "serve",
            self.model,
            "--port",
            str(self.port),
            *options,
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found.group(1))
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise RuntimeError(f"the service ended with status {self.process.wait()}")

    def end(self, number: int) -> None:
        """Send a signal and wait for the end."""
        self.process.send_signal(number)
        self.process.wait(PATIENCE_SECONDS)

    def resident(self) -> float:
        """Resident memory, MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.findall(r"^VmRSS:\s+(\d+) kB", text, re.MULTILINE)[0]) / 1024


def requests(model: Translator, lines: Sequence[str], count: int, seed: int) -> List[Request]:
    """Drawn requests: one in four is one that has to be refused."""
    draw = random.Random(seed)
    source, target = model.pairs[0]
    expected = dict(zip(lines, model.translate(lines, source, target)))
    pair = {"source": source, "target": target}

    def translated(kind: str) -> Request:
        some = draw.sample(list(lines), draw.randint(1, 3))
        if kind == "list":
            return _json(kind, {"q": some, **pair}, 200, [expected[line] for line in some])
        if kind == "lines":
            return _json(kind, {"q": "\n".join(some), **pair}, 200, "\n".join(expected[line] for line in some))
        query = urlencode({"q": some[0], **pair, "api_key": "ignored"})
        if kind == "query":
            return Request(kind, f"/translate?{query}", {}, b"", 200, expected[some[0]])
        return Request(kind, "/translate", FORM, query.encode(), 200, expected[some[0]])

    def refused(kind: str) -> Request:
        line = draw.choice(lines)
        good = json.dumps({"q": line, **pair}).encode()
        return {
            "not UTF-8": Request(kind, "/translate", JSON, good.replace(b'"q": "', b'"q": "\xff'), 400),
            "not JSON": Request(kind, "/translate", JSON, good[: draw.randint(1, len(good) - 1)], 400),
            "wrong type": _json(kind, {"q": [line, 7], **pair}, 400),
            "unknown pair": _json(kind, {"q": line, "source": target, "target": source}, 400),
            "too long": _json(kind, {"q": "a " * 2000, **pair}, 400),
            "too many texts": _json(kind, {"q": [line] * 30, **pair}, 400),
            "large body": Request(kind, "/translate", JSON, b" " * 200000, 413),
            "large body in chunks": Request(kind, "/translate", JSON, b" " * 200000, 413, chunked=True),
            "no path": Request(kind, "/../model.json", {}, b"", 404),
        }[kind]

    good_kinds = ("query", "form", "list", "lines")
    bad_kinds = ("not UTF-8", "not JSON", "wrong type", "unknown pair", "too long", "too many texts", "large body")
    bad_kinds += ("large body in chunks", "no path")
    drawn = [
        refused(draw.choice(bad_kinds)) if draw.random() < 0.25 else translated(draw.choice(good_kinds))
        for _ in range(count)
    ]
    return drawn


def _json(kind: str, content: Dict[str, Any], status: int, texts: Optional[Any] = None) -> Request:
    return Request(kind, "/translate", JSON, json.dumps(content).encode(), status, texts)


def ask(port: int, request: Request) -> Seen:
    """Send a request until it is answered: again after a broken connection or a 503."""
    failures, start = [], time.monotonic()
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        try:
            body: Body = request.body
            if request.chunked:
                body = [request.body[at : at + 4096] for at in range(0, len(request.body), 4096)]
            connection.request("POST", request.path, body, request.headers, encode_chunked=request.chunked)
            answer = connection.getresponse()
            content, status = json.loads(answer.read()), answer.status
        except (OSError, http.client.HTTPException) as error:
            failures.append(type(error).__name__)
        else:
            if status != 503:
                right = status == request.status and content.get("translatedText") == request.texts
                right = right and (status == 200) != ("error" in content)
                return Seen(request, right, status, tuple(failures), time.monotonic() - start)
            failures.append("503")
        finally:
            connection.close()
        time.sleep(RETRY_SECONDS)


def phase(service: Process, asked: Sequence[Request], number: Optional[int]) -> Tuple[List[Seen], float]:
    """All requests from all clients; with a signal and a restart after a third of them. Returns what was seen, and seconds."""
    queue, seen, lock = list(reversed(asked)), [], threading.Lock()  # type: ignore[var-annotated]

    def client() -> None:
        while True:
            with lock:
                if not queue:
                    return
                request = queue.pop()
            found = ask(service.port, request)
            with lock:
                seen.append(found)

    start = time.monotonic()
    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in clients:
        thread.start()
    if number is not None:
        while len(seen) < len(asked) // 3:
            time.sleep(0.005)
        service.end(number)
        service.start()
    for thread in clients:
        thread.join()
    return seen, time.monotonic() - start


def measure(model: str, text: str, count: int, seed: int) -> List[Dict[str, Any]]:
    """One row a phase."""
    lines = sorted({line.strip() for line in Path(text).read_text(encoding="utf-8").splitlines() if line.strip()})
    translator, service, rows = Translator(Folder(model)), Process(model), []
    try:
        for turn, (name, number) in enumerate(PHASES.items()):
            asked = requests(translator, lines, count, seed + turn)
            before = service.resident()
            seen, seconds = phase(service, asked, number)
            say(f"{name}: {len(seen)} requests in {seconds:.1f} s")
            rows.append(
                {"phase": name, **summary(seen, asked, seconds), "rss_before": before, "rss_after": service.resident()}
            )
    finally:
        service.end(signal.SIGTERM)
    return rows


def summary(seen: Sequence[Seen], asked: Sequence[Request], seconds: float) -> Dict[str, Any]:
    """Counts, and seconds of those requests that were translated at once."""
    waits = [one.seconds for one in seen if one.status == 200 and not one.failures]
    wrong = sorted({one.request.kind for one in seen if not one.right})
    return {
        "requests": len(asked),
        "answered": len(seen),
        "translated": sum(one.status == 200 for one in seen),
        "refused": dict(Counter(str(one.status) for one in seen if one.status != 200)),
        "wrong": sum(not one.right for one in seen),
        "wrong_kinds": wrong,
        "interrupted": sum(bool(one.failures) for one in seen),
        "failures": dict(Counter(name for one in seen for name in one.failures)),
        "per_second": len(seen) / seconds,
        "p50": percentile(waits, 0.5),
        "p95": percentile(waits, 0.95),
    }


def render(content: Dict[str, Any]) -> str:
    """The table of a results file."""
    columns = ["phase", "requests", "translated", "refused", "lost", "wrong", "interrupted, asked again, answered"]
    columns += ["what their clients saw", "requests/s", "ms p50", "ms p95", "MB before", "MB after"]
    rows = []
    for row in content["results"]:
        named = [
            ", ".join(f"{count} × {name}" for name, count in sorted(row[part].items()))
            for part in ("refused", "failures")
        ]
        counts = [
            row["requests"],
            row["translated"],
            named[0],
            row["requests"] - row["answered"],
            row["wrong"],
            row["interrupted"],
        ]
        times = [f"{row['per_second']:.0f}", *(f"{1000 * row[name]:.0f}" for name in ("p50", "p95"))]
        rows.append(
            [row["phase"], *counts, named[1], *times, *(f"{row[name]:.0f}" for name in ("rss_before", "rss_after"))]
        )
    return report.table(columns, rows)


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run every phase, print the table, write the JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.service_load", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("model", metavar="MODEL", help="a folder that `export --format onnx` wrote")
    parser.add_argument("text", metavar="TEXT", help="sentences, one per line")
    parser.add_argument("--requests", type=int, default=1000, metavar="N", help="of each phase; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    args = parser.parse_args(argv)
    rows = measure(args.model, args.text, args.requests, args.seed)
    options = {"requests": args.requests, "clients": CLIENTS, "seed": args.seed}
    path = report.write("service_load", torch.device("cpu"), options, rows)
    sys.stdout.write(f"{render(json.loads(path.read_text(encoding='utf-8')))}\n\nwritten to {path.name}\n")


if __name__ == "__main__":
    main()
