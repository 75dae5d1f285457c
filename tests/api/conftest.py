"""Live servers for clients that open connections of their own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """An application on a free port of this machine, in a thread; the address without a path."""
    import uvicorn

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=2))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 60
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.started
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(60)


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """Serves applications until the test ends."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda app: stack.enter_context(serving(app))
