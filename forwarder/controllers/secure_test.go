package controllers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/forwarder/config"
	"baton/openflow"
	"baton/openflow/channel"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

// files writes a certificate for a name, its key, and the certificate of whom it trusts.
func (a *authority) files(t *testing.T, name string, trusts *authority, usage ...x509.ExtKeyUsage) *config.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, ExtKeyUsage: usage,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put := func(file, kind string, der []byte) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return &config.TLS{
		Certificate: put("certificate", "CERTIFICATE", der), Key: put("key", "PRIVATE KEY", private),
		Authority: put("authority", "CERTIFICATE", trusts.certificate.Raw),
	}
}

// TestSecureConnect: a controller must have a certificate of the authority's, and of the name where there is one.
func TestSecureConnect(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	tests := []struct {
		name   string
		files  *config.TLS // of the controller
		asked  string
		reason string // "": there is a channel
	}{
		{"of the authority", ours.files(t, "c1", ours), "", ""},
		{"of the name", ours.files(t, "c1", ours), "c1", ""},
		{"of another name", ours.files(t, "c1", ours), "c2", "not c2"},
		{"of another authority", theirs.files(t, "c1", ours), "", "unknown authority"},
		{"for servers", ours.files(t, "c1", ours, x509.ExtKeyUsageServerAuth), "", ""},
		{"for clients", ours.files(t, "c1", ours, x509.ExtKeyUsageClientAuth), "", "incompatible key usage"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pair, pool, err := tt.files.Read()
			if err != nil {
				t.Fatal(err)
			}
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool,
				ClientAuth: tls.RequireAndVerifyClientCert})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			s := newStage(t, func(c *config.Config) {
				c.Retry, c.TLS = soon, ours.files(t, "forwarder", ours)
				c.Controllers = []config.Controller{
					{Connect: config.Endpoint{Method: "tls", Address: l.Addr().String()}, Name: tt.asked, Peers: peers()},
				}
			})
			c := accepted(t, l)
			if tt.reason == "" {
				ask(t, c, &openflow.BarrierRequest{})
				equal(t, "connected", s.Connected(), 1)
				return
			}
			eventually(t, "it is refused", func() bool { return strings.Contains(s.Status()[0].Error, tt.reason) })
			equal(t, "opened", s.Status()[0].Opened, 0)
		})
	}
}

// TestSecureListen: who connects must have a certificate of the authority's.
func TestSecureListen(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	s := newStage(t, func(c *config.Config) { c.TLS = ours.files(t, "forwarder", ours) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{endpoint: config.Endpoint{Method: "tls", Address: l.Addr().String()}, listens: true, peers: peers()}
	s.origins = append(s.origins, o)
	s.tasks.Go(func() { s.accept(t.Context(), o, l) })
	tests := []struct {
		name   string
		files  *config.TLS // nil: none
		served bool
	}{
		{"of the authority", ours.files(t, "tool", ours), true},
		{"for clients", ours.files(t, "tool", ours, x509.ExtKeyUsageClientAuth), true},
		{"for servers", ours.files(t, "tool", ours, x509.ExtKeyUsageServerAuth), false},
		{"of another authority", theirs.files(t, "tool", ours), false},
		{"none", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := &tls.Config{ServerName: "forwarder", RootCAs: x509.NewCertPool()}
			client.RootCAs.AddCert(ours.certificate)
			if tt.files != nil {
				pair, _, err := tt.files.Read()
				if err != nil {
					t.Fatal(err)
				}
				client.Certificates = []tls.Certificate{pair}
			}
			rw, err := tls.Dial("tcp", l.Addr().String(), client)
			if err != nil {
				t.Fatal(err) // a client of TLS 1.3 learns of its refusal later
			}
			c := channel.Start(rw, channel.Options{})
			defer c.Close()
			if err := c.Up(within(t)); (err == nil) != tt.served {
				t.Errorf("channel: %v, want it %v", err, tt.served)
			}
		})
	}
	plain, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := channel.Start(plain, channel.Options{})
	defer c.Close()
	if err := c.Up(within(t)); err == nil {
		t.Error("there is a channel without TLS")
	}
}

// TestCertificatesLoad: the configuration looks into the files that it names, before anything else is done.
func TestCertificatesLoad(t *testing.T) {
	ours := newAuthority(t)
	good, other := ours.files(t, "forwarder", ours), ours.files(t, "other", ours)
	tests := []struct {
		name                        string
		certificate, key, authority string
		want                        string // "": it loads
	}{
		{"good", good.Certificate, good.Key, good.Authority, ""},
		{"key of another", good.Certificate, other.Key, good.Authority, fmt.Sprintf(":3:20: tls.certificate: %q with key %q: tls: private key does not match public key", good.Certificate, other.Key)},
		{"authority without certificate", good.Certificate, good.Key, good.Key, "tls.authority: "},
		{"no authority", good.Certificate, good.Key, "/none", `tls.authority: "/none": no such file or directory`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.yaml")
			text := "ports: [a]\ncontrollers: [\"tls:a:1\"]\ntls: {certificate: " + tt.certificate + ", key: " + tt.key +
				", authority: " + tt.authority + "}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(file)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load:\n got %v\nwant %s", err, tt.want)
			}
		})
	}
}
