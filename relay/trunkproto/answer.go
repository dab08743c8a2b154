package trunkproto

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"
)

// AnswerSize is that of an answer, in bytes.
const AnswerSize = 8

// Status is what became of a flow or probe that a relay was asked for. The numbers are those on the wire.
type Status uint8

// What becomes of flows. All but Connected end the trunk.
const (
	Connected   Status = 1 + iota // what follows is the server's; of a probe: it was measured
	Refused                       // the server answered with a reset
	Unreachable                   // no route, or an ICMP error
	TimedOut                      // the server did not answer
	NotAllowed                    // the last relay may not connect there
	Loop                          // the way passes a relay twice, or too many
	Overloaded                    // a limit of a relay is reached: flows, ports, memory, files
	BadHeader                     // the header cannot be read, or its seal does not fit
	NoSuchRelay                   // a name on the way is not that of the relay, or of none of its peers
	NoTrunk                       // the next relay cannot be reached
	Stopping                      // a relay takes no new flows
)

var statusNames = [...]string{
	Connected: "connected", Refused: "refused", Unreachable: "unreachable", TimedOut: "timed_out", NotAllowed: "not_allowed",
	Loop: "loop", Overloaded: "overloaded", BadHeader: "bad_header", NoSuchRelay: "no_such_relay", NoTrunk: "no_trunk",
	Stopping: "stopping",
}

// String returns the status's name in logs and metrics: lower case, words joined by underscores.
func (s Status) String() string {
	if s == 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("status_%d", uint8(s))
	}
	return statusNames[s]
}

// StatusOf returns what a flow's opener is told of an error: Connected for nil; an error of this package as the header's; an
// error of connect(2) as the server's; others, such as of a lack of memory, ports or files, as Overloaded.
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

// Answer is what the acceptor of a trunk says in front of the server's bytes.
type Answer struct {
	Status Status
	// Hop is the number of relays passed where the status was found, as of [Header.Passed]: 1 is the opener's own peer, 0
	// means that it could not read the header.
	Hop uint8
	// RTT of the handshake with the server, or with the address that was measured; 0 if it is not known. On the wire it is whole
	// microseconds, from 1 to 2^32-1.
	RTT time.Duration
}

// Append writes the answer.
func (a Answer) Append(b []byte) []byte {
	us := uint32(0)
	if a.RTT > 0 {
		us = uint32(min(max(a.RTT.Microseconds(), 1), math.MaxUint32))
	}
	return wire.AppendUint32(append(b, byte(a.Status), a.Hop, 0, 0), us)
}

// ParseAnswer reads an answer from the bytes that have come. n is how many of them it takes, 0 while more are needed; those
// behind it are the server's. A status that is not known here is none of Connected; the error is a [*Malformed] if there is
// no status.
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
