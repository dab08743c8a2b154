package model

// Time is a timestamp (RFC 7323) plus one; zero is none. They are on a ring of eight, so that a liar soon gets around it.
type Time uint8

const (
	ring    = 8
	half    = ring / 2 // further ahead counts as the past (PAWS)
	quarter = ring / 4 // TS_AHEAD of bpf/session/timestamps.h
)

// at is the timestamp of a place on the ring.
func at(place uint8) Time { return Time(place%ring) + 1 }

func (t Time) place() uint8 { return uint8(t - 1) }

func (t Time) shown() int { return int(t) - 1 }

// ahead is the distance from u to t on the ring.
func (t Time) ahead(u Time) uint8 { return (t.place() - u.place()) % ring }

func (t Time) before(u Time) bool { return t.ahead(u) >= half }

func later(a, b Time) Time {
	if a.before(b) {
		return b
	}
	return a
}

// shift adds an offset to a timestamp, if there is one.
func (t Time) shift(by uint8) Time {
	if t == 0 {
		return 0
	}
	return at(t.place() + by)
}
