package trunkproto

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"
)

// AnswerSize is the size of an answer, in bytes.
const AnswerSize = 8

// Status is the result of a flow or probe. The numbers are those on the wire.
type Status uint8

// Results of flows. All except Connected end the trunk.
const (
	Connected   Status = 1 + iota // the server's bytes follow; of a probe: it was measured
	Refused                       // the server answered with a reset
	Unreachable                   // no route, or an ICMP error
	TimedOut                      // the server did not answer
	NotAllowed                    // the last relay may not connect to the server
	Loop                          // the route passes a relay twice, or too many
	Overloaded                    // a relay has reached a limit: flows, ports, memory, files
	BadHeader                     // the header is invalid, or its seal does not match
	NoSuchRelay                   // a name on the route is not the relay's own, or not one of its peers
	NoTrunk                       // the next relay is unavailable
	Stopping                      // a relay accepts no new flows
)

var statusNames = [...]string{
	Connected: "connected", Refused: "refused", Unreachable: "unreachable", TimedOut: "timed_out", NotAllowed: "not_allowed",
	Loop: "loop", Overloaded: "overloaded", BadHeader: "bad_header", NoSuchRelay: "no_such_relay", NoTrunk: "no_trunk",
	Stopping: "stopping",
}

// String returns the status's name in logs and metrics: lower case, with underscores.
func (s Status) String() string {
	if s == 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("status_%d", uint8(s))
	}
	return statusNames[s]
}

// StatusOf returns the status for an error: Connected for nil; for an error of this package that of the header; for an error of connect(2)
// that of the server; Overloaded for others, such as a lack of memory, ports or files.
func StatusOf(err error) Status {
	var malformed *Malformed
	switch {
	case err == nil:
		return Connected
	case errors.Is(err, ErrLoop), errors.Is(err, ErrHops):
		return Loop
	case errors.Is(err, ErrRoute):
		return NoSuchRelay
	case errors.As(err, &malformed), errors.Is(err, ErrSeal), errors.Is(err, ErrTooLong), errors.Is(err, ErrVersion):
		return BadHeader
	}
	var errno syscall.Errno
	errors.As(err, &errno)
	switch errno {
	case syscall.ECONNREFUSED, syscall.ECONNRESET:
		return Refused
	case syscall.ETIMEDOUT:
		return TimedOut
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN, syscall.ENONET, syscall.ENOPROTOOPT,
		syscall.EPROTO, syscall.EINVAL, syscall.EAFNOSUPPORT:
		return Unreachable
	case syscall.EACCES, syscall.EPERM: // a broadcast address, or this host's own filter
		return NotAllowed
	}
	return Overloaded
}

// Answer is what the acceptor of a trunk sends in front of the server's bytes.
type Answer struct {
	Status Status
	// Hop is the number of relays passed where the status was determined, as [Header.Passed]: 1 is the opener's own peer, 0 means an
	// unreadable header.
	Hop uint8
	// RTT of the handshake with the server, or with the measured address; 0 if unknown. On the wire it is in whole microseconds, from 1 to
	// 2^32-1.
	RTT time.Duration
}

// Append appends the answer.
func (a Answer) Append(b []byte) []byte {
	us := uint32(0)
	if a.RTT > 0 {
		us = uint32(min(max(a.RTT.Microseconds(), 1), math.MaxUint32))
	}
	return wire.AppendUint32(append(b, byte(a.Status), a.Hop, 0, 0), us)
}

// ParseAnswer parses an answer from the received bytes. n is its length, 0 while more bytes are needed; those after it are the server's. An
// unknown status counts as none of Connected. The error is a [*Malformed] for a zero status.
func ParseAnswer(b []byte) (a Answer, n int, err error) {
	if len(b) > 0 && b[0] == 0 {
		return Answer{}, 0, &Malformed{"answer", "no status"}
	}
	if len(b) < AnswerSize {
		return Answer{}, 0, nil
	}
	rtt := time.Duration(wire.Uint32(b[4:])) * time.Microsecond
	return Answer{Status: Status(b[0]), Hop: b[1], RTT: rtt}, AnswerSize, nil
}
