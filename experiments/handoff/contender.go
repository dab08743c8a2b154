package handoff

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"baton/experiments"
	"baton/lab/peers"
)

// Turn is a contender's turn in the topology.
type Turn = experiments.Turn[*Topology]

// Contender is one way for a client's request to reach a surrogate. Its Start sets the topology's Front.
type Contender = experiments.Contender[*Topology]

// Contenders are all of them, the baseline first.
func Contenders() []Contender {
	return []Contender{Direct(), Baton(), Redirect(), HAProxy(), NginxProxy()}
}

// Direct uses no program on the router: clients know the surrogates' addresses, and the router's kernel routes.
func Direct() Contender {
	return Contender{Name: "direct", Is: "kernel routing only; clients take the surrogates by turns",
		Start: func(_ context.Context, t *Turn) error {
			t.Topology.Front = Front{Targets: t.Topology.Addresses()}
			return nil
		}}
}

// HAProxy is HAProxy in HTTP mode with connection reuse.
func HAProxy() Contender {
	return Contender{Name: "haproxy", Is: "HTTP mode, `http-reuse always`", Start: func(_ context.Context, t *Turn) error {
		OnVIP(t, func() *peers.Server {
			return peers.HAProxy(t.Topology.Router, peers.HAProxyOptions{Backends: t.Topology.backends()})
		})
		return nil
	}}
}

// NginxProxy is nginx as a reverse proxy with connections to the surrogates kept.
func NginxProxy() Contender {
	return Contender{Name: "nginx", Is: "`proxy_pass` with idle connections kept to the surrogates, no temporary files",
		Start: func(_ context.Context, t *Turn) error {
			OnVIP(t, func() *peers.Server {
				return peers.NginxProxy(t.Topology.Router, peers.NginxProxyOptions{Backends: t.Topology.backends(),
					NginxOptions: peers.NginxOptions{NoAccessLog: true, Connections: 4096}})
			})
			return nil
		}}
}

// Redirect is a 302 to one of the surrogates' own addresses, by nginx.
func Redirect() Contender {
	return Contender{Name: "redirect",
		Is: "nginx answers 302, the client follows on a new connection; a keep-alive client stays with the surrogate it was sent to",
		Start: func(_ context.Context, t *Turn) error {
			OnVIP(t, func() *peers.Server {
				return peers.Nginx(t.Topology.Router, peers.NginxOptions{NoAccessLog: true, Connections: 4096, Server: t.Topology.redirection()})
			})
			t.Topology.Front.Follow = true
			return nil
		}}
}

// redirection chooses by the last digits of the client's port: nginx counts nothing across its workers.
func (t *Topology) redirection() string {
	var b strings.Builder
	surrogates := t.backends()
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

func (t *Topology) backends() []string {
	var list []string
	for _, a := range t.Addresses() {
		list = append(list, a.String())
	}
	return list
}

// OnVIP starts a server on the router, which has the VIP for this turn.
func OnVIP(t *Turn, start func() *peers.Server) {
	t.Lab.T().Helper()
	t.Topology.OwnVIP(true)
	t.OnEnd(func() error { t.Topology.OwnVIP(false); return nil })
	s := start()
	t.Runs(s.Process, s.Version)
	t.OnEnd(func() error { return s.Process.Stop(2 * time.Second) })
	t.Topology.Front = Front{Targets: []netip.AddrPort{t.Topology.VIP()}}
}
