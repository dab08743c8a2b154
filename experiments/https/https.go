// Package https measures the cost of TLS sessions that are routed by the name in their hello, compared with direct access and two proxies
// that do the same in TCP mode.
package https

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/experiments"
	"baton/experiments/handoff"
	"baton/lab"
	"baton/lab/peers"
)

// Topology is that of the experiment handoff, whose surrogates serve TLS as well, each for a name of its own.
type Topology struct {
	*handoff.Topology
	authority *peers.Authority

	target func(name int) netip.AddrPort // where clients of the current contender connect to
	again  func() error                  // kills the current contender and starts it again
}

type (
	turn      = experiments.Turn[*Topology]
	contender = experiments.Contender[*Topology]
)

// names are the servers', one a surrogate.
func (t *Topology) names() []string {
	var list []string
	for i := range t.Surrogates {
		list = append(list, fmt.Sprintf("s%d.test", i+1))
	}
	return list
}

func (t *Topology) server(i int) netip.AddrPort {
	return netip.AddrPortFrom(t.Addresses()[i].Addr(), 443)
}

func (t *Topology) servers() map[string]string {
	all := make(map[string]string)
	for i, name := range t.names() {
		all[name] = t.server(i).String()
	}
	return all
}

// Experiment uses a network without limits: it measures the machine's own costs.
func Experiment() experiments.Experiment[*Topology] {
	return experiments.Experiment[*Topology]{
		Name:     "https",
		Question: "What does a TLS session cost that is routed by the name in its hello?",
		Method: "The topology of `handoff`; each surrogate's nginx serves TLS 1.3 for a name of its own (ECDSA P-256). The clients are crypto/tls with its " +
			"default hello, which has a post-quantum key share (1.5 kB), no resumption, in the measuring process; they verify the certificate and check every body. Each measure begins after 0.6 s of sessions, one at a time. " +
			"Handshakes cost clients and servers most of the processors' time, so that rates differ less than the contenders' own processor time. " +
			"*restart*: 1,000 downloads that nginx paces, 10 s each; when all have begun, the contender is killed by SIGKILL and started again.",
		Contenders: contenders(),
		Measures:   []experiments.Measure[*Topology]{handshake(), sessions(), bulk(), broken()},
		Cases:      []experiments.Case{{Name: costs, Quick: true}, {Name: restart, Quick: true, Once: true}},
		Plots: []experiments.Plot{
			{Measure: "handshake"}, {Measure: "handshake", Of: experiments.OfProcessor}, {Measure: "sessions"}, {Measure: "sessions", Of: experiments.OfProcessor},
			{Measure: "bulk"}, {Measure: "bulk", Of: experiments.OfProcessor}, {Measure: brokenName},
		},
		Build:  build,
		Claims: claims(),
		Caveats: []string{"The clients, the router and the servers share the processors. \"Own\" is what a contender's processes used by their own account; " +
			"Baton's packets are translated in the kernel's softirqs, which no process is charged for: \"added\" is everything beyond direct, wherever it is booked."},
	}
}

func contenders() []contender {
	all := []contender{direct(), baton(), haproxy(), nginx()}
	for i := range all {
		all[i].Skips = skips
	}
	return all
}

func build(_ context.Context, s *experiments.Setup) (*Topology, error) {
	t := &Topology{Topology: handoff.Build(s, handoff.Layout{IPv6: s.Options.IPv6})}
	t.authority = peers.NewAuthority(s.Lab)
	for i, h := range t.Surrogates {
		certificate, key := t.authority.Sign(t.names()[i])
		p := peers.Nginx(h, peers.NginxOptions{Name: h.Name() + "-tls", Port: 81, Connections: 8000, NoAccessLog: true, Server: fmt.Sprintf(
			"listen 443 ssl;\nlisten [::]:443 ssl;\nssl_protocols TLSv1.3;\nssl_certificate %s;\nssl_certificate_key %s;\n"+pacing, certificate, key)})
		s.Serves(p.Process, p.Version)
	}
	return t, nil
}

func direct() contender {
	return contender{Name: "direct", Is: "kernel routing only; clients know each name's server", Start: func(_ context.Context, t *turn) error {
		t.Topology.target = t.Topology.server
		t.Topology.again = func() error { return nil }
		return nil
	}}
}

func baton() contender {
	return contender{Name: "baton", Is: "`baton router`, `protocol: tls`, mode `handoff`", Start: func(_ context.Context, t *turn) error {
		return t.Topology.startBaton(t)
	}}
}

