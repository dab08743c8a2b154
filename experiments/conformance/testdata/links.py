# SPDX-License-Identifier: Apache-2.0
"""Prints the links that os-ken's own topology application (os_ken.topology.switches) finds by LLDP."""

from os_ken.base.app_manager import OSKenApp
from os_ken.controller.handler import set_ev_cls
from os_ken.topology import event


class Links(OSKenApp):
    @set_ev_cls(event.EventLinkAdd)
    def added(self, ev):
        src, dst = ev.link.src, ev.link.dst
        print("link from %d:%d to %d:%d" % (src.dpid, src.port_no, dst.dpid, dst.port_no), flush=True)
