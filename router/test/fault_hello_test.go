package test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
	"baton/packet/hello"
	"baton/packet/hello/hellotest"
)

// capture is the first flight of a real client: a hello of the corpus.
type capture struct {
	name   string
	stream []byte
	server string // that it names, as packet/hello says; its tests compare that with other readers
}

func captures(t *testing.T) (out []capture) {
	t.Helper()
	corpus, err := hellotest.Captures()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range corpus {
		h, err := hello.Read(c.Stream)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		out = append(out, capture{name: c.Name, stream: c.Stream, server: h.ServerName})
	}
	if len(out) < 150 {
		t.Fatalf("%d hellos", len(out))
	}
	return out
}

// theEnd is behind what a client sends; it may stand in the packet of the hello.
const theEnd = "\x17 the end of it \x17"

// sink answers a stream that ends with theEnd by its own name and the stream's sum.
func sink(t *testing.T, s *site) {
	l, err := s.Listen("tcp", ":443")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				var got []byte
				for b := make([]byte, 4<<10); !bytes.HasSuffix(got, []byte(theEnd)); {
					n, err := c.Read(b)
					if got = append(got, b[:n]...); err != nil {
						return
					}
				}
				fmt.Fprintf(c, "%s %x", s.name, sha256.Sum256(got))
			}()
		}
	}()
}

// helloNetwork has three sinks: for names of two kinds, and for hellos without a name. to is the sink of a name.
func helloNetwork(t *testing.T, o lab.LinkOptions, corpus []capture) (n *network, r *running, to map[string]string) {
	n = &network{Lab: lab.New(t), t: t}
	n.router, n.client = n.Host("router"), n.Host("client")
	n.router.Forward()
	n.front = n.Link(clientEnd(n.client, 0), routerEnd(n.router, 0), o).B
	toRouter(n.client, 0)
	var pools, routes strings.Builder
	for _, name := range []string{"a", "b", "none"} {
		s := n.site(name, lab.LinkOptions{})
		sink(t, s)
		fmt.Fprintf(&pools, "  %s: {legs: {max: 2000}, surrogates: [{name: %[1]s, address: %[2]q}]}\n", name, secure(s, false))
	}
	to = map[string]string{"": "none"}
	for _, c := range corpus {
		if _, err := netip.ParseAddr(c.server); err == nil {
			to[c.server] = "b" // some clients send addresses as names; only a route for every name matches them
		} else if to[c.server] == "" {
			to[c.server] = []string{"a", "b"}[len(to)%2]
			fmt.Fprintf(&routes, "      - {match: {sni: %q}, pool: %s}\n", c.server, to[c.server])
		}
	}
	return n, n.start(fmt.Sprintf("vips:\n  - address: \"10.9.9.9:443\"\n    interfaces: [%s]\n    protocol: tls\n    routes:\n%s"+
		"      - {match: {no_sni: true}, pool: none}\n      - {pool: b}\npools:\n%s", n.front.Name, routes.String(), pools.String())), to
}

