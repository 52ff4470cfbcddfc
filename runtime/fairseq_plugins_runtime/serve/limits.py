"""What a request may ask, and how one that asks for more is refused."""

from typing import Dict, NamedTuple, Optional


class Limits(NamedTuple):
    """Bounds of the service; each is an option of ``serve``."""

    max_characters: int = 5000  # of a text
    max_texts: int = 100  # of a request
    max_body: int = 1 << 20  # bytes of a request's body
    max_requests: int = 256  # at once: being read, waiting and in work
    max_seconds: int = 60  # from a request's first byte to its answer
    batch_tokens: int = 1000  # of the lines that are translated together; memory and waiting grow with it


HELP = {
    "max_characters": "characters of a text",
    "max_texts": "texts of a request",
    "max_body": "bytes of a request's body",
    "max_requests": "requests at once: being read, waiting and in work; further ones are answered with 503",
    "max_seconds": "seconds of a request, from its arrival to its answer; then it is answered with 504",
    "batch_tokens": "tokens of the lines that are translated together",
}


class Refused(Exception):
    """A request that is not answered: the HTTP status, and a message for whoever sent it."""

    def __init__(self, status: int, message: str, retry_seconds: Optional[int] = None) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers: Dict[str, str] = {} if retry_seconds is None else {"Retry-After": str(retry_seconds)}
