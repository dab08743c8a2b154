package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"baton/document"
	"baton/openflow"
)

// decoder decodes the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

// datapathID decodes the datapath id, 64 bits.
func (d *decoder) datapathID(path string, n *node) uint64 {
	s := d.Text(path, n)
	hex, isHex := strings.CutPrefix(s, "0x")
	v, err := strconv.ParseUint(s, 10, 64)
	if isHex {
		v, err = strconv.ParseUint(hex, 16, 64)
	}
	switch {
	case d.Err() != nil:
	case !isHex && len(s) > 1 && s[0] == '0':
		d.WrongText(n, path, s, "may be decimal or not", "0x before what is hexadecimal, no 0 before what is not")
	case err != nil || v == 0:
		d.WrongText(n, path, s, "is not a datapath id", "from 1 to 0xffffffffffffffff")
	}
	return v
}

// maxPorts is the capacity of the kernel's tables, maxPortNo the highest port number.
const (
	maxPorts  = 1024
	maxPortNo = 0xff00 - 1
)

// ports decodes interfaces by number, or a list of them numbered from 1.
func (d *decoder) ports(path string, n *node) []Port {
	var out []Port
	add := func(at string, no int, n *node) {
		p := d.port(at, n)
		p.No = openflow.PortNo(no)
		if i := slices.IndexFunc(out, func(o Port) bool { return o.Interface == p.Interface }); i >= 0 && d.Err() == nil {
			d.WrongText(n, at, p.Interface, fmt.Sprintf("is port %d already", out[i].No), "an interface is one port")
		}
		out = append(out, p)
	}
	d.AtMost(path, n, maxPorts)
	if n.Kind == document.Sequence {
		no := 0
		d.NonEmptyList(path, n, func(at string, n *node) {
			no++
			add(at, no, n)
		})
		return out
	}
	if n.Kind == document.Mapping && len(n.Fields) == 0 {
		d.Wrong(n, path, "is an empty mapping", "at least one port")
	}
	if n.Kind == document.Scalar {
		d.Wrong(n, path, "is a single value", "interfaces by number, or a list of interfaces")
		return nil
	}
	d.Entries(path, n, func(at, name string, n *node) {
		no, err := strconv.Atoi(name)
		if err != nil || no < 1 || no > maxPortNo || strconv.Itoa(no) != name {
			d.Refuse(at, fmt.Sprintf("%q is not the number of a port", document.Clip(name)), fmt.Sprintf("from 1 to %d", maxPortNo))
			return
		}
		if n.Kind == document.Null {
			d.Refuse(at, "has no value", "the name of an interface")
			return
		}
		add(at, no, n)
	})
	slices.SortFunc(out, func(a, b Port) int { return int(a.No) - int(b.No) })
	return out
}

// Values of a port's key side.
const (
	sideNetwork = "network"
	sideHost    = "host"
)

// port decodes an interface's name, or a mapping.
func (d *decoder) port(path string, n *node) Port {
	var p Port
	if n.Kind != document.Mapping {
		p.Interface = d.Device(path, n)
		return p
	}
	d.Fields(path, n, []key{
		{Name: "interface", Help: "its name", Decode: func(path string, n *node) { p.Interface = d.Device(path, n) }},
		{Name: "side", Default: "network", Help: "network: what the interface receives arrives on the port; host: what the host sends by it",
			Decode: func(path string, n *node) {
				p.HostSide = d.Choice(path, n, "is not a side", sideNetwork, sideHost) == sideHost
			}},
	})
	d.Require(path, n, "interface")
	return p
}
