package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"baton/document"
)

// maxEndpoints is the maximum number of controllers, and of listeners.
const maxEndpoints = 64

// Values of the key role.
const (
	roleAny   = "any"
	roleSlave = "slave"
)

// peerKeys are the common keys of controllers and listeners.
func (d *decoder) peerKeys(out *Peers) []key {
	return []key{
		{Name: "role", Default: "any", Help: "slave: may read and gets port status, but cannot change anything", Decode: func(path string, n *node) {
			out.ReadOnly = d.Choice(path, n, "is not a role here", roleAny, roleSlave) == roleSlave
		}},
		{Name: "idle", Default: "5s", Help: "without a message for this long, an echo request is sent",
			Decode: func(path string, n *node) { out.Idle = d.Between(path, n, 100*time.Millisecond, time.Hour) }},
		{Name: "dead", Help: "without a message for this long, the channel ends (default: 3 times idle)",
			Decode: func(path string, n *node) { out.Dead = d.Between(path, n, 100*time.Millisecond, 24*time.Hour) }},
	}
}

// peers fills in defaults.
func (d *decoder) peers(path string, p *Peers) {
	if p.Idle == 0 {
		p.Idle = defaultIdle
		if p.Dead > 0 {
			p.Idle = min(p.Idle, p.Dead/deadIdles)
		}
	}
	if p.Dead == 0 {
		p.Dead = deadIdles * p.Idle
	}
	if d.Err() == nil && p.Dead <= p.Idle {
		d.Refuse(path+".dead", fmt.Sprintf("%v is not above idle, which is %v", p.Dead, p.Idle), "time for an answer to the echo")
	}
}

// controller decodes an endpoint, or a mapping.
func (d *decoder) controller(path string, n *node) Controller {
	var c Controller
	if n.Kind == document.Mapping {
		d.Fields(path, n, append([]key{
			{Name: "connect", Help: "endpoint of the controller", Decode: func(path string, n *node) { c.Connect = d.endpoint(path, n, false) }},
			{Name: "name", Help: "tls: name that must be in the controller's certificate (default: any)", Decode: func(path string, n *node) { c.Name = d.hostName(path, n) }},
		}, d.peerKeys(&c.Peers)...))
		d.Require(path, n, "connect")
		if d.Err() == nil && c.Name != "" && c.Connect.Method != "tls" {
			d.Refuse(path+".name", "is for tls alone", "connect: tls:HOST:PORT")
		}
	} else {
		c.Connect = d.endpoint(path, n, false)
	}
	d.peers(path, &c.Peers)
	return c
}

// listener decodes an endpoint, or a mapping.
func (d *decoder) listener(path string, n *node) Listener {
	var l Listener
	if n.Kind == document.Mapping {
		d.Fields(path, n, append([]key{
			{Name: "at", Help: "endpoint to listen on", Decode: func(path string, n *node) { l.Listen = d.endpoint(path, n, true) }},
		}, d.peerKeys(&l.Peers)...))
		d.Require(path, n, "at")
	} else {
		l.Listen = d.endpoint(path, n, true)
	}
	d.peers(path, &l.Peers)
	return l
}

// asOVS maps Open vSwitch's methods to ours.
var asOVS = map[string]string{"ssl": "tls:HOST:PORT", "ptcp": "tcp:HOST:PORT", "pssl": "tls:HOST:PORT", "punix": "unix:PATH"}

func (d *decoder) endpoint(path string, n *node, listen bool) Endpoint {
	s := d.Text(path, n)
	if d.Err() != nil {
		return Endpoint{}
	}
	method, address, _ := strings.Cut(s, ":")
	switch method {
	case "tcp", "tls":
		d.tcpAddress(path, n, address, listen)
	case "unix":
		if !strings.HasPrefix(address, "/") || len(address) > document.SocketPathLength {
			d.WrongText(n, path, s, "has no usable path", fmt.Sprintf("unix: and an absolute path of at most %d bytes", document.SocketPathLength))
		}
	default:
		right := asOVS[method]
		if near := document.Nearest(method, []string{"tcp", "tls", "unix"}); right == "" && near != "" {
			right = document.Meant(method, []string{near})
		} else if right == "" {
			right = "tcp:HOST:PORT, tls:HOST:PORT or unix:PATH"
		}
		d.WrongText(n, path, s, "is not an endpoint", right)
	}
	return Endpoint{method, address}
}

// tcpAddress checks host:port. A host to listen at must be an address, or empty for all.
func (d *decoder) tcpAddress(path string, n *node, address string, listen bool) {
	host, problem := document.SplitHostPort(address)
	_, err := netip.ParseAddr(host)
	switch {
	case problem != "":
		d.WrongText(n, path, n.Text, problem, "such as tcp:127.0.0.1:6653; an IPv6 address in [brackets]")
	case err == nil:
	case listen && host != "":
		d.WrongText(n, path, n.Text, "listens at no address", "such as tcp:127.0.0.1:6654, or tcp::6654 for all addresses")
	case !listen && !hostForm.MatchString(host):
		d.WrongText(n, path, n.Text, "names no host", "such as tcp:127.0.0.1:6653")
	}
}

var hostForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)

// hostName decodes a name or address for a certificate.
func (d *decoder) hostName(path string, n *node) string {
	s := d.Text(path, n)
	if _, err := netip.ParseAddr(s); d.Err() == nil && err != nil && !hostForm.MatchString(s) {
		d.WrongText(n, path, s, "is not the name of a host", "such as controller.example.net")
	}
	return s
}
