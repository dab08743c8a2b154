package anycast_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/anycast/exchange/exchangetest"
	"baton/api"
	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // they wait for timers of routers, and use little of the processors
	os.Exit(m.Run())
}

// soon bounds what a test waits for that should take seconds: machines that run tests are busy.
const soon = 40 * time.Second

const (
	service     = "192.0.2.1"
	sitePort    = 8443
	metricsPort = 9466
)

// network is a router with a client and sites, which all have the service's address:
//
//	client 10.0.0.2 ── 10.0.0.1 router 10.1.<n>.1 ── 10.1.<n>.2 site <n>
type network struct {
	*lab.Lab
	t              *testing.T
	router, client *lab.Host
	bird           *peers.Speaker
	authority      *exchangetest.Authority
	sites          []*site
}

// site is a host with the service, and baton anycast next to it.
type site struct {
	*lab.Process // of baton anycast, nil before start
	n            *network
	name         string
	host         *lab.Host
	control      *api.Client
	address      string
	near         string // the router's address at its end of the link
}

const birdHead = `router id 10.0.0.1;
protocol device { scan time 1; }
protocol kernel { ipv4 { export where source = RTS_BGP; }; }
filter sites {
	if (65535, 0) ~ bgp_community then bgp_local_pref = 0; # RFC 8326
	accept;
}
`

// newNetwork has as many sites, and BIRD at the router; nothing of Baton runs yet.
func newNetwork(t *testing.T, sites int) *network {
	t.Helper()
	n := newHosts(t, sites)
	config := birdHead
	for _, s := range n.sites {
		config += fmt.Sprintf(`protocol bgp %s {
	local %s as 65000;
	neighbor %s as 64512;
	passive;
	ipv4 { import filter sites; export none; };
}
`, s.name, s.near, s.address)
	}
	n.bird = peers.Bird(n.router, config)
	return n
}

// newHosts has no router's program either.
func newHosts(t *testing.T, sites int) *network {
	t.Helper()
	n := &network{Lab: lab.New(t), t: t, authority: exchangetest.NewAuthority(t)}
	n.router, n.client = n.Host("router"), n.Host("client")
	n.router.Forward()
	n.Link(lab.End{Host: n.client, Addrs: []string{"10.0.0.2/24"}}, lab.End{Host: n.router, Addrs: []string{"10.0.0.1/24"}}, lab.LinkOptions{})
	n.client.Route("default", "10.0.0.1")
	for i := range sites {
		s := &site{n: n, name: string(rune('a' + i)), address: fmt.Sprintf("10.1.%d.2", i), near: fmt.Sprintf("10.1.%d.1", i)}
		s.host = n.Host("site" + s.name)
		n.Link(lab.End{Host: n.router, Name: "to" + s.name, Addrs: []string{s.near + "/24"}},
			lab.End{Host: s.host, Addrs: []string{s.address + "/24"}}, lab.LinkOptions{})
		s.host.Route("default", s.near)
		s.host.Interface("lo").SetUp()
		s.touch("alive", true)
		s.write("load", "0.1")
		n.sites = append(n.sites, s)
	}
	return n
}

func (n *network) file(name string) string { return filepath.Join(n.Dir(), name) }

func (s *site) file(name string) string { return s.n.file(s.name + "-" + name) }

func (s *site) write(name, text string) {
	s.n.t.Helper()
	// Renamed, as the site may read it in between.
	if err := os.WriteFile(s.file(name)+".new", []byte(text), 0o600); err != nil {
		s.n.t.Fatal(err)
	}
	if err := os.Rename(s.file(name)+".new", s.file(name)); err != nil {
		s.n.t.Fatal(err)
	}
}

// touch has a file be there, or not: the site's check looks for it.
func (s *site) touch(name string, there bool) {
	s.n.t.Helper()
	if there {
		s.write(name, "")
		return
	}
	if err := os.Remove(s.file(name)); err != nil {
		s.n.t.Fatal(err)
	}
}

