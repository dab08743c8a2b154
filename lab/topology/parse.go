package topology

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"baton/document"
	"baton/lab/emulator"
)

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: "at least hosts", Root: "a mapping with hosts and links"}

// Bounds of a topology: one machine holds no more.
const (
	maxNodeN = 1000 // hosts, bridges and switches
	maxLinks = 4000
)

// Error is the first thing that is wrong with a topology, in the order of checking.
type Error = document.Error

// Read reads a topology's file, or standard input for "-".
func Read(path string) ([]byte, error) {
	in := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read topology: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(rules.Bytes)+1)) // Parse refuses the byte too many
	if err != nil {
		return nil, fmt.Errorf("read topology: %w", err)
	}
	return text, nil
}

// Rename gives the topology another name.
func (t *Topology) Rename(name string) error {
	if !hostName.MatchString(name) {
		return fmt.Errorf("%q is no name of a lab (%s)", document.Clip(name), hostNameForm)
	}
	t.Name = name
	return nil
}

// Parse checks the content of a topology's file and works out what it leaves open; name stands for the file in messages,
// and for the topology where it has no name. It returns a topology or an *Error, never both.
func Parse(name string, data []byte) (*Topology, error) {
	root, err := document.Parse(name, data, rules)
	if err != nil {
		return nil, err
	}
	d := &decoder{document.NewDecoder(name)}
	t := &Topology{Name: nameOf(name)}
	for _, step := range []func(){
		func() { d.topology(root, t) },
		func() { d.checkNames(t) },
		func() { t.nameInterfaces() },
		func() { d.checkAddresses(t) },
		func() { d.addressLinks(t) },
		func() { d.checkLoops(t) },
		func() { d.checkRoutes(t) },
		func() { t.route() },
	} {
		if step(); d.Err() != nil {
			return nil, d.Refused()
		}
	}
	return t, nil
}

// nameOf makes a name of a file's.
func nameOf(file string) string {
	base := strings.ToLower(filepath.Base(file))
	base = strings.TrimSuffix(base, filepath.Ext(base))
	base = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(base, "-"), "-")
	base = strings.TrimRight(base[:min(len(base), 32)], "-")
	if !hostName.MatchString(base) {
		return "lab"
	}
	return base
}

func (d *decoder) topology(root *node, t *Topology) {
	d.Fields("", root, []key{
		{Name: "name", Decode: func(path string, n *node) { t.Name = d.name(path, n, hostName, hostNameForm) }},
		{Name: "routing", Decode: func(path string, n *node) {
			t.explicit = d.Choice(path, n, "is not known", "shortest-path", "explicit") == "explicit"
		}},
		{Name: "hosts", Decode: func(path string, n *node) {
			d.Entries(path, n, func(path, name string, n *node) {
				h := &Host{Name: name}
				t.Hosts = append(t.Hosts, h)
				d.host(path, n, h)
			})
		}},
		{Name: "bridges", Decode: func(path string, n *node) {
			d.Entries(path, n, func(path, name string, n *node) {
				t.Bridges = append(t.Bridges, Bridge{name})
				d.Fields(path, n, nil)
			})
		}},
		{Name: "switches", Decode: func(path string, n *node) {
			d.Entries(path, n, func(path, name string, n *node) {
				s := &Switch{Name: name}
				t.Switches = append(t.Switches, s)
				d.openvswitch(path, n, s)
			})
		}},
		{Name: "links", Decode: func(path string, n *node) {
			d.List(path, n, func(path string, n *node) {
				k := &Link{}
				t.Links = append(t.Links, k)
				d.link(path, n, k)
			})
		}},
		{Name: "anycast", Decode: func(path string, n *node) {
			d.Entries(path, n, func(path, name string, n *node) {
				a := Anycast{Address: d.parseAddress(d.Place(path), path, name), Hosts: d.Texts(path, n)}
				t.Anycast = append(t.Anycast, a)
			})
		}},
	})
	d.Require("", root, "hosts")
}

func (d *decoder) name(path string, n *node, pattern *regexp.Regexp, valid string) string {
	s := d.Text(path, n)
	if d.Err() == nil && !pattern.MatchString(s) {
		d.Wrong(n, path, fmt.Sprintf("%q is no name here", document.Clip(s)), valid)
	}
	return s
}

// key names an entry of a mapping by name.
func (d *decoder) key(path, name string, pattern *regexp.Regexp, valid string) {
	if !pattern.MatchString(name) {
		d.Refuse(path, fmt.Sprintf("%q is no name here", document.Clip(name)), valid)
	}
}

