package accesslog

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Record is one request, or one session of a protocol whose requests are not seen. What a stranger has sent is in byte slices, which Write
// does not keep; they may be of any bytes. A zero field is not known, unless it says otherwise.
type Record struct {
	Time time.Time // of the request's first byte
	ID   [16]byte  // of the request

	Client   netip.AddrPort
	VIP      netip.AddrPort
	VIPName  string
	Protocol Protocol // the zero value is HTTP

	Host    []byte // as sent; of TLS and QUIC: the name in the hello
	Method  []byte
	Path    []byte // the request's target with its query, as sent
	PathCut bool   // Path is only its beginning
	Version Version
	Status  int

	Surrogate        string
	SurrogateAddress netip.AddrPort
	Pool             string

	FromClient    uint64 // bytes of TCP payload, or of bodies where it was proxied; 0 included
	FromSurrogate uint64
	WholeSession  bool // both are of the session, as they are not known for the request

	FirstByte time.Duration // from Time to the first byte of the response
	Duration  time.Duration // from Time to the end, 0 included

	ClientRetransmissions    uint32 // segments that the client sent again, 0 included
	SurrogateRetransmissions uint32

	End    End    // the zero value is Complete
	Served Served // the zero value is Spliced

	UserAgent []byte // where user space has seen the head
	Referer   []byte
}

// Protocol is what the client speaks.
type Protocol uint8

// The protocols.
const (
	HTTP Protocol = iota
	TLS
	QUIC
)

// Version is that of HTTP.
type Version uint8

// The versions of HTTP.
const (
	NoVersion Version = iota
	HTTP10
	HTTP11
	HTTP2
	HTTP3
)

// Served is who has answered.
type Served uint8

// The ways in which a request is answered.
const (
	Spliced    Served = iota // a surrogate, through the kernel
	Proxied                  // a surrogate, through the router's proxy
	Redirected               // the router, with a surrogate's location
	Answered                 // the router, with a status of its own
)

// End is how a request, or its session, ended. The set is closed: readers of logs count on it.
type End uint8

// The ends.
const (
	Complete  End = iota // the response was complete
	ClientFIN            // the client closed first, the end of the response is not known
	ClientRST            // the client broke it off before the response was complete
	ServerFIN            // the surrogate closed first, the end of the response is not known
	ServerRST            // the surrogate broke it off before the response was complete
	Timeout              // one of the router's timeouts
	Moved                // the session went on at another surrogate
	Replaced             // the client opened a new session from the same port
	Cut                  // the router ended it
	Malformed            // a message that two readers could read differently
	Failed               // no surrogate answered
)

// The words of the enumerations, which are part of every format.
var (
	protocols = [...]string{"http", "tls", "quic"}
	versions  = [...]string{"", "1.0", "1.1", "2", "3"}
	serveds   = [...]string{"spliced", "proxied", "redirected", "answered"}
	ends      = [...]string{
		"complete", "client-fin", "client-rst", "server-fin", "server-rst", "timeout", "moved", "replaced", "cut", "malformed", "failed",
	}
)

// word is a value's own, or "unknown" for a value that has none.
func word[T ~uint8](words []string, v T) string {
	if int(v) < len(words) {
		return words[v]
	}
	return "unknown"
}

func (p Protocol) String() string { return word(protocols[:], p) }
func (v Version) String() string  { return word(versions[:], v) }
func (s Served) String() string   { return word(serveds[:], s) }
func (e End) String() string      { return word(ends[:], e) }

// Abnormal tells whether somebody has to look: the response did not come as it should have.
func (e End) Abnormal() bool {
	switch e {
	case ClientRST, ServerRST, Timeout, Cut, Malformed, Failed:
		return true
	}
	return false
}

// Error tells whether the request failed, as far as the router can see.
func (r *Record) Error() bool { return r.Status >= 500 || r.End.Abnormal() }

// Longest fields of strangers, in bytes: what is longer is cut, so that no line is longer than a UDP datagram.
const (
	longestPath  = 2048 // also of a user agent and a referer
	longestHost  = 255
	longestToken = 64 // a method
)

func cut(s []byte, longest int) []byte { return s[:min(len(s), longest)] }

func (r *Record) path() (path []byte, isCut bool) {
	return cut(r.Path, longestPath), r.PathCut || len(r.Path) > longestPath
}

// identity is the request's id, or one that is made of when it came and from where.
func (r *Record) identity() [16]byte {
	if r.ID != [16]byte{} {
		return r.ID
	}
	var from [42]byte
	ip := r.Client.Addr().As16()
	copy(from[:], ip[:])
	binary.BigEndian.PutUint16(from[16:], r.Client.Port())
	ip = r.VIP.Addr().As16()
	copy(from[18:], ip[:])
	binary.BigEndian.PutUint64(from[34:], uint64(r.Time.UnixNano()))
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], xxhash.Sum64(from[:]))
	binary.BigEndian.PutUint64(id[8:], xxhash.Sum64(from[1:])|1) // never 0, which is no id of a span
	return id
}

// share is a number from 0 to 1 that the request's id gives: the same in each output and each run.
func (r *Record) share() float64 {
	id := r.identity()
	return float64(xxhash.Sum64(id[:])>>11) / (1 << 53)
}