// config is that of a site which knows all others, with more lines for its section site.
func (s *site) config(more string) string {
	identity := s.n.authority.Identity(s.n.t, s.name)
	others := ""
	for _, o := range s.n.sites {
		if o != s {
			others += fmt.Sprintf("    - {name: %s, url: \"https://%s:%d\"}\n", o.name, o.address, sitePort)
		}
	}
	if others != "" {
		others = "  others:\n" + others
	}
	return fmt.Sprintf(`name: %s
control: %s
metrics: "127.0.0.1:%d"
listen: {sites: "%s:%d"}
tls: {certificate: %s, key: %s, authority: %s}
site:
  prefixes: [192.0.2.0/24]
  bgp:
    as: 64512
    router_id: %s
    peers: [{name: router, address: %s, as: 65000, keepalive: 1s, hold: 3s, retry: 2s}]
  addresses: {interface: lo, addresses: [%s/32]}
  checks: [{name: file, command: [/usr/bin/test, -e, %s], interval: 100ms, timeout: 5s, rise: 2, fall: 2}]
  loads: [{name: file, command: [/bin/cat, %s], capacity: 1, interval: 200ms, timeout: 5s}]
  dwell: 1s
  flaps: none
  stale: 3s
  poll: 300ms
%s%s`, s.name, s.file("control.sock"), metricsPort, s.address, sitePort, identity.Certificate, identity.Key, identity.Authority, s.address,
		s.near, service, s.file("alive"), s.file("load"), others, more)
}

// start runs the site, and has the service answer with its name.
func (s *site) start(more string) {
	s.n.t.Helper()
	s.Process = s.n.baton(s.host, "anycast-"+s.name, s.file("anycast.yaml"), s.config(more))
	s.control = api.NewClient(s.file("control.sock"))
	s.n.t.Cleanup(s.control.Close)
	l, err := s.host.Listen("tcp", "0.0.0.0:80")
	if err != nil {
		s.n.t.Fatal(err)
	}
	s.n.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, s.name)
			conn.Close()
		}
	}()
}

// baton runs baton anycast with a configuration.
func (n *network) baton(h *lab.Host, name, file, config string) *lab.Process {
	n.t.Helper()
	path, err := build.Program("baton")
	if err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		n.t.Fatal(err)
	}
	p, err := h.Start(lab.Program{Path: path, Args: []string{"anycast", "run", "-c", file}, Name: name})
	if err != nil {
		n.t.Fatal(err)
	}
	lab.Eventually(n.t, soon, func() error {
		select {
		case <-p.Done():
			n.t.Fatalf("%s has ended:\n%s", name, p.Log())
		default:
		}
		if !strings.Contains(p.Log(), "msg=ready") {
			return fmt.Errorf("%s is not ready:\n%s", name, p.Log())
		}
		return nil
	})
	return p
}

// answers waits until a site answers the client.
func (n *network) answers(want string) {
	n.t.Helper()
	lab.Eventually(n.t, soon, func() error {
		got, err := n.ask()
		if err != nil || got != want {
			return fmt.Errorf("%q answers, %v; want %s", got, err, want)
		}
		return nil
	})
}

// ask asks the service who answers.
func (n *network) ask() (string, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), 2*time.Second)
	defer cancel()
	conn, err := n.client.Dial(ctx, "tcp", service+":80")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	got, err := io.ReadAll(conn)
	return string(got), err
}

// shown waits until the router has something of a site's route, "" for no route.
func (n *network) shown(s *site, want string) {
	n.t.Helper()
	lab.Eventually(n.t, soon, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		out, err := n.bird.Birdc(ctx, "show", "route", "protocol", s.name, "all")
		if err != nil {
			return err
		}
		switch there := strings.Contains(out, "192.0.2.0/24"); {
		case want == "" && there:
			return fmt.Errorf("there is a route of %s:\n%s", s.name, out)
		case want != "" && !strings.Contains(out+"\n", want):
			return fmt.Errorf("%q is not in the route of %s:\n%s", want, s.name, out)
		}
		return nil
	})
}

// is waits until the site's status is as wanted.
func (s *site) is(what string, ok func(st *api.AnycastSite) bool) {
	s.n.t.Helper()
	lab.Eventually(s.n.t, soon, func() error {
		st, err := s.control.Anycast(s.n.t.Context())
		if err != nil {
			return err
		}
		if !ok(st.Site) {
			return fmt.Errorf("site %s is not %s: %+v", s.name, what, *st.Site)
		}
		return nil
	})
}

func (s *site) at(level string) {
	s.n.t.Helper()
	s.is("at level "+level, func(st *api.AnycastSite) bool { return st.Level == level })
}

// instruct gives an instruction at the site itself.
func (s *site) instruct(o api.AnycastInstruction) error {
	s.n.t.Helper()
	_, err := s.control.AnycastInstruct(s.n.t.Context(), o)
	return err
}

func (s *site) mustInstruct(kind string) {
	s.n.t.Helper()
	if err := s.instruct(api.AnycastInstruction{Kind: kind}); err != nil {
		s.n.t.Fatal(err)
	}
}
