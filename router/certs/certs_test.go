package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/router/config"
	"baton/router/route"
)

// sign makes a certificate for the names, signed by itself.
func sign(t testing.TB, ends time.Time, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: ends}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// shows is a certificate as a handshake for ask shows it.
func shows(t testing.TB, protocol string, ask Ask, ends time.Time, names ...string) Seen {
	return Seen{Ask: ask, Leaf: sign(t, ends, names...).Leaf, Protocol: protocol}
}

// parse reads a file with a VIP for each list of routes, at the same address and the ports 443, 444, ...
func parse(t testing.TB, pools string, vips ...[]string) *config.Config {
	t.Helper()
	text := "vips:\n"
	for i, routes := range vips {
		text += fmt.Sprintf("  - address: \"10.9.9.9:%d\"\n    interfaces: [eth0]\n    protocol: tls\n    routes:\n      - %s\n", 443+i, strings.Join(routes, "\n      - "))
	}
	cfg, err := config.Parse("f", []byte(text+"pools:\n"+pools))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

const twoPools = "  a: {surrogates: [{name: a1, address: \"10.2.1.2:443\"}]}\n  b: {surrogates: [{name: b1, address: \"10.2.1.3:443\"}]}\n"

func TestNames(t *testing.T) {
	routes := []string{"{match: {sni: a.test}, pool: a}", `{match: {sni: "*.a.test", alpn: [h2]}, pool: a}`, `{match: {sni: "*.a.test"}, pool: a}`,
		`{match: {sni: "*.x.test"}, pool: a}`, "{pool: b}"}
	for _, tt := range []struct {
		name, pools, pool string
		want              []Ask
	}{
		{"names, a wildcard once", twoPools, "a", []Ask{
			{Name: "a.test", Route: "a.test"}, {"baton-check.a.test", "*.a.test", true}, {"baton-check.x.test", "*.x.test", true}}},
		{"no names", twoPools, "b", []Ask{{}}},
		{"host for the wildcard that it matches", strings.Replace(twoPools, "a: {", "a: {health: {host: \"WWW.a.test:443\"}, ", 1), "a", []Ask{
			{Name: "a.test", Route: "a.test"}, {Name: "www.a.test", Route: "*.a.test"}, {"baton-check.x.test", "*.x.test", true}}},
		{"host for no names", strings.Replace(twoPools, "b: {", "b: {health: {host: b.test}, ", 1), "b", []Ask{{Name: "b.test"}}},
		{"an address is no name", strings.Replace(twoPools, "b: {", "b: {health: {host: 10.1.1.1}, ", 1), "b", []Ask{{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := parse(t, tt.pools, routes)
			i := slices.IndexFunc(cfg.Pools, func(p config.Pool) bool { return p.Name == tt.pool })
			if diff := cmp.Diff(tt.want, Names(cfg, &cfg.Pools[i])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestJudge: the warnings about one certificate.
func TestJudge(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	later := now.AddDate(1, 0, 0)
	ask := Ask{Name: "www.a.test", Route: "www.a.test"}
	wild := Ask{"baton-check.a.test", "*.a.test", true}
	for _, tt := range []struct {
		name string
		seen Seen
		want []string
	}{
		{"good", shows(t, "h2", ask, later, "WWW.a.test"), nil},
		{"wildcard", shows(t, "h2", ask, later, "*.a.test"), nil},
		{"wildcard for a wildcard", shows(t, "h2", wild, later, "*.a.test"), nil},
		{"other name", shows(t, "h2", ask, later, "a.test", "*.b.test"), []string{"certificate does not cover www.a.test: it is for a.test, *.b.test"}},
		{"wildcard of one label", shows(t, "h2", ask, later, "*.test"), []string{"certificate does not cover www.a.test: it is for *.test"}},
		{"name for a wildcard", shows(t, "h2", wild, later, "www.a.test"), []string{"certificate does not cover *.a.test: it is for www.a.test"}},
		{"no names", shows(t, "h2", ask, later), []string{"certificate does not cover www.a.test: it is for no DNS name"}},
		{"many names", shows(t, "h2", ask, later, "1", "2", "3", "4", "5", "6", "7"), []string{"certificate does not cover www.a.test: it is for 1, 2, 3, 4, 5 and 2 more"}},
		{"soon", shows(t, "h2", ask, now.Add(13*24*time.Hour), "www.a.test"), []string{"certificate for www.a.test expires on 2026-11-14T00:00:00Z, within 14 days"}},
		{"in time", shows(t, "h2", ask, now.Add(15*24*time.Hour), "www.a.test"), nil},
		{"expired", shows(t, "h2", ask, now.Add(-time.Hour), "www.a.test"), []string{"certificate for www.a.test expired on 2026-10-31T23:00:00Z"}},
		{"without a name", shows(t, "h2", Ask{}, now.Add(-time.Hour), "x.test"), []string{"certificate without a name expired on 2026-10-31T23:00:00Z"}},
		{"refused", Seen{Ask: ask, Refused: "tls: unrecognized name"}, []string{"refuses the handshake for www.a.test: tls: unrecognized name"}},
		{"refused, made up", Seen{Ask: wild, Refused: "tls: internal error"},
			[]string{"refuses the handshake for baton-check.a.test: tls: internal error (set health.host to a name that it has)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, judge(&tt.seen, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOverlap: certificates by which browsers' requests would reach the wrong pool.
func TestOverlap(t *testing.T) {
	now := time.Now()
	later := now.AddDate(1, 0, 0)
	const at = "10.9.9.9:443"
	a, b := Ask{Name: "a.test", Route: "a.test"}, Ask{Name: "b.test", Route: "b.test"}
	names := []string{"{match: {sni: a.test}, pool: a}", "{match: {sni: b.test}, pool: b}"}
	for _, tt := range []struct {
		name   string
		vips   [][]string
		a, b   Seen
		want   []string // names of the certificates
		warned string
	}{
		{"apart", [][]string{names}, shows(t, "h2", a, later, "a.test", "*.a.test"), shows(t, "h2", b, later, "b.test"), nil, ""},
		{"one certificate for both", [][]string{names}, shows(t, "h2", a, later, "a.test", "b.test"), shows(t, "h2", b, later, "a.test", "b.test"), []string{"a.test", "b.test"},
			"f:9:3: pools.a: overlap of pools a and b by a.test, b.test: at VIP " + at + " browsers may send requests for b.test, which belong to pool b, over a connection for a.test to pool a"},
		{"one side is enough", [][]string{names}, shows(t, "h2", a, later, "a.test"), shows(t, "h2", b, later, "a.test", "b.test"), []string{"a.test"},
			"f:9:3: pools.a: overlap of pools a and b by a.test: at VIP " + at + " browsers may send requests for a.test, which belong to pool a, over a connection for b.test to pool b"},
		{"HTTP/1.1", [][]string{names}, shows(t, "http/1.1", a, later, "a.test", "b.test"), shows(t, "", b, later, "a.test", "b.test"), nil, ""},
		{"HTTP/3", [][]string{names}, func() Seen { s := shows(t, "http/1.1", a, later, "a.test", "b.test"); s.HTTP3 = true; return s }(),
			shows(t, "", b, later, "b.test"), []string{"b.test"}, "over a connection for a.test to pool a"},
		{"wildcard over names", [][]string{{"{match: {sni: a.x.test}, pool: a}", "{match: {sni: b.x.test}, pool: b}"}},
			shows(t, "h2", Ask{Name: "a.x.test", Route: "a.x.test"}, later, "*.x.test"), shows(t, "h2", Ask{Name: "b.x.test", Route: "b.x.test"}, later, "b.x.test"),
			[]string{"*.x.test"}, "requests for b.x.test, which belong to pool b, over a connection for a.x.test to pool a"},
		{"wildcard is one label", [][]string{{"{match: {sni: a.x.test}, pool: a}", "{match: {sni: b.y.x.test}, pool: b}"}},
			shows(t, "h2", Ask{Name: "a.x.test", Route: "a.x.test"}, later, "*.x.test"), shows(t, "h2", Ask{Name: "b.y.x.test", Route: "b.y.x.test"}, later, "b.y.x.test"), nil, ""},
		{"a name cut out of a wildcard route", [][]string{{"{match: {sni: a.x.test}, pool: a}", `{match: {sni: "*.x.test"}, pool: b}`}},
			shows(t, "h2", Ask{Name: "a.x.test", Route: "a.x.test"}, later, "a.x.test"), shows(t, "h2", Ask{"baton-check.x.test", "*.x.test", true}, later, "*.x.test"),
			[]string{"*.x.test"}, "requests for a.x.test, which belong to pool a, over a connection for *.x.test to pool b"},
		{"names that go elsewhere by default", [][]string{{"{match: {sni: a.test}, pool: a}", "{pool: b}"}},
			shows(t, "h2", a, later, "a.test", "www.a.test"), shows(t, "h2", Ask{}, later, "b.test"), []string{"www.a.test"}, "requests for www.a.test, which belong to pool b"},
		{"default pool without a name", [][]string{{"{match: {sni: a.test}, pool: a}", "{pool: b}"}},
			shows(t, "h2", a, later, "a.test"), shows(t, "h2", Ask{}, later, "b.test", "a.test"), []string{"a.test"}, "over a connection for b.test to pool b"},
		{"names that no route matches", [][]string{names}, shows(t, "h2", a, later, "a.test", "c.test"), shows(t, "h2", b, later, "b.test", "c.test"), nil, ""},
		{"split by protocol", [][]string{{"{match: {sni: a.test, alpn: [h2]}, pool: a}", "{match: {sni: a.test}, pool: b}"}},
			shows(t, "h2", a, later, "a.test"), shows(t, "http/1.1", a, later, "a.test"), nil, ""},
		{"other ports are other connections", [][]string{{"{match: {sni: a.test}, pool: a}"}, {"{match: {sni: b.test}, pool: b}"}},
			shows(t, "h2", a, later, "a.test", "b.test"), shows(t, "h2", b, later, "a.test", "b.test"), nil, ""},
		{"refused", [][]string{names}, Seen{Ask: a, Refused: "no"}, Seen{Ask: b, Refused: "no"}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := parse(t, twoPools, tt.vips...)
			routes, err := route.Compile(cfg)
			if err != nil {
				t.Fatal(err)
			}
			got := Look(cfg, routes, func(surrogate string) []Seen {
				return map[string][]Seen{"a1": {tt.a}, "b1": {tt.b}}[surrogate]
			}, now)
			var want []Overlap
			if tt.want != nil {
				want = []Overlap{{VIP: netip.MustParseAddrPort(at), Pool: "a", Other: "b", Names: tt.want}}
			}
			if diff := cmp.Diff(want, got.Overlaps, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if all := strings.Join(got.Warnings, "\n"); !strings.Contains(all, tt.warned) || tt.want != nil && len(got.Warnings) != 1 {
				t.Errorf("warnings %q, want %q", got.Warnings, tt.warned)
			}
		})
	}
}

// serve answers connections by f until the test ends.
func serve(t *testing.T, f func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
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
				c.SetDeadline(time.Now().Add(10 * time.Second))
				f(c)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// secure serves TLS.
func secure(config *tls.Config) func(net.Conn) {
	return func(c net.Conn) {
		s := tls.Server(c, config)
		if s.Handshake() == nil {
			io.Copy(io.Discard, s)
		}
		s.Close()
	}
}

func TestHandshake(t *testing.T) {
	cert := sign(t, time.Now().Add(time.Hour), "a.test")
	strict := &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if h.ServerName != "a.test" {
			return nil, errors.New("unknown")
		}
		return &cert, nil
	}}
	ask := Ask{Name: "a.test", Route: "a.test"}
	for _, tt := range []struct {
		name     string
		ask      Ask
		server   func(net.Conn)
		protocol string
		shown    bool // a certificate
		conn     bool
		err      string
	}{
		{"h2", ask, secure(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}), "h2", true, true, ""},
		{"http/1.1", ask, secure(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}), "http/1.1", true, true, ""},
		{"no ALPN, TLS 1.2", ask, secure(&tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS12}), "", true, true, ""},
		{"client certificate, TLS 1.2", ask, secure(&tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert}), "", true, false, ""},
		{"by name", ask, secure(strict), "", true, true, ""},
		{"refused", Ask{Name: "x.test", Route: "x.test"}, secure(strict), "", false, false, "refuses the handshake for x.test: tls: internal error"},
		{"plain HTTP", ask, func(c net.Conn) {
			c.Read(make([]byte, 1024))
			io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, "", false, false, "answers without TLS on 127.0.0.1:"},
		{"speaks first", ask, func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n"); c.Read(make([]byte, 1024)) }, "", false, false, "answers without TLS on 127.0.0.1:"},
		{"closes", ask, func(c net.Conn) { io.CopyN(io.Discard, c, 5); c.(*net.TCPConn).CloseWrite(); io.Copy(io.Discard, c) }, "", false, false, "closes the connection in the handshake for a.test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := serve(t, tt.server)
			c, seen, err := Handshake(t.Context(), (&net.Dialer{}).DialContext, at, tt.ask)
			if c != nil {
				c.Close()
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if (c != nil) != tt.conn || (seen.Leaf != nil) != tt.shown || seen.Protocol != tt.protocol || seen.Ask != tt.ask {
				t.Errorf("connection %v, seen %+v", c != nil, seen)
			}
		})
	}
}

// TestJudgeResults: which outcomes take a surrogate down.
func TestJudgeResults(t *testing.T) {
	good := Result{}
	down := Result{Err: errors.New("refused")}
	alert := Result{Err: &refusal{name: "a.test", alert: errors.New("alert")}}
	guess := Result{Seen: Seen{Ask: Ask{MadeUp: true}}, Err: alert.Err}
	for _, tt := range []struct {
		name    string
		results []Result
		ok      bool
	}{
		{"good", []Result{good}, true}, {"one of several", []Result{down, alert, good}, true}, {"down", []Result{down}, false},
		{"refuses its name", []Result{alert}, false}, {"refuses a made-up name", []Result{guess}, true},
		{"refuses both", []Result{guess, alert}, false}, {"gone in between", []Result{guess, down}, false},
	} {
		if err := Judge(tt.results); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestConnect: the warnings of a check that connects, with their places.
func TestConnect(t *testing.T) {
	shared := sign(t, time.Now().Add(time.Hour), "*.x.test")
	h2 := secure(&tls.Config{Certificates: []tls.Certificate{shared}, NextProtos: []string{"h2"}})
	a, b, plain := serve(t, h2), serve(t, h2), serve(t, func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n"); io.Copy(io.Discard, c) })
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	l.Close()
	cfg := parse(t, fmt.Sprintf("  a:\n    surrogates:\n      - {name: a1, address: %q}\n      - {name: a2, address: %q}\n  b:\n    surrogates:\n      - {name: b1, address: %q}\n      - {name: b2, address: %q}\n",
		a, plain, b, gone), []string{"{match: {sni: a.x.test}, pool: a}", "{match: {sni: b.x.test}, pool: b}", "{match: {sni: c.test}, pool: b}"})
	got, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{
		"f:13:10: pools.a.surrogates[1]: answers without TLS on " + plain.String(),
		"f:17:10: pools.b.surrogates[1]: dial tcp " + gone + ": connect: connection refused",
		"f:12:10: pools.a.surrogates[0]: certificate for a.x.test expires on ",
		"f:16:10: pools.b.surrogates[0]: certificate does not cover c.test: it is for *.x.test",
		"f:10:3: pools.a: overlap of pools a and b by *.x.test: ",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
	if len(got) != 7 { // and the end of the certificate for b.x.test and for c.test
		t.Errorf("%d warnings:\n%s", len(got), all)
	}
}

// TestOwn: the router's own certificates are looked at, too.
func TestOwn(t *testing.T) {
	cfg, err := config.Parse("f", []byte("vips:\n  - address: \"10.9.9.9:443\"\n    mode: proxy\n    tls: [{certificate: /a, key: /b}, {certificate: /c, key: /d}, {certificate: /e, key: /f}]\n    routes: [{pool: a}]\n"+
		"pools:\n  a: {surrogates: [{name: a1, address: \"10.2.1.2:80\"}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	routes, err := route.Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	cfg.VIPs[0].TLS[0].Pair = sign(t, now.AddDate(0, 1, 0), "a.test")
	cfg.VIPs[0].TLS[1].Pair = sign(t, now.AddDate(0, 0, 3), "c.test")
	got := Look(cfg, routes, func(string) []Seen { return nil }, now)
	want := []string{"f:4:40: vips[0].tls[1]: certificate /c, for c.test, expires on 2026-11-04T00:00:00Z, within 14 days"}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
