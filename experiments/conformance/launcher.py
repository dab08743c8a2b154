# SPDX-License-Identifier: Apache-2.0
"""Puts cases of os-ken's switch tester to a switch. Each line of standard input names cases of a file:

    {"file": PATH, "cases": [INDEX, ...], "forget": SOCKET}

where SOCKET, if any, controls an Open vSwitch that is to forget its cached flows before each case. Each verdict is a line on
descriptor 3, after a first one when both switches have joined:

    {"ready": true}
    {"case": INDEX, "ok": false, "reason": "Receiving timeout: no change in tx_packets on target.", "seconds": 3.2}

The suite's own code sends, compares and judges. What is replaced, and why, is in docs/conformance.md: its SCTP checksum (not
with --unpatched), how it takes cases, what becomes of an exception that it does not catch, and what sends the packets of a load.
"""

from os_ken.lib import hub

hub.patch()

import argparse
import json
import logging
import os
import socket
import sys
import time

from eventlet import patcher, tpool
from os_ken import cfg, flags  # noqa: F401  flags has the suite's options
from os_ken.base import app_manager
from os_ken.controller import controller  # noqa: F401  has the options of the channel
from os_ken.lib.packet import sctp

native_socket = patcher.original("socket")
native_time = patcher.original("time")

TESTER = "os_ken.tests.switch.tester"
BURST = 0.002  # s between bursts of a load: the suite has 0.01, of which the socket of the switch that counts may not hold one


def crc32c(data):
    """The checksum of SCTP (RFC 9260, appendix A)."""
    crc = 0xFFFFFFFF
    for byte in bytes(data):
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sctp_checksum(_, data):
    # On Python 3 the suite sums the text of the bytes. The field holds the checksum's least significant byte first.
    return int.from_bytes(crc32c(data).to_bytes(4, "little"), "big")


class Verdicts(logging.Handler):
    """Finds the verdict among the lines that the suite logs."""

    def __init__(self):
        super().__init__()
        self.clear()

    def clear(self):
        self.ok, self.reason = None, ""

    def emit(self, record):
        if record.msg == "    %-100s %s":
            self.ok = record.args[1] == "OK"
        elif record.msg == "        %s":
            self.reason = str(record.args[0])


def load(interface, frame, rate, duration):
    """Sends what frame returns at a rate by the clock, in bursts: in a thread of its own, without a PACKET_OUT for each."""
    with native_socket.socket(native_socket.AF_PACKET, native_socket.SOCK_RAW) as sock:
        sock.bind((interface, 0))
        began, sent = native_time.monotonic(), 0
        while (elapsed := native_time.monotonic() - began) < duration:
            due = int(elapsed * rate)
            for _ in range(due - sent):
                sock.send(frame())
            sent = due
            native_time.sleep(BURST)


def frames(packets, names):
    """What makes the packets of a load: the same, or each by the suite's expression with its random numbers."""
    if not packets["randomize"]:
        data = packets["packet_binary"]
        return lambda: data
    code = compile("/".join(packets["packet_text"]), "packet", "eval")

    def make():
        made = eval(code, names)
        made.serialize()
        return bytes(made.data)

    return make


def forget(path):
    """Has an Open vSwitch delete the flows that its datapath has cached (ovs-appctl revalidator/purge)."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(b'{"id": 0, "method": "revalidator/purge", "params": []}')
        answer = b""
        while more := sock.recv(4096):
            answer += more
            try:
                if json.loads(answer)["error"]:
                    raise RuntimeError("Open vSwitch does not forget: %r" % answer)
                return
            except ValueError:  # a part of it
                pass
    raise RuntimeError("Open vSwitch does not answer")


class Run:
    def __init__(self, interface, out):
        self.interface, self.out, self.verdicts = interface, out, Verdicts()

    def tell(self, **what):
        self.out.write(json.dumps(what) + "\n")
        self.out.flush()

    def set_logger(self, app):
        app.logger.propagate = False
        app.logger.setLevel(logging.INFO)
        app.logger.addHandler(logging.StreamHandler(sys.stderr))
        app.logger.addHandler(self.verdicts)

    def sequential_execute(self, app, _):
        """Replaces the walk over a folder of files."""
        suite = sys.modules[TESTER]
        while isinstance(app.target_sw.dp, suite.DummyDatapath) or isinstance(app.tester_sw.dp, suite.DummyDatapath):
            hub.sleep(0.01)
        self.tell(ready=True)
        while line := tpool.execute(sys.stdin.readline):
            wanted = json.loads(line)
            tests = suite.TestFile(wanted["file"], app.logger).tests
            for index in wanted["cases"]:
                if wanted["forget"]:
                    forget(wanted["forget"])
                self.execute(app, index, tests[index])
        os._exit(0)

    def execute(self, app, index, test):
        began = time.monotonic()
        self.verdicts.clear()
        try:
            app._test_execute(test, None)
            ok, reason = self.verdicts.ok, self.verdicts.reason
        except Exception as e:  # the suite would end here, without a word
            app.logger.exception("the tester failed in %s", test.description)
            ok, reason = False, "tester: %s" % (str(e) or type(e).__name__)
            app.waiter = None
        self.tell(case=index, ok=bool(ok), reason=reason, seconds=round(time.monotonic() - began, 3))

    def continuous_packet_send(self, _, pkt):
        packets = pkt["packets"]
        make = frames(packets, vars(sys.modules[TESTER]))
        tpool.execute(load, self.interface, make, packets["pktps"], packets["duration_time"])


def main():
    own = argparse.ArgumentParser()
    own.add_argument("--unpatched", action="store_true")
    own.add_argument("--interface", required=True)
    options, rest = own.parse_known_args()
    if not options.unpatched:
        sctp.sctp._checksum = sctp_checksum
    cfg.CONF(rest, project="os_ken", version="conformance")
    run = Run(options.interface, os.fdopen(3, "w"))

    __import__(TESTER)
    suite = sys.modules[TESTER].OfTester
    suite._set_logger = lambda app: run.set_logger(app)
    suite._test_sequential_execute = lambda app, folder: run.sequential_execute(app, folder)
    suite._continuous_packet_send = lambda app, pkt: run.continuous_packet_send(app, pkt)
    app_manager.AppManager.run_apps([TESTER])


main()
