#!/usr/bin/env python3
"""Lists a controller's sessions, and follows its handoffs: follow.py ws://10.0.0.1:8080 TOKEN-FILE [CA-FILE]"""
import json
import ssl
import sys

from websockets.sync.client import connect

url, token = sys.argv[1], open(sys.argv[2]).read().strip()
tls = ssl.create_default_context(cafile=sys.argv[3]) if len(sys.argv) > 3 else None
header = {"Authorization": "Bearer " + token}

with connect(url + "/v1/ws", additional_headers=header, subprotocols=["jsonrpc"], ssl=tls) as ws:

    def call(method, **params):
        ws.send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
        while True:  # events may come first
            answer = json.loads(ws.recv())
            if answer.get("id") == method:
                break
        if "error" in answer:
            sys.exit(f"{method}: {answer['error']['message']} ({answer['error']['code']})")
        return answer["result"]

    for s in call("sessions", limit=100):
        print("session", s["client"], "->", s["service"], s["state"], s.get("surrogate", "-"), flush=True)
    call("subscribe", topics=["handoffs"])
    for message in ws:
        h = json.loads(message)["params"]["value"]
        print("handoff", h["id"], h["client"], "->", h["surrogate"], h.get("request", ""), f"{h.get('took_ns', 0) / 1e6:.1f} ms", flush=True)
