package links

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"baton/balance/config"
	"baton/document"
)

// Host is what of a host a configuration has to fit, before anything of the balance is set up.
type Host struct {
	Links      []Link   // of the configuration, in its order
	Interfaces []string // the names of all that there are
	Networks   []Network
}

// Network is an address of an interface of the host, with its network.
type Network struct {
	Interface string
	Prefix    netip.Prefix
}

// Level is how much a finding matters.
type Level int

// The levels.
const (
	Info    Level = iota // as it is often meant
	Warning              // it works, otherwise than one might expect
	Wrong                // it cannot work
)

// Finding is something that one should know of how a configuration fits a host.
type Finding struct {
	Level Level
	document.Place
	Key  string // in the configuration
	Text string
}

// In is one line, of the form of a configuration's own warnings.
func (f Finding) In(file string) string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", file, f.Line, f.Column, f.Key, f.Text)
}

// Check says how the configuration fits the host, in the order of the configuration.
func Check(c *config.Config, h Host) []Finding {
	var out []Finding
	report := func(level Level, key, format string, args ...any) {
		out = append(out, Finding{level, c.At(key), key, fmt.Sprintf(format, args...)})
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
		report(Wrong, "links", "none of the interfaces is there")
	}
	if in := c.Internal.Interface; slices.Contains(h.Interfaces, in) || slices.Contains(h.Interfaces, in+"p") {
		report(Wrong, "internal.interface", "there is an interface %s or %sp already, which is not ours: give the internal interface another name", in, in)
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

// checkLink looks at one link. What is missing may come, and is used when it has come.
func checkLink(l Link, h Host, report func(Level, string, ...any)) {
	switch {
	case l.Index == 0:
		hint := "it is used when it comes"
		if best := document.Nearest(l.Interface, h.Interfaces); best != "" {
			hint += "; did you mean " + best + "?"
		} else if len(h.Interfaces) > 0 {
			hint += "; there are " + strings.Join(h.Interfaces, ", ")
		}
		report(Warning, "there is no interface %s (%s)", l.Interface, hint)
		return
	case l.MAC == MAC{}:
		report(Warning, "%s has no link layer (ppp, tunnels, raw IP modems) and is not used: balance needs gateways that have MACs", l.Interface)
		return
	case !l.Carrier:
		report(Warning, "%s has no carrier: it is used when it has one", l.Interface)
		return
	case !l.V4.Address.IsValid() && !l.V6.Address.IsValid():
		report(Warning, "%s has no address: it is used when it has one", l.Interface)
		return
	}
	for _, f := range []struct {
		name string
		Family
	}{{"IPv4", l.V4}, {"IPv6", l.V6}} {
		switch {
		case !f.Address.IsValid():
			report(Info, "%s has no %s: flows of it use the other links", l.Interface, f.name)
		case !f.Gateway.IsValid():
			report(Warning, "%s has no default route for %s, and no gateway is given for it: flows of it use the other links", l.Interface, f.name)
		case f.Gateway == f.Address:
			report(Wrong, "%v is the gateway of %s and its own address", f.Gateway, l.Interface)
		}
	}
}

// checkPair looks at a link and at one before it in the configuration, which has the key other.
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
