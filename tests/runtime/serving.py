"""Serve translators from this process, by a real uvicorn on a free port of the loopback."""

import contextlib
import threading
import time

from fairseq_plugins_runtime.serve.limits import Limits
from fairseq_plugins_runtime.serve.server import bind, build

SECONDS = 30


@contextlib.contextmanager
def serving(*models, **limits):
    """Yield the server, with its address as ``url``, and stop it at the end."""
    with bind("127.0.0.1", 0) as listener:
        server = build(models, Limits(**limits))
        server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        try:
            yield server
        finally:
            server.should_exit = True
            thread.join(SECONDS)
            assert not thread.is_alive()


def wait_until(condition):
    """Wait for another thread, at most ``SECONDS``."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
