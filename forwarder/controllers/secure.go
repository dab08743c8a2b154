package controllers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"baton/forwarder/config"
)

// secureClient makes a TLS connection to a controller. The certificate must be signed by the authority, and be valid for name unless that is
// "": the authority is the site's own [6.3.4], so its signature is sufficient.
func secureClient(ctx context.Context, files *config.TLS, rw net.Conn, name string) (net.Conn, error) {
	pair, authority, err := files.Read()
	if err != nil {
		return nil, err
	}
	return handshake(ctx, tls.Client(rw, &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		ServerName:   name,
		// VerifyConnection does this instead: the library does not verify without a name.
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { return verify(s, authority, name) },
	}))
}

func verify(s tls.ConnectionState, authority *x509.CertPool, name string) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("no certificate")
	}
	o := x509.VerifyOptions{
		Roots: authority, DNSName: name, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, between := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(between)
	}
	_, err := s.PeerCertificates[0].Verify(o)
	return err
}

// secureServer makes a TLS connection of an accepted one, whose peer must have a certificate of the authority.
func secureServer(ctx context.Context, files *config.TLS, rw net.Conn) (net.Conn, error) {
	pair, authority, err := files.Read()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	return handshake(ctx, tls.Server(rw, &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    authority,
	}))
}

func handshake(ctx context.Context, c *tls.Conn) (net.Conn, error) {
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return abrupt{c}, nil
}

// abrupt closes without TLS's close_notify, which could block for seconds if the peer does not read. OpenFlow messages have lengths, so
// truncation is noticed.
type abrupt struct{ *tls.Conn }

func (a abrupt) Close() error { return a.NetConn().Close() }
