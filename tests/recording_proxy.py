"""A proxy that ends TLS on both sides and keeps what passes, to look for what may not."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from threading import Thread


class RecordingProxy:
    """Stands between nodes and their server, with the server's own certificate.

    Args:
        upstream: Where the server listens.
        keys: The folder with the certificates.
    """

    def __init__(self, upstream, keys):
        self.upstream = upstream
        self._streams = []  # one for each direction of a connection, so that tensors are whole
        self._inward = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._inward.load_cert_chain(keys / "server.crt", keys / "server.key")
        self._outward = ssl.create_default_context(cafile=keys / "ca.crt")
        self._loop = asyncio.new_event_loop()
        starting = asyncio.start_server(self._connect, "127.0.0.1", 0, ssl=self._inward)
        self._server = self._loop.run_until_complete(starting)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()

    @property
    def seen(self):
        """All that has passed so far, decrypted."""
        return b"\n".join(map(bytes, self._streams))

    async def _connect(self, from_node, to_node):
        host, _, port = self.upstream.rpartition(":")
        try:
            from_server, to_server = await asyncio.open_connection(
                host, int(port), ssl=self._outward
            )
        except OSError:  # the server is not there
            to_node.close()
            return
        await asyncio.gather(self._pump(from_node, to_server), self._pump(from_server, to_node))

    async def _pump(self, source, target):
        mine = bytearray()
        self._streams.append(mine)
        with suppress(OSError):
            while part := await source.read(1 << 16):
                mine += part
                target.write(part)
                await target.drain()
        with suppress(OSError):
            target.close()
            await target.wait_closed()

    def close(self):
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join()
        self._loop.close()

    def _end(self):
        async def end():
            self._server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._loop.stop()

        self._ending = self._loop.create_task(end())
