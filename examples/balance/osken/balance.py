"""Load balancing over all links of a host, as a stock os-ken application.

It implements "Pushing SDN to the End-Host" (Al-Najjar, Layeghy, Portmann, 2016) and needs only OpenFlow 1.3: Open vSwitch, Baton's
forwarder or any other switch works. README.md explains how to run it.

The host's applications send everything to an internal gateway, which is port 1 of the switch. The switch has a port for each link.
A flow's packets leave over its link, with that link's addresses; replies get the host's internal address again.

The configuration sets the method: "rr" and "wrr" are the paper's algorithm 1 (a packet-in for each new flow), with "group" the switch
chooses by a hash of the flow.
"""

import json
import os

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import arp, ethernet, in_proto, ipv4, packet, tcp, udp
from os_ken.ofproto import ether, ofproto_v1_3

INTERNAL, FIRST_LINK = 1, 2  # ports
INGRESS, CHOOSE, BACK = 0, 1, 2  # tables
GROUP = 1
IDLE = 300  # idle timeout of a flow's entries, seconds


class RoundRobin:
    """Smooth weighted round-robin: with equal weights it is flowCounter mod N (algorithm 1, lines 4 and 5)."""

    def __init__(self, weights):
        self.weights, self.has = weights, [0] * len(weights)

    def next(self):
        self.has = [h + w for h, w in zip(self.has, self.weights)]
        best = self.has.index(max(self.has))
        self.has[best] -= sum(self.weights)
        return best


class Switch:
    """Sends messages to a switch."""

    def __init__(self, dp):
        self.dp, self.ofp, self.parser = dp, dp.ofproto, dp.ofproto_parser

    def send(self, kind, *args, **more):
        self.dp.send_msg(getattr(self.parser, kind)(self.dp, *args, **more))

    def output(self, port):
        return self.parser.OFPActionOutput(port, self.ofp.OFPCML_NO_BUFFER)

    def set(self, **fields):
        return [self.parser.OFPActionSetField(**{name: value}) for name, value in fields.items()]

    def entry(self, table, priority, match, actions=(), goto=None, **more):
        do = [self.parser.OFPInstructionActions(self.ofp.OFPIT_APPLY_ACTIONS, list(actions))] if actions else []
        if goto is not None:
            do.append(self.parser.OFPInstructionGotoTable(goto))
        self.send("OFPFlowMod", table_id=table, priority=priority, match=self.parser.OFPMatch(**match), instructions=do, **more)

    def bucket(self, weight, actions):
        return self.parser.OFPBucket(weight=weight, watch_port=self.ofp.OFPP_ANY, watch_group=self.ofp.OFPG_ANY, actions=actions)

    def packet(self, data, actions, port):
        self.send("OFPPacketOut", buffer_id=self.ofp.OFP_NO_BUFFER, in_port=port, actions=actions, data=data)


