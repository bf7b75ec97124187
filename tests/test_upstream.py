"""The upstream of the tests leaves nothing behind."""

import gc
import socket

import pytest

from tests.upstream import Script, Upstream

REQUEST = b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n"
MORE_THAN_THE_KERNEL_TAKES = bytes(50_000_000)


@pytest.mark.slow  # in a worker that has run many others, to look for garbage
def test_a_connection_whose_peer_reads_nothing_is_closed_with_the_upstream(recwarn):
    with socket.socket() as peer:
        with Upstream() as upstream:
            upstream.otherwise = Script((b"HTTP/1.1 200 OK\r\n\r\n", MORE_THAN_THE_KERNEL_TAKES))
            peer.connect(("127.0.0.1", upstream.port))
            peer.sendall(REQUEST)
            assert peer.recv(4) == b"HTTP"
        gc.collect()
