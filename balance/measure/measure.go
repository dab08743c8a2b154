// Package measure says what the links of a host can carry and how far they are, from what the host's own traffic shows: counters of the
// links' bytes, and the measures that the kernel keeps of each TCP connection (struct tcp_info). Nothing is sent for it. It is pure: samples
// come with their time, see [Measure]; [Reader] makes them.
//
// The capacity of a direction is estimated as BBR estimates a path's bandwidth (Cardwell et al., ACM Queue 14(5), 2016): the highest rate
// of a window of time. A rate shows the capacity only where the link was what limited the flows, and is else a lower bound. That it was is
// seen by queues (connections' round trips are longer than they can be) or by losses of several flows that carry much at once, while the
// link was never idle. So a link that has become slower can be told from one that is used less.
package measure

import (
	"time"

	"baton/sockdiag"
)

// Sample is what was seen at one moment. Counters are worth taking five times a second, flows about once.
type Sample struct {
	At     time.Duration // on a clock that only goes forward, as CLOCK_MONOTONIC
	Links  []Counters    // by their place in the configuration
	Listed bool          // Flows are all that there were; else they were not looked at
	Flows  []Flow
}

// Counters are what a link has carried.
type Counters struct {
	Sent, Received   uint64        // bytes ever; less than before: they have begun at 0 again
	SYNs, SYNRepeats uint64        // TCP connections that were begun, and SYNs that had to be sent again for that
	RTT              time.Duration // as it is now by other measures, handshakes or probes; 0: not known
}

// Flow is a TCP connection and its link's place.
type Flow struct {
	Link int
	sockdiag.TCP
}

// Figures are what is known of a link.
type Figures struct {
	RTT, MinRTT            time.Duration // of its connections, smoothed, and the least of the last minutes; 0: not known
	Loss                   float64       // share of segments that had to be sent again, of the last minute
	SentRate, ReceivedRate float64       // bits per second, of the last two seconds
	Up, Down               Capacity
	Heard                  time.Duration // when new data has come by the link last, by the clock of Sample.At; 0: never
}

// Capacity is how much a direction of a link can carry.
type Capacity struct {
	Rate  float64 // bits per second; 0: nothing is known
	Bound bool    // it is that much at least: the link has never been seen to be the limit
}

// Known says whether Rate is an estimate.
func (c Capacity) Known() bool { return c.Rate > 0 && !c.Bound }

// Measure keeps what is known of links. It is for one goroutine at a time.
type Measure struct {
	links  []link
	last   time.Duration // time of the sample before
	listed bool          // flows have been listed before
	at     time.Duration // when they were
	flows  map[uint64]seen
	spare  map[uint64]seen // the memory of the listing before, to be used again
}

// link is what is known of one.
type link struct {
	begun    bool
	counters Counters
	up, down direction
	others   least // RTTs of other measures
	trips    trips
	loss     loss
	heard    time.Duration
}

// New makes a Measure of that many links, of which nothing is known.
func New(links int) *Measure {
	return &Measure{links: make([]link, links), flows: map[uint64]seen{}, spare: map[uint64]seen{}}
}

// Forget forgets a link: it leads elsewhere now.
func (m *Measure) Forget(place int) { m.links[place] = link{} }

// Take takes over what another Measure knows of a link, whose place there was another: the configuration has changed. Both must not go on
// with it.
func (m *Measure) Take(place int, from *Measure, old int) { m.links[place] = from.links[old] }

// Figures are by the links' places.
func (m *Measure) Figures() []Figures {
	out := make([]Figures, len(m.links))
	for i := range m.links {
		l := &m.links[i]
		out[i] = Figures{
			RTT: l.trips.smooth, MinRTT: l.trips.floor(), Loss: l.loss.share(),
			SentRate: l.up.recent.rate(), ReceivedRate: l.down.recent.rate(),
			Up: l.up.capacity(), Down: l.down.capacity(), Heard: l.heard,
		}
	}
	return out
}

// Add learns from a sample. One that is not later than the one before is passed over.
func (m *Measure) Add(s Sample) {
	if s.At <= m.last {
		return
	}
	m.last = s.At
	for i := range min(len(m.links), len(s.Links)) {
		m.links[i].count(s.At, s.Links[i])
	}
	if !s.Listed {
		return
	}
	shown := m.listing(s)
	for i := range m.links {
		l := &m.links[i]
		if m.listed {
			l.up.judge(s.At, shown[i].up.evidence(l))
			l.down.judge(s.At, shown[i].down.evidence(l))
			l.trips.add(s.At, shown[i].trips)
			l.loss.add(s.At, shown[i].segments, shown[i].repeats)
			l.heard = max(l.heard, shown[i].heard)
		} else {
			l.up.judge(s.At, evidence{})
			l.down.judge(s.At, evidence{})
		}
	}
	m.listed, m.at = true, s.At
}

// count learns from counters.
func (l *link) count(at time.Duration, c Counters) {
	if !l.begun {
		l.begun, l.counters = true, c
		l.up.begin(at)
		l.down.begin(at)
		return
	}
	before := l.counters
	l.counters = c
	l.up.carried(at, grown(before.Sent, c.Sent))
	l.down.carried(at, grown(before.Received, c.Received))
	l.loss.add(at, grown(before.SYNs, c.SYNs), grown(before.SYNRepeats, c.SYNRepeats))
	if l.others.latest = 0; c.RTT > 0 {
		l.others.add(at, c.RTT)
	}
}

// grown is by how much a counter has. One that is less than before tells nothing of the time between.
func grown(before, now uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}
