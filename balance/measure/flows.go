package measure

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"
)

const (
	// Connections wait in a queue when their round trip is longer than its least by that much, and by that share of it: more than interrupts and
	// radio make, less than the queues of most routers.
	leastQueue = 4 * time.Millisecond
	queueShare = 0.2

	// several connections that carry much at once, of which that share has lost something, fill a link whose queue is not seen, too: one
	// that is managed (RFC 7567), or very short. That they are several is not enough: each may have a slow server.
	several   = 4
	lostShare = 0.25

	// muchShare of an equal share is what one of them carries at least, and muchBytes.
	muchShare = 0.25
	muchBytes = 1000

	// unread of what came tells that the application is slow, not the link.
	unread = 0.25
)

// seen is what a connection had when it was listed.
type seen struct {
	acked, received uint64
	data, repeats   uint32
	outOfOrder      uint32
	receiverLimited time.Duration
}

// carrier is a connection that has carried something since the last listing.
type carrier struct {
	bytes   uint64
	queued  bool
	lost    bool // something of it
	blocked bool // by an application or the other end's window, not the link
}

// shown is what flows show of a link.
type shown struct {
	up, down          carriers
	trips             []time.Duration // of connections that have carried something
	segments, repeats uint64

	// heard is when new data has come to a connection last; 0: none has. It has the sequence numbers of its server: what a link repeats is none, and who only forges does
	// not know them. Acknowledgments do not count, as many a modem acknowledges by itself what it could not send on yet (RFC 3135), and
	// handshakes neither, for the same reason; nor do datagrams, whose sender nobody checks.
	heard time.Duration
}

type carriers []carrier

// listing compares flows with what they were before. The first time there is nothing to compare with.
func (m *Measure) listing(s Sample) []shown {
	out := make([]shown, len(m.links))
	clear(m.spare)
	for i := range s.Flows {
		f := &s.Flows[i]
		if f.Link < 0 || f.Link >= len(m.links) {
			continue
		}
		now := seen{f.BytesAcked, f.BytesReceived, f.DataOut, f.Retransmitted, f.OutOfOrder, f.ReceiverLimited}
		before := m.flows[f.Cookie] // of one that is new: all of it is
		m.spare[f.Cookie] = now
		if m.listed {
			out[f.Link].add(&m.links[f.Link], s.At, s.At-m.at, f, before, now)
		}
	}
	m.flows, m.spare = m.spare, m.flows
	return out
}

func (o *shown) add(l *link, at, since time.Duration, f *Flow, before, now seen) {
	acked, received := grown(before.acked, now.acked), grown(before.received, now.received)
	o.segments += uint64(now.data - min(now.data, before.data))
	o.repeats += uint64(now.repeats - min(now.repeats, before.repeats))
	if acked == 0 && received == 0 {
		return
	}
	if received > 0 {
		o.heard = max(o.heard, at-min(f.SinceReceived, since))
	}
	base := l.trips.base(at, f.Remote.Addr(), f.MinRTT)
	switch {
	case acked > 0 && f.RTT > 0:
		o.trips = append(o.trips, f.RTT)
	case f.ReceiveRTT > 0:
		o.trips = append(o.trips, f.ReceiveRTT)
	}
	if acked > 0 {
		o.up = append(o.up, carrier{
			bytes: acked, queued: queued(f.RTT, base), lost: now.repeats > before.repeats,
			blocked: f.ApplicationLimited || now.receiverLimited-before.receiverLimited > since/2,
		})
	}
	if received > 0 {
		rtt := f.ReceiveRTT
		if rtt == 0 {
			rtt = f.RTT
		}
		o.down = append(o.down, carrier{
			bytes: received, queued: queued(rtt, base), lost: now.outOfOrder > before.outOfOrder,
			blocked: float64(f.ReceiveQueue) > unread*float64(received),
		})
	}
}

// queued says whether a round trip is that of a packet which waited.
func queued(rtt, base time.Duration) bool {
	return base > 0 && rtt >= base+max(leastQueue, time.Duration(queueShare*float64(base)))
}

