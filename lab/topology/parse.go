package topology

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"baton/lab/emulator"
)

// Bounds of a topology. One machine holds no more, and a mistaken file must not fill its memory.
const (
	maxFile  = 1 << 20 // bytes
	maxNodeN = 1000    // hosts, bridges and switches
	maxLinks = 4000
)

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
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1)) // Parse refuses the byte too many
	if err != nil {
		return nil, fmt.Errorf("read topology: %w", err)
	}
	return text, nil
}

// Rename gives the topology another name.
func (t *Topology) Rename(name string) error {
	if !hostName.MatchString(name) {
		return fmt.Errorf("%q is no name of a lab (%s)", clip(name), hostNameRight)
	}
	t.Name = name
	return nil
}

func tooLarge(name string) *Error {
	return &Error{File: name, Problem: "is too large", Right: fmt.Sprintf("at most %d MiB", maxFile>>20)}
}

// Parse checks the content of a topology's file and works out what it leaves open; name stands for the file in messages,
// and for the topology where it has no name. It returns a topology or an *Error, never both.
func Parse(name string, data []byte) (*Topology, error) {
	if len(data) > maxFile {
		return nil, tooLarge(name)
	}
	root, err := parseTree(data)
	if err != nil {
		e := &Error{Line: 1, Column: 1, Problem: err.Error()}
		var syntax yaml.Error
		switch {
		case errors.As(err, &e):
		case errors.As(err, &syntax):
			e.Problem = "is not YAML: " + syntax.GetMessage()
			if t := syntax.GetToken(); t != nil && t.Position != nil {
				e.Line, e.Column = t.Position.Line, t.Position.Column
			}
		}
		e.File = name
		return nil, e
	}
	d := &decoder{file: name, places: make(map[string]place)}
	t := &Topology{Name: nameOf(name)}
	for _, step := range []func(){
		func() { d.topology(root, t) },
		func() { d.checkNames(t) },
		func() { t.nameInterfaces() },
		func() { d.checkAddresses(t) },
		func() { t.addressLinks() },
		func() { d.checkLoops(t) },
		func() { d.checkRoutes(t) },
		func() { t.route() },
	} {
		if step(); d.err != nil {
			return nil, d.err
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
	d.fields("", root, []key{
		{"name", func(path string, n *node) { t.Name = d.name(path, n, hostName, hostNameRight) }},
		{"routing", func(path string, n *node) { t.explicit = d.choice(path, n, "shortest-path", "explicit") == "explicit" }},
		{"hosts", func(path string, n *node) {
			d.entries(path, n, func(path, name string, n *node) {
				h := &Host{Name: name}
				t.Hosts = append(t.Hosts, h)
				d.host(path, n, h)
			})
		}},
		{"bridges", func(path string, n *node) {
			d.entries(path, n, func(path, name string, n *node) {
				t.Bridges = append(t.Bridges, Bridge{name})
				d.fields(path, n, nil)
			})
		}},
		{"switches", func(path string, n *node) {
			d.entries(path, n, func(path, name string, n *node) {
				s := &Switch{Name: name}
				t.Switches = append(t.Switches, s)
				d.openvswitch(path, n, s)
			})
		}},
		{"links", func(path string, n *node) {
			d.list(path, n, func(path string, n *node) {
				k := &Link{}
				t.Links = append(t.Links, k)
				d.link(path, n, k)
			})
		}},
		{"anycast", func(path string, n *node) {
			d.entries(path, n, func(path, name string, n *node) {
				a := Anycast{Address: d.parseAddress(d.places[path], path, name), Hosts: d.texts(path, n)}
				t.Anycast = append(t.Anycast, a)
			})
		}},
	})
	d.require("", root, "hosts")
}

func (d *decoder) name(path string, n *node, pattern *regexp.Regexp, right string) string {
	s := d.line(path, n)
	if d.err == nil && !pattern.MatchString(s) {
		d.wrong(n, path, fmt.Sprintf("%q is no name here", clip(s)), right)
	}
	return s
}

// key names an entry of a mapping by name.
func (d *decoder) key(path, name string, pattern *regexp.Regexp, right string) {
	if !pattern.MatchString(name) {
		d.refuse(path, fmt.Sprintf("%q is no name here", clip(name)), right)
	}
}

func (d *decoder) host(path string, n *node, h *Host) {
	d.fields(path, n, []key{
		{"forward", func(path string, n *node) { h.Forward = d.boolean(path, n) }},
		{"addresses", func(path string, n *node) {
			d.list(path, n, func(path string, n *node) { h.Addresses = append(h.Addresses, d.address(path, n)) })
		}},
		{"routes", func(path string, n *node) {
			h.ownRoutes = true
			d.list(path, n, func(path string, n *node) { h.Routes = append(h.Routes, d.route(path, n)) })
		}},
		{"sysctls", func(path string, n *node) {
			d.entries(path, n, func(path, name string, n *node) {
				if !sysctlKey.MatchString(name) {
					d.refuse(path, "is no network setting", "such as net.ipv4.tcp_sack")
				}
				h.Sysctls = append(h.Sysctls, Sysctl{name, d.line(path, n)})
			})
		}},
		{"names", func(path string, n *node) {
			h.Names = make(map[string][]netip.Addr)
			d.entries(path, n, func(path, name string, n *node) {
				d.key(path, name, dnsName, "such as www.example.net")
				if n.kind == scalar {
					h.Names[name] = []netip.Addr{d.address(path, n)}
					return
				}
				d.list(path, n, func(path string, n *node) { h.Names[name] = append(h.Names[name], d.address(path, n)) })
			})
		}},
		{"resolv", func(path string, n *node) {
			d.fields(path, n, []key{
				{"nameservers", func(path string, n *node) {
					d.list(path, n, func(path string, n *node) {
						h.Resolv.Nameservers = append(h.Resolv.Nameservers, d.nameserver(path, n))
					})
					if len(n.list) > 3 { // MAXNS of resolv.conf(5)
						d.wrong(n, path, fmt.Sprintf("has %d entries", len(n.list)), "3 at most, as programs ask no more")
					}
				}},
				{"search", func(path string, n *node) {
					d.list(path, n, func(path string, n *node) {
						h.Resolv.Search = append(h.Resolv.Search, d.name(path, n, dnsName, "such as example.net"))
					})
				}},
			})
		}},
		{"processes", func(path string, n *node) {
			d.entries(path, n, func(path, name string, n *node) {
				d.key(path, name, processName, processNameRight)
				h.Processes = append(h.Processes, d.process(path, name, n))
			})
		}},
	})
}

// A sysctl's key may name an interface, whose dots are slashes.
var sysctlKey = regexp.MustCompile(`^net(\.[A-Za-z0-9_/-]+)+$`)

// nameserver decodes an address that may be one of the host itself.
func (d *decoder) nameserver(path string, n *node) netip.Addr {
	if a, err := netip.ParseAddr(n.text); err == nil && n.kind == scalar && a.IsLoopback() && !a.Is4In6() {
		return a
	}
	return d.address(path, n)
}

func (d *decoder) route(path string, n *node) (r Route) {
	var to string
	d.fields(path, n, []key{
		{"to", func(path string, n *node) { to = d.line(path, n) }},
		{"via", func(path string, n *node) { r.Via = d.address(path, n) }},
	})
	if d.require(path, n, "to", "via"); d.err != nil {
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
			d.refuse(path+".to", fmt.Sprintf("%q is not a prefix", clip(to)), `default, or such as 10.2.0.0/16`)
		} else if p != p.Masked() {
			d.refuse(path+".to", fmt.Sprintf("%v has bits beyond its prefix", p), p.Masked().String())
		}
		r.To = p
	}
	return r
}

// process decodes the three forms of a process: a line for the shell, a list of arguments, or a mapping with one of them.
func (d *decoder) process(path, name string, n *node) Process {
	p := Process{Name: name}
	command := func(path string, n *node) {
		if n.kind == scalar {
			p.Command = []string{"/bin/sh", "-c", d.text(path, n)}
			return
		}
		d.list(path, n, func(path string, n *node) { p.Command = append(p.Command, d.argument(path, n)) })
		if d.err == nil && (len(p.Command) == 0 || p.Command[0] == "") {
			d.wrong(n, path, "is an empty list", "the program and its arguments")
		}
	}
	if n.kind != mapping {
		command(path, n)
		return p
	}
	d.fields(path, n, []key{
		{"command", command},
		{"env", func(path string, n *node) {
			d.entries(path, n, func(path, name string, n *node) {
				if name == "" || strings.ContainsAny(name, "=\x00") {
					d.refuse(path, "is no name of a variable", "")
				}
				p.Env = append(p.Env, name+"="+d.argument(path, n))
			})
		}},
		{"listens", func(path string, n *node) { p.Listens = d.integer(path, n, 1, 65535) }},
		{"dir", func(path string, n *node) {
			if p.Dir = d.line(path, n); d.err == nil && !filepath.IsAbs(p.Dir) {
				d.wrong(n, path, fmt.Sprintf("%q is not an absolute path", clip(p.Dir)), "")
			}
		}},
	})
	d.require(path, n, "command")
	return p
}

// argument is text that may be empty.
func (d *decoder) argument(path string, n *node) string {
	if n.kind == scalar && n.text == "" {
		return ""
	}
	return d.text(path, n)
}

func (d *decoder) openvswitch(path string, n *node, s *Switch) {
	d.fields(path, n, []key{
		{"controller", func(path string, n *node) {
			s.Controller = d.line(path, n)
			kind, rest, _ := strings.Cut(s.Controller, ":")
			if _, err := netip.ParseAddrPort(rest); d.err == nil && (err != nil || kind != "tcp") {
				d.wrong(n, path, fmt.Sprintf("%q is not where a controller is", clip(s.Controller)), "such as tcp:10.0.0.1:6653")
			}
		}},
		{"openflow", func(path string, n *node) { s.OpenFlow = d.choice(path, n, "1.0", "1.1", "1.2", "1.3", "1.4", "1.5") }},
		{"fail_mode", func(path string, n *node) { s.FailMode = d.choice(path, n, "standalone", "secure") }},
	})
}

func (d *decoder) link(path string, n *node, k *Link) {
	end := func(e *End) func(string, *node) {
		return func(path string, n *node) {
			if n.kind == scalar {
				e.Host = d.line(path, n)
				return
			}
			d.fields(path, n, []key{
				{"host", func(path string, n *node) { e.Host = d.line(path, n) }},
				{"interface", func(path string, n *node) { e.Interface = d.name(path, n, interfaceName, interfaceNameRight) }},
				{"addresses", func(path string, n *node) {
					e.addressed = true
					d.list(path, n, func(path string, n *node) { e.Addresses = append(e.Addresses, d.interfaceAddress(path, n)) })
				}},
			})
			d.require(path, n, "host")
		}
	}
	// What one direction says for itself wins wherever it stands.
	var oneWay []func()
	direction := func(s *emulator.Shape) func(string, *node) {
		return func(path string, n *node) {
			oneWay = append(oneWay, func() { d.fields(path, n, d.shapeKeys(s)) })
		}
	}
	d.fields(path, n, slices.Concat([]key{
		{"name", func(path string, n *node) {
			k.Name = d.name(path, n, linkName, "a letter, then letters, digits and -, all lower case")
		}},
		{"a", end(&k.A)},
		{"b", end(&k.B)},
		{"mtu", func(path string, n *node) { k.MTU = d.integer(path, n, 68, 65521) }},
		{"offloads", func(path string, n *node) { k.NoOffloads = !d.boolean(path, n) }},
		{"emulated", func(path string, n *node) { k.Emulated = d.boolean(path, n) }},
		{"a_to_b", direction(&k.AToB)},
		{"b_to_a", direction(&k.BToA)},
	}, d.shapeKeys(&k.AToB, &k.BToA)))
	d.require(path, n, "a", "b")
	for _, f := range oneWay {
		f()
	}
	if d.err != nil {
		return
	}
	shaped := k.AToB != emulator.Shape{} || k.BToA != emulator.Shape{}
	if _, said := d.places[path+".emulated"]; said && !k.Emulated && shaped {
		d.refuse(path+".emulated", "is false, and the link has a shape", "leave it out, or leave out rate, delay, loss, …")
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
	if _, own := d.places[at]; !own {
		if at = path + "." + word; d.places[at] == (place{}) {
			at = path
		}
	}
	problem, right, bounds := strings.Cut(strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(first, word), ":")), ": want ")
	if bounds {
		problem += " is not possible"
	}
	d.refuse(at, problem, right)
}
