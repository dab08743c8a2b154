"""Serves files by HTTP/3 with aioquic, on several ports with options of their own. Its argument is a JSON object, see Aioquic in Go."""

import asyncio
import json
import os
import sys

import aioquic
import aioquic.quic.connection
from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated
from aioquic.quic.packet import QuicProtocolVersion

options = json.loads(sys.argv[1])
NAMED = 12  # bytes of connection ids that name the server; others have 8


class Named:
    """Stands for the module os where aioquic draws connection ids: it has no option for them."""

    def __getattr__(self, name):
        return getattr(os, name)

    def urandom(self, n):
        begin = bytes.fromhex(options["ids"]) if n == NAMED else b""
        return begin + os.urandom(n - len(begin))


aioquic.quic.connection.os = Named()


class Tickets:
    def __init__(self):
        self.all = {}

    def add(self, ticket):
        self.all[ticket.ticket] = ticket

    def pop(self, label):
        return self.all.pop(label, None)


class Server(QuicConnectionProtocol):
    http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is None:
            return
        for e in self.http.handle_event(event):
            if isinstance(e, HeadersReceived):
                self.answer(e.stream_id, dict(e.headers)[b":path"].decode())
        self.transmit()

    def answer(self, stream, path):
        path = path.partition("?")[0]
        file = os.path.join(options["site"], os.path.basename(path))
        status, body = b"404", b""
        if path == "/close":
            status, body = b"200", b"bye"
            self._loop.call_later(0.1, self.close, 0x100)  # H3_NO_ERROR
        elif os.path.isfile(file):
            with open(file, "rb") as f:
                status, body = b"200", f.read()
        tls = self._quic.tls
        self.http.send_headers(stream, [
            (b":status", status),
            (b"content-length", str(len(body)).encode()),
            (b"content-type", b"text/html" if path.endswith(".html") else b"application/octet-stream"),
            (options["header"].lower().encode(), options["name"].encode()),
            (b"x-resumed", b"true" if tls.session_resumed else b"false"),
            (b"x-early", b"true" if tls.early_data_accepted else b"false"),
        ])
        self.http.send_data(stream, body, end_stream=True)


async def main():
    for o in options["listen"]:
        c = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
        c.supported_versions = [QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2]
        if o.get("named"):
            c.connection_id_length = NAMED
        c.load_cert_chain(o["certificate"], o["key"])
        tickets = Tickets()
        await serve("::", o["port"], configuration=c, create_protocol=Server, retry=o.get("retry", False),
                    session_ticket_fetcher=tickets.pop, session_ticket_handler=tickets.add)
    print("ready", aioquic.__version__, flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
