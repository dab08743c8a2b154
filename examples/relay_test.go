package examples_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"baton/relay/config"
)

const (
	relayKeys  = "../docs/relay-config.md" // the reference of the configuration
	relayGuide = "../docs/relay.md"
)

// TestRelayExamplesLoad loads the configurations of relays with the files that they name.
func TestRelayExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("relay/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 4 {
		t.Fatalf("found %v only", files)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) { loadRelay(t, filepath.Base(f), read(t, f)) })
	}
}

// TestRelayGuidesLoad does the same with those in the guides.
func TestRelayGuidesLoad(t *testing.T) {
	for _, guide := range []string{relayKeys, relayGuide} {
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, guide), -1)
		if len(blocks) < 2 {
			t.Errorf("%s: %d configurations in it", guide, len(blocks))
		}
		for _, m := range blocks {
			loadRelay(t, "guide.yaml", m[1])
		}
	}
}

// TestRelayGuideNames: the guide explains each key that there is.
func TestRelayGuideNames(t *testing.T) {
	text := read(t, relayKeys)
	for _, key := range keysOf(t, "relay", 50) {
		if !regexp.MustCompile("`([a-z_]+\\.)?" + key + "[`.]").MatchString(text) {
			t.Errorf("the guide lacks the key %s", key)
		}
	}
}

// loadRelay loads a configuration with a folder in the place of /etc/baton, in which all files are that it names.
func loadRelay(t *testing.T, name, text string) {
	t.Helper()
	dir := t.TempDir()
	write := func(path string, data []byte) {
		t.Helper()
		if !strings.HasPrefix(path, dir) {
			t.Fatalf("%q is not in /etc/baton", path)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, name)
	write(path, []byte(strings.ReplaceAll(text, "/etc/baton", dir)))
	parsed, err := config.Parse(path, []byte(strings.ReplaceAll(text, "/etc/baton", dir)))
	if err != nil {
		t.Errorf("%v in\n%s", err, text)
		return
	}
	credentials := make([]config.Credentials, len(parsed.Peers))
	for i, p := range parsed.Peers {
		credentials[i] = p.Credentials
	}
	if parsed.Trunks != nil {
		credentials = append(credentials, parsed.Trunks.Credentials)
	}
	for _, c := range credentials {
		if c.Security == config.Plaintext {
			write(c.SecretFile, []byte(hex.EncodeToString(make([]byte, 32))))
			continue
		}
		certificate, key := certify(t, parsed.Name)
		write(c.Certificate, certificate)
		write(c.Key, key)
		write(c.Authority, certificate)
	}
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range cfg.Warnings {
		t.Errorf("warning: %s", w)
	}
}

// certify gives a certificate that signs itself, and its key, as PEM.
func certify(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
