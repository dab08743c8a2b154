package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/document"
)

// Defaults of a planner.
const (
	defaultPlanInterval = 10 * time.Second
	defaultPlanStale    = 30 * time.Second
	defaultSettle       = 2 * time.Minute // as often as Alzoubi et al. remap
	defaultStep         = 0.1
	defaultMoveCost     = 0.01
	defaultPriority     = 1000
)

const (
	maxSites     = 256
	maxIngresses = 1024
)

func (d *decoder) planner(path string, n *node) *Planner {
	p := &Planner{Interval: defaultPlanInterval, Stale: defaultPlanStale, Settle: defaultSettle, Step: defaultStep, Move: defaultMoveCost}
	d.Fields(path, n, []key{
		{Name: "interval", Default: "10s", Help: "between two evaluations",
			Decode: func(path string, n *node) { p.Interval = d.Between(path, n, 100*time.Millisecond, time.Hour) }},
		{Name: "stale", Default: "30s", Help: "older reports are ignored", Decode: func(path string, n *node) { p.Stale = d.Between(path, n, 200*time.Millisecond, maxTime) }},
		{Name: "settle", Default: "2m", Help: "least time between two changes",
			Decode: func(path string, n *node) { p.Settle = d.Between(path, n, 100*time.Millisecond, maxTime) }},
		{Name: "step", Default: "10%", Help: "share of the total demand that one step of a map may move",
			Decode: func(path string, n *node) { p.Step = d.Percent(path, n, 0.1, 100) }},
		{Name: "interruption", Default: "0.01", Help: "cost of an interrupted byte, in units of costs",
			Decode: func(path string, n *node) { p.Move = d.number(path, n, 0, 1e9) }},
		{Name: "sites", Help: "sites that are planned", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxSites)
			d.NonEmptyList(path, n, func(at string, n *node) { p.Sites = append(p.Sites, d.served(at, n)) })
		}},
		{Name: "map", Help: "a static map in OpenFlow forwarders", Decode: func(path string, n *node) { p.Map = d.mapping(path, n) }},
	})
	d.Require(path, n, "sites")
	d.checkCosts(path, p)
	return p
}

func (d *decoder) served(path string, n *node) Served {
	s := Served{Line: n.Line}
	d.Fields(path, n, []key{
		{Name: "name", Help: "of the site", Decode: func(path string, n *node) { s.Name = d.Label(path, n) }},
		{Name: "url", Help: "of its report", Decode: func(path string, n *node) { s.URL = d.https(path, n) }},
		{Name: "capacity", Help: "a rate, such as 10gbit", Decode: func(path string, n *node) { s.Capacity = d.rate(path, n) }},
		{Name: "ports", Help: "of forwarders, that lead to the site", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxIngresses)
			d.NonEmptyList(path, n, func(at string, n *node) { s.Ports = append(s.Ports, d.exit(at, n)) })
		}},
	})
	d.Require(path, n, "name", "capacity")
	return s
}

// exit decodes the port of a forwarder that leads to a site.
func (d *decoder) exit(path string, n *node) Exit {
	var e Exit
	d.Fields(path, n, []key{
		{Name: "forwarder", Help: "datapath id, such as 0x2a", Decode: func(path string, n *node) { e.Forwarder = d.datapath(path, n) }},
		{Name: "port", Help: "number", Decode: func(path string, n *node) { e.Port = d.port(path, n) }},
		{Name: "mac", Help: "MAC address of the next hop", Decode: func(path string, n *node) { e.MAC = d.mac(path, n) }},
	})
	d.Require(path, n, "forwarder", "port")
	return e
}

func (d *decoder) mapping(path string, n *node) *Map {
	m := &Map{Priority: defaultPriority}
	d.Fields(path, n, []key{
		{Name: "listen", Help: "address and port for forwarders", Decode: func(path string, n *node) { m.Listen = d.hostPort(path, n) }},
		{Name: "tls", Default: "false", Help: "whether forwarders must present certificates", Decode: func(path string, n *node) { m.TLS = d.Boolean(path, n) }},
		{Name: "addresses", Help: "of the service: addresses or prefixes", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxPrefixes)
			d.NonEmptyList(path, n, func(at string, n *node) { m.Addresses = append(m.Addresses, d.service(at, n)) })
		}},
		{Name: "table", Default: "0", Help: "of the rules", Decode: func(path string, n *node) { m.Table = uint8(d.Integer(path, n, 0, 254)) }},
		{Name: "priority", Default: "1000", Help: "of the rules", Decode: func(path string, n *node) { m.Priority = uint16(d.Integer(path, n, 1, 65535)) }},
		{Name: "ingresses", Help: "where clients' packets come in", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxIngresses)
			d.NonEmptyList(path, n, func(at string, n *node) { m.Ingresses = append(m.Ingresses, d.ingress(at, n)) })
		}},
	})
	d.Require(path, n, "listen", "addresses", "ingresses")
	return m
}

// service decodes an address or a prefix.
func (d *decoder) service(path string, n *node) netip.Prefix {
	if a, err := netip.ParseAddr(n.Text); err == nil {
		return netip.PrefixFrom(a, a.BitLen())
	}
	return d.routable(path, n)
}

