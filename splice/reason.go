package splice

import (
	"errors"
	"fmt"

	"baton/packet"
)

// Verdict is what to do with a packet.
type Verdict uint8

// The verdicts.
const (
	// Forward: the packet was translated and goes out on the other leg.
	Forward Verdict = iota
	// Pass: the packet does not belong to the splice; it was not touched.
	Pass
	// Drop: the packet belongs to the splice, or claims to, and cannot be translated; it was not touched.
	Drop
)

func (v Verdict) String() string {
	switch v {
	case Forward:
		return "forward"
	case Pass:
		return "pass"
	}
	return "drop"
}

// Reason is the result of a translation. Its names are those of the drop counters.
type Reason uint8

// The reasons.
const (
	// Translated: the packet is now one of the other leg.
	Translated Reason = iota

	// NotIP: neither IPv4 nor IPv6, or a VLAN tag.
	NotIP
	// NotTCP: for Translate, another protocol than TCP, ICMP included; for TranslateICMP, an error about one.
	NotTCP
	// NotError: for TranslateICMP, no ICMP error, or one of a kind that is not translated.
	NotError
	// SYN: a SYN opens a leg and never belongs to a splice.
	SYN
	// NotSYN: for ClampMSS, no SYN.
	NotSYN

	// TTL: the packet came with a TTL or hop limit of 1 or 0.
	TTL
	// NoACK: neither ACK nor RST: no packet of an established session.
	NoACK
	// BadOptions: a TCP option with a length below 2 or past the header, timestamps whose length is not 10, or SACK whose
	// length is not that of one block or more. The latter two would go out untranslated.
	BadOptions
	// IPOptions: IPv4 options.
	IPOptions
	// Fragment: a fragment. In an ICMP error: a quoted one that does not hold the TCP header.
	Fragment
	// ExtensionHeader: an IPv6 extension header.
	ExtensionHeader
	// Truncated: a header, or the packet as its IP header gives the length, runs past the frame; or less than 8 bytes of
	// TCP are quoted.
	Truncated
	// BadHeader: an invalid IP version, header length, total length or data offset.
	BadHeader
	// WrongFamily: an IPv4 packet in an IPv6 splice, or the reverse.
	WrongFamily
	// BadQuote: an ICMP error that is not addressed to the sender of the packet that it quotes.
	BadQuote
)

var reasonNames = [...]string{
	Translated:      "translated",
	NotIP:           "not-ip",
	NotTCP:          "not-tcp",
	NotError:        "not-error",
	SYN:             "syn",
	NotSYN:          "not-syn",
	TTL:             "ttl",
	NoACK:           "no-ack",
	BadOptions:      "bad-options",
	IPOptions:       "ip-options",
	Fragment:        "fragment",
	ExtensionHeader: "extension-header",
	Truncated:       "truncated",
	BadHeader:       "bad-header",
	WrongFamily:     "wrong-family",
	BadQuote:        "bad-quote",
}

func (r Reason) String() string {
	if int(r) >= len(reasonNames) {
		return fmt.Sprintf("reason %d", uint8(r))
	}
	return reasonNames[r]
}

// Reasons returns all reasons in order.
func Reasons() []Reason {
	all := make([]Reason, len(reasonNames))
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

// Verdict returns the verdict for a reason.
func (r Reason) Verdict() Verdict {
	switch r {
	case Translated:
		return Forward
	case NotIP, NotTCP, NotError, SYN, NotSYN:
		return Pass
	}
	return Drop
}

// reasonOf names an error of packet.Parse or Frame.Quote.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, packet.ErrNotIP):
		return NotIP
	case errors.Is(err, packet.ErrNotError):
		return NotError
	case errors.Is(err, packet.ErrIPOptions):
		return IPOptions
	case errors.Is(err, packet.ErrFragment):
		return Fragment
	case errors.Is(err, packet.ErrExtensionHeader):
		return ExtensionHeader
	case errors.Is(err, packet.ErrTruncated):
		return Truncated
	}
	return BadHeader
}