class Balance(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        with open(os.environ.get("BALANCE", "balance.json")) as f:
            config = json.load(f)
        self.method, self.internal, self.links = config["method"], config["internal"], config["links"]
        self.weights = [1 if self.method == "rr" else link.get("weight", 1) for link in self.links]
        self.round_robin = RoundRobin(self.weights)
        self.flows = {}  # flow -> link, so that a retransmitted SYN keeps its link

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def joined(self, event):
        """Installs everything that does not depend on flows, when the switch connects."""
        switch = Switch(event.msg.datapath)
        switch.send("OFPFlowMod", table_id=switch.ofp.OFPTT_ALL, command=switch.ofp.OFPFC_DELETE, out_port=switch.ofp.OFPP_ANY,
                    out_group=switch.ofp.OFPG_ANY)
        switch.send("OFPGroupMod", switch.ofp.OFPGC_DELETE, 0, switch.ofp.OFPG_ALL)
        self.flows.clear()
        to_controller = [switch.output(switch.ofp.OFPP_CONTROLLER)]
        switch.entry(INGRESS, 20, {"in_port": INTERNAL, "eth_type": ether.ETH_TYPE_ARP}, to_controller)
        switch.entry(INGRESS, 10, {"in_port": INTERNAL, "eth_dst": self.internal["gateway_mac"]}, goto=CHOOSE)
        for port, link in enumerate(self.links, FIRST_LINK):
            match = {"in_port": port, "eth_type": ether.ETH_TYPE_IP, "ipv4_dst": link["ip"]}
            switch.entry(INGRESS, 10, match, goto=BACK)
        if self.method == "group":
            buckets = [switch.bucket(weight, self.out(switch, i)) for i, weight in enumerate(self.weights)]
            switch.send("OFPGroupMod", switch.ofp.OFPGC_ADD, switch.ofp.OFPGT_SELECT, GROUP, buckets)
            choose = [switch.parser.OFPActionGroup(GROUP)]
            switch.entry(BACK, 0, {"eth_type": ether.ETH_TYPE_IP}, self.back(switch))
        else:
            choose = to_controller
        switch.entry(CHOOSE, 0, {"eth_type": ether.ETH_TYPE_IP}, choose)
        self.logger.info("balance: switch %016x, %s over %d links", event.msg.datapath.id, self.method, len(self.links))

    def out(self, switch, i):
        """Address translation and output over link i (algorithm 1, lines 9 to 12)."""
        link = self.links[i]
        return switch.set(ipv4_src=link["ip"], eth_src=link["mac"], eth_dst=link["gateway_mac"]) + [switch.output(FIRST_LINK + i)]

    def back(self, switch):
        """The reverse of out."""
        internal = self.internal
        return switch.set(ipv4_dst=internal["ip"], eth_src=internal["gateway_mac"], eth_dst=internal["mac"]) + [switch.output(INTERNAL)]

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def seen(self, event):
        switch, message = Switch(event.msg.datapath), event.msg
        if message.match["in_port"] != INTERNAL:
            return
        frame = packet.Packet(message.data)
        request = frame.get_protocol(arp.arp)
        if request:
            self.answer(switch, request)
        elif frame.get_protocol(ipv4.ipv4):
            self.choose(switch, frame, message.data)

    def answer(self, switch, request):
        """Proxy ARP: any address on the internal interface is the gateway."""
        if request.opcode != arp.ARP_REQUEST or request.dst_ip == self.internal["ip"]:
            return
        mac = self.internal["gateway_mac"]
        reply = packet.Packet()
        reply.add_protocol(ethernet.ethernet(request.src_mac, mac, ether.ETH_TYPE_ARP))
        reply.add_protocol(arp.arp(opcode=arp.ARP_REPLY, src_mac=mac, src_ip=request.dst_ip, dst_mac=request.src_mac, dst_ip=request.src_ip))
        reply.serialize()
        switch.packet(reply.data, [switch.output(INTERNAL)], switch.ofp.OFPP_CONTROLLER)

    def choose(self, switch, frame, data):
        """Algorithm 1, for TCP and UDP."""
        ip, segment, datagram = frame.get_protocol(ipv4.ipv4), frame.get_protocol(tcp.tcp), frame.get_protocol(udp.udp)
        l4, name = (segment, "tcp") if segment else (datagram, "udp")
        if l4 is None or ip.src != self.internal["ip"]:
            return
        flow = (name, l4.src_port, ip.dst, l4.dst_port)
        first = not segment or segment.bits & (tcp.TCP_SYN | tcp.TCP_ACK) == tcp.TCP_SYN  # line 3
        if flow not in self.flows and not first:
            return
        if flow not in self.flows:
            self.flows[flow] = self.round_robin.next()  # lines 4 and 5
        i = self.flows[flow]
        proto = {"tcp": in_proto.IPPROTO_TCP, "udp": in_proto.IPPROTO_UDP}[name]
        there = {"eth_type": ether.ETH_TYPE_IP, "ip_proto": proto, "ipv4_dst": ip.dst,  # lines 6 to 8
                 name + "_src": l4.src_port, name + "_dst": l4.dst_port}
        here = {"in_port": FIRST_LINK + i, "eth_type": ether.ETH_TYPE_IP, "ip_proto": proto, "ipv4_src": ip.dst,
                name + "_src": l4.dst_port, name + "_dst": l4.src_port}
        switch.entry(BACK, 10, here, self.back(switch), idle_timeout=IDLE)
        switch.entry(CHOOSE, 10, there, self.out(switch, i), idle_timeout=IDLE, flags=switch.ofp.OFPFF_SEND_FLOW_REM)  # line 13
        switch.packet(data, [switch.output(switch.ofp.OFPP_TABLE)], INTERNAL)

    @set_ev_cls(ofp_event.EventOFPFlowRemoved, MAIN_DISPATCHER)
    def removed(self, event):
        """Forgets a flow after its idle timeout."""
        match = event.msg.match
        name = "tcp" if match.get("ip_proto") == in_proto.IPPROTO_TCP else "udp"
        self.flows.pop((name, match.get(name + "_src"), match.get("ipv4_dst"), match.get(name + "_dst")), None)
