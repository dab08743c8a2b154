// Package http3 measures HTTP/3 through VIPs of protocol quic: what works, for each client and each server, and what it costs beside direct access
// and a proxy.
package http3

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"baton/api"
	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
)

// Topology is a client, a router and a host for each server:
//
//	client 10.1.0.2, 10.1.0.3 ── router ── 10.2.1.2 quic-go
//	                                    ── 10.2.2.2 aioquic …
type Topology struct {
	Lab       *lab.Lab
	client    *lab.Host
	router    *lab.Host
	front     *lab.Interface // the router's, towards the client
	servers   []*server
	authority *peers.Authority
	probe     *peers.Server // answers nginx's probe

	target func(*server, variant) netip.AddrPort // where clients of the current contender connect to
	status func(context.Context) (*api.RouterQUIC, error)
	again  func(*turn) error // kills the contender, and starts it again
}

type (
	turn      = experiments.Turn[*Topology]
	contender = experiments.Contender[*Topology]
	measure   = experiments.Measure[*Topology]
)

// The names of cases that are no pairs of a client and a server.
const (
	costs   = "costs"
	restart = "restart"
)

var (
	vip       = netip.MustParseAddrPort("10.9.9.9:443")
	addresses = []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("10.1.0.3")} // the client's
)

// Experiment compares direct access, Baton and nginx.
func Experiment() experiments.Experiment[*Topology] {
	e := experiments.Experiment[*Topology]{
		Name:     "http3",
		Question: "What works of HTTP/3 through a router that reads the name alone, and what does it cost?",
		Method: "One host for each server, behind the router. *interop*: each client gets files from each server, in the situations of the QUIC interop runner. In most of them it sends through a NAT on its own host, " +
			"which sees that packets of the kind in question pass, loses datagrams, or changes the client's port and address, behind every MiB of a download. Every byte is checked. What fails without Baton, too, is no fault of Baton's. " +
			"*first byte* and *bulk*: quic-go, server and client, in the measuring process. *restart*: downloads that the server paces, 10 s each; when all have begun, the contender is killed by SIGKILL and started again. " +
			"nginx's stream module forwards UDP by address and port, to one server: it cannot read the name in QUIC. Debian's HAProxy does not forward UDP.",
		Contenders: []contender{direct(), baton(), nginx()},
		Measures:   []measure{interop(), firstByte(), bulk(), broken()},
		Cases:      []experiments.Case{{Name: costs, Quick: true}, {Name: restart, Quick: true, Once: true}},
		Build:      build,
		Claims:     claims(),
		Summary:    matrix,
		Plots: []experiments.Plot{
			{Measure: "first byte"}, {Measure: "bulk"}, {Measure: "bulk", Of: experiments.OfProcessor}, {Measure: "broken"},
		},
		Caveats: []string{
			"The clients, the router and the servers share the processors. \"Own\" is what a contender's processes used by their own account; Baton's packets are translated in the kernel's softirqs, " +
				"which no process is charged for: \"added\" is everything beyond direct, wherever it is booked.",
			"A download of *restart* is broken if it has not ended 15 s after the restart. Its client sends nothing by itself: a client with keep-alives lets nginx learn its server again, as long as nginx chooses the same one.",
		},
	}
	for _, c := range clients() {
		for _, s := range kinds {
			e.Cases = append(e.Cases, experiments.Case{Name: pair(c.name, s), Once: true, Quick: c.name == "quic-go" && s == "quic-go"})
		}
	}
	for i := range e.Contenders {
		name := e.Contenders[i].Name
		e.Contenders[i].Skips = func(c experiments.Case, measure string) bool { return skips(name, c.Name, measure) }
	}
	return e
}

// skips tells whether a contender does not take a measure in a case. nginx is no contender for names.
func skips(contender, kase, measure string) bool {
	switch kase {
	case costs:
		return measure != "first byte" && measure != "bulk"
	case restart:
		return measure != "broken"
	}
	return measure != "interop" || contender == "nginx"
}

