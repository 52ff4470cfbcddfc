"""LibreTranslate's HTTP interface over one or several models, and the page that uses it."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, List, Sequence, Tuple

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ..model_json import ModelError
from ..translator import Translator
from .asking import LINE_ENDS, Pair, TranslationRequest, check_request, read_fields, split_lines
from .batching import Batcher, Failed, Job, Stopped
from .limits import Limits, Refused
from .names import name

logger = logging.getLogger(__name__)

PAGE = Path(__file__).resolve().parent / "page"
PAGE_FILES = {  # path of a request -> file of the page and its type; no other file is read
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
NOT_OFFERED = {  # of LibreTranslate's interface
    "/detect": "no model here detects languages",
    "/translate_file": "texts only",
    "/suggest": "suggestions are not kept",
}
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
FAILED = "the request failed; the service's log says why"
RETRY_SECONDS = 1
READERS = 1
"""Threads that read and write bodies; more threads would slow the event loop down."""
DISCARDED = 8
"""Multiple of the allowed body that is read and discarded before a refusal.

A client that is still sending would not see the answer.
"""


Handler = Callable[[TranslationRequest], Awaitable[Any]]


class Service:
    """Answers of the service: models by pair, and the queue in front of them.

    Raises:
        ModelError: two models have the same pair.
    """

    def __init__(self, models: Sequence[Translator], limits: Limits) -> None:
        self.limits, self.batcher = limits, Batcher(limits.batch_tokens)
        self.readers = ThreadPoolExecutor(READERS, "readers")
        self.models: Dict[Pair, Translator] = {}
        self.open = 0  # requests at this moment
        for model in models:
            for pair in model.pairs:
                if pair in self.models:
                    raise ModelError(
                        f"two models translate {pair[0]} to {pair[1]}; valid: one model a pair"
                    )
                self.models[pair] = model

    async def answer(self, request: Request, ask: Handler) -> Response:
        """Read a request, check it and answer it within the limits.

        Work that grows with a request runs in a thread of :attr:`readers`, so that the event loop
        continues to answer.

        Args:
            ask: answers a request that was checked.

        Raises:
            Refused: the request is not valid, exceeds a limit, or failed.
        """
        seconds = self.limits.max_seconds
        if self.open >= self.limits.max_requests:
            with suppress(asyncio.TimeoutError, Refused):
                await asyncio.wait_for(read_body(request, self.limits.max_body), seconds)
            raise Refused(503, f"{self.open} requests are waiting; try again later", RETRY_SECONDS)
        self.open += 1
        try:
            return await asyncio.wait_for(self._answer(request, ask), seconds)
        except asyncio.TimeoutError:
            raise Refused(504, f"the request took longer than {seconds} seconds") from None
        except Stopped:
            raise Refused(
                503, "the service is being stopped; try again later", RETRY_SECONDS
            ) from None
        except Failed:
            raise Refused(500, FAILED) from None
        finally:
            self.open -= 1

    async def _answer(self, request: Request, ask: Handler) -> Response:
        """Answer a request; stop the work if its client disconnects."""
        body = await read_body(request, self.limits.max_body)
        content_type = request.headers.get("content-type", "")
        question = await self._run(self._read, content_type, request.scope["query_string"], body)
        answer = asyncio.ensure_future(ask(question))
        disconnect = asyncio.ensure_future(request.receive())
        try:
            await asyncio.wait({answer, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ClientDisconnect
            return await self._run(JSONResponse, answer.result())
        finally:
            answer.cancel()
            disconnect.cancel()

    def _read(self, content_type: str, query: bytes, body: bytes) -> TranslationRequest:
        return check_request(read_fields(content_type, query, body), self.limits, self.models)

    async def _run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run a call in a thread of :attr:`readers` and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self.readers, call, *args)

    async def translation(self, question: TranslationRequest) -> Dict[str, Any]:
        """Answer ``/translate``: translate each line of each text, or refuse the whole request."""
        (source, target), model = question.pair, self.models[question.pair]
        texts, lines, costs = await self._run(self._split, model, question)

        def translate(batch: List[str]) -> List[str]:
            """Translate lines of this pair."""
            return model.translate(batch, source, target)

        job = Job(question.pair, translate, lines, costs)
        translations = await self._work(job) if lines else []
        return {"translatedText": await self._run(self._join, question, texts, translations)}

    async def trace(self, question: TranslationRequest) -> Dict[str, Any]:
        """Answer ``/trace``: the slots of one line, pass by pass."""
        (source, target), model = question.pair, self.models[question.pair]
        if model.kind != "slots":
            raise Refused(400, f"{source} to {target}: this model has no slots")
        if question.is_list or LINE_ENDS.search(question.texts[0]):
            raise Refused(400, "q has several lines; valid: one line")
        _, lines, costs = await self._run(self._split, model, question)

        def trace(batch: List[str]) -> List[List[List[str]]]:
            """Trace lines of this pair."""
            return [model.trace(line, source, target) for line in batch]

        job = Job(("trace", question.pair), trace, lines, costs)
        traces = await self._work(job) if lines else [[]]
        return {"passes": traces[0]}

    async def _work(self, job: Job) -> List[Any]:
        self.batcher.submit(job)
        return await asyncio.wrap_future(job.future)

    @staticmethod
    def _split(
        model: Translator, question: TranslationRequest
    ) -> Tuple[List[List[str]], List[str], List[int]]:
        """Split the texts into lines, and count their tokens.

        Returns:
            The lines of each text; all lines that are not empty, and the tokens of each.

        Raises:
            Refused: the model would cut a line; names its number.
        """
        texts = [split_lines(text) for text in question.texts]
        lines: List[str] = []
        costs: List[int] = []
        longest = model.limits["source_tokens"]
        for number, text in enumerate(texts):
            for place, line in enumerate(text, start=1):
                if not line:
                    continue
                cost = model.count_tokens(line, question.pair[0])
                if cost > longest:
                    text_name = f"q[{number}]" if question.is_list else "q"
                    valid = f"at most {longest} a line"
                    raise Refused(
                        400, f"line {place} of {text_name} has {cost} tokens; valid: {valid}"
                    )
                lines.append(line)
                costs.append(cost)
        return texts, lines, costs

    @staticmethod
    def _join(question: TranslationRequest, texts: List[List[str]], translations: List[str]) -> Any:
        """Put translations in the places of their lines; return a list if ``q`` is a list."""
        lines = iter(translations)
        joined = ["\n".join(next(lines) if line else "" for line in text) for text in texts]
        return question.answer(joined)

    def languages(self) -> List[Dict[str, Any]]:
        """Answer ``/languages``."""
        codes = sorted({code for pair in self.models for code in pair})
        targets = {
            code: sorted(target for source, target in self.models if source == code)
            for code in codes
        }
        return [{"code": code, "name": name(code), "targets": targets[code]} for code in codes]

    def settings(self) -> Dict[str, Any]:
        """Answer ``/frontend/settings``."""
        first = dict(zip(("source", "target"), next(iter(self.models))))
        return {
            "charLimit": self.limits.max_characters,
            "frontendTimeout": 500,
            "apiKeys": False,
            "keyRequired": False,
            "suggestions": False,
            "filesTranslation": False,
            "supportedFilesFormat": [],
            "language": {side: {"code": code, "name": name(code)} for side, code in first.items()},
        }

    def pairs(self) -> Dict[str, Any]:
        """Answer ``/models``, which the page reads."""
        rows = [
            {
                "source": source,
                "target": target,
                "names": [name(source), name(target)],
                "kind": model.kind,
                "precision": model.precision,
            }
            for (source, target), model in self.models.items()
        ]
        return {"models": rows, "limits": self.limits._asdict()}


async def read_body(request: Request, limit: int) -> bytes:
    """Read the body of a request.

    A body that is longer than ``limit`` bytes raises Refused, after up to ``DISCARDED`` times the
    limit was read and discarded.
    """
    refused = Refused(413, f"the body is too long; valid: at most {limit} bytes")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > DISCARDED * limit:
        raise refused
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > DISCARDED * limit:
            break
        if size <= limit:
            chunks.append(chunk)
    if size > limit:
        raise refused
    return b"".join(chunks)


def create_app(service: Service) -> FastAPI:
    """Create the application; the queue of the service runs from its start to its end."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        """Start the queue, and stop it at the end."""
        service.batcher.start()
        yield
        service.batcher.close()
        await asyncio.to_thread(service.batcher.join, service.limits.max_seconds)
        service.readers.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="fairseq_plugins", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.add_api_route("/translate", _asking(service, service.translation), methods=["POST"])
    app.add_api_route("/trace", _asking(service, service.trace), methods=["POST"])
    answers = {
        "/languages": service.languages,
        "/frontend/settings": service.settings,
        "/models": service.pairs,
    }
    for path, call in {**answers, "/health": lambda: {"status": "ok"}}.items():
        app.add_api_route(path, _constant(JSONResponse(call())), methods=["GET"])
    for path, (file, kind) in PAGE_FILES.items():
        page = Response((PAGE / file).read_bytes(), media_type=kind)
        app.add_api_route(path, _constant(page), methods=["GET", "HEAD"])
    for path, reason in NOT_OFFERED.items():
        app.add_api_route(
            path, _constant(_error(501, f"{path} is not offered: {reason}")), methods=["POST"]
        )
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _failed)
    return app


def _asking(service: Service, ask: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Make a route whose requests ``ask`` answers within the limits of the service."""

    async def route(request: Request) -> Response:
        """Answer a request."""
        return await service.answer(request, ask)

    return route


def _constant(response: Response) -> Callable[[], Awaitable[Response]]:
    """Make a route that gives every request the same answer."""

    async def route() -> Response:
        """Return the answer."""
        return response

    return route


def _error(status: int, message: str, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _error(error.status, error.message, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(
        error.status_code, f"{request.method} {request.url.path}: {error.detail}", error.headers
    )


async def _gone(_: Request, error: Exception) -> Response:
    return _error(400, "the client left")  # which nobody reads


async def _failed(_: Request, error: Exception) -> Response:
    return _error(500, FAILED)


class Secured:
    """Add security headers to every answer of an application."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request through the wrapped application, with the headers added."""

        async def sending(message: Any) -> None:
            """Add the headers where an answer starts."""
            if message["type"] == "http.response.start":
                headers: List[Tuple[bytes, bytes]] = list(message.get("headers", ()))
                message = {**message, "headers": [*headers, *HEADERS]}
            await send(message)

        await self.app(scope, receive, sending)