// TestEveryHelloIsRouted: the hellos of real clients reach the surrogates of their names whole, however they are cut into segments and
// records, with loss, reordering and duplication. None goes elsewhere.
func TestEveryHelloIsRouted(t *testing.T) {
	t.Parallel() // judges by results
	corpus := captures(t)
	for _, link := range []struct {
		name    string
		options lab.LinkOptions
		hellos  int // of the corpus, at random
	}{
		{"plain", lab.LinkOptions{}, len(corpus)},
		{"loss", lab.LinkOptions{AtoB: lossy, BtoA: lossy, NoOffloads: true}, 60},
	} {
		t.Run(link.name, func(t *testing.T) {
			n, _, to := helloNetwork(t, link.options, corpus)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			var work errgroup.Group
			work.SetLimit(32)
			for _, i := range random.Perm(len(corpus))[:link.hellos] {
				c := corpus[i]
				streams := [][]byte{c.stream}
				for _, size := range []int{1, 5, 100, len(c.stream) - 6} {
					streams = append(streams, hellotest.Records(c.stream, size))
				}
				for _, stream := range streams {
					for _, cut := range []int{0, 1 + random.IntN(len(stream)-1)} {
						pause := []time.Duration{0, 2 * time.Millisecond, 2 * helloWait}[random.IntN(3)]
						work.Go(func() error { return n.says(t.Context(), &c, stream, cut, pause, to[c.server]) })
					}
				}
			}
			if err := work.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// says sends a stream, cut in two, and expects the answer of a sink.
func (n *network) says(ctx context.Context, of *capture, stream []byte, cut int, pause time.Duration, sink string) error {
	how := func(err error) error {
		return fmt.Errorf("%s, %d bytes cut at %d with a pause of %v: %w", of.name, len(stream), cut, pause, err)
	}
	stream = append(slices.Clone(stream), theEnd...)
	c, err := n.client.Dial(ctx, "tcp", "10.9.9.9:443")
	if err != nil {
		return how(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write(stream[:cut]); err != nil {
		return how(err)
	}
	if cut > 0 {
		time.Sleep(pause)
	}
	if _, err := c.Write(stream[cut:]); err != nil {
		return how(err)
	}
	got, err := io.ReadAll(c)
	if want := fmt.Sprintf("%s %x", sink, sha256.Sum256(stream)); err != nil || string(got) != want {
		return how(fmt.Errorf("answered %q, %w, want %q", got, err, want))
	}
	return nil
}

// TestHalfHellos: clients that send half a hello and no more do not keep others from being served, and are all ended.
func TestHalfHellos(t *testing.T) {
	t.Parallel() // judges by results
	const clients = 600
	corpus := captures(t)
	n, r, to := helloNetwork(t, lab.LinkOptions{}, corpus)
	var crowd []net.Conn
	defer func() {
		for _, c := range crowd {
			c.Close()
		}
	}()
	for range clients {
		c, err := n.client.Dial(t.Context(), "tcp", "10.9.9.9:443")
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, c)
		if _, err := c.Write(corpus[0].stream[:100]); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if err := n.says(t.Context(), &corpus[1], corpus[1].stream, 0, 0, to[corpus[1].server]); err != nil {
			t.Error(err)
		}
		slow := hellotest.Records(corpus[1].stream, 300)
		if err := n.says(t.Context(), &corpus[1], slow, 100, 0, to[corpus[1].server]); err != nil {
			t.Error(err)
		}
	}
	for i, c := range crowd {
		_ = c.SetReadDeadline(time.Now().Add(answersWithin))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("half a hello, client %d: %v", i, err)
		}
	}
	refused := 0.0
	for name, value := range r.metrics() {
		if strings.HasPrefix(name, "baton_router_hellos_refused_total") {
			refused += value
		}
	}
	if int(refused) != clients {
		t.Errorf("%v hellos were refused, want %d", refused, clients)
	}
}

// TestKillDuringTLS kills the router during downloads by TLS. They continue without it, and with the next one.
func TestKillDuringTLS(t *testing.T) {
	t.Parallel() // judges by results
	const downloads = 100
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	s := n.site("s", lab.LinkOptions{})
	certificate, key := ca.Sign("s.test")
	peers.Nginx(s.Host, peers.NginxOptions{Server: fmt.Sprintf(
		"listen 443 ssl http2;\nssl_certificate %s;\nssl_certificate_key %s;\nlocation = /1m { limit_rate %d; }", certificate, key, slowly)})
	r := n.start(fmt.Sprintf("vips: [{address: \"10.9.9.9:443\", interfaces: [%s], protocol: tls, routes: [{pool: p}]}]\n"+
		"pools: {p: {surrogates: [{name: s, address: %q}]}}\n", n.front.Name, secure(s, false)))
	path, err := build.Program("baton")
	if err != nil {
		t.Fatal(err)
	}
	d := &slow{}
	for range downloads {
		d.work.Go(func() error {
			c, err := n.client.Dial(t.Context(), "tcp", "10.9.9.9:443")
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
			secured := tls.Client(c, &tls.Config{ServerName: "s.test", RootCAs: ca.Pool, NextProtos: []string{"http/1.1"}})
			return d.from(secured)
		})
	}
	lab.Eventually(t, time.Minute, func() error {
		if got := d.begun.Load(); got < downloads {
			return fmt.Errorf("%d of %d downloads have begun", got, downloads)
		}
		return nil
	})
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	d.grows(t, downloads*(32<<10))
	if err := r.again(path); err != nil {
		t.Fatal(err)
	}
	if err := d.work.Wait(); err != nil {
		t.Error(err)
	}
	if n := r.passed("10.9.9.9:443"); n > 0 {
		t.Errorf("%v sessions were passed on by sockets", n)
	}
}
