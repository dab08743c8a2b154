"""Gets a file by HTTP/3 with aioquic. Its argument is a JSON object, see Visit in Go; it prints one for each connection."""

import asyncio
import hashlib
import json
import socket
import sys

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.asyncio.client import connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated

o = json.loads(sys.argv[1])


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.headers, self.digest, self.got = {}, hashlib.sha256(), 0
        self.done, self.moved = asyncio.get_running_loop().create_future(), False

    def get(self, path):
        stream = self._quic.get_next_available_stream_id()
        self.http.send_headers(stream, [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", o["name"].encode()),
                                        (b":path", path.encode())], end_stream=True)
        self.transmit()

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated) and not self.done.done():
            self.done.set_exception(RuntimeError(f"the connection ended: {event.error_code:#x} {event.reason_phrase}"))
        for e in self.http.handle_event(event):
            if isinstance(e, HeadersReceived):
                self.headers = {k.decode(): v.decode() for k, v in e.headers}
            elif isinstance(e, DataReceived):
                self.digest.update(e.data)
                self.got += len(e.data)
                if o["migrate"] and self.got > 1 << 20 and not self.moved:
                    self.moved = True
                    asyncio.ensure_future(self.migrate())
            if getattr(e, "stream_ended", False) and not self.done.done():
                self.done.set_result(None)

    async def migrate(self):
        """Continues from another address, with another of the ids that the server has announced."""
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((o["migrate"] if ":" in o["migrate"] else "::ffff:" + o["migrate"], 0, 0, 0))
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=sock)  # its transport is used from now on
        self.change_connection_id()


async def visit(ticket, early):
    tickets = []
    c = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name=o["name"], cafile=o["authorities"], session_ticket=ticket)
    c.max_data = c.max_stream_data = 8 << 20
    c.supported_versions = [o["version"]]
    c.original_version = o["version"]
    async with connect(o["host"], o["port"], configuration=c, create_protocol=Client, session_ticket_handler=tickets.append,
                       wait_connected=not early) as client:
        client.get(o["path"])
        await asyncio.wait_for(client.done, o["seconds"])
        for _ in range(20):
            if tickets or not o["again"]:
                break
            await asyncio.sleep(0.05)
        h, tls = client.headers, client._quic.tls
        print(json.dumps({
            "status": int(h.get(":status", 0)), "surrogate": h.get(o["header"].lower(), ""), "bytes": client.got, "digest": client.digest.hexdigest(),
            "version": client._quic._version, "resumed": tls.session_resumed, "early": tls.early_data_accepted, "migrated": client.moved,
        }), flush=True)
    return tickets[0] if tickets else None


async def main():
    ticket = await visit(None, False)
    if o["again"]:
        if ticket is None:
            sys.exit("the server gave no ticket")
        await visit(ticket, o["early"])


asyncio.run(asyncio.wait_for(main(), 2 * o["seconds"]))