func claims() []experiments.Claim {
	ratio := func(measure, contender, base string) experiments.Figure {
		return experiments.RatioOf(costs, measure, contender, base)
	}
	return []experiments.Claim{
		{What: "situations of clients and servers that work through Baton, of those that work without", Unit: "×", Ours: worst, AtLeast: 1},
		{What: "bulk, beside direct", Unit: "×", Ours: ratio("bulk", "baton", "direct"), AtLeast: 0.95},
		{What: "processor time that Baton adds for a GiB, beside what nginx adds", Unit: "×", Ours: experiments.FigureOf(costs, "bulk", []string{"direct", "baton", "nginx"}, added), AtMost: 0.2},
		{What: "time to the first byte, beside direct", Unit: "×", Ours: ratio("first byte", "baton", "direct")},
		{What: "time to the first byte, beside nginx", Unit: "×", Ours: ratio("first byte", "baton", "nginx")},
		{What: "downloads that a killed and restarted router breaks", Unit: "", Ours: experiments.ValueOf(restart, "broken", "baton"), AtMost: 0.5},
		{What: "the same of nginx", Unit: "", Ours: experiments.ValueOf(restart, "broken", "nginx")},
	}
}

// added compares the machine's processor time that the second and third contender add to that of the first. A difference below the clock's tick
// counts as none.
func added(s []experiments.Sample) float64 {
	return max(s[1].CPU.Machine-s[0].CPU.Machine, 0) / math.Max(s[2].CPU.Machine-s[0].CPU.Machine, lab.Tick.Seconds())
}

func build(_ context.Context, s *experiments.Setup) (*Topology, error) {
	l := s.Lab
	t := &Topology{Lab: l, client: l.Host("client"), router: l.Host("router"), authority: peers.NewAuthority(l)}
	t.router.Forward()
	t.front = l.Link(lab.End{Host: t.client, Addrs: []string{addresses[0].String() + "/24", addresses[1].String() + "/24"}},
		lab.End{Host: t.router, Addrs: []string{"10.1.0.1/24"}}, lab.LinkOptions{}).B
	t.client.Route("default", "10.1.0.1")
	for i, kind := range kinds {
		sv := &server{kind: kind, host: l.Host(kind), address: netip.MustParseAddr(fmt.Sprintf("10.2.%d.2", i+1)), id: fmt.Sprintf("%04x", i+1)}
		l.Link(lab.End{Host: sv.host, Addrs: []string{sv.address.String() + "/24"}},
			lab.End{Host: t.router, Addrs: []string{fmt.Sprintf("10.2.%d.1/24", i+1)}}, lab.LinkOptions{})
		sv.host.Route("default", fmt.Sprintf("10.2.%d.1", i+1))
		if p := sv.start(t.authority); p != nil {
			s.Serves(p.Process, p.Version)
		}
		t.servers = append(t.servers, sv)
	}
	t.probe = peers.Nginx(t.servers[0].host, peers.NginxOptions{NoAccessLog: true})
	for _, v := range peers.HTTP3Versions() {
		s.Uses(v)
	}
	return t, nil
}

// serverOf is the server of that kind.
func (t *Topology) serverOf(kind string) *server {
	for _, s := range t.servers {
		if s.kind == kind {
			return s
		}
	}
	return nil
}

func direct() contender {
	return contender{Name: "direct", Is: "kernel routing only; clients know each name's server", Start: func(_ context.Context, t *turn) error {
		t.Topology.target = (*server).at
		t.Topology.status = nil
		t.Topology.again = func(*turn) error { return nil }
		return nil
	}}
}

func baton() contender {
	return contender{Name: "baton", Is: "`baton router`, `protocol: quic`", Start: func(ctx context.Context, t *turn) error {
		return t.Topology.startBaton(ctx, t)
	}}
}

