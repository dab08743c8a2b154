package config

import (
	"fmt"
	"net/netip"
	"strconv"

	"baton/document"
)

// link decodes the name of an interface, or a mapping.
func (d *decoder) link(path string, n *node) Link {
	l := Link{Line: n.Line}
	if n.Kind == document.Scalar {
		l.Interface = d.device(path, n)
		l.Name = l.Interface
		return l
	}
	d.Fields(path, n, []key{
		{Name: "name", Help: "in the status and in rules (default: the interface)", Decode: func(path string, n *node) { l.Name = d.linkName(path, n) }},
		{Name: "interface", Help: "of the link", Decode: func(path string, n *node) { l.Interface = d.device(path, n) }},
		{Name: "weight", Default: "measured", Help: "share of new flows, relative to the other weights", Decode: func(path string, n *node) { l.Weight = d.weight(path, n) }},
		{Name: "tier", Default: "0", Help: "only the lowest tier with a usable link is used", Decode: func(path string, n *node) { l.Tier = d.Integer(path, n, 0, maxTier) }},
		{Name: "gateways", Help: "at most one for each IP version (default: from the routing tables)", Decode: func(path string, n *node) { l.Gateways = d.gateways(path, n) }},
		{Name: "resolvers", Help: "name servers that are queried over this link alone (default: those of the host)",
			Decode: func(path string, n *node) { l.Resolvers = d.resolvers(path, n) }},
		{Name: "cap", Help: "most bytes in a period", Decode: func(path string, n *node) { l.Cap = d.cap(path, n) }},
		{Name: "probe", Help: "for this link (default: that of the file)", Decode: func(path string, n *node) {
			l.Probe = &Probe{}
			d.probe(path, n, l.Probe)
		}},
	})
	d.Require(path, n, "interface")
	if l.Name == "" {
		l.Name = l.Interface
	}
	return l
}

const measured = "measured"

// weight decodes a number, or the word measured as 0.
func (d *decoder) weight(path string, n *node) int {
	if n.Text == measured {
		return 0
	}
	s := d.Text(path, n)
	w, err := strconv.Atoi(s)
	if d.Err() == nil && (err != nil || w < 1 || w > maxWeight) {
		valid := fmt.Sprintf("from 1 to %d, or %s; give a backup link a higher tier", maxWeight, measured)
		if document.Nearest(s, []string{measured}) != "" {
			valid = document.Meant(s, []string{measured})
		}
		d.WrongText(n, path, s, "is not a weight", valid)
	}
	return w
}

// gateways decodes one address or a list of two.
func (d *decoder) gateways(path string, n *node) []netip.Addr {
	var out []netip.Addr
	d.NonEmptyList(path, n, func(at string, n *node) {
		a := d.linkAddress(at, n)
		for _, other := range out {
			if d.Err() == nil && other.IsValid() && other.Is4() == a.Is4() {
				d.WrongText(n, at, n.Text, fmt.Sprintf("is a second gateway for %s", version(a)), "one of each IP version at most")
			}
		}
		out = append(out, a)
	})
	return out
}

func (d *decoder) resolvers(path string, n *node) []netip.Addr {
	d.AtMost(path, n, 8)
	return document.Distinct(d.Decoder, path, n, d.linkAddress)
}

// cap decodes a cap. It requires a period, because a cap without one is never meant.
func (d *decoder) cap(path string, n *node) *Cap {
	c := &Cap{Day: 1}
	d.Fields(path, n, []key{
		{Name: "bytes", Help: "such as 20GB", Decode: func(path string, n *node) { c.Bytes = d.Size(path, n, leastCap, mostCap) }},
		{Name: "every", Help: "the period (required)", Decode: func(path string, n *node) {
			c.Every = Period(d.Choice(path, n, "is not a period", string(Day), string(Week), string(Month)))
		}},
		{Name: "day", Default: "1", Help: "on which it begins", Decode: func(path string, n *node) { c.Day = d.Integer(path, n, 1, 28) }},
		{Name: "hard", Default: "false", Help: "true: the link is not used at all beyond the cap",
			Decode: func(path string, n *node) { c.Hard = d.Boolean(path, n) }},
	})
	d.Require(path, n, "bytes")
	if c.Every == "" {
		d.Wrong(n, document.Join(path, "every"), "is missing", "day, week or month: the period of the cap")
	}
	switch day := document.Join(path, "day"); {
	case d.Err() != nil || !d.Given(day):
	case c.Every == Day:
		d.Refuse(day, "is set for a daily cap", "only a week or a month has a first day")
	case c.Every == Week && c.Day > 7:
		d.Refuse(day, fmt.Sprintf(`"%d" is not a day of the week`, c.Day), "from 1, Monday, to 7")
	}
	return c
}

func version(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
