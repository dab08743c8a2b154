package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"baton/router/proxyheader"
)

// Seen is what a surrogate has shown in a handshake.
type Seen struct {
	Ask
	Leaf     *x509.Certificate // nil: none, see Refused
	Protocol string            // chosen by ALPN; "": none
	HTTP3    bool              // a response announces it (Alt-Svc)
	Refused  string            // the alert instead of a certificate
}

// refusal is an alert of a surrogate: it speaks TLS, but has no session for that hello.
type refusal struct {
	address netip.AddrPort
	name    string
	alert   error
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s refuses the handshake%s: %v", r.address, forName(r.name), r.alert)
}

// Handshake makes a handshake, offering HTTP/2 and HTTP/1.1. The caller closes the connection, which is nil if the surrogate has shown its
// certificate and then refused this client, for example for the lack of a certificate.
func Handshake(ctx context.Context, dial proxyheader.Dial, at netip.AddrPort, ask Ask) (*tls.Conn, Seen, error) {
	seen := Seen{Ask: ask}
	plain, err := dial(ctx, "tcp", at.String())
	if err != nil {
		return nil, seen, err
	}
	c := tls.Client(plain, &tls.Config{
		ServerName: ask.Name, NextProtos: []string{"h2", "http/1.1"},
		InsecureSkipVerify: true, // see the package comment
		VerifyConnection: func(s tls.ConnectionState) error {
			seen.Leaf, seen.Protocol = s.PeerCertificates[0], s.NegotiatedProtocol
			return nil
		},
	})
	if err = c.HandshakeContext(ctx); err == nil {
		return c, seen, nil
	}
	plain.Close()
	var stranger tls.RecordHeaderError
	var remote *net.OpError
	switch {
	case ctx.Err() != nil:
		return nil, seen, ctx.Err()
	case errors.As(err, &stranger):
		return nil, seen, fmt.Errorf("answers without TLS on %s", at)
	case errors.As(err, &remote) && remote.Op == "remote error":
		if seen.Leaf != nil {
			return nil, seen, nil
		}
		seen.Refused = remote.Err.Error()
		return nil, seen, &refusal{at, ask.Name, remote.Err}
	case errors.Is(err, io.EOF):
		return nil, seen, fmt.Errorf("%s closes the connection in the handshake%s", at, forName(ask.Name))
	}
	return nil, seen, fmt.Errorf("%s: handshake%s: %w", at, forName(ask.Name), err)
}

func forName(name string) string {
	if name == "" {
		return " without a name"
	}
	return " for " + name
}

// Result is the outcome of a handshake.
type Result struct {
	Seen
	Conn *tls.Conn // may be nil, see Handshake
	Err  error
}

// Surrogate makes a handshake with each name at once. The caller closes the connections.
func Surrogate(ctx context.Context, dial proxyheader.Dial, at netip.AddrPort, asks []Ask) []Result {
	results := make([]Result, len(asks))
	done := make(chan struct{})
	for i := range asks {
		go func() {
			r := &results[i]
			r.Conn, r.Seen, r.Err = Handshake(ctx, dial, at, asks[i])
			done <- struct{}{}
		}()
	}
	for range asks {
		<-done
	}
	return results
}

// Judge says whether the surrogate can take sessions: it can if it has completed a handshake. An alert against names that were made up
// proves nothing but that it speaks TLS, which is enough.
func Judge(results []Result) error {
	var first error
	spoke := false
	for _, r := range results {
		if r.Err == nil {
			return nil
		}
		var refused *refusal
		if r.MadeUp && errors.As(r.Err, &refused) {
			spoke = true
		} else if first == nil {
			first = r.Err
		}
	}
	if first == nil && spoke {
		return nil
	}
	return first
}
