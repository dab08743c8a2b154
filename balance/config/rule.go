package config

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"baton/document"
)

// rule decodes a rule; place is its index.
func (d *decoder) rule(at string, n *node, place int) Rule {
	r := Rule{Name: fmt.Sprintf("rule-%d", place+1), Otherwise: Any, Line: n.Line}
	d.Fields(at, n, []key{
		{Name: "name", Help: "in the status", Decode: func(path string, n *node) { r.Name = d.linkName(path, n) }},
		{Name: "to", Help: "prefixes of servers (default: all)", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxPrefixes)
			r.To = document.Distinct(d.Decoder, path, n, d.AddressOrPrefix)
		}},
		{Name: "services", Help: "tcp/443, udp/8000-8100 or tcp (default: all)", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxServices)
			r.Services = document.Distinct(d.Decoder, path, n, d.service)
		}},
		{Name: "application", Help: "user or control group of the program (default: all)", Decode: func(path string, n *node) { r.Application = d.application(path, n) }},
		{Name: "links", Help: "that matching flows may use (default: all)", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxLinks)
			r.Links = document.Distinct(d.Decoder, path, n, d.Text)
		}},
		{Name: "otherwise", Default: "any", Help: "if none of these is usable: another link, or drop", Decode: func(path string, n *node) {
			r.Otherwise = Otherwise(d.Choice(path, n, "is not a valid choice", string(Any), string(Drop)))
		}},
		{Name: "method", Help: "how a link is chosen (default: that of the file)", Decode: func(path string, n *node) { r.Method = d.method(path, n) }},
		{Name: "together", Now: "affinity"},
		{Name: "affinity", Help: "as in the file, for these flows", Decode: func(path string, n *node) { r.Affinity = d.affinity(path, n) }},
	})
	return r
}

// The transport protocols that services are of, by their numbers at IANA.
var (
	protocols     = map[string]uint8{"tcp": 6, "udp": 17}
	protocolNames = []string{"tcp", "udp"}
)

// service decodes a protocol with or without a port or range: "tcp/443", "udp/8000-8100", "tcp".
func (d *decoder) service(path string, n *node) Service {
	s := d.Text(path, n)
	name, ports, some := strings.Cut(s, "/")
	v := Service{Protocol: protocols[name], Last: 65535}
	switch {
	case d.Err() != nil:
	case v.Protocol == 0 && document.Nearest(name, protocolNames) != "":
		d.WrongText(n, path, s, "is not a service", document.Meant(name, protocolNames))
	case v.Protocol == 0:
		d.WrongText(n, path, s, "is not a service", "such as tcp/443, udp/8000-8100 or tcp")
	case some:
		p, problem, valid := document.ParsePorts(ports)
		if problem != "" {
			d.WrongText(n, path, ports, problem, valid)
		}
		v.First, v.Last = p.First, p.Last
	}
	return v
}

// userForm matches the widest form of names that useradd(8) accepts, or a number.
var userForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,30}[$]?$`)

const groupPath = 4000 // bytes; the kernel's buffer for a path is a page

func (d *decoder) application(at string, n *node) *Application {
	a := &Application{}
	d.Fields(at, n, []key{
		{Name: "user", Help: "name or number", Decode: func(path string, n *node) {
			a.User = d.Text(path, n)
			if d.Err() == nil && !userForm.MatchString(a.User) {
				d.WrongText(n, path, a.User, "is not a user", "a name, such as backup, or a number")
			}
		}},
		{Name: "cgroup", Help: "path, such as /system.slice/backup.service", Decode: func(at string, n *node) {
			a.Cgroup = d.Text(at, n)
			if d.Err() == nil && (a.Cgroup[0] != '/' || a.Cgroup == "/" || path.Clean(a.Cgroup) != a.Cgroup || len(a.Cgroup) > groupPath) {
				d.WrongText(n, at, a.Cgroup, "is no control group's path", `as in /proc/PID/cgroup behind "0::", such as /system.slice/backup.service`)
			}
		}},
	})
	if d.Err() == nil && (a.User == "") == (a.Cgroup == "") {
		d.Wrong(n, at, "is not one of user and cgroup", "one of them")
	}
	return a
}