func (d *decoder) host(path string, n *node, h *Host) {
	d.Fields(path, n, []key{
		{Name: "forward", Decode: func(path string, n *node) { h.Forward = d.Boolean(path, n) }},
		{Name: "addresses", Decode: func(path string, n *node) {
			d.List(path, n, func(path string, n *node) { h.Addresses = append(h.Addresses, d.address(path, n)) })
		}},
		{Name: "routes", Decode: func(path string, n *node) {
			h.ownRoutes = true
			d.List(path, n, func(path string, n *node) { h.Routes = append(h.Routes, d.route(path, n)) })
		}},
		{Name: "sysctls", Decode: func(path string, n *node) {
			d.Entries(path, n, func(path, name string, n *node) {
				if !sysctlKey.MatchString(name) {
					d.Refuse(path, "is no network setting", "such as net.ipv4.tcp_sack")
				}
				h.Sysctls = append(h.Sysctls, Sysctl{name, d.Text(path, n)})
			})
		}},
		{Name: "names", Decode: func(path string, n *node) {
			h.Names = make(map[string][]netip.Addr)
			d.Entries(path, n, func(path, name string, n *node) {
				d.key(path, name, dnsName, "such as www.example.net")
				if n.Kind == document.Scalar {
					h.Names[name] = []netip.Addr{d.address(path, n)}
					return
				}
				d.List(path, n, func(path string, n *node) { h.Names[name] = append(h.Names[name], d.address(path, n)) })
			})
		}},
		{Name: "resolv", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "nameservers", Decode: func(path string, n *node) {
					d.List(path, n, func(path string, n *node) {
						h.Resolv.Nameservers = append(h.Resolv.Nameservers, d.nameserver(path, n))
					})
					if len(n.List) > 3 { // MAXNS of resolv.conf(5)
						d.Wrong(n, path, fmt.Sprintf("has %d entries", len(n.List)), "3 at most, as programs ask no more")
					}
				}},
				{Name: "search", Decode: func(path string, n *node) {
					d.List(path, n, func(path string, n *node) {
						h.Resolv.Search = append(h.Resolv.Search, d.name(path, n, dnsName, "such as example.net"))
					})
				}},
			})
		}},
		{Name: "processes", Decode: func(path string, n *node) {
			d.Entries(path, n, func(path, name string, n *node) {
				d.key(path, name, processName, processNameForm)
				h.Processes = append(h.Processes, d.process(path, name, n))
			})
		}},
	})
}

// A sysctl's key may name an interface, whose dots are slashes.
var sysctlKey = regexp.MustCompile(`^net(\.[A-Za-z0-9_/-]+)+$`)

// nameserver decodes an address that may be one of the host itself.
func (d *decoder) nameserver(path string, n *node) netip.Addr {
	if a, err := netip.ParseAddr(n.Text); err == nil && n.Kind == document.Scalar && a.IsLoopback() && !a.Is4In6() {
		return a
	}
	return d.address(path, n)
}

func (d *decoder) route(path string, n *node) (r Route) {
	var to string
	d.Fields(path, n, []key{
		{Name: "to", Decode: func(path string, n *node) { to = d.Text(path, n) }},
		{Name: "via", Decode: func(path string, n *node) { r.Via = d.address(path, n) }},
	})
	if d.Require(path, n, "to", "via"); d.Err() != nil {
		return r
	}
	switch {
	case to == "default" && r.Via.Is4():
		r.To = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	case to == "default":
		r.To = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	default:
		p, err := netip.ParsePrefix(to)
		if a, isAddress := netip.ParseAddr(to); isAddress == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() {
			d.Refuse(path+".to", fmt.Sprintf("%q is not a prefix", document.Clip(to)), `default, or such as 10.2.0.0/16`)
		} else if p != p.Masked() {
			d.Refuse(path+".to", fmt.Sprintf("%v has bits beyond its prefix", p), p.Masked().String())
		}
		r.To = p
	}
	return r
}

// process decodes the three forms of a process: a line for the shell, a list of arguments, or a mapping with one of them.
func (d *decoder) process(path, name string, n *node) Process {
	p := Process{Name: name}
	command := func(path string, n *node) {
		if n.Kind == document.Scalar {
			p.Command = []string{"/bin/sh", "-c", d.Lines(path, n)}
			return
		}
		d.List(path, n, func(path string, n *node) { p.Command = append(p.Command, d.argument(path, n)) })
		if d.Err() == nil && (len(p.Command) == 0 || p.Command[0] == "") {
			d.Wrong(n, path, "is an empty list", "the program and its arguments")
		}
	}
	if n.Kind != document.Mapping {
		command(path, n)
		return p
	}
	d.Fields(path, n, []key{
		{Name: "command", Decode: command},
		{Name: "env", Decode: func(path string, n *node) {
			d.Entries(path, n, func(path, name string, n *node) {
				if name == "" || strings.ContainsAny(name, "=\x00") {
					d.Refuse(path, "is no name of a variable", "letters, digits and _, and no digit first")
				}
				p.Env = append(p.Env, name+"="+d.argument(path, n))
			})
		}},
		{Name: "listens", Decode: func(path string, n *node) { p.Listens = d.Integer(path, n, 1, 65535) }},
		{Name: "dir", Decode: func(path string, n *node) {
			if p.Dir = d.Text(path, n); d.Err() == nil && !filepath.IsAbs(p.Dir) {
				d.Wrong(n, path, fmt.Sprintf("%q is not an absolute path", document.Clip(p.Dir)), "such as /srv/www")
			}
		}},
	})
	d.Require(path, n, "command")
	return p
}

