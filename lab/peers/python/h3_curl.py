"""Gets a file by HTTP/3 with libcurl. Its argument is a JSON object, see Visit in Go; it prints one for each connection."""

import hashlib
import json
import sys

import pycurl

EARLYDATA = 1 << 6  # CURLSSLOPT_EARLYDATA, curl/curl.h

o = json.loads(sys.argv[1])
c = pycurl.Curl()
for _ in range(2 if o["again"] else 1):
    headers, digest, sizes = {}, hashlib.sha256(), []

    def header(line):
        key, _, value = line.decode().partition(":")
        headers[key.strip().lower()] = value.strip()

    def body(b):
        digest.update(b)
        sizes.append(len(b))

    c.setopt(pycurl.URL, f"https://{o['name']}{o['path']}")
    c.setopt(pycurl.CONNECT_TO, [f"{o['name']}:443:{o['host']}:{o['port']}"])
    c.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_3ONLY)
    c.setopt(pycurl.CAINFO, o["authorities"])
    c.setopt(pycurl.TIMEOUT, o["seconds"])
    c.setopt(pycurl.FRESH_CONNECT, 1)
    c.setopt(pycurl.FORBID_REUSE, 1)
    c.setopt(pycurl.HEADERFUNCTION, header)
    c.setopt(pycurl.WRITEFUNCTION, body)
    if o["early"]:
        c.setopt(pycurl.SSL_OPTIONS, EARLYDATA)
    try:
        c.perform()
    except pycurl.error as e:
        sys.exit(f"libcurl: {e.args[1]} ({e.args[0]})")
    print(json.dumps({
        "status": c.getinfo(pycurl.RESPONSE_CODE), "surrogate": headers.get(o["header"].lower(), ""), "bytes": sum(sizes), "digest": digest.hexdigest(),
        "version": 1,  # ngtcp2 as libcurl uses it knows no other
        "resumed": headers.get("x-resumed") == "true", "early": headers.get("x-early") == "true",
    }), flush=True)
