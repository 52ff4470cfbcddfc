"""Run the service on a socket; requests in work are answered before it ends."""

import asyncio
import logging
import socket
from typing import Any, List, Optional, Sequence

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..translator import Translator
from .app import Secured, Service, create_app
from .limits import Limits

logger = logging.getLogger(__name__)

HEAD_BYTES = 1 << 16
"""Bytes of a request's first line and headers, without the text of a query string."""
READ_BYTES = 4096
"""Bytes read from a connection at a time; the worst take 20 ms of the event loop (680 chunks)."""
QUERY_BYTES = 12
"""Most bytes of a character in a query string: four bytes, each as %XX."""


class Protocol(H11Protocol):
    """Read connections in small pieces, so that no piece keeps the event loop busy for long."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Limit how much is read at a time."""
        super().connection_made(transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]


class Server(uvicorn.Server):
    """Log the address; at the end answer requests in work and refuse waiting ones."""

    def __init__(self, service: Service, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.service = service

    async def startup(self, sockets: Optional[List[socket.socket]] = None) -> None:
        """Listen, and log the address."""
        await super().startup(sockets)
        host, port = (sockets or [])[0].getsockname()[:2]
        pairs = ", ".join("-".join(pair) for pair in self.service.models)
        logger.info("serving %s at http://%s:%d", pairs, f"[{host}]" if ":" in host else host, port)

    async def shutdown(self, sockets: Optional[List[socket.socket]] = None) -> None:
        """Refuse waiting requests, and answer those in work."""
        logger.info("stopping: %d open requests", self.service.open)
        self.service.batcher.close()
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket without listening. Raises OSError if the address is taken or not local."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def build(models: Sequence[Translator], limits: Limits) -> Server:
    """Build the server, whose ``run([socket])`` ends with a signal.

    Raises:
        ModelError: two models have the same pair.
    """
    service = Service(models, limits)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    # A malformed form is answered, not logged.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    settings: Any = dict(
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        http=Protocol,
        loop="asyncio",
    )
    config = uvicorn.Config(
        Secured(create_app(service)),
        **settings,
        h11_max_incomplete_event_size=HEAD_BYTES + QUERY_BYTES * limits.max_characters,
        timeout_graceful_shutdown=limits.max_seconds,
    )
    return Server(service, config)
