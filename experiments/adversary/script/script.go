// Package script describes an adversary as data: a client, a surrogate or an off-path attacker, and the raw segments that it
// sends in order.
//
// A script follows from its class and a seed (Draw), is written in one line (Script.String, Parse), and can be reduced while its
// effect stays (Shrink). Directed has the known attacks by name. The package opens no socket.
package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/packet"
)

// Class is the kind of adversary.
type Class string

// The classes.
const (
	// Client has its own sessions, and knows only their numbers.
	Client Class = "client"
	// Surrogate is a server of a pool: it answers its own client arbitrarily, and knows the numbers of its legs.
	Surrogate Class = "surrogate"
	// Stranger is an off-path attacker: it knows addresses and ports, but no sequence numbers.
	Stranger Class = "stranger"
)

// Classes are all of them.
var Classes = []Class{Client, Surrogate, Stranger}

// Verb is what a step does.
type Verb string

// The verbs.
const (
	Open  Verb = "open"  // the client's handshake, with the step's options
	Send  Verb = "send"  // one segment, or Times
	ICMP  Verb = "icmp"  // an ICMP error that quotes a segment
	Take  Verb = "take"  // wait for a response, at most Millis, and acknowledge it
	Leave Verb = "leave" // the client's clean end
	Rest  Verb = "rest"  // wait for Millis
)

// Actor is the sender.
type Actor string

// The actors. A stranger's segments have a spoofed address: an innocent's (to the VIP), or a surrogate's (to a leg's port).
const (
	ByClient    Actor = "client"
	BySurrogate Actor = "surrogate"
	AsInnocent  Actor = "as innocent"
	AsSurrogate Actor = "as surrogate"
)

// Stamps is the kind of a segment's timestamps option.
type Stamps string

// The kinds. By "" there is none.
const (
	StampsNone    Stamps = ""
	StampsRight   Stamps = "right"
	StampsAhead   Stamps = "ahead"  // nearly half of the number space ahead: later ones are too old in comparison
	StampsBehind  Stamps = "behind" // as far behind
	StampsGarbage Stamps = "garbage"
	StampsShort   Stamps = "short" // an option of a wrong length
)

// Script is an adversary's script.
type Script struct {
	Class Class  `json:"class"`
	Name  string `json:"name,omitempty"`  // of a directed one
	Seed  uint64 `json:"seed,omitempty"`  // of everything random in it
	Times int    `json:"times,omitempty"` // repetitions; 0: once
	Hold  bool   `json:"hold,omitempty"`  // no session ends before all are open
	Steps []Step `json:"steps"`
}

// Step is one step.
type Step struct {
	Do     Verb   `json:"do"`
	By     Actor  `json:"by,omitempty"`
	Whom   Victim `json:"whom,omitempty"`  // the address spoofed by a stranger
	Flags  string `json:"flags,omitempty"` // of SFRPAUEC
	Seq    Number `json:"seq,omitzero"`
	Ack    Number `json:"ack,omitzero"`
	Window uint16 `json:"win,omitempty"`
	Urgent uint16 `json:"urg,omitempty"` // the urgent pointer
	Stamps Stamps `json:"ts,omitempty"`
	Proxy  bool   `json:"proxy,omitempty"` // Open: to the VIP of mode proxy
	SACK   bool   `json:"sack,omitempty"`  // in a handshake: permitted; else: blocks of garbage
	BadSum bool   `json:"badsum,omitempty"`
	VLAN   uint16 `json:"vlan,omitempty"`
	Data   Data   `json:"data,omitempty"`
	Cut    int    `json:"cut,omitempty"`  // bytes of Data to keep; negative: to skip at its start
	Size   int    `json:"size,omitempty"` // of bodies, junk, and an ICMP error's MTU
	Times  int    `json:"n,omitempty"`    // 0: once
	Millis int    `json:"ms,omitempty"`   // before the step; of Take: at most
}

// Victim is the kind of innocent session, or leg, that a stranger attacks.
type Victim string

// The victims.
const (
	Kept     Victim = "kept"     // a connection with many requests to both pools
	Poll     Victim = "poll"     // one that waits for its response
	Download Victim = "download" // one in the middle of a long response
	Plain    Victim = "plain"    // one of a client without timestamps
	Fresh    Victim = "fresh"    // one without a request yet
	Proxied  Victim = "proxied"  // one through a VIP of mode proxy
	Near     Victim = "near"     // one proxied by a VIP in mode handoff
	Leg      Victim = "leg"      // any leg of a surrogate
)

// Victims of a stranger that takes an innocent's address.
var Victims = []Victim{Kept, Poll, Download, Plain, Fresh, Proxied, Near}

// Point is the base of a number.
type Point string

