package northbound

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadTokens(t *testing.T) {
	hash := fmt.Sprintf("sha256:%x", NewToken(Viewer, "a secret of the page", "").hash)
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		tokens     int
		mistakes   []string
	}{
		{"hashes that all may read", "# ours\nviewer " + hash + " page\n\n", 0o644, 1, nil},
		{"plain and hashed", "operator 0123456789abcdef noc\nviewer " + hash + " page\n", 0o600, 2, nil},
		{"plain that others can read", "operator 0123456789abcdef noc\n", 0o640, 0, []string{":1: others can read this token (mode 0640): chmod 600"}},
		{"all mistakes", "root x y\nviewer short page\nviewer sha256:12 page\nviewer\n", 0o600, 0,
			[]string{`:1: "root" is no role`, ":2: the token has fewer than 16", ":3: after sha256: are 64", ":4: a line has a role, a token and a name, and this one has 1 words"}},
		{"nobody", "nobody 0123456789abcdef x", 0o600, 0, []string{"is no role"}},
		{"twice", "viewer 0123456789abcdef a\noperator 0123456789abcdef b\n", 0o600, 1, []string{":2: this is the token of a already"}},
		{"none", "# none\n", 0o600, 0, []string{"has no token: write a line"}},
		{"empty", "", 0o600, 0, []string{"has no token"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens")
			if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
				t.Fatal(err)
			}
			tokens, err := ReadTokens(path)
			if len(tokens) != tt.tokens || (err != nil) != (tt.mistakes != nil) {
				t.Errorf("%d tokens, %v", len(tokens), err)
			}
			for _, m := range tt.mistakes {
				if !strings.Contains(err.Error(), m) {
					t.Errorf("%v, without %q", err, m)
				}
			}
			if err != nil && strings.Contains(err.Error(), "0123456789abcdef") {
				t.Errorf("the token is in the error: %v", err)
			}
		})
	}
	if _, err := ReadTokens(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
	if _, err := ReadTokens("/nonexistent"); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("no file: %v", err)
	}
}

func TestAccessCheck(t *testing.T) {
	token, certificate := []Token{NewToken(Viewer, "x", "y")}, map[string]Role{"a": Viewer}
	for _, tt := range []struct {
		name      string
		access    Access
		listen    string
		encrypted bool
		warning   bool
		err       string
	}{
		{"nobody", Access{}, "127.0.0.1:1", false, false, "or open: true"},
		{"open on loopback", Access{Open: true}, "127.0.0.1:1", false, false, ""},
		{"open on IPv6's", Access{Open: true}, "[::1]:1", false, false, ""},
		{"open everywhere", Access{Open: true}, "0.0.0.0:1", true, false, "for loopback alone"},
		{"open with tokens", Access{Open: true, Tokens: token}, "127.0.0.1:1", false, false, "remove it"},
		{"tokens", Access{Tokens: token}, "10.0.0.1:1", true, false, ""},
		{"tokens unencrypted", Access{Tokens: token}, "10.0.0.1:1", false, true, ""},
		{"tokens on loopback", Access{Tokens: token}, "127.0.0.1:1", false, false, ""},
		{"certificates", Access{Certificates: certificate}, "10.0.0.1:1", true, false, ""},
		{"certificates without TLS", Access{Certificates: certificate}, "10.0.0.1:1", false, false, "need tls"},
	} {
		warning, err := tt.access.Check(netip.MustParseAddrPort(tt.listen), tt.encrypted)
		if (warning != "") != tt.warning || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q, %v", tt.name, warning, err)
		}
	}
}

func TestRoleNames(t *testing.T) {
	for _, r := range []Role{Viewer, Router, Operator} {
		if got, err := ParseRole(r.String()); got != r || err != nil {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	if s := Role(9).String(); s != "role 9" {
		t.Error(s)
	}
}

// authority issues certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, key, cert}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (a *authority) issue(change func(*x509.Certificate)) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestMutualTLS: a certificate's name is a role; a wrong token is not made good by it; a stranger's certificate is refused in the handshake.
func TestMutualTLS(t *testing.T) {
	ours, strange := newAuthority(t), newAuthority(t)
	f := start(t, func(c *Config) {
		c.Access = Access{Tokens: tokens(), Certificates: map[string]Role{"rr1.example.net": Router, "spiffe://cdn/noc": Operator, "10.0.0.7": Viewer}}
	})
	server := ours.issue(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	f.serveOn(t, &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: ours.pool()})
	noc, err := url.Parse("spiffe://cdn/noc")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name          string
		from          *authority
		change        func(*x509.Certificate)
		token         string
		read, changed int // statuses; 0: no answer
	}{
		{"a DNS name", ours, func(c *x509.Certificate) { c.DNSNames = []string{"x", "rr1.example.net"} }, "", 200, 403},
		{"a URI", ours, func(c *x509.Certificate) { c.URIs = []*url.URL{noc} }, "", 200, 200},
		{"an address", ours, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 7)} }, "", 200, 403},
		{"a name without a role", ours, func(c *x509.Certificate) { c.DNSNames = []string{"other"} }, "", 401, 401},
		{"a common name", ours, func(c *x509.Certificate) { c.Subject.CommonName = "rr1.example.net" }, "", 401, 401},
		{"no certificate", nil, nil, "", 401, 401},
		{"a token alone", nil, nil, secrets[Operator], 200, 200},
		{"a name and a greater token", ours, func(c *x509.Certificate) { c.DNSNames = []string{"rr1.example.net"} }, secrets[Operator], 200, 200},
		{"a name and a wrong token", ours, func(c *x509.Certificate) { c.URIs = []*url.URL{noc} }, "wrong", 401, 401},
		{"a stranger", strange, func(c *x509.Certificate) { c.URIs = []*url.URL{noc} }, "", 0, 0},
		{"one that has expired", ours, func(c *x509.Certificate) { c.URIs, c.NotAfter = []*url.URL{noc}, time.Now().Add(-time.Minute) }, "", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := &tls.Config{RootCAs: ours.pool()}
			if tt.from != nil {
				// The client sends it whatever the server asks for.
				cert := tt.from.issue(tt.change)
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
			}
			transport := &http.Transport{TLSClientConfig: config}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
			for method, want := range map[string]int{"GET": tt.read, "PATCH": tt.changed} {
				path, text := "/v1/topology", ""
				if method == "PATCH" {
					path, text = "/v1/surrogates/se1", `{"weight":1}`
				}
				r, err := http.NewRequestWithContext(t.Context(), method, "https://"+f.address+path, strings.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				if tt.token != "" {
					r.Header.Set("Authorization", "Bearer "+tt.token)
				}
				got := 0
				if res, err := client.Do(r); err == nil {
					got = res.StatusCode
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				if got != want {
					t.Errorf("%s: %d, want %d", method, got, want)
				}
			}
		})
	}
}

// TestCertificateIsReplaced: connections after a reload see the new certificate.
func TestCertificateIsReplaced(t *testing.T) {
	a := newAuthority(t)
	config := func(serial int64) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{a.issue(func(c *x509.Certificate) {
			c.IPAddresses, c.SerialNumber = []net.IP{net.IPv4(127, 0, 0, 1)}, big.NewInt(serial)
		})}}
	}
	f := start(t, nil)
	f.serveOn(t, config(7))
	serial := func() int64 {
		c, err := tls.Dial("tcp", f.address, &tls.Config{RootCAs: a.pool()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 7 {
		t.Errorf("serial number %d", got)
	}
	f.SetTLS(config(8))
	if got := serial(); got != 8 {
		t.Errorf("serial number %d after the change", got)
	}
}