// evidence says whether the link was what limited its connections.
func (c carriers) evidence(l *link) evidence {
	var sum uint64
	for _, one := range c {
		sum += one.bytes
	}
	if sum == 0 { // who carries it is not known: UDP alone, or an unknown memory of flows
		return evidence{limited: l.others.queued(), flows: 1}
	}
	much := max(muchBytes, uint64(muchShare*float64(sum)/float64(len(c))))
	var waited uint64
	busy, waiting, lost := 0, 0, 0
	for _, one := range c {
		if one.blocked || one.bytes < much {
			continue
		}
		busy++
		if one.queued {
			waiting++
			waited += one.bytes
		}
		if one.lost {
			lost++
		}
	}
	switch {
	case waiting > 0 && waited >= sum/2:
		return evidence{limited: true, flows: waiting}
	case busy >= several && float64(lost) >= lostShare*float64(busy):
		return evidence{limited: true, flows: lost}
	}
	return evidence{}
}

const (
	leastWindow = 5 * time.Minute // as long as the kernel's own (net.ipv4.tcp_min_rtt_wlen)
	mostRemotes = 4096            // whose least round trips are kept for a link
	smoothing   = 8               // a new round trip counts one part in so many, as a connection's own (RFC 6298)
)

// least is the least of a window, as of two halves.
type least struct {
	begun            time.Duration // of the newer half
	newer, older     time.Duration
	latest, latestAt time.Duration
}

func (l *least) add(at, v time.Duration) {
	if l.newer == 0 || at-l.begun > leastWindow/2 {
		l.older, l.newer, l.begun = l.newer, v, at
	}
	l.newer, l.latest, l.latestAt = min(l.newer, v), v, at
}

func (l *least) floor() time.Duration {
	if l.older == 0 {
		return l.newer
	}
	return min(l.older, l.newer)
}

// queued says whether the latest is a round trip of a packet that waited. These are of many servers: they differ by more than a
// connection's own.
func (l *least) queued() bool {
	return l.newer > 0 && queued(l.latest, 2*l.floor())
}

// trips are round trips of a link's connections.
type trips struct {
	least
	smooth  time.Duration
	remotes map[netip.Addr]*least
	tidied  time.Duration // when the remotes that are not in use were forgotten
}

// add learns from the round trips of the connections of a listing: their median, as servers are at different distances.
func (t *trips) add(at time.Duration, of []time.Duration) {
	if len(of) == 0 {
		return
	}
	slices.Sort(of)
	median := of[len(of)/2]
	if t.smooth == 0 {
		t.smooth = median
	}
	t.smooth += (median - t.smooth) / smoothing
}

// base is the least round trip to a remote address: what a connection knows may be the round trip of a link that was full from its beginning.
func (t *trips) base(at time.Duration, to netip.Addr, own time.Duration) time.Duration {
	if own == 0 {
		return 0
	}
	t.least.add(at, own)
	known := t.remotes[to]
	if known == nil {
		t.tidy(at)
		if len(t.remotes) >= mostRemotes {
			return own
		}
		if t.remotes == nil {
			t.remotes = map[netip.Addr]*least{}
		}
		known = &least{}
		t.remotes[to] = known
	}
	known.add(at, own)
	return known.floor()
}

// tidy makes room for other remotes, now and then.
func (t *trips) tidy(at time.Duration) {
	if len(t.remotes) < mostRemotes || at-t.tidied < leastWindow/4 {
		return
	}
	t.tidied = at
	maps.DeleteFunc(t.remotes, func(_ netip.Addr, l *least) bool { return at-l.latestAt > leastWindow })
}

// loss are segments and those that were sent again, forgotten bit by bit.
type loss struct {
	at                time.Duration
	segments, repeats float64
}

const (
	lossHalved  = 20 * time.Second // of a minute before, an eighth is left
	fewSegments = 50               // with as many, half of what they show is believed
)

func (l *loss) add(at time.Duration, segments, repeats uint64) {
	if between := at - l.at; between > 0 {
		left := halved(between, lossHalved)
		l.segments, l.repeats, l.at = l.segments*left, l.repeats*left, at
	}
	l.segments += float64(segments)
	l.repeats += float64(repeats)
}

func (l *loss) share() float64 { return min(1, l.repeats/(l.segments+fewSegments)) }

// halved is what is left of one after a time.
func halved(after, half time.Duration) float64 { return math.Exp2(-after.Seconds() / half.Seconds()) }
