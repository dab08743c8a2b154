package test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// secureNginx serves the site by HTTPS, HTTP/1.1 and HTTP/2, with a certificate for the names.
func secureNginx(a *peers.Authority, s *site, names ...string) {
	certificate, key := a.Sign(names...)
	peers.Nginx(s.Host, peers.NginxOptions{Server: fmt.Sprintf(
		"listen 443 ssl http2;\nlisten [::]:443 ssl http2;\nssl_certificate %s;\nssl_certificate_key %s;\nssl_session_cache shared:a:1m;\nssl_protocols TLSv1.2 TLSv1.3;", certificate, key)})
}

// secure is the address of a surrogate's port 443.
func secure(s *site, v6 bool) string {
	return net.JoinHostPort(s.address(v6).Addr().String(), "443")
}

// cutHello sends a TLS hello in records and segments of so many bytes each; 0: as it is. Later writes pass.
type cutHello struct {
	net.Conn
	record, segment int
	pause           time.Duration // between segments
	begun           bool
}

func (c *cutHello) Write(b []byte) (int, error) {
	if c.begun {
		return c.Conn.Write(b)
	}
	c.begun = true
	out := b
	if c.record > 0 {
		out = nil
		for rest := b[5:]; len(rest) > 0; {
			n := min(c.record, len(rest))
			out = append(append(out, 22, 3, 1, byte(n>>8), byte(n)), rest[:n]...)
			rest = rest[n:]
		}
	}
	for rest := out; len(rest) > 0; {
		n := len(rest)
		if c.segment > 0 {
			n = min(n, c.segment)
		}
		if _, err := c.Conn.Write(rest[:n]); err != nil {
			return 0, err
		}
		if rest = rest[n:]; len(rest) > 0 {
			time.Sleep(c.pause)
		}
	}
	return len(b), nil
}

// passed counts sessions of a VIP that sockets have passed on.
func (r *running) passed(vip string) float64 {
	n := 0.0
	for name, value := range r.metrics() {
		if strings.HasPrefix(name, "baton_router_passthrough_sessions_total") && strings.Contains(name, fmt.Sprintf("vip=%q", vip)) {
			n += value
		}
	}
	return n
}

