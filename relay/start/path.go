package start

import (
	"math"
	"time"
)

// path is the state of the path to a peer.
type path struct {
	rate    float64       // bytes per second
	full    bool          // the rate was limited by the path; otherwise it is a lower bound
	rtt     time.Duration // minimum of the current rttLife, 0: none
	before  time.Duration // minimum of the previous rttLife, 0: none
	rotated time.Time
	mss     int
}

// observe takes the rate and RTT of a sample that has an RTT.
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
		p.rate += (rate - p.rate) / 2 // compressed acknowledgements look like a fast path
	case !s.AppLimited:
		p.rate += (rate - p.rate) / 8 // cross traffic may have had its share
	}
	p.full = p.full || !s.AppLimited
}

// least is the RTT without queues, 0 if unknown.
func (p *path) least() time.Duration {
	if p.before > 0 && (p.rtt == 0 || p.before < p.rtt) {
		return p.before
	}
	return p.rtt
}

// product returns the bandwidth-delay product in segments, and whether it is exact rather than a lower bound; 0 if unknown.
func (p *path) product() (segments int, full bool) {
	if p.rate == 0 {
		return 0, false
	}
	return int(math.Min(p.rate*p.least().Seconds()/float64(p.mss), math.MaxInt32)), p.full
}

// changed reports whether an RTT belongs to another path: at most half or at least ten times the known one (RFC 9959, sections 3.2 and
// 4.2.1). Differences of some milliseconds are noise of busy machines.
func (p *path) changed(rtt time.Duration) bool {
	const noise = 5 * time.Millisecond
	least := p.least()
	return least > 0 && (rtt <= least/2 && least-rtt > noise || rtt/10 >= least && rtt-least > noise)
}

// settling is the time during which losses are attributed to a window that was halved already.
func (p *path) settling() time.Duration { return max(2*p.least(), 50*time.Millisecond) }
