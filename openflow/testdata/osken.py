# SPDX-License-Identifier: Apache-2.0
"""Answers line by line: "parse HEX" with what os-ken's parser makes of a message, as JSON; "serialise JSON" with the bytes that
its serialiser makes of it, as hex. An answer that begins with "error" tells what it raised."""

import json
import sys

from os_ken.ofproto import ofproto_parser, ofproto_protocol

datapath = ofproto_protocol.ProtocolDesc(version=4)


def parse(text):
    data = bytes.fromhex(text)
    version, kind, length, xid = ofproto_parser.header(data)
    msg = ofproto_parser.msg(datapath, version, kind, length, xid, data)
    return json.dumps(msg.to_jsondict())


def serialise(text):
    msg = ofproto_parser.ofp_msg_from_jsondict(datapath, json.loads(text))
    msg.set_xid(7)
    msg.serialize()
    return bytes(msg.buf).hex()


for line in sys.stdin:
    verb, _, text = line.rstrip("\n").partition(" ")
    try:
        answer = {"parse": parse, "serialise": serialise}[verb](text)
    except Exception as e:  # whatever it raises is the answer
        answer = "error %r" % e
    print(answer, flush=True)
