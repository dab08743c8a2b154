package handoff

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// Contender is one way for a client's request to reach a surrogate.
type Contender struct {
	Name string
	// Start brings the contender up on the topology's router and returns when it can serve. A contender that another
	// package starts (Baton) is passed in.
	Start func(t *Topology, v6 bool) (*Running, error)
}

// Running is a contender that is up.
type Running struct {
	Targets   []netip.AddrPort // what clients connect to
	Follow    bool             // clients must follow a 302
	Processes []*lab.Process   // its own, on the router; their processor time is reported
	Stop      func() error     // nil: nothing to stop
}

// Direct is no contender on the router: clients know the surrogates' addresses, and the router's kernel routes.
func Direct() Contender {
	return Contender{Name: "direct", Start: func(t *Topology, v6 bool) (*Running, error) {
		return &Running{Targets: t.Addresses(v6)}, nil
	}}
}

// HAProxy is HAProxy in HTTP mode with server reuse on.
func HAProxy() Contender {
	return Contender{Name: "haproxy", Start: func(t *Topology, v6 bool) (*Running, error) {
		return onVIP(t, v6, func() *peers.Server {
			return peers.HAProxy(t.Router, peers.HAProxyOptions{Backends: backends(t, v6)})
		}), nil
	}}
}

// NginxProxy is nginx as a reverse proxy with connections to the surrogates kept.
func NginxProxy() Contender {
	return Contender{Name: "nginx", Start: func(t *Topology, v6 bool) (*Running, error) {
		return onVIP(t, v6, func() *peers.Server {
			return peers.NginxProxy(t.Router, peers.NginxProxyOptions{Backends: backends(t, v6),
				NginxOptions: peers.NginxOptions{NoAccessLog: true, Connections: 4096}})
		}), nil
	}}
}

// Redirect is a 302 to one of the surrogates' own addresses, by nginx.
func Redirect() Contender {
	return Contender{Name: "redirect", Start: func(t *Topology, v6 bool) (*Running, error) {
		r := onVIP(t, v6, func() *peers.Server {
			return peers.Nginx(t.Router, peers.NginxOptions{NoAccessLog: true, Connections: 4096, Server: redirection(t, v6)})
		})
		r.Follow = true
		return r, nil
	}}
}

// redirection chooses by the last digits of the client's port: nginx counts nothing across its workers.
func redirection(t *Topology, v6 bool) string {
	var b strings.Builder
	surrogates := backends(t, v6)
	fmt.Fprintf(&b, "set $to %s;\n", surrogates[0])
	for i, s := range surrogates[1:] {
		fmt.Fprintf(&b, "if ($remote_port ~ \"[%s]$\") { set $to %s; }\n", digits(i+1, len(surrogates)), s)
	}
	b.WriteString("location ~ ^/(?!healthz) { return 302 http://$to$request_uri; }\n")
	return b.String()
}

// digits are the decimal digits whose remainder by n is i.
func digits(i, n int) string {
	text := ""
	for d := i; d < 10; d += n {
		text += fmt.Sprint(d)
	}
	return text
}

func backends(t *Topology, v6 bool) []string {
	var list []string
	for _, a := range t.Addresses(v6) {
		list = append(list, a.String())
	}
	return list
}

func onVIP(t *Topology, v6 bool, start func() *peers.Server) *Running {
	t.Lab.T().Helper()
	t.OwnVIP(true)
	s := start()
	return &Running{
		Targets:   []netip.AddrPort{VIP(v6)},
		Processes: []*lab.Process{s.Process},
		Stop: func() error {
			err := s.Process.Stop(2 * time.Second)
			t.OwnVIP(false)
			return err
		},
	}
}
