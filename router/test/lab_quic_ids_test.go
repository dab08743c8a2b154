package test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"baton/lab"
	"baton/lab/peers"
)

// TestQUICOnePort: a client that goes on to another name from the same port gets that name's surrogate, once the connection before is
// over; while it is not, the new one is refused and the old one lives.
func TestQUICOnePort(t *testing.T) {
	t.Parallel() // judges by results
	const vip = "10.9.9.9:443"
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{ids: eightBytes("")}, "a.test", "c.test")
	b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{}, "x.b.test")
	const route = "{match: {sni: a.test}, pool: a4}"
	r := n.start(strings.Replace(n.quicConfig(vip, false, "", a, b), route, route+"\n      - {match: {sni: c.test}, pool: a4}", 1))
	defer r.endQUIC()
	c := n.quicClient(ca, false)
	first := c.dial(t, vip, "a.test", nil)
	fetchQUIC(t, first, 100)
	if surrogate, _ := fetchQUIC(t, c.dial(t, vip, "c.test", nil), 100); surrogate != "a" {
		t.Errorf("another name of the same surrogate: answered by %q", surrogate)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	config2 := c.config.Clone()
	config2.ServerName = "x.b.test"
	if _, err := c.transport.Dial(ctx, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(vip)), config2, nil); err == nil {
		t.Error("another surrogate's name at once: connected")
	}
	if surrogate, _ := fetchQUIC(t, first, 100); surrogate != "a" {
		t.Errorf("then the first connection is answered by %q", surrogate)
	}
	if q := r.status().QUIC; q.Refused["busy"] == 0 || q.Sessions != 1 {
		t.Errorf("%+v", q)
	}
	first.CloseWithError(0, "")
	if err := lab.Poll(answersWithin, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		conn, err := c.transport.Dial(ctx, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(vip)), config2, nil)
		if err != nil {
			return err
		}
		if surrogate, _ := fetchQUIC(t, conn, 100); surrogate != "b" {
			return fmt.Errorf("answered by %q", surrogate)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// eightBytes makes connection ids that begin with these bytes and are as long as clients' own.
type eightBytes string

func (begin eightBytes) GenerateConnectionID() (quicgo.ConnectionID, error) {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	copy(b, begin)
	return quicgo.ConnectionIDFromBytes(b), nil
}

func (eightBytes) ConnectionIDLen() int { return 8 }

// TestQUICMigrates: a client that migrates uses an id that nobody has seen. Its connection lives where ids name their server.
func TestQUICMigrates(t *testing.T) {
	t.Parallel() // judges by results
	const vip = "10.9.9.9:443"
	for _, named := range []bool{true, false} {
		t.Run(fmt.Sprintf("named %v", named), func(t *testing.T) {
			n := newNetwork(t)
			ca := peers.NewAuthority(n.Lab)
			a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{ids: eightBytes("\x20\x00\x0a")}, "a.test")
			b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{ids: eightBytes("\x20\x00\x0b")}, "x.b.test")
			config := n.quicConfig(vip, false, "", a, b)
			if named {
				for _, pool := range []string{"a4", "b4"} {
					config = strings.Replace(config, pool+": {", pool+": {server_id: {layout: quic-lb, rotation: 1, length: 2, map: {"+pool+": '000"+pool[:1]+"'}}, ", 1)
				}
			}
			r := n.start(config)
			defer r.endQUIC()
			c := n.quicClient(ca, false)
			conn := c.dial(t, vip, "x.b.test", nil)
			reply := begin(t, conn, 20<<20)
			reply.read(2 << 20)
			elsewhere := &quicgo.Transport{Conn: c.open()}
			t.Cleanup(func() { elsewhere.Close() })
			path, err := conn.AddPath(elsewhere)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			err = path.Probe(ctx)
			q := r.status().QUIC
			if !named {
				if err == nil || q.Moved != 0 || q.Packets["drop_unknown_id"] == 0 {
					t.Errorf("probe: %v; %+v", err, q)
				}
				reply.read(-1) // by the path before
				return
			}
			if err != nil {
				t.Fatalf("probe: %v; %+v", err, q)
			}
			if err := path.Switch(); err != nil {
				t.Fatal(err)
			}
			reply.read(-1)
			if surrogate, seen := fetchQUIC(t, conn, 1<<20); surrogate != "b" || q.Moved != 1 {
				t.Errorf("answered by %q, which sees %v; %+v", surrogate, seen, q)
			}
		})
	}
}

// TestQUICUnread: what cannot be read goes where hellos without a name go, and a client that then uses a known version is routed by its name.
func TestQUICUnread(t *testing.T) {
	t.Parallel() // judges by results
	const vip = "10.9.9.9:443"
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{}, "a.test")
	b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{}, "x.b.test")
	config := n.quicConfig(vip, false, "", a, b)
	r := n.start(config)
	defer func() { r.endQUIC() }()
	c := n.quicClient(ca, true)
	unknown := append([]byte{0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8}, "clients!\x04mine"...)
	unknown = append(unknown, make([]byte, 1200)...)
	to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(vip))
	if _, err := c.socket.WriteTo(unknown, to); err != nil {
		t.Fatal(err)
	}
	if err := lab.Poll(answersWithin, func() error {
		if q := r.status().QUIC; q.Refused["unknown_version"] != 1 || q.Sessions != 0 {
			return fmt.Errorf("%+v", q)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.configure(strings.Replace(config, "      - {match: {sni: a.test}", "      - {match: {no_sni: true}, pool: b4}\n      - {match: {sni: a.test}", 1)); err != nil {
		t.Fatal(err)
	}
	if out, err := n.baton(deadline(t), "router", "reload", "--control", r.socket); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := c.socket.WriteTo(unknown, to); err != nil {
		t.Fatal(err)
	}
	// Version Negotiation, RFC 9000 section 17.2.1, from the server
	select {
	case got := <-c.socket.in:
		if len(got.b) < 20 || string(got.b[1:19]) != "\x00\x00\x00\x00\x04mine\x08clients!" {
			t.Fatalf("the answer is % x", got.b)
		}
	case <-deadline(t).Done():
		t.Fatal("no answer")
	}
	if surrogate, _ := fetchQUIC(t, c.dial(t, vip, "a.test", nil), 100); surrogate != "a" {
		t.Errorf("then answered by %q", surrogate)
	}
	if q := r.status().QUIC; q.Sessions != 1 || q.Made != 2 {
		t.Errorf("%+v", q)
	}
}
