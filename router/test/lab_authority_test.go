package test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"baton/lab"
	"baton/lab/peers"
)

// namesakes runs a TLS server on port 443 that expects a header of the PROXY protocol, and sends the name in it to its client.
func namesakes(t *testing.T, ca *peers.Authority, s *site) {
	t.Helper()
	certificate, key := ca.Sign("s.test")
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen("tcp", ":443")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(answersWithin))
				tellsName(c, pair)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
}

func tellsName(c net.Conn, pair tls.Certificate) {
	r := bufio.NewReader(c)
	h, err := proxyproto.Read(r)
	if err != nil {
		return
	}
	tlvs, err := h.TLVs()
	if err != nil {
		return
	}
	secured := tls.Server(readFrom{c, r}, &tls.Config{Certificates: []tls.Certificate{pair}})
	name := "none"
	if tlvs[0].Type == proxyproto.PP2_TYPE_AUTHORITY {
		name = string(tlvs[0].Value)
	}
	_, _ = io.WriteString(secured, name)
	_ = secured.Close()
}

// readFrom is a connection of which the beginning has been read.
type readFrom struct {
	net.Conn
	r io.Reader
}

func (c readFrom) Read(b []byte) (int, error) { return c.r.Read(b) }

// halting writes its first bytes in two halves, with a pause between them.
type halting struct {
	net.Conn
	halted bool
}

func (c *halting) Write(b []byte) (int, error) {
	if c.halted {
		return c.Conn.Write(b)
	}
	c.halted = true
	n, err := c.Conn.Write(b[:len(b)/2])
	if err != nil {
		return n, err
	}
	time.Sleep(200 * time.Millisecond)
	m, err := c.Conn.Write(b[len(b)/2:])
	return n + m, err
}

// TestAuthority: the surrogate is told the name in the hello as the client has sent it, whether the kernel, user space or a socket reads
// it, also where links lose packets.
func TestAuthority(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	s := n.site("s", lab.LinkOptions{AtoB: lossy, BtoA: lossy, NoOffloads: true})
	namesakes(t, ca, s)
	r := n.start(fmt.Sprintf(`vips:
  - {address: "10.9.9.9:443", interfaces: [%s], protocol: tls, routes: [{pool: a}]}
  - {address: "[fd09::9]:443", interfaces: [%[1]s], protocol: tls, routes: [{pool: b}]}
pools:
  a: {client_address: proxy-v2, surrogates: [{name: a, address: %[2]q}]}
  b: {client_address: proxy-v2, surrogates: [{name: b, address: %[3]q}]}
`, n.front.Name, secure(s, false), secure(s, true)))
	told := func(vip, name string, halts bool) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), answersWithin)
		defer cancel()
		c, err := n.client.Dial(ctx, "tcp", vip)
		if err != nil {
			return "", err
		}
		defer c.Close()
		secured := tls.Client(&halting{c, !halts}, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err := secured.HandshakeContext(ctx); err != nil {
			return "", err
		}
		b, err := io.ReadAll(secured)
		return string(b), err
	}
	long := strings.Repeat("label.", 24)
	for name, want := range map[string]string{"s.test": "s.test", "Shop.S.Test": "Shop.S.Test", long + "test12": long + "test12", long + "test123": "none"} {
		for _, vip := range []string{"10.9.9.9:443", "[fd09::9]:443"} {
			for range 5 {
				for _, halts := range []bool{false, true} {
					if got, err := told(vip, name, halts); got != want {
						t.Errorf("%s, halts %t: told %q, want %q: %v", vip, halts, got, want, err)
					}
				}
			}
		}
	}
	if v := r.verdicts(); v["handoff"] == 0 || v["upcall"] == 0 || v["assigned"] == 0 {
		t.Errorf("not every way was taken: %v", v)
	}
}
