package emulator

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Shape is what a link does to the packets of one direction. The zero value passes them all at once. A packet is what
// a real link would carry: of a GSO frame each segment counts, is lost or held back by itself.
type Shape struct {
	Rate      Rate          `json:"rate,omitzero" yaml:"rate"`           // 0: unlimited
	Delay     time.Duration `json:"delay,omitzero" yaml:"delay"`         // one way, from the last bit sent to its arrival
	Jitter    time.Duration `json:"jitter,omitzero" yaml:"jitter"`       // Delay wanders by up to this, never so fast that one packet overtakes another
	Loss      Share         `json:"loss,omitzero" yaml:"loss"`           // of packets, on the wire: they have used up their share of the rate
	Burst     float64       `json:"burst,omitzero" yaml:"burst"`         // mean number of packets lost in a row (Gilbert's model); up to 1: each by itself
	Duplicate Share         `json:"duplicate,omitzero" yaml:"duplicate"` // of packets, delivered twice
	Corrupt   Share         `json:"corrupt,omitzero" yaml:"corrupt"`     // of packets, delivered with one bit of the IP packet flipped
	Reorder   Share         `json:"reorder,omitzero" yaml:"reorder"`     // of packets, held back …
	Behind    int           `json:"behind,omitzero" yaml:"behind"`       // … until this many later ones have passed (default: 3) …
	Within    time.Duration `json:"within,omitzero" yaml:"within"`       // … but no longer than this (default: 5 ms)
	Queue     Queue         `json:"queue,omitzero" yaml:"queue"`         // before the rate; without one there is no queue
	Seed      uint64        `json:"seed,omitzero" yaml:"seed"`           // of the random choices; 0: another one each time
}

// Queue is where packets wait for a link that is slower than they come. Without limits it holds what the link sends
// in 100 ms, and ten full packets at least.
type Queue struct {
	Packets    int        `json:"packets,omitzero" yaml:"packets"`       // 0: no limit of packets
	Bytes      int        `json:"bytes,omitzero" yaml:"bytes"`           // 0: no limit of bytes
	Discipline Discipline `json:"discipline,omitzero" yaml:"discipline"` // default: drop-tail
}

// Discipline is what a queue drops.
type Discipline string

const (
	DropTail Discipline = "drop-tail" // what comes when it is full
	CoDel    Discipline = "codel"     // also, ever more, of what has waited for 5 ms throughout 100 ms (RFC 8289)
)

// Rate is bits a second of whole Ethernet frames, as tc counts them: without preamble, frame check sequence and gap.
// As text it is a number with one of the units of tc(8): bit, kbit, mbit, gbit.
type Rate int64

// Share is a share of all packets, 0 to 1. As text it is a number ("0.01") or a percentage ("1%").
type Share float64

var (
	_ encoding.TextUnmarshaler = (*Rate)(nil)
	_ encoding.TextUnmarshaler = (*Share)(nil)
)

var units = []struct {
	name string
	bits float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// UnmarshalText reads what String writes.
func (r *Rate) UnmarshalText(text []byte) error {
	s := strings.ToLower(strings.TrimSpace(string(text)))
	for _, u := range units {
		number, is := strings.CutSuffix(s, u.name)
		if !is {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(f >= 0) || f*u.bits > float64(maxRate) {
			break
		}
		*r = Rate(math.Round(f * u.bits))
		return nil
	}
	return fmt.Errorf("rate %q: want a number and one of bit, kbit, mbit, gbit, up to 100gbit", text)
}

// MarshalText writes the rate as String does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String writes the rate in the largest unit that is not more than it.
func (r Rate) String() string {
	for _, u := range units {
		if float64(r) >= u.bits {
			return strconv.FormatFloat(float64(r)/u.bits, 'f', -1, 64) + u.name
		}
	}
	return "0bit"
}

// UnmarshalText reads a number or a percentage.
func (s *Share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("share %q: want a number from 0 to 1 or a percentage", text)
	}
	*s = Share(f)
	return nil
}

// MarshalText writes the share as String does.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String writes the share as a percentage.
func (s Share) String() string { return strconv.FormatFloat(float64(s)*100, 'g', 12, 64) + "%" }

// Bounds of a shape. A rate below the least would hold one packet for longer than the longest delay.
const (
	minRate  Rate = 1000
	maxRate  Rate = 100_000_000_000
	maxDelay      = time.Minute
)

// Validate returns all that is impossible in a shape.
func (s Shape) Validate() error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(s.Rate != 0 && (s.Rate < minRate || s.Rate > maxRate), "rate %v: want %v to %v, or 0 for no limit", s.Rate, minRate, maxRate)
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"delay", s.Delay}, {"jitter", s.Jitter}, {"within", s.Within}} {
		wrong(d.value < 0 || d.value > maxDelay, "%s %v: want 0 to %v", d.name, d.value, maxDelay)
	}
	wrong(s.Jitter > s.Delay, "jitter %v: more than the delay, %v", s.Jitter, s.Delay)
	for _, p := range []struct {
		name  string
		value Share
	}{{"loss", s.Loss}, {"duplicate", s.Duplicate}, {"corrupt", s.Corrupt}, {"reorder", s.Reorder}} {
		wrong(!(p.value >= 0 && p.value <= 1), "%s %v: want 0%% to 100%%", p.name, p.value)
	}
	wrong(!(s.Burst >= 0 && s.Burst <= 1e6), "burst %v: want 0 to 1,000,000 packets", s.Burst)
	wrong(s.Burst > 1 && s.Loss > 0 && float64(s.Loss) > s.Burst/(s.Burst+1),
		"loss %v in bursts of %v packets: not possible with even one packet between bursts", s.Loss, s.Burst)
	wrong(s.Behind < 0, "behind %d: want 0 or more packets", s.Behind)
	wrong(s.Queue.Packets < 0, "queue: packets %d: want 0 or more", s.Queue.Packets)
	wrong(s.Queue.Bytes < 0, "queue: bytes %d: want 0 or more", s.Queue.Bytes)
	switch s.Queue.Discipline {
	case "", DropTail, CoDel:
	default:
		wrong(true, "queue: discipline %q: want %s or %s", s.Queue.Discipline, DropTail, CoDel)
	}
	wrong(s.Queue != (Queue{}) && s.Rate == 0, "queue: without a rate nothing ever waits")
	return errors.Join(errs...)
}

// complete fills in the defaults.
func (s Shape) complete() Shape {
	if s.Behind == 0 {
		s.Behind = 3
	}
	if s.Within == 0 {
		s.Within = 5 * time.Millisecond
	}
	if s.Rate > 0 && s.Queue.Packets == 0 && s.Queue.Bytes == 0 {
		s.Queue.Bytes = max(int(s.Rate/8/10), 10*1514)
	}
	return s
}
