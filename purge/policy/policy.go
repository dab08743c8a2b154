// Package policy says when a connection is dormant: its client has moved away, or is gone, and what the server retransmits is answered by
// nobody here (Al-Qudah et al., WWW 2009, sections 3.1.2 and 4.2). It is pure; bpf/purge/policy.h says the same in the kernel.
package policy

import "time"

// Policy is when a connection is dormant.
type Policy struct {
	// MaxRetries is how many retransmission timeouts may run out before the one that counts: the paper's maximum retry count. With 0 the first
	// counts, with 1 the second, which ends three times the first after it was set.
	MaxRetries int
	// Wait is how long what that timeout has sent again may stay without an answer, in percent of its own length, less Late. 0 is the paper's.
	Wait int
	// Floor is how long a silence is at least, whatever timeouts say; Ceiling, how long at most, once a timeout has run out.
	Floor, Ceiling time.Duration
}

// Expiry is a retransmission timeout that has run out.
type Expiry struct {
	Count  int           // of those in this silence, this one included
	RTO    time.Duration // its length
	Silent time.Duration // since the silence began: since the first of them was set
}

// In tells in what time the connection is dormant unless it is heard of. False: not before the next timeout has run out, which is twice as
// long as the last one (RFC 6298, section 5.5).
func (p Policy) In(e Expiry) (time.Duration, bool) {
	early, late := max(p.Floor-e.Silent, 0), max(p.Ceiling-e.Silent, 0)
	if e.Count > p.MaxRetries {
		return min(max(p.wait(e.RTO), early), late), true
	}
	if 2*e.RTO < late {
		return 0, false
	}
	return late, true
}

// Late is by how much a connection would be ended too late: of a timeout of up to two seconds the kernel's timers are up to 32 ms late (at
// 250 Hz), and the purge takes the rest. A timeout is 200 ms longer than the round trip at least, so that an answer has time to come.
const Late = 40 * time.Millisecond

// wait is in whole milliseconds, as the kernel counts.
func (p Policy) wait(rto time.Duration) time.Duration {
	return max(0, (rto*time.Duration(p.Wait)/100).Truncate(time.Millisecond)-Late)
}

// Lifetime is how long a connection stays whose first timeout, of this length, is set at once and that nothing is heard of.
func (p Policy) Lifetime(rto time.Duration) time.Duration {
	e := Expiry{Count: 1, RTO: rto, Silent: rto}
	for {
		if in, dormant := p.In(e); dormant {
			return e.Silent + in
		}
		e.Count++
		e.RTO *= 2
		e.Silent += e.RTO
	}
}
