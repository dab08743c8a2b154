// Package hello reads the first message of a TLS client, the ClientHello (RFC 8446 section 4.1.2), from bytes that may not all
// be there yet: the server's name and what else a router chooses a surrogate by. The bytes go to the surrogate as they are, so
// the reader is strict where two readers could see two names, and leaves to the surrogate what concerns it alone: versions,
// ciphers, key shares.
//
// A hello that is not complete is never one without a name. ErrIncomplete asks for more bytes; whatever else Read returns for
// some bytes, it returns for those bytes with any others behind them.
package hello

import (
	"errors"
	"iter"
)

// MaxBytes is the largest hello that is read, with its 4-byte header. Post-quantum hellos have 2 kB, the largest seen in use 5.5.
const MaxBytes = 16 << 10

// ErrIncomplete says that the bytes so far are the beginning of a hello; more may make it whole.
var ErrIncomplete = errors.New("read hello: incomplete")

// Hello is what a ClientHello says. Its names are copies; Protocols is part of the bytes that were read, or of a copy when
// those came in several records.
type Hello struct {
	ServerName string    // as Canonical gives it; empty: the client names no server
	Sent       string    // ServerName as the client has written it
	Protocols  Protocols // offered by ALPN, RFC 7301
	MaxVersion uint16    // highest TLS version offered, 0x0304 is TLS 1.3; 0: none that is known
	ECH        bool      // has encrypted_client_hello. No proof that ServerName is an outer name: browsers send fake ones (GREASE)
	Resumption bool      // has a session ticket or a pre-shared key
	Length     int       // bytes of the input that the hello took, with its record headers
}

// Protocols are the names of an ALPN extension that has been accepted, as they came, each with its length in front. They are
// not made a slice: 16 KiB of the shortest names would become 200 KiB.
type Protocols []byte

// All yields the names in the client's order of preference.
func (p Protocols) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := []byte(p); len(rest) > 0; {
			end := 1 + int(rest[0])
			if end > len(rest) || !yield(rest[1:end]) {
				return
			}
			rest = rest[end:]
		}
	}
}

// Has tells whether the client offers that protocol.
func (p Protocols) Has(name string) bool {
	for offered := range p.All() {
		if string(offered) == name {
			return true
		}
	}
	return false
}

// Kind is the kind of reason for which a hello is refused.
type Kind uint8

// The kinds of refusals.
const (
	NotTLS    Kind = iota + 1 // the first record is not of a handshake
	PlainHTTP                 // a request of HTTP without TLS
	SSLv2                     // a hello of SSL 2.0, or one for SSL 3.0 in that form
	Malformed                 // TLS, but not a hello by the RFCs, or one that two readers could read differently
	TooLarge                  // a hello of more than MaxBytes
)

// Kinds are all kinds of refusals, for counters.
var Kinds = [...]Kind{NotTLS, PlainHTTP, SSLv2, Malformed, TooLarge}

func (k Kind) String() string {
	switch k {
	case NotTLS:
		return "not_tls"
	case PlainHTTP:
		return "plain_http"
	case SSLv2:
		return "sslv2"
	case Malformed:
		return "malformed"
	case TooLarge:
		return "too_large"
	}
	return "unknown"
}

// Alert is the description of a TLS alert, RFC 8446 section 6.2.
type Alert uint8

// The alerts that answer a hello. A reader's Error has one of the first five; the others are for hellos that are read, and meet
// no route.
const (
	UnexpectedMessage Alert = 10
	RecordOverflow    Alert = 22
	IllegalParameter  Alert = 47
	DecodeError       Alert = 50
	ProtocolVersion   Alert = 70
	InternalError     Alert = 80
	MissingExtension  Alert = 109 // no name, RFC 8446 section 9.2
	UnrecognizedName  Alert = 112 // RFC 6066 section 3
)

// Record gives the record of a fatal alert, which ends a connection before its keys are made.
func (a Alert) Record() []byte {
	return []byte{recordAlert, 3, 3, 0, 2, 2, byte(a)}
}

// Error is why a hello is refused. The values are shared: compare Kind, do not change them.
type Error struct {
	Kind   Kind
	Alert  Alert  // to answer with; a client of PlainHTTP does not understand it
	Reason string // for people, a few words
}

func (e *Error) Error() string {
	return "read hello: " + e.Kind.String() + ": " + e.Reason
}

// Read reads a hello from the beginning of a TCP stream. The error is ErrIncomplete or an *Error. Read neither changes nor keeps
// the stream, but for what Protocols is a part of. It begins anew each time: a hello in 16,384 records of a byte has it look at
// each of them.
func Read(stream []byte) (Hello, error) {
	f, err := frame(stream)
	if err != nil {
		return Hello{}, err
	}
	h, err := body(f.message(stream))
	if err != nil {
		return Hello{}, err
	}
	h.Length = f.end
	return h, nil
}

// ReadMessage reads a hello from the beginning of a stream of handshake messages without records, as QUIC carries it in CRYPTO
// frames (RFC 9001 section 4.1.3). Errors are those of Read. Bytes behind the hello are not looked at.
func ReadMessage(handshake []byte) (Hello, error) {
	size, err := messageSize(handshake)
	if err != nil {
		return Hello{}, err
	}
	if size == 0 || len(handshake) < size {
		return Hello{}, ErrIncomplete
	}
	h, err := body(handshake[headerSize:size:size])
	if err != nil {
		return Hello{}, err
	}
	h.Length = size
	return h, nil
}
