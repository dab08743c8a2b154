package resume

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"baton/resume/part"
	"baton/resume/retry"
)

// Kind is what kind of thing ended a download, or a try of one.
type Kind string

// The kinds.
const (
	Resolve     Kind = "resolve"     // the name has no address
	Connect     Kind = "connect"     // no TCP connection, or none through a proxy
	Secure      Kind = "tls"         // no TLS connection
	Certificate Kind = "certificate" // the server is not who it should be
	Redirects   Kind = "redirects"   // too many
	Status      Kind = "status"      // the server refuses
	Busy        Kind = "busy"        // the server asks for patience
	Unusable    Kind = "unusable"    // an answer that does not fit to the request
	Changed     Kind = "changed"     // it is another file now, and what was taken cannot be taken back
	Digest      Kind = "digest"      // the bytes are not those that the server, or the user, announced
	Receive     Kind = "receive"     // the connection broke
	Stalled     Kind = "stalled"     // nothing came, or too little
	Canceled    Kind = "canceled"    // by the caller
	Output      Kind = "output"      // what came could not be written
)

// Error is why a try, or a whole download, has failed.
type Error struct {
	Kind   Kind
	URL    string // that was asked for
	Server string // address that answered, "" if none did
	Status int    // of the answer, 0 without one
	GaveUp string // why nothing more is tried, "" for a single try
	Err    error
}

func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Server != "" {
		text = e.Server + ": " + text
	}
	if e.URL != "" {
		text = "download " + e.URL + ": " + text
	}
	if e.GaveUp != "" {
		text += " (given up: " + e.GaveUp + ")"
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

var (
	errStalled   = errors.New("nothing came for too long")
	errSlow      = errors.New("too little came for too long")
	errTruncated = errors.New("read the content: TLS was cut off")
	errShort     = errors.New("read the content: it ends before its last byte")
	errRedirects = errors.New("too many redirects")
	errRereads   = errors.New("use the answer: it begins too early, again and again")
)

// broke tells whether it is the end of a connection.
func (e *Error) broke() bool { return e.Kind == Receive || e.Kind == Stalled }

// stage is how far a try came.
func (e *Error) stage() retry.Stage {
	if errors.Is(e.Err, errRereads) {
		return retry.Useless
	}
	switch e.Kind {
	case Resolve, Connect, Secure:
		return retry.Handshake
	case Certificate, Redirects, Status:
		return retry.Useless
	case Busy:
		return retry.Busy
	case Receive, Stalled:
		return retry.Body
	}
	return retry.Head
}

// classify says what kind of error a request ended with that has no answer. connected: there was a connection.
func classify(err error, connected bool) Kind {
	var (
		name     *net.DNSError
		verify   *tls.CertificateVerificationError
		host     x509.HostnameError
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		op       *net.OpError
		headless tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, errRedirects):
		return Redirects
	case errors.Is(err, errStalled), errors.Is(err, errSlow):
		return Stalled
	case errors.As(err, &verify), errors.As(err, &host), errors.As(err, &unknown), errors.As(err, &invalid):
		return Certificate
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && connected:
		return Canceled
	case connected:
		return Receive
	case errors.As(err, &name):
		return Resolve
	case errors.As(err, &headless):
		return Secure
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
		return Connect
	}
	return Secure
}

// refused is an answer that is of no use.
func refused(v part.Verdict, status int) (Kind, error) {
	switch v.Reason {
	case part.StatusRefuse:
		return Status, fmt.Errorf("%s: status %d", v.Reason, status)
	case part.Overloaded:
		return Busy, fmt.Errorf("%s: status %d", v.Reason, status)
	case part.Changed, part.Unproven, part.Recoded:
		return Changed, errors.New(string(v.Reason))
	}
	return Unusable, fmt.Errorf("use the answer, status %d: %s", status, v.Reason)
}