// The points. Of a sender: its next unused number, the oldest unacknowledged one, the first of the session, the end of the
// receiver's window; Random is any of 2³², different each time.
const (
	Zero   Point = ""
	Next   Point = "nxt"
	Oldest Point = "una"
	First  Point = "iss"
	End    Point = "end"
	Random Point = "random"
)

// Number is a sequence or acknowledgement number.
type Number struct {
	From Point
	Plus int64
}

// At is a number.
func At(p Point, plus int64) Number { return Number{p, plus} }

// IsZero reports whether there is no number.
func (n Number) IsZero() bool { return n == Number{} }

// MarshalText writes "nxt+3".
func (n Number) MarshalText() ([]byte, error) {
	if n.Plus == 0 {
		return []byte(n.From), nil
	}
	return fmt.Appendf(nil, "%s%+d", n.From, n.Plus), nil
}

// UnmarshalText reads what MarshalText writes.
func (n *Number) UnmarshalText(b []byte) (err error) {
	text := string(b)
	*n = Number{}
	if i := strings.IndexAny(text, "+-"); i >= 0 {
		if n.Plus, err = strconv.ParseInt(text[i:], 10, 64); err != nil {
			return fmt.Errorf("number %q: %w", text, err)
		}
		text = text[:i]
	}
	n.From = Point(text)
	if !slices.Contains([]Point{Zero, Next, Oldest, First, End, Random}, n.From) {
		return fmt.Errorf("number %q: no such point", text)
	}
	return nil
}

// flagLetters are those of Step.Flags, in the order of the header's bits.
const flagLetters = "FSRPAUEC"

// FlagBits are the control bits.
func (s Step) FlagBits() (f packet.Flags) {
	for _, letter := range s.Flags {
		if i := strings.IndexRune(flagLetters, letter); i >= 0 {
			f |= 1 << i
		}
	}
	return f
}

// Lies reports whether the client may send two versions with the same numbers, one seen by a router and one by its surrogate: it
// sends data elsewhere than after everything sent, or with timestamps that a receiver drops.
func (s Script) Lies() bool {
	return slices.ContainsFunc(s.Steps, func(step Step) bool {
		honest := step.Seq == At(Next, 0) && (step.Stamps == StampsRight || step.Stamps == StampsNone)
		return step.By == ByClient && step.Do == Send && step.Data != "" && !step.BadSum && !honest
	})
}

// Wait is the time before the step.
func (s Step) Wait() time.Duration { return time.Duration(s.Millis) * time.Millisecond }

// String formats the script in one line for Parse.
func (s Script) String() string {
	b, err := json.Marshal(s)
	if err != nil {
		return err.Error() // all fields of a script can be marshalled
	}
	return string(b)
}

// The bounds of a script.
const (
	MostSteps  = 24
	MostTimes  = 400
	MostMillis = 3000
)

// Parse reads a script and checks it.
func Parse(line string) (Script, error) {
	var s Script
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("script: %w", err)
	}
	return s, s.Check()
}

// Check validates a script.
func (s Script) Check() error {
	if !slices.Contains(Classes, s.Class) {
		return fmt.Errorf("script: class %q: want one of %v", s.Class, Classes)
	}
	if len(s.Steps) > MostSteps || s.Times < 0 || s.Times > MostTimes {
		return fmt.Errorf("script: %d steps %d times: at most %d and %d", len(s.Steps), s.Times, MostSteps, MostTimes)
	}
	for i, step := range s.Steps {
		if err := step.check(s.Class); err != nil {
			return fmt.Errorf("script: step %d: %w", i, err)
		}
	}
	return nil
}

func (s Step) check(c Class) error {
	switch {
	case !slices.Contains([]Verb{Open, Send, ICMP, Take, Leave, Rest}, s.Do):
		return fmt.Errorf("%q: no such verb", s.Do)
	case s.Times < 0 || s.Times > MostTimes || s.Millis < 0 || s.Millis > MostMillis || s.Size < 0 || s.Size > MostSize:
		return errors.New("out of bounds")
	case strings.Trim(s.Flags, flagLetters) != "":
		return fmt.Errorf("flags %q", s.Flags)
	case s.Data != "" && !s.Data.known():
		return fmt.Errorf("data %q", s.Data)
	case c == Stranger && s.Do != Rest && (s.By != AsInnocent && s.By != AsSurrogate || s.Do == Open || s.Do == Take || s.Do == Leave):
		return fmt.Errorf("%s by %q: a stranger has no session", s.Do, s.By)
	case c == Stranger && (!blind(s.Seq) || !blind(s.Ack)):
		return errors.New("a stranger knows no number")
	case s.By == BySurrogate && c != Surrogate:
		return errors.New("a segment of the surrogate's in a script of another")
	}
	return nil
}

func blind(n Number) bool { return n.From == Zero || n.From == Random }
