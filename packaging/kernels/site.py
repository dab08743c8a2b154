"""A surrogate: GET /N gives N bytes that follow from N, POST answers with the digest of what it got."""
import hashlib
import http.server
import socket
import sys

BLOCK = bytes(range(256)) * 256


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        left = int(self.path.rsplit("/", 1)[1] or 0)
        self.send_response(200)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        while left > 0:
            self.wfile.write(BLOCK[: min(left, len(BLOCK))])
            left -= len(BLOCK)

    def do_POST(self):
        left, digest = int(self.headers["Content-Length"]), hashlib.sha256()
        while left > 0:
            got = self.rfile.read(min(left, 65536))
            if not got:
                return
            digest.update(got)
            left -= len(got)
        answer = digest.hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6


Server(("::", int(sys.argv[1])), Handler).serve_forever()
