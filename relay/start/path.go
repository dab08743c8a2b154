package start

import (
	"math"
	"time"
)

// path is what is known of the way to a peer.
type path struct {
	rate    float64       // bytes per second
	full    bool          // the rate was measured by flows that had more to send; otherwise the path can do that much at least
	rtt     time.Duration // the least of rttLife until now, 0: none
	before  time.Duration // the least of the rttLife before that, 0: none
	rotated time.Time
	mss     int
}

// observe takes the rate and the RTT of a sample, which has an RTT.
func (p *path) observe(now time.Time, s Sample) {
	if p.rotated.IsZero() || now.Sub(p.rotated) > rttLife {
		p.before, p.rtt, p.rotated = p.rtt, 0, now
	}
	if p.rtt == 0 || s.MinRTT < p.rtt {
		p.rtt = s.MinRTT
	}
	if s.MSS <= 0 || s.DeliveryRate <= 0 {
		return
	}
	p.mss = s.MSS
	rate := float64(s.DeliveryRate)
	switch {
	case p.rate == 0 || s.AppLimited && !p.full && rate > p.rate || !s.AppLimited && !p.full:
		p.rate = rate
	case rate > p.rate:
		p.rate += (rate - p.rate) / 2 // acknowledgements that come in a heap look like a fast path
	case !s.AppLimited:
		p.rate += (rate - p.rate) / 8 // others may have had their share of it
	}
	p.full = p.full || !s.AppLimited
}

// least is the RTT without queues, 0 if it is not known.
func (p *path) least() time.Duration {
	if p.before > 0 && (p.rtt == 0 || p.before < p.rtt) {
		return p.before
	}
	return p.rtt
}

// product returns the segments that the path holds without a queue, and whether it holds no more; 0 if nothing is known.
func (p *path) product() (segments int, full bool) {
	if p.rate == 0 {
		return 0, false
	}
	return int(math.Min(p.rate*p.least().Seconds()/float64(p.mss), math.MaxInt32)), p.full
}

// changed says whether an RTT is one of another path: at most half or ten times of what it was (RFC 9959, sections 3.2 and 4.2.1).
// Below some milliseconds such differences are those of busy machines.
func (p *path) changed(rtt time.Duration) bool {
	const noise = 5 * time.Millisecond
	least := p.least()
	return least > 0 && (rtt <= least/2 && least-rtt > noise || rtt/10 >= least && rtt-least > noise)
}

// settling is the time in which losses of unknown flights are those of a window that was halved already.
func (p *path) settling() time.Duration { return max(2*p.least(), 50*time.Millisecond) }
