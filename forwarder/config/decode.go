package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"baton/document"
	"baton/openflow"
)

// decoder turns the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

// The longest paths that the kernel takes, in bytes.
const (
	unixPath = 107  // sun_path without its final NUL, unix(7)
	filePath = 4095 // PATH_MAX without its final NUL
)

// metrics decodes where the Prometheus listener is; the host may be empty or a name.
func (d *decoder) metrics(path string, n *node) string {
	s := d.Text(path, n)
	if _, _, problem := splitHostPort(s); d.Err() == nil && problem != "" {
		d.WrongText(n, path, s, problem, `such as "127.0.0.1:9410"`)
	}
	return s
}

// splitHostPort divides host:port and says what is wrong with it, "" when nothing is.
func splitHostPort(s string) (host, port, problem string) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", "", "is not host:port"
	}
	if v, err := strconv.Atoi(port); err != nil || v < 1 || v > 65535 || port[0] == '0' || port[0] == '+' {
		return "", "", "has no port from 1 to 65535"
	}
	return host, port, ""
}

// datapathID decodes the 64 bits that controllers know the forwarder by.
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

// deviceForm is what the kernel takes as the name of an interface (dev_valid_name), but for odd characters that are asking for
// trouble.
var deviceForm = regexp.MustCompile(`^[A-Za-z0-9_.@-]{1,15}$`)

func (d *decoder) device(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() == nil && (!deviceForm.MatchString(s) || s == "." || s == "..") {
		d.WrongText(n, path, s, "is not the name of an interface", "such as eth0")
	}
	return s
}

// maxPorts is how many the kernel's tables have room for, and maxPortNo the highest number of one.
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

// The values of a port's key side: where the packets come from that the forwarder gets.
const (
	sideNetwork = "network"
	sideHost    = "host"
)

// port decodes the name of an interface, or a mapping with more.
func (d *decoder) port(path string, n *node) Port {
	var p Port
	if n.Kind != document.Mapping {
		p.Interface = d.device(path, n)
		return p
	}
	d.Fields(path, n, []key{
		{Name: "interface", Decode: func(path string, n *node) { p.Interface = d.device(path, n) }},
		{Name: "side", Decode: func(path string, n *node) {
			p.HostSide = d.Choice(path, n, "is not a side", sideNetwork, sideHost) == sideHost
		}},
	})
	d.Require(path, n, "interface")
	return p
}
