"""A proxy that ends TLS on both sides and keeps what passes, to look for what may not."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from threading import Lock, Thread


class RecordingProxy:
    """Stands between nodes and their server, with the server's own certificate.

    Args:
        upstream: Where the server listens.
        keys: The folder with the certificates.
    """

    def __init__(self, upstream, keys):
        self.upstream = upstream
        self.seen = bytearray()
        self._lock = Lock()
        self._inward = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._inward.load_cert_chain(keys / "server.crt", keys / "server.key")
        self._outward = ssl.create_default_context(cafile=keys / "ca.crt")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                way, _ = self._listening.accept()
                Thread(target=self._connect, args=(way,), daemon=True).start()

    def _connect(self, way):
        with suppress(OSError):  # a server that is not there, a node that is gone
            node = self._inward.wrap_socket(way, server_side=True)
            host, _, port = self.upstream.rpartition(":")
            plain = socket.create_connection((host, int(port)))
            server = self._outward.wrap_socket(plain, server_hostname=host)
            Thread(target=self._pump, args=(server, node), daemon=True).start()
            self._pump(node, server)

    def _pump(self, source, target):
        # Each direction of a connection is kept in one piece: a tensor may come in several.
        mine = bytearray()
        with suppress(OSError):
            while part := source.recv(1 << 16):
                mine += part
                target.sendall(part)
        with self._lock:
            self.seen += mine
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listening.close()
