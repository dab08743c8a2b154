package topology

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"baton/lab"
	"baton/lab/peers"
)

// Network is a topology that has been built in a lab.
type Network struct {
	Hosts     map[string]*lab.Host // bridges and switches too
	Links     map[string]*lab.Link
	Switches  map[string]*peers.VSwitch
	Processes map[string]map[string]*lab.Process // by host or switch, and name
}

// Build makes the topology in the lab, starts its processes and waits for those that listen. What cannot be built ends the
// lab's Run or its test; the error is the context's, or says which process does not start.
func Build(ctx context.Context, l *lab.Lab, t *Topology) (*Network, error) {
	l.T().Helper()
	n := &Network{
		Hosts:     make(map[string]*lab.Host),
		Links:     make(map[string]*lab.Link),
		Switches:  make(map[string]*peers.VSwitch),
		Processes: make(map[string]map[string]*lab.Process),
	}
	for _, h := range t.Hosts {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		n.host(l, t, h)
	}
	bridges := make(map[string]*lab.Interface)
	for _, b := range t.Bridges {
		h := l.Host(b.Name)
		disableIPv6(h)
		n.Hosts[b.Name], bridges[b.Name] = h, h.Bridge(bridgePort)
	}
	for _, s := range t.Switches {
		n.Hosts[s.Name] = t.switchHost(l, s)
	}
	for _, k := range t.Links {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		built := l.Link(n.end(&k.A), n.end(&k.B), lab.LinkOptions{
			MTU: k.MTU, NoOffloads: k.NoOffloads, Emulated: k.Emulated, AtoB: k.AToB, BtoA: k.BToA,
		})
		n.Links[k.Name] = built
		for _, e := range []struct {
			end *End
			at  *lab.Interface
		}{{&k.A, built.A}, {&k.B, built.B}} {
			if bridge := bridges[e.end.Host]; bridge != nil {
				e.at.Attach(bridge)
			}
		}
	}
	for _, h := range t.Hosts {
		for _, s := range h.Sysctls {
			if t.ofInterface(h, s) {
				n.Hosts[h.Name].Sysctl(s.Key, s.Value)
			}
		}
		for _, r := range h.Routes {
			n.Hosts[h.Name].Route(r.To.String(), r.Via.String())
		}
	}
	for _, s := range t.Switches {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		built := peers.OpenVSwitch(n.Hosts[s.Name], t.switchOptions(s))
		n.Switches[s.Name] = built
		n.Processes[s.Name] = map[string]*lab.Process{built.Name(): built.Process, built.Database.Name(): built.Database}
	}
	return n, n.start(ctx, t)
}

// disableIPv6 keeps a bridge's host from sending IPv6 itself: only forwarded packets should appear on its links.
func disableIPv6(h *lab.Host) {
	h.Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
	h.Sysctl("net.ipv6.conf.default.disable_ipv6", "1")
}

// switchHost makes the host of a switch, which speaks IPv6 only where it has an address of its own.
func (t *Topology) switchHost(l *lab.Lab, s *Switch) *lab.Host {
	h := l.Host(s.Name)
	speaks := slices.ContainsFunc(t.At(s.Name), func(e *End) bool {
		return slices.ContainsFunc(e.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() })
	})
	if !speaks {
		disableIPv6(h)
	}
	return h
}

func (t *Topology) switchOptions(s *Switch) peers.OpenVSwitchOptions {
	o := peers.OpenVSwitchOptions{Bridge: bridgePort, Controller: s.Controller, FailMode: s.FailMode}
	if s.OpenFlow != "" {
		o.OpenFlow = "OpenFlow" + strings.ReplaceAll(s.OpenFlow, ".", "")
	}
	isPort := t.ports()
	for _, e := range t.At(s.Name) {
		if isPort(e) {
			o.Ports = append(o.Ports, e.Interface)
		}
	}
	return o
}

func (n *Network) host(l *lab.Lab, t *Topology, h *Host) {
	l.T().Helper()
	built := l.Host(h.Name)
	n.Hosts[h.Name] = built
	if h.Forward {
		built.Forward()
	}
	for _, s := range h.Sysctls {
		if !t.ofInterface(h, s) {
			built.Sysctl(s.Key, s.Value)
		}
	}
	built.Hosts(t.HostsFile(h))
	if len(h.Resolv.Nameservers) > 0 || len(h.Resolv.Search) > 0 {
		built.Resolv(h.Resolv.Nameservers, h.Resolv.Search...)
	}
	for _, a := range h.Addresses {
		built.Interface("lo").Address(netip.PrefixFrom(a, a.BitLen()).String())
	}
}

// ofInterface reports whether a setting is one of an interface, which is there only when its link is.
func (t *Topology) ofInterface(h *Host, s Sysctl) bool {
	key := "." + strings.ReplaceAll(s.Key, "/", ".") + "."
	return slices.ContainsFunc(t.At(h.Name), func(e *End) bool { return strings.Contains(key, "."+e.Interface+".") })
}

func (n *Network) end(e *End) lab.End {
	end := lab.End{Host: n.Hosts[e.Host], Name: e.Interface}
	for _, p := range e.Addresses {
		end.Addrs = append(end.Addrs, p.String())
	}
	return end
}
