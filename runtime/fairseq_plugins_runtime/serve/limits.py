"""Limits of a request, and the error of a request that is refused."""

from typing import Dict, NamedTuple, Optional


class Limits(NamedTuple):
    """Bounds of the service; each is an option of ``serve``."""

    max_characters: int = 5000  # of a text
    max_texts: int = 100  # of a request
    max_body: int = 1 << 20  # bytes of a request's body
    max_requests: int = 256  # open at once: being read, waiting and in work
    max_seconds: int = 60  # from the first byte of a request to its answer
    batch_tokens: int = 1000  # of lines that are translated together; memory and waiting time grow


HELP = {
    "max_characters": "characters of a text",
    "max_texts": "texts of a request",
    "max_body": "bytes of a request's body",
    "max_requests": "requests at once: read, waiting and in work; others are answered with 503",
    "max_seconds": "seconds from the arrival of a request to its answer; later the answer is 504",
    "batch_tokens": "tokens of the lines that are translated together",
}


class Refused(Exception):
    """Raised for a request that is refused; holds the HTTP status and the message of the answer."""

    def __init__(self, status: int, message: str, retry_seconds: Optional[int] = None) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers: Dict[str, str] = (
            {} if retry_seconds is None else {"Retry-After": str(retry_seconds)}
        )
