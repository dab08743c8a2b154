package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/document/documenttest"
)

// writePair writes a certificate for the names, signed by itself, and its key.
func writePair(t *testing.T, dir, file string, ends time.Time, names ...string) (certificate, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: ends}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &own.PublicKey, own)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, file+".pem"), filepath.Join(dir, file+".key")
	for file, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// ended is a file with a VIP that ends TLS.
func ended(vip, match string) string {
	return fmt.Sprintf("vips:\n  - address: \"10.9.9.9:443\"\n    %s\n    routes: [{match: {%s}, pool: a}]\npools:\n  a: {surrogates: [{name: a1, address: \"10.2.1.2:80\"}]}\n", vip, match)
}

func TestKeyPairs(t *testing.T) {
	dir := t.TempDir()
	later := time.Now().Add(time.Hour)
	a, aKey := writePair(t, dir, "a", later, "a.test", "*.a.test")
	b, bKey := writePair(t, dir, "b", later, "b.test")
	old, oldKey := writePair(t, dir, "old", time.Now().Add(-time.Hour), "old.test")
	gone := filepath.Join(dir, "gone.pem")
	pair := func(certificate, key string) string {
		return fmt.Sprintf("{certificate: %s, key: %s}", certificate, key)
	}
	for _, tt := range []struct {
		name, tls, host string
		pairs           int
		warning, err    string
	}{
		{"one", pair(a, aKey), "host: a.test", 1, "", ""},
		{"a list", "[" + pair(b, bKey) + ", " + pair(a, aKey) + "]", `host: "*.a.test"`, 2, "", ""},
		{"a host without a certificate", pair(b, bKey), "host: a.test", 1, "f:5:29: vips[0].routes[0].match.host: no certificate of the VIP covers a.test", ""},
		{"a wildcard without a certificate", pair(b, bKey), `host: "*.a.test"`, 1, "vips[0].routes[0].match.host: no certificate of the VIP covers *.a.test", ""},
		{"expired", pair(old, oldKey), "host: old.test", 1, "f:4:24: vips[0].tls.certificate: the certificate of \"\" ended on ", ""},
		{"the key of another", "[" + pair(a, bKey) + "]", "host: a.test", 0, "",
			fmt.Sprintf("f:4:25: vips[0].tls[0].certificate: %q with key %q: tls: private key does not match public key (a PEM file with the certificate and its chain, and a PEM file with its private key)", a, bKey)},
		{"no file", pair(gone, aKey), "host: a.test", 0, "", fmt.Sprintf("f:4:24: vips[0].tls.certificate: %q: no such file or directory (create it, or name another file)", gone)},
		{"no key file", "[" + pair(a, aKey) + ", " + pair(a, gone) + "]", "host: a.test", 0, "", fmt.Sprintf("vips[0].tls[1].key: %q: no such file or directory (create it, or name another file)", gone)},
		{"a key for a certificate", pair(aKey, aKey), "host: a.test", 0, "", "vips[0].tls.certificate: "},
		{"no key", "{certificate: " + a + "}", "host: a.test", 0, "", "f:4:11: vips[0].tls.key: is missing"},
		{"a path alone", a, "host: a.test", 0, "", "f:4:10: vips[0].tls: is a single value (such as [{certificate: /etc/baton/site.pem, key: /etc/baton/site.key}])"},
		{"no path", pair("a.pem", aKey), "host: a.test", 0, "", `vips[0].tls.certificate: "a.pem" is not usable as a path`},
		{"clients' certificates", "{authority: " + a + ", certificate: " + a + ", key: " + aKey + "}", "host: a.test", 0, "", "vips[0].tls.authority: is not a key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(dir, "f")
			if err := os.WriteFile(file, []byte(ended("mode: proxy\n    tls: "+tt.tls, tt.host)), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := Load(file)
			if err != nil {
				if got := strings.ReplaceAll(err.Error(), file, "f"); tt.err == "" || !strings.Contains(got, tt.err) {
					t.Errorf("got\n%s\nwant\n%s", got, tt.err)
				}
				return
			}
			got := cfg.VIPs[0].Certificates()
			if tt.err != "" || len(got) != tt.pairs || got[0].Leaf == nil || !cfg.VIPs[0].Secure() {
				t.Fatalf("%d certificates, want %d and error %q", len(got), tt.pairs, tt.err)
			}
			if all := strings.ReplaceAll(strings.Join(cfg.Warnings, "\n"), file, "f"); !strings.Contains(all, tt.warning) || tt.warning == "" && all != "" {
				t.Errorf("warnings %q, want %q", all, tt.warning)
			}
		})
	}
}

func TestKeyPairsRefused(t *testing.T) {
	const tls = "\n    tls: {certificate: /a, key: /b}"
	for name, tt := range map[string]struct{ text, want string }{
		"handoff": {ended("interfaces: [eth0]"+tls, "host: a.test"),
			"f:4:11: vips[0].tls: needs a socket, and sessions of mode handoff are spliced (mode: proxy, or protocol: tls with the certificates at the surrogates)"},
		"protocol tls": {ended("mode: proxy\n    protocol: tls"+tls, "sni: a.test"),
			"f:5:11: vips[0].tls: is for protocol http: with protocol tls the surrogates have the certificates (no tls, or mode: proxy without protocol)"},
		"sni": {ended("mode: proxy"+tls, "sni: a.test"), `f:5:28: vips[0].routes[0].match.sni: is for protocol tls: an HTTP request has no TLS hello (host, or protocol: tls for the VIP)`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("f", []byte(tt.text)); !documenttest.Reported(err, tt.want) {
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
	cfg, err := Parse("f", []byte(ended("mode: redirect"+tls, "host: a.test")))
	if err != nil || len(cfg.VIPs[0].TLS) != 1 || cfg.VIPs[0].TLS[0].Pair.Leaf != nil {
		t.Errorf("redirect: %v", err)
	}
}