// TestTLS: sessions go to the surrogates of the names in their hellos, spliced where the hello comes at once, and by sockets where
// it trickles in. The surrogates are nginx with certificates of their own, which the router does not have.
func TestTLS(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a, b := n.site("a", lab.LinkOptions{}), n.site("b", lab.LinkOptions{})
	secureNginx(ca, a, "a.test", "*.both.test")
	secureNginx(ca, b, "x.b.test", "*.b.test", "*.both.test")
	const tls4, tls6 = "10.9.9.9:443", "[fd09::9]:443"
	config := func(vip, of string, v6 bool) (string, string) {
		return fmt.Sprintf(`
  - address: %q
    interfaces: [%s]
    protocol: tls
    routes:
      - {match: {sni: a.test}, pool: a%[3]s}
      - {match: {sni: "*.b.test"}, pool: b%[3]s}
      - {match: {sni: "*.both.test", alpn: [h2]}, pool: a%[3]s}
      - {match: {sni: "*.both.test"}, pool: b%[3]s}`, vip, n.front.Name, of),
			fmt.Sprintf("\n  a%[1]s: {surrogates: [{name: a%[1]s, address: %[2]q}]}\n  b%[1]s: {surrogates: [{name: b%[1]s, address: %[3]q}]}",
				of, secure(a, v6), secure(b, v6))
	}
	v4, p4 := config(tls4, "4", false)
	v6, p6 := config(tls6, "6", true)
	r := n.start("vips:" + v4 + v6 + "\npools:" + p4 + p6 + "\n")

	// fetch makes a request on a new connection.
	fetch := func(t *testing.T, vip, name, path string, cut cutHello, config *tls.Config) (surrogate string, body []byte, state tls.ConnectionState) {
		t.Helper()
		plain, err := n.client.Dial(deadline(t), "tcp", vip)
		if err != nil {
			t.Fatal(err)
		}
		defer plain.Close()
		cut.Conn = plain
		config = config.Clone()
		config.ServerName, config.RootCAs = name, ca.Pool
		c := tls.Client(&cut, config)
		if err := c.HandshakeContext(deadline(t)); err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP1(c.ConnectionState().NegotiatedProtocol != "h2")
		transport.Protocols.SetHTTP2(c.ConnectionState().NegotiatedProtocol == "h2")
		defer transport.CloseIdleConnections()
		got, err := (&http.Client{Transport: transport}).Get("https://" + name + path)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		body, err = io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got.Header.Get(peers.Header), body, c.ConnectionState()
	}
	h2, h1 := []string{"h2", "http/1.1"}, []string{"http/1.1"}
	for _, vip := range []string{tls4, tls6} {
		slow := 0
		for _, tt := range []struct {
			name   string
			offers []string
			want   string
		}{{"a.test", h2, "a"}, {"A.Test", h1, "a"}, {"x.b.test", h2, "b"}, {"www.both.test", h2, "a"}, {"www.both.test", h1, "b"}} {
			for _, cut := range []struct {
				name    string
				cut     cutHello
				spliced bool
			}{
				{"whole", cutHello{}, true},
				{"two segments", cutHello{segment: 200}, true},
				{"records of 100 bytes", cutHello{record: 100}, true},
				{"segments of 100 bytes in records of 5", cutHello{record: 5, segment: 300}, true},
				{"slow", cutHello{segment: 400, pause: 4 * helloWait}, false},
			} {
				t.Run(fmt.Sprintf("%s/%s/%s/%s", vip, tt.name, tt.offers[0], cut.name), func(t *testing.T) {
					surrogate, body, _ := fetch(t, vip, tt.name, "/1m", cut.cut, &tls.Config{NextProtos: tt.offers})
					if surrogate != tt.want {
						t.Errorf("answered by %q, want %q", surrogate, tt.want)
					}
					if err := peers.CheckPattern(bytes.NewReader(body), 1<<20); err != nil {
						t.Error(err)
					}
					if !cut.spliced {
						slow++
					}
				})
			}
		}
		if err := lab.Poll(answersWithin, func() error {
			if got := r.passed(vip); int(got) < slow || int(got) > 2*slow { // a busy machine is slow, too
				return fmt.Errorf("%v sessions to %s were passed on by sockets, want %d", got, vip, slow)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	t.Run("resumption and old versions", func(t *testing.T) {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			config := &tls.Config{MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			for i := range 3 {
				_, _, state := fetch(t, tls4, "a.test", "/128", cutHello{}, config)
				if state.DidResume != (i > 0) || state.Version != version {
					t.Errorf("session %d: version %#x, resumed %v", i, state.Version, state.DidResume)
				}
			}
		}
	})
	t.Run("curl", func(t *testing.T) {
		got, err := peers.Curl(deadline(t), n.client, "--cacert", ca.File, "--http2", "--resolve", "x.b.test:443:10.9.9.9", "https://x.b.test/1m")
		if err != nil || got.Status != 200 || got.Surrogate != "b" {
			t.Fatalf("status %d from %q: %v", got.Status, got.Surrogate, err)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		for name, want := range map[string]string{"c.test": "unrecognized name", "b.test": "unrecognized name", "y.x.b.test": "unrecognized name", "": "missing extension"} {
			c, err := n.client.Dial(deadline(t), "tcp", tls4)
			if err != nil {
				t.Fatal(err)
			}
			err = tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).HandshakeContext(deadline(t))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", name, err, want)
			}
			c.Close()
		}
		c, err := n.client.Dial(deadline(t), "tcp", tls4)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
			t.Errorf("a request without TLS: %q, %v", got, err)
		}
	})
	t.Run("explained", func(t *testing.T) {
		for url, want := range map[string]string{"https://a.test/": "chosen     a4, spliced", "https://no.test": "alert unrecognized_name", "https://10.9.9.9/x": "alert missing_extension"} {
			out, err := n.baton(deadline(t), "router", "explain", "--control", r.socket, url)
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("%s: %v\n%s", url, err, out)
			}
		}
	})
}

// helloWait is how long the router waits for the rest of a hello.
const helloWait = 50 * time.Millisecond
