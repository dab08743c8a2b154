package test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
	"baton/router/discover/discovertest"
)

// nginxes adds surrogates that serve the lab's files.
func (n *network) nginxes(names ...string) {
	n.t.Helper()
	for _, name := range names {
		peers.Nginx(n.site(name, lab.LinkOptions{}).Host, peers.NginxOptions{Workers: 1})
	}
}

// discovering is a configuration with one pool, which keeps its changes.
func (n *network) discovering(pool string) string {
	return fmt.Sprintf("saved: %s\nvips:\n  - {address: %q, interfaces: [%s], routes: [{pool: p}]}\npools:\n  p:\n    legs: {min: 4}\n    health: {path: /healthz, interval: 200ms, rise: 1}\n%s",
		filepath.Join(n.Dir(), "saved"), vip4, n.front.Name, pool)
}

// load asks for files, over new connections and over kept ones, until the test ends it. No request may fail.
type load struct {
	work  errgroup.Group
	stop  context.CancelFunc
	asked atomic.Int64
}

func (n *network) load(t *testing.T) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{stop: cancel}
	for i := range 4 {
		l.work.Go(func() error {
			for ctx.Err() == nil {
				if err := l.session(n, 1+i*5); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return l
}

// session is one connection with so many requests.
func (l *load) session(n *network, requests int) error {
	c, err := dial(context.Background(), n.client, vip4)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(answersWithin))
	for range requests {
		a, err := c.get("h", "/16k")
		if err != nil {
			return fmt.Errorf("request %d: %w", l.asked.Load(), err)
		}
		if a.StatusCode != 200 || len(a.body) != int(peers.Files["/16k"]) {
			return fmt.Errorf("request %d: %d, %d bytes: %.100q", l.asked.Load(), a.StatusCode, len(a.body), a.body)
		}
		l.asked.Add(1)
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// end fails the test for every request that has failed.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	if err := l.work.Wait(); err != nil {
		t.Errorf("after %d requests: %v", l.asked.Load(), err)
	}
	if l.asked.Load() < 50 {
		t.Errorf("only %d requests", l.asked.Load())
	}
}

// do runs baton router backend.
func (r *running) do(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.n.baton(t.Context(), append(append([]string{"router", "backend"}, args...), "--control", r.socket)...)
	if err != nil {
		t.Fatalf("backend %v: %v\n%s\n%s", args, err, out, r.Log())
	}
	return out
}

// has waits until the pool has exactly these surrogates, which are up: "s1", or "s1*3" with a weight, and behind a slash what is not usual.
func (r *running) has(t *testing.T, want ...string) {
	t.Helper()
	lab.Eventually(t, answersWithin, func() error {
		var got []string
		for _, s := range r.status().Pools[0].Surrogates {
			text := s.Name
			if s.Weight != 1 {
				text += fmt.Sprintf("*%d", s.Weight)
			}
			if s.Draining {
				text += " draining"
			}
			if !s.Up {
				text += " " + s.Phase
			}
			got = append(got, text)
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			return fmt.Errorf("surrogates are %q, want %q\n%s", got, want, r.Log())
		}
		return nil
	})
}

// comesToServe expects that a surrogate alone answers new connections from some moment on: the status has what was discovered a moment before the
// kernel's tables have it.
func (n *network) comesToServe(t *testing.T, vip, surrogate string) {
	t.Helper()
	lab.Eventually(t, answersWithin, func() error {
		c := n.open(t, vip)
		defer c.Close()
		got, err := c.get("h", "/128")
		if err == nil && got.surrogate != surrogate {
			err = fmt.Errorf("%q answers, want %s", got.surrogate, surrogate)
		}
		return err
	})
	n.serves(t, vip, surrogate)
}

// TestBackends: surrogates come, change and go by commands under load. No request fails, a session of a removed surrogate goes on, and
// after a kill everything is as it was.
func TestBackends(t *testing.T) {
	n := newNetwork(t)
	n.nginxes("s1", "s2", "s3")
	r := n.start(n.discovering("    policy: weighted\n    surrogates: [{name: s1, address: \"10.2.1.2:80\"}]\n"))
	kept := n.open(t, vip4)
	_, err := kept.get("h", "/128")
	if err != nil {
		t.Fatal(err)
	}
	l := n.load(t)
	if out := r.do(t, "add", "p", "s2", "10.2.2.2:80", "--weight", "2"); out != "s2 is in pool p, at 10.2.2.2:80 with weight 2\n" {
		t.Errorf("add: %q", out)
	}
	r.has(t, "s1", "s2*2")
	r.do(t, "weight", "s1", "3")
	r.has(t, "s1*3", "s2*2")
	n.serves(t, vip4, "s1", "s2")
	if out := r.do(t, "remove", "s1"); !strings.Contains(out, "removed when those that it has") {
		t.Errorf("remove: %q", out)
	}
	r.has(t, "s1*3 draining", "s2*2")
	if got, err := kept.get("h", "/128"); err != nil || got.surrogate != "s1" {
		t.Errorf("a session of a leaving surrogate: %q, %v", got.surrogate, err)
	}
	r.do(t, "add", "p", "s3", "10.2.3.2:80")
	r.has(t, "s1*3 draining", "s2*2", "s3")
	n.serves(t, vip4, "s2", "s3")
	kept.Close()
	r.has(t, "s2*2", "s3") // with the last session of s1
	r.do(t, "drain", "s2")
	n.serves(t, vip4, "s3")
	r.do(t, "undrain", "s2")
	other := n.openTo(t, "s3")
	r.do(t, "remove", "s3", "--now")
	r.has(t, "s2*2")
	if got, err := other.get("h", "/128"); err != nil || got.surrogate != "s3" {
		t.Errorf("a session of a removed surrogate: %q, %v", got.surrogate, err)
	}
	r.do(t, "reset", "s1")
	r.has(t, "s1", "s2*2")
	l.end(t)
	other.Close()

	r.do(t, "weight", "s1", "4")
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	r.restart(t)
	r.has(t, "s1*4", "s2*2")
	if out := r.do(t, "list"); !strings.Contains(out, "router.yaml, by api: weight") || !strings.Contains(out, "api  ") {
		t.Errorf("list does not say where they are from:\n%s", out)
	}
	n.serves(t, vip4, "s1", "s2")

	// A reload keeps the changes, unless the file says something else of the surrogate.
	config := n.discovering("    policy: weighted\n    surrogates: [{name: s1, address: \"10.2.1.2:80\"}, {name: s3, address: \"10.2.3.2:80\"}]\n")
	r.hangup(t, config)
	r.has(t, "s1*4", "s3", "s2*2")
	r.hangup(t, strings.Replace(config, `"10.2.1.2:80"`, `"10.2.1.2:80", weight: 2`, 1))
	r.has(t, "s1*2", "s3", "s2*2")
	r.do(t, "reset", "--all")
	r.has(t, "s1*2", "s3")
}

// openTo opens a session with a surrogate.
func (n *network) openTo(t *testing.T, surrogate string) *connection {
	t.Helper()
	for range 100 {
		c := n.open(t, vip4)
		if got, err := c.get("h", "/128"); err == nil && got.surrogate == surrogate {
			return c
		}
		c.Close()
	}
	t.Fatalf("no session with %s", surrogate)
	return nil
}

// restart starts the program again, with the same files.
func (r *running) restart(t *testing.T) {
	t.Helper()
	path, err := build.Program("baton")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.again(path); err != nil {
		t.Fatal(err)
	}
}

// nameServer answers on a host's address.
func nameServer(t *testing.T, h *lab.Host, address string) (s *discovertest.Server, stop func()) {
	t.Helper()
	udp, err := h.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := h.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return discovertest.Serve(udp, tcp)
}

// TestDiscoverDNS: answers change under load; the resolver dies; the name is gone; a restart without the resolver has what was there.
func TestDiscoverDNS(t *testing.T) {
	const web = "web.example.net"
	n := newNetwork(t)
	n.nginxes("s1", "s2", "s3")
	server, stop := nameServer(t, n.router, "127.0.0.1:5353")
	server.Set(web, dnsmessage.TypeA, discovertest.Hosts(web, 0, "10.2.1.2", "10.2.2.2"))
	r := n.start(n.discovering("    policy: hash\n    discover: {dns: web.example.net, port: 80, resolvers: [\"127.0.0.1:5353\"], min_ttl: 200ms, max_ttl: 400ms}\n"))
	r.has(t, "p/10.2.1.2:80", "p/10.2.2.2:80")
	l := n.load(t)
	server.Set(web, dnsmessage.TypeA, discovertest.Hosts(web, 0, "10.2.3.2", "10.2.2.2"))
	r.has(t, "p/10.2.2.2:80", "p/10.2.3.2:80")
	server.Set(web, dnsmessage.TypeA, discovertest.Hosts(web, 0, "10.2.1.2", "10.2.2.2", "10.2.3.2", "127.0.0.1"))
	r.has(t, "p/10.2.1.2:80", "p/10.2.2.2:80", "p/10.2.3.2:80")
	if left := r.status().LeftOut; len(left) != 1 || !strings.Contains(left[0], "127.0.0.1") {
		t.Errorf("left out: %q", left)
	}
	r.do(t, "weight", "p/10.2.1.2:80", "5")
	for _, broken := range []struct {
		answer discovertest.Reply
		kind   string
	}{{discovertest.Reply{Code: dnsmessage.RCodeServerFailure}, "servfail"}, {discovertest.Reply{Code: dnsmessage.RCodeNameError}, "nxdomain"}} {
		server.Set(web, dnsmessage.TypeA, broken.answer)
		r.fails(t, broken.kind)
	}
	stop()
	r.fails(t, "unreachable")
	r.has(t, "p/10.2.1.2:80*5", "p/10.2.2.2:80", "p/10.2.3.2:80")
	l.end(t)
	m := r.metrics()
	const labels = `{pool="p",source="dns web.example.net:80"}`
	if m["baton_router_discovered_surrogates"+labels] != 4 || m["baton_router_discovery_up"+labels] != 0 || m["baton_router_discovery_last_success_timestamp_seconds"+labels] == 0 {
		t.Errorf("metrics: %v, %v", m["baton_router_discovered_surrogates"+labels], m["baton_router_discovery_up"+labels])
	}
	out, err := n.baton(t.Context(), "router", "explain", "http://10.9.9.9/x", "--control", r.socket)
	if err != nil || !strings.Contains(out, "10.2.1.2:80, of dns web.example.net:80") {
		t.Errorf("explain: %v\n%s", err, out)
	}

	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	r.restart(t)
	r.has(t, "p/10.2.1.2:80*5", "p/10.2.2.2:80", "p/10.2.3.2:80")
	if d := r.status().Pools[0].Discover[0]; !d.Known || !d.Success.IsZero() {
		t.Errorf("source after a restart without its resolver: %+v", d)
	}
	got, err := n.open(t, vip4).get("h", "/128")
	if err != nil || got.StatusCode != 200 {
		t.Errorf("%v, %v", got.Response, err)
	}
}

// fails waits until a source has failed in that way.
func (r *running) fails(t *testing.T, kind string) {
	t.Helper()
	lab.Eventually(t, answersWithin, func() error {
		d := r.status().Pools[0].Discover[0]
		if d.Failures[kind] == 0 || d.Error == "" {
			return fmt.Errorf("source %+v, want failure %s", d, kind)
		}
		return nil
	})
}

// TestDiscoverSRV: surrogates of a higher priority number get sessions while none of a lower one is up. All are of IPv6.
func TestDiscoverSRV(t *testing.T) {
	const name = "_http._tcp.example.net"
	n := newNetwork(t)
	n.nginxes("s1")
	server, stop := nameServer(t, n.router, "127.0.0.1:5353")
	defer stop()
	backup := n.site("s2", lab.LinkOptions{})
	peers.Nginx(backup.Host, peers.NginxOptions{Workers: 1})
	for i, host := range []string{"a.example.net", "b.example.net"} {
		server.Set(host, dnsmessage.TypeAAAA, discovertest.Hosts(host, 1, fmt.Sprintf("fd02:0:0:%d::2", i+1)))
	}
	target := func(priority, weight uint16, host string) discovertest.Target {
		return discovertest.Target{Priority: priority, Weight: weight, Port: 80, Name: host}
	}
	server.Set(name, dnsmessage.TypeSRV, discovertest.SRV(name, 1, target(10, 500, "a.example.net"), target(20, 250, "b.example.net")))
	config := n.discovering("    policy: weighted\n    discover: {srv: _http._tcp.example.net, prefix: x-, resolvers: [\"127.0.0.1:5353\"], min_ttl: 200ms, max_ttl: 1s}\n")
	r := n.start(strings.Replace(config, vip4, vip6, 1))
	r.has(t, "x-[fd02:0:0:1::2]:80*256", "x-[fd02:0:0:2::2]:80*128")
	n.comesToServe(t, vip6, "s1")
	server.Set(name, dnsmessage.TypeSRV, discovertest.SRV(name, 1, target(30, 500, "a.example.net"), target(20, 250, "b.example.net")))
	r.has(t, "x-[fd02:0:0:2::2]:80*128", "x-[fd02:0:0:1::2]:80*256")
	n.comesToServe(t, vip6, "s2")
	r.do(t, "drain", "x-[fd02:0:0:2::2]:80")
	n.serves(t, vip6, "s1")
	server.Set(name, dnsmessage.TypeSRV, discovertest.SRV(name, 1, target(30, 500, "a.example.net")))
	r.has(t, "x-[fd02:0:0:1::2]:80*256")
}

// TestDiscoverFile: the file is replaced under load, broken, and removed.
func TestDiscoverFile(t *testing.T) {
	n := newNetwork(t)
	n.nginxes("s1", "s2", "s3")
	path := filepath.Join(n.Dir(), "surrogates.json")
	replace := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	replace(`[{"name":"s1","address":"10.2.1.2:80"},{"name":"s2","address":"10.2.2.2:80","weight":2}]`)
	r := n.start(n.discovering("    policy: weighted\n    discover: {file: " + path + "}\n"))
	r.has(t, "s1", "s2*2")
	l := n.load(t)
	replace(`[{"name":"s3","address":"10.2.3.2:80"},{"name":"s2","address":"10.2.2.2:80"}]`)
	r.has(t, "s2", "s3")
	replace(`[{"name":"s3","address":"10.2.3.2:80"},` + "\n" + `{"name":"s2","address":"10.2.2.2"}]`)
	r.fails(t, "malformed")
	if d := r.status().Pools[0].Discover[0]; !strings.HasPrefix(d.Error, path+":2:") || !strings.Contains(r.Log(), path+":2:") {
		t.Errorf("%q does not say where, nor does the log", d.Error)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.fails(t, "missing")
	r.has(t, "s2", "s3")
	replace(`[{"name":"s1","address":"10.2.1.2:80"}]`)
	r.has(t, "s1")
	l.end(t)
	n.comesToServe(t, vip4, "s1")
}

// TestBackendsBurst: many changes at once become few, each with its own answer, and a wrong one among them is refused alone.
func TestBackendsBurst(t *testing.T) {
	const many = 60
	n := newNetwork(t)
	n.nginxes("s1")
	r := n.start(n.discovering("    surrogates: [{name: s1, address: \"10.2.1.2:80\"}]\n"))
	client := api.NewClient(r.socket)
	defer client.Close()
	l := n.load(t)
	var work errgroup.Group
	var refused atomic.Int64
	none := 0
	for i := range many {
		work.Go(func() error {
			q := api.RouterBackendChange{
				Do: api.RouterBackendAdd, Pool: "p", Surrogate: fmt.Sprint("a", i), Address: netip.AddrPortFrom(netip.MustParseAddr("10.2.1.2"), uint16(1000+i)), Weight: &none,
			}
			if i%20 == 7 {
				q.Pool = "gone"
			}
			got, err := client.RouterBackend(t.Context(), q)
			if errors.Is(err, api.ErrNotFound) && q.Pool == "gone" {
				refused.Add(1)
				return nil
			}
			if err == nil && (!got.Present || !got.Saved || got.Address != q.Address) {
				err = fmt.Errorf("%+v", got)
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	st := r.status()
	if have := len(st.Pools[0].Surrogates); have != 1+many-3 || refused.Load() != 3 || len(st.Changes) != many-3 {
		t.Errorf("%d surrogates, %d refused, %d changes", have, refused.Load(), len(st.Changes))
	}
	if st.Merges >= many/2 {
		t.Errorf("%d changes were put in force in %d steps", many, st.Merges)
	}
	r.do(t, "reset", "--all")
	r.has(t, "s1")
	l.end(t)
}