func (d *decoder) ingress(path string, n *node) Ingress {
	in := Ingress{Line: n.Line, Cost: make(map[string]float64)}
	d.Fields(path, n, []key{
		{Name: "name", Help: "in the status and in metrics", Decode: func(path string, n *node) { in.Name = d.Label(path, n) }},
		{Name: "forwarder", Help: "datapath id", Decode: func(path string, n *node) { in.Forwarder = d.datapath(path, n) }},
		{Name: "port", Help: "number", Decode: func(path string, n *node) { in.Port = d.port(path, n) }},
		{Name: "live", Default: "1m", Help: "how long a download lasts", Decode: func(path string, n *node) { in.Live = d.Between(path, n, time.Second, maxTime) }},
		{Name: "costs", Help: "by site", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxSites)
			d.Entries(path, n, func(path, name string, n *node) { in.Cost[name] = d.number(path, n, 0, 1e9) })
		}},
	})
	d.Require(path, n, "name", "forwarder", "port")
	if in.Live == 0 {
		in.Live = time.Minute
	}
	return in
}

// datapath decodes a forwarder's datapath id, as 0x2a or with all 16 digits.
func (d *decoder) datapath(path string, n *node) uint64 {
	s := d.Text(path, n)
	digits, prefixed := strings.CutPrefix(s, "0x")
	v, err := strconv.ParseUint(digits, 16, 64)
	if d.Err() == nil && (err != nil || !prefixed && len(s) != 16) {
		d.WrongText(n, path, s, "is not a datapath id", `such as 0x2a, or "000000000000002a"`)
	}
	return v
}

const maxPort = 0xffffff00 // OFPP_MAX (OpenFlow 1.3.5, 7.2.1)

func (d *decoder) port(path string, n *node) uint32 { return uint32(d.Integer(path, n, 1, maxPort)) }

func (d *decoder) mac(path string, n *node) (out [6]byte) {
	s := d.Text(path, n)
	a, err := net.ParseMAC(s)
	if d.Err() == nil && (err != nil || len(a) != 6 || a[0]&1 != 0) {
		d.WrongText(n, path, s, "is not the address of one interface", "such as 02:00:00:00:00:01")
		return out
	}
	copy(out[:], a)
	return out
}

// checkCosts refuses costs to sites that there are not.
func (d *decoder) checkCosts(path string, p *Planner) {
	if p.Map == nil {
		return
	}
	sites := make([]string, len(p.Sites))
	for i := range p.Sites {
		sites[i] = p.Sites[i].Name
	}
	for i := range p.Map.Ingresses {
		for _, name := range slices.Sorted(maps.Keys(p.Map.Ingresses[i].Cost)) {
			d.Refer(document.Join(document.Index(path+".map.ingresses", i)+".costs", name), name, "is not a site", "", path+".sites", sites)
		}
	}
}

// checkPlanner checks the planner's settings against each other.
func (d *decoder) checkPlanner(p *Planner) {
	for i := range p.Sites {
		s, path := &p.Sites[i], document.Index("planner.sites", i)
		d.checkTwice(path, i, func(j int) bool { return p.Sites[j].Name == s.Name }, "name", s.Name, "planner.sites")
		switch {
		case p.Map == nil && s.URL == nil:
			d.Refuse(path, "has no url: without a map its level is all that can be changed", "url: https://...")
		case p.Map == nil && len(s.Ports) > 0:
			d.Refuse(path+".ports", "is for a map, and there is none", "planner.map")
		}
	}
	if p.Stale <= p.Interval {
		d.Refuse("planner.stale", fmt.Sprintf("%v is not longer than interval, %v: reports are stale before the next", p.Stale, p.Interval),
			"three times interval")
	}
	if p.Map == nil {
		return
	}
	exits := make(map[string]bool)
	for i := range p.Sites {
		for j, e := range p.Sites[i].Ports {
			at := fmt.Sprintf("planner.sites[%d].ports[%d]", i, j)
			if id := fmt.Sprint(p.Sites[i].Name, e.Forwarder); exits[id] {
				d.Refuse(at, "is the second port to this site on one forwarder", "one port on each forwarder")
			} else {
				exits[id] = true
			}
		}
	}
	for i := range p.Map.Ingresses {
		in, path := &p.Map.Ingresses[i], document.Index("planner.map.ingresses", i)
		d.checkTwice(path, i, func(j int) bool { return p.Map.Ingresses[j].Name == in.Name }, "name", in.Name, "planner.map.ingresses")
		for j := range i {
			if o := &p.Map.Ingresses[j]; o.Forwarder == in.Forwarder && o.Port == in.Port {
				d.Refuse(path+".port", "is that of "+document.Index("planner.map.ingresses", j)+" already", "a port of its own")
			}
		}
		for k := range p.Sites {
			if !exits[fmt.Sprint(p.Sites[k].Name, in.Forwarder)] {
				d.Refuse(document.Index("planner.sites", k), fmt.Sprintf("has no port on forwarder %016x, where ingress %s is", in.Forwarder, in.Name),
					"ports: [{forwarder: ..., port: ...}]")
			}
		}
	}
}
