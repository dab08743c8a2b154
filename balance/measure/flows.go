package measure

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"
)

const (
	// A connection's packets are queued if its round trip exceeds the least one by this time and by this share: more than interrupts and
	// radio cause, less than most routers' queues.
	leastQueue = 4 * time.Millisecond
	queueShare = 0.2

	// several busy connections, of which at least this share have losses, fill a link even if no queue is visible: active queue management
	// (RFC 7567), or a very short queue. Several alone are not enough: each may have a slow server.
	several   = 4
	lostShare = 0.25

	// Each of them carries at least muchShare of an equal share, and muchBytes.
	muchShare = 0.25
	muchBytes = 1000

	// If more than this share of the received data is unread, the application is slow, not the link.
	unread = 0.25
)

// seen is a connection's state at the last listing.
type seen struct {
	acked, received uint64
	data, repeats   uint32
	outOfOrder      uint32
	receiverLimited time.Duration
}

// carrier is a connection with traffic since the last listing.
type carrier struct {
	bytes   uint64
	queued  bool
	lost    bool // some of it
	blocked bool // by an application or the peer's window, not the link
}

// shown is what flows show about a link.
type shown struct {
	up, down          carriers
	trips             []time.Duration // of connections with traffic
	segments, repeats uint64

	// heard is when a connection last received new data; 0: never. Its server must know the sequence numbers: repetitions by the link do
	// not count, and forgers cannot guess them. Acknowledgments and handshakes do not count, because many modems send them before they can
	// forward data (RFC 3135); nor do datagrams, whose sender nobody checks.
	heard time.Duration
}

type carriers []carrier

// listing compares flows with the previous listing. The first time there is nothing to compare.
func (m *Measure) listing(s Sample) []shown {
	out := make([]shown, len(m.links))
	clear(m.spare)
	for i := range s.Flows {
		f := &s.Flows[i]
		if f.Link < 0 || f.Link >= len(m.links) {
			continue
		}
		now := seen{f.BytesAcked, f.BytesReceived, f.DataOut, f.Retransmitted, f.OutOfOrder, f.ReceiverLimited}
		before := m.flows[f.Cookie] // zero for a new one
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

// queued reports whether a round trip includes queueing.
func queued(rtt, base time.Duration) bool {
	return base > 0 && rtt >= base+max(leastQueue, time.Duration(queueShare*float64(base)))
}

// evidence reports whether the link limited its connections.
func (c carriers) evidence(l *link) evidence {
	var sum uint64
	for _, one := range c {
		sum += one.bytes
	}
	if sum == 0 { // carried by unknown flows: only UDP, or an unknown binding table
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
	leastWindow = 5 * time.Minute // as in the kernel (net.ipv4.tcp_min_rtt_wlen)
	mostRemotes = 4096            // remote addresses with a least round trip, for a link
	smoothing   = 8               // weight of a new round trip is one in so many, as within a connection (RFC 6298)
)

// least is the minimum over a window of two halves.
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

// queued reports whether the latest round trip includes queueing. These are of many servers, and differ more than those of one connection.
func (l *least) queued() bool {
	return l.newer > 0 && queued(l.latest, 2*l.floor())
}

// trips are the round trips of a link's connections.
type trips struct {
	least
	smooth  time.Duration
	remotes map[netip.Addr]*least
	tidied  time.Duration // when unused remotes were last dropped
}

// add adds the round trips of a listing by their median, because servers are at different distances.
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

// base returns the least round trip to a remote address: a connection's own minimum may be from a link that was full from the start.
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

// tidy drops unused remotes from time to time.
func (t *trips) tidy(at time.Duration) {
	if len(t.remotes) < mostRemotes || at-t.tidied < leastWindow/4 {
		return
	}
	t.tidied = at
	maps.DeleteFunc(t.remotes, func(_ netip.Addr, l *least) bool { return at-l.latestAt > leastWindow })
}

// loss counts segments and retransmissions, with exponential decay.
type loss struct {
	at                time.Duration
	segments, repeats float64
}

const (
	lossHalved  = 20 * time.Second // an eighth remains after a minute
	fewSegments = 50               // with this many, half of the observed share is believed
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

// halved returns the remaining share after a time.
func halved(after, half time.Duration) float64 { return math.Exp2(-after.Seconds() / half.Seconds()) }
