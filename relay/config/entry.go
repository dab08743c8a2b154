package config

import (
	"fmt"

	"baton/document"
	"baton/relay/trunkproto"
)

const (
	maxInterfaces   = 64
	maxDestinations = 1024
	maxVia          = trunkproto.MaxHops - 1 // after this one
)

func (d *decoder) entry(path string, n *node) Entry {
	e := Entry{Mode: Plain, EarlySYN: EarlyOff, ClientAddress: Hidden, Line: n.Line}
	d.Fields(path, n, []key{
		{Name: "name", Help: "in metrics and messages (default: mode and port)", Decode: func(path string, n *node) { e.Name = d.Label(path, n) }},
		{Name: "listen", Help: "address and port for clients", Decode: func(path string, n *node) { e.Listen = d.ListenAddrPort(path, n) }},
		{Name: "mode", Default: "plain", Help: "where the destination of a flow comes from", Decode: func(path string, n *node) {
			e.Mode = Mode(d.Choice(path, n, "is not a mode",
				string(Plain), string(Transparent), string(Proxy), string(SOCKS5), string(Connect)))
		}},
		{Name: "destination", Help: "mode plain: the server's address", Decode: func(path string, n *node) { e.Destination = d.AddrPort(path, n) }},
		{Name: "intercept", Help: "mode transparent: packets to these destinations are received", Decode: func(path string, n *node) { e.Intercept = d.intercept(path, n) }},
		{Name: "interfaces", Help: "on which clients arrive; required by intercept and early_syn", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxInterfaces)
			e.Interfaces = document.Distinct(d.Decoder, path, n, d.Device)
		}},
		{Name: "early_syn", Default: "off", Help: "whether the onward connection begins with the client's SYN", Decode: func(path string, n *node) {
			e.EarlySYN = EarlySYN(d.Choice(path, n, "is not a kind of early SYN", string(EarlyOff), string(Optimistic), string(ConnectFirst)))
		}},
		{Name: "via", Help: "relays of the route in order, or auto (default: this relay connects itself)", Decode: func(path string, n *node) { d.via(path, n, &e) }},
		{Name: "client_address", Default: "relay", Help: "source address that the server sees", Decode: func(path string, n *node) {
			e.ClientAddress = ClientAddress(d.Choice(path, n, "is not a client address",
				string(Hidden), string(Spoofed), string(ProxyHeader)))
		}},
		{Name: "congestion", Default: "system", Help: "congestion control towards clients and servers",
			Decode: func(path string, n *node) { e.Congestion = d.congestion(path, n) }},
	})
	d.Require(path, n, "listen")
	if e.Name == "" && d.Err() == nil {
		e.Name = fmt.Sprintf("%s-%d", e.Mode, e.Listen.Port())
	}
	d.checkMode(path, n, &e)
	return e
}

// checkMode refuses keys that do not apply to the entry's mode, and requires those that do.
func (d *decoder) checkMode(path string, n *node, e *Entry) {
	if d.Doubtful(path + ".mode") {
		return
	}
	if e.Mode == Plain {
		d.Require(path, n, "destination")
	} else if at := path + ".destination"; d.Given(at) {
		d.Refuse(at, "is for mode plain only", "mode: plain")
	}
	if e.Mode != Transparent && e.Intercept != nil {
		d.Refuse(path+".intercept", "is for mode transparent only", "mode: transparent")
	}
	early := e.EarlySYN != EarlyOff
	if early {
		at := path + ".early_syn"
		switch {
		case e.Mode != Plain && e.Mode != Transparent:
			d.Refuse(at, fmt.Sprintf("needs mode plain or transparent: in mode %s the SYN does not tell the destination", e.Mode),
				"early_syn: off")
		case e.Mode == Transparent && e.Intercept == nil:
			d.Refuse(at, "needs intercept, which selects the SYNs", "intercept: {destinations: [...], ports: [...]}")
		}
	}
	if (early || e.Intercept != nil) && len(e.Interfaces) == 0 {
		d.Wrong(n, path+".interfaces", "is missing", "the interfaces towards clients, for intercept and early_syn")
	}
}

func (d *decoder) intercept(path string, n *node) *Intercept {
	i := &Intercept{}
	d.Fields(path, n, []key{
		{Name: "destinations", Help: "prefixes of the listener's address family", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxDestinations)
			d.NonEmptyList(path, n, func(at string, n *node) { i.Destinations = append(i.Destinations, d.Prefix(at, n)) })
		}},
		{Name: "ports", Help: "numbers and ranges", Decode: func(path string, n *node) { i.Ports = d.PortsList(path, n, maxPorts) }},
	})
	d.Require(path, n, "destinations", "ports")
	return i
}