func (t *Topology) startBaton(ctx context.Context, turn *turn) error {
	file := filepath.Join(t.Lab.Dir(), "http3.yaml")
	if err := os.WriteFile(file, []byte(t.config()), 0o600); err != nil {
		return fmt.Errorf("configure the router: %w", err)
	}
	run := func() (*lab.Process, error) {
		p, err := t.router.Start(lab.Program{Path: turn.Options.Program, Args: []string{"router", "run", "-c", file}})
		if err != nil {
			return nil, err
		}
		return p, lab.Poll(10*time.Second, func() error {
			if !strings.Contains(p.Log(), "msg=ready") {
				return fmt.Errorf("the router is not ready:\n%s", p.Log())
			}
			return nil
		})
	}
	p, err := run()
	if err != nil {
		return err
	}
	runs(turn, p, "")
	turn.OnEnd(func() error {
		if err := p.Stop(10 * time.Second); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := t.router.Exec(ctx, turn.Options.Program, "router", "cleanup", "-c", file)
		return err
	})
	control := api.NewClient(t.socket())
	turn.OnEnd(func() error { control.Close(); return nil })
	t.target = func(*server, variant) netip.AddrPort { return vip }
	t.status = func(ctx context.Context) (*api.RouterQUIC, error) {
		s, err := control.Router(ctx)
		if err != nil {
			return nil, err
		}
		return s.QUIC, nil
	}
	t.again = func(*experiments.Turn[*Topology]) (err error) {
		if err := p.Kill(); err != nil {
			return err
		}
		p, err = run()
		return err
	}
	return ctx.Err()
}

func (t *Topology) socket() string { return filepath.Join(t.Lab.Dir(), "router.sock") }

// config has a route and a pool for each name.
func (t *Topology) config() string {
	var routes, pools strings.Builder
	for _, s := range t.servers {
		for _, v := range variants {
			id := ""
			if v == named {
				id = fmt.Sprintf("server_id: {layout: quic-lb, rotation: 1, length: 2, map: {%s: %q}}, ", s.name(v), s.id)
			}
			fmt.Fprintf(&routes, "      - {match: {sni: %s}, pool: %[1]s}\n", s.name(v))
			fmt.Fprintf(&pools, "  %s: {%ssurrogates: [{name: %[1]s, address: %[3]q}]}\n", s.name(v), id, s.at(v))
		}
	}
	return fmt.Sprintf("control: %q\nstate: %q\nvips:\n  - address: %q\n    interfaces: [%s]\n    protocol: quic\n    routes:\n%spools:\n%s",
		t.socket(), filepath.Join(t.Lab.BPFFS(), "router"), vip, t.front.Name, &routes, &pools)
}

func nginx() contender {
	return contender{Name: "nginx", Is: "stream module, UDP, two workers; one server", Start: func(_ context.Context, t *turn) error {
		t.Topology.startNginx(t)
		return nil
	}}
}

func (t *Topology) startNginx(turn *turn) {
	t.Lab.T().Helper()
	lo := t.router.Interface("lo")
	lo.Address(vip.Addr().String() + "/32")
	turn.OnEnd(func() error { lo.RemoveAddress(vip.Addr().String() + "/32"); return nil })
	start := func() *peers.Server {
		return peers.NginxDatagrams(t.router, peers.Forward{Port: int(vip.Port()), To: t.servers[0].at(plain).String()},
			peers.Forward{Port: 8081, To: netip.AddrPortFrom(t.servers[0].address, 80).String()}, 2)
	}
	s := start()
	runs(turn, s.Process, s.Version)
	turn.OnEnd(func() error { return s.Process.Kill() })
	t.target = func(*server, variant) netip.AddrPort { return vip }
	t.status = nil
	t.again = func(*experiments.Turn[*Topology]) error {
		if err := s.Process.Kill(); err != nil {
			return err
		}
		s = start()
		return nil
	}
}

// runs registers a contender's process, unless it will be killed.
func runs(t *turn, p *lab.Process, version string) {
	if t.Case.Name == restart {
		t.Uses(version)
		return
	}
	t.Runs(p, version)
}

// paced is a path of the server of quic-go: it sends so many parts, one after the other.
const paced = "/paced"

const (
	partBytes = 4 << 10
	partEvery = 400 * time.Millisecond
)

// parts is how many parts of a paced download there are: 10 s, in which all clients can begin.
func parts(o *experiments.Options) int {
	if o.Quick {
		return 8
	}
	return 25
}

func pace(w http.ResponseWriter, r *http.Request) {
	b := make([]byte, partBytes)
	n, err := strconv.Atoi(r.FormValue("parts"))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for i := range n {
		peers.Pattern(b, int64(i*partBytes))
		if _, err := w.Write(b); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush() // an error is that of the next write
		select {
		case <-r.Context().Done():
			return
		case <-time.After(partEvery):
		}
	}
}
