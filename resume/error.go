package resume

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"

	"baton/resume/part"
	"baton/resume/retry"
)

// Kind is the kind of an error that ended a download or a single try.
type Kind string

// The kinds.
const (
	Resolve     Kind = "resolve"     // the name has no addresses
	Connect     Kind = "connect"     // no TCP connection, directly or through a proxy
	Secure      Kind = "tls"         // no TLS connection
	Certificate Kind = "certificate" // the server's certificate is not valid
	Redirects   Kind = "redirects"   // too many
	Status      Kind = "status"      // the server refuses the request
	Busy        Kind = "busy"        // the server asks to retry later
	Unusable    Kind = "unusable"    // the response does not match the request
	Changed     Kind = "changed"     // the file has changed, and the output cannot start over
	Digest      Kind = "digest"      // the bytes do not match the digest of the server or the user
	Receive     Kind = "receive"     // the connection broke
	Stalled     Kind = "stalled"     // nothing arrived, or too little
	Canceled    Kind = "canceled"    // by the caller
	Output      Kind = "output"      // the output could not be written
)

// Error is the error of a try or of a whole download.
type Error struct {
	Kind   Kind
	URL    string // requested URL
	Server string // address that answered, "" if none
	Status int    // of the response, 0 without one
	GaveUp string // why there are no more tries, "" for a single try
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

// Unwrap gives the cause. An io.EOF in it is io.ErrUnexpectedEOF here: net/http returns io.EOF for a connection that was closed without an
// answer, and to a reader of a [Stream] it would mean that the file is complete.
func (e *Error) Unwrap() error {
	if errors.Is(e.Err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return e.Err
}

var (
	errStalled    = errors.New("nothing received for too long")
	errSlow       = errors.New("too slow for too long")
	errTruncated  = errors.New("read the content: TLS was cut off")
	errShort      = errors.New("read the content: it is incomplete")
	errUnanswered = errors.New("the connection was closed without an answer")
	errRedirects  = errors.New("too many redirects")
	errRereads    = errors.New("use the response: it repeatedly starts too early")
)

// broke reports whether it ends a connection.
func (e *Error) broke() bool { return e.Kind == Receive || e.Kind == Stalled }

// stage is how far a try got.
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

// classify returns the kind of a request's error before a response. connected: there was a connection.
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
	return Unusable, fmt.Errorf("use the response, status %d: %s", status, v.Reason)
}
