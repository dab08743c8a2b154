package config

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// folder is where a test keeps its files.
type folder struct {
	testing.TB
	path string
}

func newFolder(t testing.TB) folder { return folder{t, t.TempDir()} }

func (f folder) write(name string, data []byte, mode os.FileMode) {
	f.Helper()
	path := filepath.Join(f.path, name)
	if err := os.WriteFile(path, data, mode); err != nil {
		f.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		f.Fatal(err)
	}
}

// load gives the configuration of a text in which DIR stands for the folder; messages have it again.
func (f folder) load(text string) (cfg *Config, message string) {
	f.Helper()
	f.write("relay.yaml", []byte(strings.ReplaceAll(text, "DIR", f.path)), 0o600)
	cfg, err := Load(filepath.Join(f.path, "relay.yaml"))
	if err != nil {
		message = strings.ReplaceAll(err.Error(), f.path, "DIR")
	}
	return cfg, message
}

// certificate writes one that signs itself, name.pem and its key name-key.pem, and gives it.
func (f folder) certificate(name string, template x509.Certificate) *x509.Certificate {
	f.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	template.Subject = pkix.Name{CommonName: name}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	if err != nil {
		f.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		f.Fatal(err)
	}
	f.write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
	f.write(name+"-key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600)
	c, err := x509.ParseCertificate(der)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

const secured = `name: here
tls:
  certificate: DIR/own.pem
  key: DIR/own-key.pem
  authority: DIR/ca.pem
trunks: {listen: ["192.0.2.1:7000"]}
peers: [{name: there, address: "198.51.100.7:7000"}]
`

func TestLoadCertificates(t *testing.T) {
	f := newFolder(t)
	client, server := x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth
	here := []string{"here.example.net", "here"}
	past, future := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), time.Date(2999, 2, 3, 4, 5, 6, 0, time.UTC)
	f.certificate("own", x509.Certificate{DNSNames: here})
	f.certificate("both", x509.Certificate{DNSNames: here, ExtKeyUsage: []x509.ExtKeyUsage{client, server}})
	f.certificate("any", x509.Certificate{DNSNames: here, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	f.certificate("client", x509.Certificate{DNSNames: here, ExtKeyUsage: []x509.ExtKeyUsage{client}})
	f.certificate("server", x509.Certificate{DNSNames: here, ExtKeyUsage: []x509.ExtKeyUsage{server}})
	f.certificate("other", x509.Certificate{DNSNames: []string{"there"}})
	f.certificate("past", x509.Certificate{DNSNames: here, NotAfter: past})
	f.certificate("future", x509.Certificate{DNSNames: here, NotBefore: future, NotAfter: future})
	f.certificate("ca", x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	f.certificate("pastca", x509.Certificate{NotAfter: past})
	f.write("empty", nil, 0o600)
	f.write("broken", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}), 0o600)
	f.write("huge", bytes.Repeat([]byte("#"), 4<<20+1), 0o600)
	if err := syscall.Mkfifo(filepath.Join(f.path, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	const peers = `peers: [{name: there, address: "198.51.100.7:7000"}]`
	own := func(name string) string { return strings.ReplaceAll(secured, "DIR/own", "DIR/"+name) }
	tests := []struct {
		name, text, refused string
		warnings            []string
	}{
		{"right", secured, "", nil},
		{"for clients and servers", own("both"), "", nil},
		{"for all", own("any"), "", nil},
		{"for clients where trunks are opened alone", strings.Replace(own("client"), "trunks: {listen: [\"192.0.2.1:7000\"]}",
			"entries: [{listen: \"192.0.2.1:443\", mode: transparent, via: [there]}]", 1), "", nil},
		{"for servers where trunks are accepted alone", strings.Replace(own("server"), peers, "allow: [{prefix: 10.0.0.0/8}]", 1), "", nil},
		{"for clients alone", own("client"),
			`DIR/relay.yaml:3:16: tls.certificate: is not valid for TLS servers, but this relay accepts trunks (add the extended key usage serverAuth)`, nil},
		{"for servers alone", own("server"),
			`DIR/relay.yaml:3:16: tls.certificate: is not valid for TLS clients, but this relay opens trunks (add the extended key usage clientAuth)`, nil},
		{"of another relay", own("other"),
			`DIR/relay.yaml:3:16: tls.certificate: is not for "here", by which peers know this relay (a certificate with that among its DNS names)`, nil},
		{"no certificate", own("none"), `DIR/relay.yaml:3:16: tls.certificate: "DIR/none.pem": no such file or directory (create it, or name another file)
DIR/relay.yaml:4:8: tls.key: "DIR/none-key.pem": no such file or directory (create it, or name another file)`, nil},
		{"no key", strings.Replace(secured, "own-key", "none", 1), `DIR/relay.yaml:4:8: tls.key: "DIR/none.pem": no such file or directory (create it, or name another file)`, nil},
		{"no authority", strings.Replace(secured, "ca.pem", "none", 1), `DIR/relay.yaml:5:14: tls.authority: "DIR/none": no such file or directory (create it, or name another file)`, nil},
		{"authority without certificate", strings.Replace(secured, "ca.pem", "own-key.pem", 1), `DIR/relay.yaml:5:14: tls.authority: "DIR/own-key.pem": no certificate in it (a PEM file with certificates)`, nil},
		{"authority that is broken", strings.Replace(secured, "ca.pem", "broken", 1), `DIR/relay.yaml:5:14: tls.authority: "DIR/broken": x509: malformed certificate (a PEM file with certificates)`, nil},
		{"certificate that is a folder", strings.Replace(secured, "/own.pem", "", 1), `DIR/relay.yaml:3:16: tls.certificate: "DIR": not an ordinary file (a PEM file)`, nil},
		{"certificate that nobody writes", strings.Replace(secured, "own.pem", "fifo", 1), `DIR/relay.yaml:3:16: tls.certificate: "DIR/fifo": not an ordinary file (a PEM file)`, nil},
		{"certificate that is too long", strings.Replace(secured, "own.pem", "huge", 1), `DIR/relay.yaml:3:16: tls.certificate: "DIR/huge": longer than 4194304 bytes (a PEM file)`, nil},
		{"certificate that is empty", strings.Replace(secured, "own.pem", "empty", 1),
			`DIR/relay.yaml:3:16: tls.certificate: "DIR/empty" with key "DIR/own-key.pem": tls: failed to find any PEM data in certificate input (a PEM file with the certificate and its chain, and a PEM file with its private key)`, nil},
		{"key of another certificate", strings.Replace(secured, "own-key", "other-key", 1),
			`DIR/relay.yaml:3:16: tls.certificate: "DIR/own.pem" with key "DIR/other-key.pem": tls: private key does not match public key (a PEM file with the certificate and its chain, and a PEM file with its private key)`, nil},
		{"fault of a peer's", strings.Replace(secured, "{name: there,", "{name: there, tls: {certificate: DIR/other.pem, key: DIR/own-key.pem, authority: DIR/ca.pem},", 1),
			`DIR/relay.yaml:7:42: peers[0].tls.certificate: "DIR/other.pem" with key "DIR/own-key.pem": tls: private key does not match public key (a PEM file with the certificate and its chain, and a PEM file with its private key)`, nil},
		{"that has ended, told once", own("past"), "",
			[]string{`DIR/relay.yaml:3:16: tls.certificate: the certificate of "CN=past" ended on 2001-02-03T04:05:06Z`}},
		{"that begins later", own("future"), "",
			[]string{`DIR/relay.yaml:3:16: tls.certificate: the certificate of "CN=future" begins on 2999-02-03T04:05:06Z`}},
		{"authority that has ended", strings.Replace(secured, "ca.pem", "pastca.pem", 1), "",
			[]string{`DIR/relay.yaml:5:14: tls.authority: the certificate of "CN=pastca" ended on 2001-02-03T04:05:06Z`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, message := f.load(tt.text)
			if message != tt.refused {
				t.Errorf("Load:\n got %s\nwant %s", message, tt.refused)
			}
			if (cfg == nil) != (tt.refused != "") {
				t.Fatalf("Load = %v, %s", cfg, message)
			}
			if cfg == nil {
				return
			}
			var warnings []string
			for _, w := range cfg.Warnings {
				warnings = append(warnings, strings.ReplaceAll(w, f.path, "DIR"))
			}
			if diff := cmp.Diff(tt.warnings, warnings, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCredentialsRead(t *testing.T) {
	f := newFolder(t)
	own := f.certificate("own", x509.Certificate{DNSNames: []string{"here"}})
	ca := f.certificate("ca", x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	cfg, message := f.load(secured)
	if message != "" {
		t.Fatal(message)
	}
	read := func() (*x509.Certificate, *x509.CertPool) {
		t.Helper()
		pair, pool, err := cfg.Trunks.Credentials.Read()
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf, pool
	}
	want := x509.NewCertPool()
	want.AddCert(ca)
	if leaf, pool := read(); !leaf.Equal(own) || !pool.Equal(want) {
		t.Errorf("Read gives the certificate %v, or other authorities than %v", leaf.Subject, ca.Subject)
	}
	next := f.certificate("own", x509.Certificate{DNSNames: []string{"here"}})
	if leaf, _ := read(); !leaf.Equal(next) {
		t.Error("Read gives the certificate before it was replaced")
	}
	f.write("own.pem", nil, 0o600)
	if _, _, err := cfg.Trunks.Credentials.Read(); err == nil || !strings.HasPrefix(err.Error(), "read certificate: ") {
		t.Errorf("Read of an empty certificate: %v", err)
	}
	f.certificate("own", x509.Certificate{DNSNames: []string{"here"}})
	f.write("ca.pem", nil, 0o600)
	if _, _, err := cfg.Trunks.Credentials.Read(); err == nil || !strings.HasPrefix(err.Error(), "read authorities: ") {
		t.Errorf("Read of empty authorities: %v", err)
	}
}

func TestLoadSecrets(t *testing.T) {
	f := newFolder(t)
	secret := make([]byte, 48)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	base, digits := base64.StdEncoding.EncodeToString, hex.EncodeToString
	for _, s := range []struct {
		name, text string
		mode       os.FileMode
	}{
		{"base64", base(secret[:32]) + "\n", 0o600},
		{"hex", "\t" + strings.ToUpper(digits(secret[:32])) + " \r\n", 0o400},
		{"lines", base(secret)[:40] + "\n" + base(secret)[40:], 0o600},
		{"short", base(secret[:31]), 0o600},
		{"shorthex", digits(secret[:31]), 0o600},
		{"empty", "\n", 0o600},
		{"words", "correct horse battery staple correct horse battery staple", 0o600},
		{"long", strings.Repeat("0", maxSecret+1), 0o600},
		{"group", base(secret), 0o640},
		{"writable", base(secret), 0o602},
	} {
		f.write(s.name, []byte(s.text), s.mode)
	}
	const at = `DIR/relay.yaml:2:26: plaintext.secret_file: `
	tests := []struct {
		name, file, refused string
		want                []byte
	}{
		{"base64", "base64", "", secret[:32]},
		{"hex", "hex", "", secret[:32]},
		{"base64 in lines", "lines", "", secret},
		{"no file", "none", at + `"DIR/none": no such file or directory (create it, or name another file)`, nil},
		{"a folder", ".", at + `"DIR/.": not an ordinary file`, nil},
		{"31 bytes", "short", at + `"DIR/short" holds 31 bytes (at least 32: openssl rand -base64 32)`, nil},
		{"31 bytes in hex", "shorthex", at + `"DIR/shorthex" holds 31 bytes (at least 32: openssl rand -base64 32)`, nil},
		{"nothing", "empty", at + `"DIR/empty" holds 0 bytes (at least 32: openssl rand -base64 32)`, nil},
		{"words", "words", at + `"DIR/words" holds neither base64 nor hex (openssl rand -base64 32)`, nil},
		{"another kind of file", "long", at + `"DIR/long": longer than 4096 bytes`, nil},
		{"that a group may read", "group", at + `"DIR/group" is accessible to others than its owner: its mode is 0640 (chmod 600)`, nil},
		{"that others may write", "writable", at + `"DIR/writable" is accessible to others than its owner: its mode is 0602 (chmod 600)`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, message := f.load(`name: here
plaintext: {secret_file: DIR/` + tt.file + `}
trunks: {listen: ["192.0.2.1:7000"]}
peers: [{name: there, address: "198.51.100.7:7000"}, {name: far, address: "198.51.100.8:7000"}]
`)
			if message != tt.refused {
				t.Fatalf("Load:\n got %s\nwant %s", message, tt.refused)
			}
			if tt.refused != "" {
				return
			}
			for _, c := range []Credentials{cfg.Trunks.Credentials, cfg.Peers[0].Credentials, cfg.Peers[1].Credentials} {
				if !bytes.Equal(c.Secret, tt.want) {
					t.Errorf("Secret = %x, want %x", c.Secret, tt.want)
				}
			}
		})
	}
}

// TestLoadSecretOfItsOwn: a peer with credentials of its own has no part of the others'.
func TestLoadSecretOfItsOwn(t *testing.T) {
	f := newFolder(t)
	for i, name := range []string{"a", "b"} {
		f.write(name, []byte(strings.Repeat(string('a'+rune(i)), 64)), 0o600)
	}
	cfg, message := f.load(`name: here
plaintext: {secret_file: DIR/a}
peers:
  - {name: there, address: "198.51.100.7:7000", plaintext: {secret_file: DIR/b}}
  - {name: far, address: "198.51.100.8:7000"}
trunks: {listen: ["192.0.2.1:7000"]}
`)
	if message != "" {
		t.Fatal(message)
	}
	got := []byte{cfg.Trunks.Credentials.Secret[0], cfg.Peers[0].Credentials.Secret[0], cfg.Peers[1].Credentials.Secret[0]}
	if want := []byte{0xaa, 0xbb, 0xaa}; !bytes.Equal(got, want) {
		t.Errorf("secrets begin with %x, want %x", got, want)
	}
}