// argument is text that may be empty.
func (d *decoder) argument(path string, n *node) string {
	if n.Kind == document.Scalar && n.Text == "" {
		return ""
	}
	return d.Lines(path, n)
}

func (d *decoder) openvswitch(path string, n *node, s *Switch) {
	d.Fields(path, n, []key{
		{Name: "controller", Decode: func(path string, n *node) {
			s.Controller = d.Text(path, n)
			kind, rest, _ := strings.Cut(s.Controller, ":")
			if _, err := netip.ParseAddrPort(rest); d.Err() == nil && (err != nil || kind != "tcp") {
				d.Wrong(n, path, fmt.Sprintf("%q is not where a controller is", document.Clip(s.Controller)), "such as tcp:10.0.0.1:6653")
			}
		}},
		{Name: "openflow", Decode: func(path string, n *node) {
			s.OpenFlow = d.Choice(path, n, "is not known", "1.0", "1.1", "1.2", "1.3", "1.4", "1.5")
		}},
		{Name: "fail_mode", Decode: func(path string, n *node) { s.FailMode = d.Choice(path, n, "is not known", "standalone", "secure") }},
	})
}

func (d *decoder) link(path string, n *node, k *Link) {
	end := func(e *End) func(string, *node) {
		return func(path string, n *node) {
			if n.Kind == document.Scalar {
				e.Host = d.Text(path, n)
				return
			}
			d.Fields(path, n, []key{
				{Name: "host", Decode: func(path string, n *node) { e.Host = d.Text(path, n) }},
				{Name: "interface", Decode: func(path string, n *node) { e.Interface = d.name(path, n, interfaceName, interfaceNameForm) }},
				{Name: "addresses", Decode: func(path string, n *node) {
					e.addressed = true
					d.List(path, n, func(path string, n *node) { e.Addresses = append(e.Addresses, d.interfaceAddress(path, n)) })
				}},
			})
			d.Require(path, n, "host")
		}
	}
	// What one direction says for itself wins wherever it stands.
	var directional []func()
	direction := func(s *emulator.Shape) func(string, *node) {
		return func(path string, n *node) {
			directional = append(directional, func() { d.Fields(path, n, d.shapeKeys(s)) })
		}
	}
	d.Fields(path, n, slices.Concat([]key{
		{Name: "name", Decode: func(path string, n *node) {
			k.Name = d.name(path, n, linkName, "a letter, then letters, digits and -, all lower case")
		}},
		{Name: "a", Decode: end(&k.A)},
		{Name: "b", Decode: end(&k.B)},
		{Name: "mtu", Decode: func(path string, n *node) { k.MTU = d.Integer(path, n, 68, 65521) }},
		{Name: "offloads", Decode: func(path string, n *node) { k.NoOffloads = !d.Boolean(path, n) }},
		{Name: "emulated", Decode: func(path string, n *node) { k.Emulated = d.Boolean(path, n) }},
		{Name: "a_to_b", Decode: direction(&k.AToB)},
		{Name: "b_to_a", Decode: direction(&k.BToA)},
	}, d.shapeKeys(&k.AToB, &k.BToA)))
	d.Require(path, n, "a", "b")
	for _, f := range directional {
		f()
	}
	if d.Err() != nil {
		return
	}
	shaped := k.AToB != emulator.Shape{} || k.BToA != emulator.Shape{}
	if d.Given(path+".emulated") && !k.Emulated && shaped {
		d.Refuse(path+".emulated", "is false, and the link has a shape", "leave it out, or leave out rate, delay, loss, …")
	}
	k.Emulated = k.Emulated || shaped
	d.shape(path, "a_to_b", k.AToB)
	d.shape(path, "b_to_a", k.BToA)
}

// shape refuses what is impossible in a direction, at the setting that the message begins with.
func (d *decoder) shape(path, direction string, s emulator.Shape) {
	err := s.Validate()
	if err == nil {
		return
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	word, _, _ := strings.Cut(strings.ReplaceAll(first, ":", ""), " ")
	at := path + "." + direction + "." + word
	if !d.Given(at) {
		if at = path + "." + word; !d.Given(at) {
			at = path
		}
	}
	problem, valid, bounds := strings.Cut(strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(first, word), ":")), ": want ")
	if bounds {
		problem += " is not possible"
	}
	d.Refuse(at, problem, valid)
}