func (t *Topology) vip() netip.AddrPort { return netip.AddrPortFrom(t.VIP().Addr(), 443) }

func (t *Topology) startBaton(turn *turn) error {
	file := filepath.Join(t.Lab.Dir(), "https.yaml")
	if err := os.WriteFile(file, []byte(t.config()), 0o600); err != nil {
		return fmt.Errorf("configure the router: %w", err)
	}
	program := turn.Options.Program
	run := func() (*lab.Process, error) {
		return t.Router.Start(lab.Program{Path: program, Args: []string{"router", "run", "-c", file}})
	}
	p, err := run()
	if err != nil {
		return err
	}
	runs(turn, p, "")
	t.again = func() (err error) {
		if err := p.Kill(); err != nil {
			return err
		}
		p, err = run()
		return err
	}
	turn.OnEnd(func() error {
		if err := p.Stop(10 * time.Second); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := t.Router.Exec(ctx, program, "router", "cleanup", "-c", file)
		return err
	})
	t.target = func(int) netip.AddrPort { return t.vip() }
	return lab.Poll(10*time.Second, func() error { return t.visit(context.Background(), 0) })
}

func (t *Topology) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, "control: %q\nstate: %q\nvips:\n  - address: %q\n    interfaces: [%s]\n    protocol: tls\n    routes:\n",
		filepath.Join(t.Lab.Dir(), "router.sock"), filepath.Join(t.Lab.BPFFS(), "router"), t.vip(), t.ClientSide.Name)
	for _, name := range t.names() {
		fmt.Fprintf(&b, "      - {match: {sni: %s}, pool: %s}\n", name, name)
	}
	b.WriteString("pools:\n")
	for i, name := range t.names() {
		fmt.Fprintf(&b, "  %s: {surrogates: [{name: s%d, address: %q}]}\n", name, i+1, t.server(i))
	}
	return b.String()
}

func haproxy() contender {
	return contender{Name: "haproxy", Is: "TCP mode, `req.ssl_sni`, splicing, two threads", Start: func(_ context.Context, t *turn) error {
		t.Topology.onVIP(t, peers.HAProxySNI)
		return nil
	}}
}

func nginx() contender {
	return contender{Name: "nginx", Is: "stream module, `ssl_preread`, two workers", Start: func(_ context.Context, t *turn) error {
		t.Topology.onVIP(t, peers.NginxSNI)
		return nil
	}}
}

// onVIP starts a proxy on the router, which has the VIP for this turn.
func (t *Topology) onVIP(turn *turn, start func(*lab.Host, peers.SNIOptions) *peers.Server) {
	t.Lab.T().Helper()
	t.OwnVIP(true)
	turn.OnEnd(func() error { t.OwnVIP(false); return nil })
	run := func() *peers.Server {
		return start(t.Router, peers.SNIOptions{Servers: t.servers(), Probe: peers.Forward{Port: 8081, To: t.Addresses()[0].String()}, Workers: 2})
	}
	s := run()
	runs(turn, s.Process, s.Version)
	turn.OnEnd(func() error { return s.Process.Stop(2 * time.Second) })
	t.again = func() error {
		if err := s.Process.Kill(); err != nil {
			return err
		}
		s = run()
		return nil
	}
	t.target = func(int) netip.AddrPort { return t.vip() }
}

func claims() []experiments.Claim {
	ratio := func(measure, contender, base string) experiments.Figure {
		return experiments.RatioOf(costs, measure, contender, base)
	}
	return []experiments.Claim{
		{What: "end of the TLS handshake, beside direct", Unit: "×", Ours: ratio("handshake", "baton", "direct"), AtMost: 1.05},
		{What: "end of the TLS handshake, beside HAProxy", Unit: "×", Ours: ratio("handshake", "baton", "haproxy"), AtMost: 0.8},
		{What: "end of the TLS handshake, beside nginx", Unit: "×", Ours: ratio("handshake", "baton", "nginx"), AtMost: 0.8},
		{What: "bulk, beside direct", Unit: "×", Ours: ratio("bulk", "baton", "direct"), AtLeast: 0.97},
		{What: "downloads that a killed and restarted router breaks, of 1,000", Unit: "", Ours: experiments.ValueOf(restart, brokenName, "baton"), AtMost: 0.5},
		{What: "the same of HAProxy", Unit: "", Ours: experiments.ValueOf(restart, brokenName, "haproxy")},
		{What: "the same of nginx", Unit: "", Ours: experiments.ValueOf(restart, brokenName, "nginx")},
	}
}
