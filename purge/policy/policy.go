// Package policy defines when a connection is dormant: its client has moved away or vanished, and nobody acknowledges the server's
// retransmissions (Al-Qudah et al., WWW 2009, sections 3.1.2 and 4.2). It is pure; bpf/purge/policy.h is the same in the kernel.
package policy

import "time"

// Policy is when a connection is dormant.
type Policy struct {
	// MaxRetries is how many retransmission timeouts may expire before the one that counts: the paper's maximum retry count. With 0 the first
	// counts, with 1 the second, which expires three times the first timeout after that was set.
	MaxRetries int
	// Wait is how long the retransmission of that timeout may stay unanswered, in percent of the timeout, less Late. 0 is the paper's rule.
	Wait int
	// Floor is the minimum time without an answer, whatever the timeouts; Ceiling is the maximum, once a timeout has expired.
	Floor, Ceiling time.Duration
}

// Expiry is an expired retransmission timeout.
type Expiry struct {
	Count        int           // since the client last answered, this one included
	RTO          time.Duration // its length
	Unresponsive time.Duration // since the first of them was set
}

// In returns after what time the connection is dormant unless it answers. False: not before the next timeout expires, which is twice as
// long (RFC 6298, section 5.5).
func (p Policy) In(e Expiry) (time.Duration, bool) {
	early, late := max(p.Floor-e.Unresponsive, 0), max(p.Ceiling-e.Unresponsive, 0)
	if e.Count > p.MaxRetries {
		return min(max(p.wait(e.RTO), early), late), true
	}
	if 2*e.RTO < late {
		return 0, false
	}
	return late, true
}

// Late compensates for delays: for timeouts of up to two seconds the kernel's timers are up to 32 ms late (at 250 Hz), and the purge needs
// the rest. A timeout exceeds the round trip by 200 ms at least, so an answer still arrives in time.
const Late = 40 * time.Millisecond

// wait is in whole milliseconds, the kernel's unit.
func (p Policy) wait(rto time.Duration) time.Duration {
	return max(0, (rto*time.Duration(p.Wait)/100).Truncate(time.Millisecond)-Late)
}

// Lifetime is how long a connection lives that never gets an answer, if its first timeout, of this length, is set at once.
func (p Policy) Lifetime(rto time.Duration) time.Duration {
	e := Expiry{Count: 1, RTO: rto, Unresponsive: rto}
	for {
		if in, dormant := p.In(e); dormant {
			return e.Unresponsive + in
		}
		e.Count++
		e.RTO *= 2
		e.Unresponsive += e.RTO
	}
}
