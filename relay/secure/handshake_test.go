package secure

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"baton/relay/secure/securetest"
)

// Who trusts whom: each end must have a certificate of the other's authority, and the acceptor the name that the opener asks for.
func TestCertificates(t *testing.T) {
	ours, theirs := securetest.NewAuthority(t), securetest.NewAuthority(t)
	type certificate = securetest.Certificate
	r1, r2 := certificate{Names: []string{"r1"}}, certificate{Names: []string{"other.example", "r2"}}
	for _, tt := range []struct {
		name                 string
		openerBy, acceptorBy *securetest.Authority
		opener, acceptor     certificate
		want, heard          string // parts of the errors of the opener, the acceptor
	}{
		{"right", ours, ours, r1, r2, "", ""},
		{"opener of another authority", theirs, ours, certificate{Names: []string{"r1"}, Trusts: ours}, r2,
			"unknown certificate authority", "unknown authority"},
		{"acceptor of another authority", ours, theirs, r1, certificate{Names: []string{"r2"}, Trusts: ours},
			"unknown authority", "bad certificate"},
		{"acceptor of another name", ours, ours, r1, certificate{Names: []string{"r3"}}, "valid for r3, not r2", "bad certificate"},
		{"opener's certificate has ended", ours, ours, certificate{Names: []string{"r1"}, Ended: true}, r2, "expired", "expired"},
		{"acceptor's certificate has ended", ours, ours, r1, certificate{Names: []string{"r2"}, Ended: true},
			"expired", "bad certificate"},
		{"opener's certificate is for servers alone", ours, ours,
			certificate{Names: []string{"r1"}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, r2,
			"bad certificate", "incompatible key usage"},
		{"acceptor's certificate is for clients alone", ours, ours, r1,
			certificate{Names: []string{"r2"}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, "incompatible key usage", "bad certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, identity(t, tt.openerBy.Issue(t, tt.opener)), identity(t, tt.acceptorBy.Issue(t, tt.acceptor)))
			opener, acceptor := p.shake()
			expect(t, "opener", opener, tt.want)
			expect(t, "acceptor", acceptor, tt.heard)
			if acceptor == nil {
				if err := p.acceptor.Names("r1"); err != nil {
					t.Errorf("the opener is not whom it is: %v", err)
				}
				if err := p.acceptor.Names("r2"); err == nil {
					t.Error("the opener is taken for another relay")
				}
			}
		})
	}
}

func expect(t *testing.T, who string, err error, want string) {
	t.Helper()
	right := err == nil
	if want != "" {
		right = err != nil && strings.HasPrefix(err.Error(), "TLS: ") && strings.Contains(err.Error(), want)
	}
	if !right {
		t.Errorf("%s: got %v, want %q", who, err, want)
	}
}

// Peers that are not as they should be, each with one error.
func TestStrangers(t *testing.T) {
	r1, r2 := identities(t)
	for _, tt := range []struct {
		name   string
		change func(*tls.Config)
		want   string // of who must refuse
	}{
		{"none", func(*tls.Config) {}, ""},
		{"an older TLS", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }, "version"},
		{"another protocol", func(c *tls.Config) { c.NextProtos = []string{"h2"} }, "application protocol"},
		{"no protocol", func(c *tls.Config) { c.NextProtos = nil }, "does not offer ALPN baton-trunk/1"},
		{"no certificate", func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
		}, "didn't provide a certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, r1, r2)
			cfg := r1.now.Load().open.Clone()
			cfg.ServerName, cfg.VerifyConnection = "r2", nil
			tt.change(cfg)
			p.opener = p.other(cfg, true)
			_, err := p.shake()
			expect(t, "acceptor", err, tt.want)

			if tt.name == "no certificate" {
				return
			}
			p = newPair(t, r1, r2)
			cfg = r2.now.Load().accept.Clone()
			cfg.VerifyConnection = nil
			tt.change(cfg)
			p.acceptor = p.other(cfg, false)
			err, _ = p.shake()
			expect(t, "opener", err, tt.want)
		})
	}
}

// What is no TLS at all ends the handshake, and goroutines end with those that nobody waits for any more.
func TestHandshakesEnd(t *testing.T) {
	i := identitiesOnce(t)
	for _, tt := range []struct {
		name string
		say  []byte
		over bool
	}{
		{"silence", nil, false},
		{"half a record", []byte{22, 3, 1, 2, 0, 1, 0}, false},
		{"another protocol", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), true},
		{"a record that is too long", []byte{22, 3, 1, 255, 255}, true},
		{"a message that is too long", []byte{22, 3, 1, 0, 4, 1, 255, 255, 255}, true},
		{"an alert", []byte{21, 3, 1, 0, 2, 2, 40}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			goroutines(t, func() {
				p := newPair(t, i, i)
				gate := NewGate(1)
				for _, c := range []*Conn{p.opener, p.acceptor} {
					c.Begin(gate, p.tell)
					if len(tt.say) > 0 {
						c.Feed(tt.say)
					}
					if tt.over {
						eventually(t, "the handshake is over", func() bool { over, _ := c.Established(); return over })
						_, err := c.Established()
						if err == nil {
							t.Error("the handshake has not failed")
						}
						if _, err := c.Read(make([]byte, 1)); err == nil {
							t.Error("a connection whose handshake has failed can be read")
						}
					}
					c.Close()
				}
			})
		})
	}
}

// What comes ahead of its time is bounded.
func TestFeedLimit(t *testing.T) {
	p := newPair(t, identitiesOnce(t), identitiesOnce(t))
	for total := 0; ; {
		n := p.acceptor.FeedLimit(Most)
		if n == 0 {
			break
		}
		p.acceptor.Feed(make([]byte, min(n, 1000)))
		if total += min(n, 1000); total > mostAhead {
			t.Fatalf("%d bytes were taken of a peer whose handshake has not begun", total)
		}
	}
	p.acceptor.Close()
}

// A Gate lets as many compute as it should, and those that wait for their peers are not in the way.
func TestGate(t *testing.T) {
	goroutines(t, func() {
		gate := NewGate(1)
		var stalled []*Conn
		for range 100 {
			p := newPair(t, identitiesOnce(t), identitiesOnce(t))
			p.acceptor.Begin(gate, func() {})
			stalled = append(stalled, p.acceptor)
		}
		p := newPair(t, identitiesOnce(t), identitiesOnce(t))
		if a, b := p.shake(); a != nil || b != nil {
			t.Errorf("opener %v, acceptor %v", a, b)
		}
		for _, c := range stalled {
			c.Close()
		}
	})
}
