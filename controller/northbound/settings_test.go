package northbound

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"baton/document"
)

// parse decodes a document that is a northbound alone.
func parse(text string) (*Settings, error) {
	return document.ParseAs("c.yaml", []byte(text), document.Rules{Bytes: 1 << 20, Nodes: 1 << 10}, func(d *document.Decoder, n *document.Node) *Settings {
		s := Decode(d, "", n)
		return &s
	}, func(d *document.Decoder, s *Settings) { s.Check(d, "") })
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := newAuthority(t)
	pair := a.issue(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	files := "{certificate: " + write("cert", text("CERTIFICATE", pair.Certificate[0])) + ", key: " + write("key", text("PRIVATE KEY", key)) +
		", authorities: " + write("ca", text("CERTIFICATE", a.cert.Raw)) + "}"
	tokens := write("tokens", "viewer 0123456789abcdef page\n")
	for _, tt := range []struct{ name, text, err string }{
		{"open", "listen: 127.0.0.1:8080\nopen: true\n", ""},
		{"tokens", "listen: 10.0.0.1:8080\ntokens: " + tokens + "\n", ""},
		{"all", "listen: 10.0.0.1:8080\ntokens: " + tokens + "\ntls: " + files + "\ncertificates: {rr1.example.net: router}\nnames: [ctl.example.net]\norigins: [\"https://noc.example.net\"]\n", ""},
		{"open on a network", "listen: 10.0.0.1:8080\nopen: true\n", "open is for loopback alone"},
		{"nobody", "listen: 127.0.0.1:8080\n", "nobody may call"},
		{"no listener", "open: true\n", "listen: is missing"},
		{"no role", "listen: 127.0.0.1:8080\ncertificates: {a: root}\n", `"root" is no role`},
		{"no authorities", "listen: 127.0.0.1:8080\ncertificates: {a: router}\n", "need the authorities"},
		{"origin with a path", "listen: 127.0.0.1:8080\nopen: true\norigins: [\"https://a/b\"]\n", "is not the origin of a page"},
		{"no file", "listen: 127.0.0.1:8080\ntokens: /nonexistent\n", "/nonexistent"},
		{"a token that is too short", "listen: 127.0.0.1:8080\ntokens: " + write("short", "viewer 0123 page\n") + "\n", "tokens: "},
		{"no certificate", "listen: 127.0.0.1:8080\nopen: true\ntls: {certificate: " + tokens + ", key: " + tokens + "}\n", "(a PEM file with the certificate and its chain, "},
		{"tokens and TLS", "listen: 127.0.0.1:8080\ntokens: /nonexistent\ntls: {certificate: /x, key: /y}\n", "tls.certificate: \"/x\": no such file"},
		{"half of TLS", "listen: 127.0.0.1:8080\nopen: true\ntls: {certificate: /x}\n", "tls.key: is missing"},
		{"TLS without its file", "listen: 127.0.0.1:8080\nopen: true\ntls: {certificate: /x, key: /y}\n", "/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parse(tt.text)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("%+v, %v; want %q", s, err, tt.err)
			}
			if err != nil && !strings.HasSuffix(err.Error(), ")") {
				t.Errorf("%v: no remedy", err)
			}
			if tt.name != "all" {
				return
			}
			access, encrypted, err := s.Load()
			if err != nil || len(access.Tokens) != 1 || access.Certificates["rr1.example.net"] != Router || encrypted.ClientAuth != tls.VerifyClientCertIfGiven {
				t.Errorf("%+v, %v", access, err)
			}
		})
	}
}
