package switches

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"baton/openflow/channel"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	pair := a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// sign signs a certificate, or has it sign itself.
func (a *authority) sign(template *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// TestTLS: switches come with a certificate of the authority; others are refused.
func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	own := ours.sign(&x509.Certificate{DNSNames: []string{"controller"}})
	s := New(Options{TLS: func() *tls.Config {
		return &tls.Config{
			Certificates: []tls.Certificate{own}, ClientCAs: ours.pool(), ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		}
	}})
	events := make(chan Event, 10)
	s.Watch(func(e Event) { events <- e })
	l, err := s.Listen(t.Context(), "tls", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	dial := func(certificates ...tls.Certificate) net.Conn {
		t.Helper()
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{
			RootCAs: ours.pool(), ServerName: "controller", Certificates: certificates, MinVersion: tls.VersionTLS12,
		})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for i, certificates := range [][]tls.Certificate{nil, {theirs.sign(&x509.Certificate{})}} {
		conn := dial(certificates...)
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("client %d gets an answer", i)
		}
		conn.Close()
	}
	plain, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Write([]byte("\x04\x00\x00\x08\x00\x00\x00\x01")); err != nil {
		t.Fatal(err)
	}
	plain.Close()
	n := newNode(5)
	n.Conn = channel.Start(dial(ours.sign(&x509.Certificate{})), channel.Options{})
	defer n.Close()
	go n.serve()
	select {
	case e := <-events:
		if e.Kind != Up || e.Switch.ID != 5 {
			t.Errorf("%+v", e)
		}
	case <-within(t).Done():
		t.Fatal("a switch with a certificate is not accepted")
	}
	for s.Counts().Refused < 3 {
		time.Sleep(time.Millisecond)
		if within(t).Err() != nil {
			t.Fatalf("%d were refused", s.Counts().Refused)
		}
	}
}
