package alive

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"baton/balance/config"
	"baton/balance/links"
	"baton/lab"
)

const (
	patience = 30 * time.Second
	fileKey  = "BATON_TEST_PROBE" // names the configuration of the process that probes
	name     = "probe.example"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(fileKey); file != "" {
		if err := probeFrom(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// probeFrom probes as a balance does, and prints a line of all links at each report.
func probeFrom(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := config.Load(file)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var w *links.Watcher
	opened := make(chan struct{})
	p := New(ctx, Options{
		Ask: func(link string) { <-opened; w.Probe(link) },
		Log: log,
		Report: func(list []Verdict) {
			words := make([]string, len(list))
			for i, v := range list {
				words[i] = strings.TrimSpace(fmt.Sprint(v.State, " ", v.URL))
			}
			fmt.Println(strings.Join(words, ", "))
		},
	})
	defer p.Close()
	w, err = links.Open(ctx, links.Options{
		Links: cfg.Links, Log: log,
		Report:   func(list []links.Link) { p.Update(cfg, list) },
		Answered: p.Answered,
	})
	if err != nil {
		return err
	}
	close(opened)
	defer w.Close()
	<-ctx.Done()
	return nil
}

// network is a host with two links, each to a router, which is the link's resolver, too, and has the probe's server.
type network struct {
	t       *testing.T
	lab     *lab.Lab
	host    *lab.Host
	routers [2]*lab.Host
	servers [2]*server
	process *lab.Process
}

// server answers as configured, and records its clients.
type server struct {
	mu       sync.Mutex
	status   int
	location string
	from     map[string]bool
	http     *http.Server
}

func (s *server) answer(status int, location string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.location = status, location
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.from[host] = true
	if s.location != "" {
		w.Header().Set("Location", s.location)
	}
	w.WriteHeader(s.status)
}

func setUp(t *testing.T) *network {
	l := lab.New(t)
	n := &network{t: t, lab: l, host: l.Host("host")}
	for i := range n.routers {
		r := l.Host(fmt.Sprintf("r%d", i))
		n.routers[i] = r
		k := l.Link(lab.End{Host: n.host, Addrs: []string{fmt.Sprintf("10.0.%d.2/24", i)}},
			lab.End{Host: r, Addrs: []string{fmt.Sprintf("10.0.%d.1/24", i), "10.9.9.9/32"}}, lab.LinkOptions{})
		err := n.host.Netlink().RouteReplace(&netlink.Route{
			LinkIndex: k.A.Index, Gw: net.IPv4(10, 0, byte(i), 1), Priority: 100 + i, Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.servers[i] = n.serve(r)
	}
	return n
}

// serve answers questions for the name, which is at the same address behind both routers, and probes.
func (n *network) serve(r *lab.Host) *server {
	n.t.Helper()
	s := &server{status: 204, from: make(map[string]bool)}
	ln, err := r.Listen("tcp", ":80")
	if err != nil {
		n.t.Fatal(err)
	}
	s.http = &http.Server{Handler: s}
	go func() { _ = s.http.Serve(ln) }() // ends with the server
	n.t.Cleanup(func() { _ = s.http.Close() })
	c, err := r.ListenPacket("udp", ":53")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = c.Close() })
	go resolve(c, netip.MustParseAddr("10.9.9.9"))
	return s
}

// resolve answers every question for an IPv4 address with one, and others with none (RFC 1035, section 4.1).
func resolve(c net.PacketConn, a netip.Addr) {
	b := make([]byte, 512)
	for {
		size, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		if size < 12 {
			continue
		}
		end := 12
		for end < size && b[end] != 0 {
			end += int(b[end]) + 1
		}
		if end+5 > size {
			continue
		}
		v4 := b[end+2] == 1 && b[end+1] == 0
		reply := append([]byte{b[0], b[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, b[12:end+5]...)
		if v4 {
			reply[7] = 1
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			reply = append(reply, a.AsSlice()...)
		}
		_, _ = c.WriteTo(reply, from) // one that is lost is asked for again
	}
}

// start probes with a configuration.
func (n *network) start(text string) {
	n.t.Helper()
	file := filepath.Join(n.lab.Dir(), "balance.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	n.process, err = n.host.Start(lab.Program{Name: "probe", Path: self, Env: []string{fileKey + "=" + file}})
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *network) until(want string) {
	n.t.Helper()
	began := time.Now()
	lab.Eventually(n.t, patience, func() error {
		lines := strings.Split(strings.TrimSpace(n.process.Stdout()), "\n")
		if got := lines[len(lines)-1]; got != want {
			return fmt.Errorf("links are %q, want %q", got, want)
		}
		return nil
	})
	n.t.Logf("%s after %v", want, time.Since(began).Round(time.Millisecond))
}

const linksByName = `links:
  - {interface: eth0, resolvers: [10.0.0.1]}
  - {interface: eth1, resolvers: [10.0.1.99, 10.0.1.1]}
`

func TestServer(t *testing.T) {
	n := setUp(t)
	n.start(linksByName + "probe: {url: 'http://" + name + "/204', every: 200ms, dead: 4s}\n")
	n.until("alive, alive")
	n.servers[1].answer(302, "http://login.example/")
	n.until("alive, portal http://login.example/")
	n.servers[1].answer(204, "")
	n.until("alive, alive")
	n.servers[0].answer(200, "")
	n.until("portal http://" + name + "/204, alive")
	n.servers[0].answer(204, "")
	n.until("alive, alive")
	_ = n.servers[1].http.Close()
	n.until("alive, dead")
	for i, s := range n.servers {
		s.mu.Lock()
		if want := fmt.Sprintf("10.0.%d.2", i); len(s.from) != 1 || !s.from[want] {
			t.Errorf("the server behind link %d was asked from %v, want %s alone", i, s.from, want)
		}
		s.mu.Unlock()
	}
}

func TestGateway(t *testing.T) {
	n := setUp(t)
	n.start("links: [eth0, eth1]\nprobe: {every: 200ms, dead: 1s}\n")
	n.until("alive, alive")
	n.routers[1].Sysctl("net.ipv4.conf.all.arp_ignore", "8") // to all
	n.until("alive, dead")
	n.routers[1].Sysctl("net.ipv4.conf.all.arp_ignore", "0")
	n.until("alive, alive")
}

// TestFixed: a gateway whose MAC somebody has fixed is not asked, and taken to be there.
func TestFixed(t *testing.T) {
	n := setUp(t)
	r := n.routers[1].Interface("eth0")
	n.host.Neighbour(n.host.Interface("eth1"), "10.0.1.1", r.MAC)
	n.routers[1].Sysctl("net.ipv4.conf.all.arp_ignore", "8")
	n.start("links: [eth0, eth1]\nprobe: {every: 200ms, dead: 1s}\n")
	n.until("alive, alive")
	list, err := n.host.Netlink().NeighList(n.host.Interface("eth1").Index, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.IP.String() == "10.0.1.1" && e.State&netlink.NUD_PERMANENT == 0 {
			t.Errorf("the entry is not fixed any more: %+v", e)
		}
	}
}
