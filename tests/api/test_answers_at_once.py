"""An answer in two parts is sent at once: the second part does not wait until the caller has confirmed the first."""

from __future__ import annotations

import socket

import pytest

from lazaretto.cli.serve import listening


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_connections_of_a_server_send_small_parts_at_once(host: str) -> None:
    with listening(host, 0) as listener, socket.create_connection(listener.getsockname()[:2]):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
