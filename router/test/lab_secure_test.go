package test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// secureClient makes requests over TLS from the client's host, and keeps its connections.
func (n *network) secureClient(ca *peers.Authority, vip, name string, h2 bool) (client *http.Client, dialled *atomic.Int32) {
	dialled = new(atomic.Int32)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialled.Add(1)
			return n.client.Dial(ctx, "tcp", vip)
		},
		TLSClientConfig: &tls.Config{RootCAs: ca.Pool, ServerName: name}, ForceAttemptHTTP2: h2, DisableCompression: true,
	}
	n.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, dialled
}

// shown is the certificate of a new session.
func (n *network) shown(vip, name string) (names []string, err error) {
	c, err := n.client.Dial(deadline(n.t), "tcp", vip)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s := tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: name})
	if err := s.HandshakeContext(deadline(n.t)); err != nil {
		return nil, err
	}
	return s.ConnectionState().PeerCertificates[0].DNSNames, nil
}

// TestSecureProxy: the router ends the TLS of a VIP of mode proxy, HTTP/1.1 and HTTP/2, and routes each request to nginx without TLS.
func TestSecureProxy(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a, b := n.site("a", lab.LinkOptions{}), n.site("b", lab.LinkOptions{})
	peers.Nginx(a.Host, peers.NginxOptions{})
	peers.Nginx(b.Host, peers.NginxOptions{})
	cert1, key1 := ca.Sign("one.test", "www.one.test")
	cert2, key2 := ca.Sign("two.test")
	const vip, to = "10.9.9.9:443", "[fd09::9]:443"
	log := filepath.Join(n.Dir(), "access.log")
	config := func(pairs string) string {
		return fmt.Sprintf(`log: {access: [{to: file, path: %s, format: combined}]}
vips:
  - address: %q
    mode: proxy
    tls: %[3]s
    routes:
      - {match: {host: one.test, path_prefix: /1}, pool: b}
      - {pool: a}
  - address: %[4]q
    mode: redirect
    tls: %[3]s
    routes: [{pool: a}]
pools:
  a: {surrogates: [{name: a, address: "%[5]s", public: "https://a.test"}]}
  b: {surrogates: [{name: b, address: "%[6]s"}]}
`, log, vip, pairs, to, a.v4, b.v4)
	}
	pair := func(certificate, key string) string {
		return fmt.Sprintf("{certificate: %s, key: %s}", certificate, key)
	}
	r := n.start(config("[" + pair(cert1, key1) + ", " + pair(cert2, key2) + "]"))

	for version, flag := range map[string]string{"2": "--http2", "1.1": "--http1.1"} {
		t.Run("curl/"+version, func(t *testing.T) {
			for _, tt := range []struct {
				url, surrogate string
				bytes          int64
			}{
				{"https://one.test/16k", "b", 16 << 10}, {"https://one.test/0", "a", 0}, {"https://two.test/1m", "a", 1 << 20}, {"https://one.test/100m", "b", 100 << 20},
			} {
				got, err := peers.Curl(deadline(t), n.client, flag, "--cacert", ca.File, "-o", "/dev/null", "--resolve", "one.test:443:10.9.9.9", "--resolve", "two.test:443:10.9.9.9", tt.url)
				if err != nil || got.Status != 200 || got.Version != version || got.Surrogate != tt.surrogate || got.Bytes != tt.bytes {
					t.Errorf("%s: %v: %+v", tt.url, err, got)
				}
			}
			got, err := peers.Curl(deadline(t), n.client, flag, "--cacert", ca.File, "--resolve", "two.test:443:[fd09::9]", "https://two.test/x")
			if err != nil || got.Status != 302 || got.Version != version {
				t.Errorf("redirect: %v: %+v", err, got)
			}
		})
	}
	t.Run("one connection, two pools", func(t *testing.T) {
		for _, h2 := range []bool{true, false} {
			c, dialled := n.secureClient(ca, vip, "one.test", h2)
			for _, tt := range []struct{ path, want string }{{"/16k", "b"}, {"/0", "a"}, {"/128", "b"}} {
				got, err := c.Get("https://one.test" + tt.path)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, got.Body)
				got.Body.Close()
				if got.Header.Get(peers.Header) != tt.want || got.ProtoMajor == 2 != h2 {
					t.Errorf("%s from %q by %s, want %q", tt.path, got.Header.Get(peers.Header), got.Proto, tt.want)
				}
			}
			if dialled.Load() != 1 {
				t.Errorf("h2 %v: %d connections", h2, dialled.Load())
			}
		}
	})
	t.Run("log, status and explanation", func(t *testing.T) {
		if err := lab.Poll(answersWithin, func() error {
			text, err := os.ReadFile(log)
			if err != nil || !strings.Contains(string(text), `"GET /16k HTTP/2.0" 200`) || !strings.Contains(string(text), `"GET /16k HTTP/1.1" 200`) {
				return fmt.Errorf("%v\n%s", err, text)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		for command, want := range map[string]string{"status": "VIP 10.9.9.9:443, proxy http over TLS, 2 routes", "explain https://one.test/1": "chosen     b"} {
			out, err := n.baton(deadline(t), append([]string{"router", "--control=" + r.socket}, strings.Fields(command)...)...)
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
		}
	})
	t.Run("reload", func(t *testing.T) {
		c, _ := n.secureClient(ca, vip, "one.test", true)
		got, err := c.Get("https://one.test/100m") // more than the buffers on the way hold
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		cert3, key3 := ca.Sign("three.test", "one.test")
		for from, to := range map[string]string{cert3: cert1, key3: key1} { // in place, as ACME clients do
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		out, err := n.baton(deadline(t), "router", "reload", "--control", r.socket)
		if err != nil || !strings.Contains(out, "VIP 10.9.9.9:443 has changed") {
			t.Errorf("%v\n%s", err, out)
		}
		if names, err := n.shown(vip, "one.test"); err != nil || names[0] != "three.test" {
			t.Errorf("a new session is shown a certificate for %v: %v", names, err)
		}
		if names, err := n.shown(vip, "two.test"); err != nil || names[0] != "two.test" {
			t.Errorf("a new session is shown a certificate for %v: %v", names, err)
		}
		if err := peers.CheckPattern(got.Body, 100<<20); err != nil {
			t.Errorf("the download of before: %v", err)
		}
		if out, err := n.baton(deadline(t), "router", "reload", "--control", r.socket); err != nil || strings.Contains(out, "changed") {
			t.Errorf("a reload of the same: %v\n%s", err, out)
		}
	})
	t.Run("a key of another certificate", func(t *testing.T) {
		if err := r.configure(config(pair(cert2, key1))); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("router.yaml:8:24: vips[0].tls.certificate: %q with key %q: tls: private key does not match public key", cert2, key1)
		for _, command := range []string{"reload --control " + r.socket, "check -c " + r.file} {
			if _, err := n.baton(deadline(t), append([]string{"router"}, strings.Fields(command)...)...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\nwant %s", command, err, want)
			}
		}
		if names, err := n.shown(vip, "one.test"); err != nil || names[0] != "three.test" {
			t.Errorf("afterwards a certificate for %v is shown: %v", names, err)
		}
	})
	t.Run("clients without TLS", func(t *testing.T) {
		c, err := n.client.Dial(deadline(t), "tcp", vip)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(answersWithin))
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: one.test\r\n\r\n")
		if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 400 ") || !strings.Contains(string(got), "HTTPS") {
			t.Errorf("%q, %v", got, err)
		}
		if got := r.metrics()[`baton_router_hellos_refused_total{reason="not_tls",vip="10.9.9.9:443"}`]; got != 1 {
			t.Errorf("counted %v times", got)
		}
	})
}
