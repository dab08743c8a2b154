package links

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"baton/balance/config"
	"baton/document"
)

// Host is the state of a host before the balance is set up, which a configuration has to fit.
type Host struct {
	Links      []Link   // in the configuration's order
	Interfaces []string // names of all interfaces
	Networks   []Network
}

// Network is an address of an interface of the host, with its network.
type Network struct {
	Interface string
	Prefix    netip.Prefix
}

// Level is the severity of a finding.
type Level int

// The levels.
const (
	Info    Level = iota // often intended
	Warning              // works, but not as one might expect
	Wrong                // does not work
)

// Finding is a note, a warning or an error about a configuration on this host.
type Finding struct {
	Level Level
	document.Place
	Key  string // in the configuration
	Text string
}

// In returns one line, formatted like a configuration's warnings.
func (f Finding) In(file string) string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", file, f.Line, f.Column, f.Key, f.Text)
}

// Check compares the configuration with the host, in the configuration's order.
func Check(c *config.Config, h Host) []Finding {
	var out []Finding
	report := func(level Level, key, format string, args ...any) {
		out = append(out, Finding{level, c.Places.At(key), key, fmt.Sprintf(format, args...)})
	}
	there := 0
	for i, l := range h.Links {
		key := fmt.Sprintf("links[%d]", i)
		if l.Index != 0 {
			there++
		}
		checkLink(l, h, func(level Level, format string, args ...any) { report(level, key, format, args...) })
		for j, o := range h.Links[:i] {
			checkPair(l, o, fmt.Sprintf("links[%d]", j), func(level Level, format string, args ...any) { report(level, key, format, args...) })
		}
	}
	if there == 0 {
		report(Wrong, "links", "none of the interfaces exists")
	}
	if in := c.Internal.Interface; slices.Contains(h.Interfaces, in) || slices.Contains(h.Interfaces, in+"p") {
		report(Wrong, "internal.interface", "%s or %sp exists and is not ours: give the internal interface another name", in, in)
	}
	for _, n := range h.Networks {
		if n.Prefix.Overlaps(c.Internal.IPv4) {
			report(Wrong, "internal.ipv4", "%v is used by %s, which has %v: give the internal interface another network", c.Internal.IPv4.Masked(), n.Interface, n.Prefix)
		}
		if n.Prefix.Overlaps(c.Internal.IPv6) {
			report(Wrong, "internal.ipv6", "%v is used by %s, which has %v: give the internal interface another network", c.Internal.IPv6.Masked(), n.Interface, n.Prefix)
		}
	}
	return out
}

// checkLink checks one link. Missing things may appear later, and are used then.
func checkLink(l Link, h Host, report func(Level, string, ...any)) {
	switch {
	case l.Index == 0:
		hint := "used once it appears"
		if best := document.Nearest(l.Interface, h.Interfaces); best != "" {
			hint += "; did you mean " + best + "?"
		} else if len(h.Interfaces) > 0 {
			hint += "; there are " + strings.Join(h.Interfaces, ", ")
		}
		report(Warning, "interface %s does not exist (%s)", l.Interface, hint)
		return
	case l.MAC == MAC{}:
		report(Warning, "%s has no link layer (ppp, tunnels, raw IP modems) and is not used: a balance needs gateways with MACs", l.Interface)
		return
	case !l.Carrier:
		report(Warning, "%s has no carrier: used once it has one", l.Interface)
		return
	case !l.V4.Address.IsValid() && !l.V6.Address.IsValid():
		report(Warning, "%s has no address: used once it has one", l.Interface)
		return
	}
	for _, f := range []struct {
		name string
		Family
	}{{"IPv4", l.V4}, {"IPv6", l.V6}} {
		switch {
		case !f.Address.IsValid():
			report(Info, "%s has no %s: its flows use the other links", l.Interface, f.name)
		case !f.Gateway.IsValid():
			report(Warning, "%s has no default route for %s and no configured gateway: its flows use the other links", l.Interface, f.name)
		case f.Gateway == f.Address:
			report(Wrong, "%v is the gateway of %s and its own address", f.Gateway, l.Interface)
		}
	}
}

// checkPair compares a link with an earlier one, whose key is other.
func checkPair(l, o Link, other string, report func(Level, string, ...any)) {
	for _, f := range [][2]Family{{l.V4, o.V4}, {l.V6, o.V6}} {
		a, b := f[0], f[1]
		switch {
		case !a.Address.IsValid() || !b.Address.IsValid():
		case a.Address == b.Address:
			report(Warning, "address conflict: %s and %s, which is %s, both have %v. New flows are balanced; "+
				"a socket that is bound to the address leaves by %s", l.Interface, o.Interface, other, a.Address, o.Interface)
		case a.Prefix.Overlaps(b.Prefix):
			report(Warning, "%v of %s and %v of %s, which is %s, overlap. Flows by the gateways are balanced; hosts of these networks "+
				"are reached by one of the interfaces, as the main routing table says", a.Prefix, l.Interface, b.Prefix, o.Interface, other)
		}
	}
}
