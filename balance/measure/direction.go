package measure

import "time"

const (
	// A rate is measured over a piece of at least this time and this many bytes, so that single packets do not matter on slow links.
	shortestPiece, longestPiece = 200 * time.Millisecond, time.Second
	pieceBytes                  = 100_000

	// A measurement needs this many bytes, or this much time.
	measureBytes   = 100_000
	longestMeasure = 3 * time.Second

	// window is how long a rate is valid, counting only time in which the link was the bottleneck: the estimate of an unused link does not
	// change.
	window = time.Minute

	// A link that is the bottleneck but carries less than this share of its estimate for this long has become slower. With a single flow,
	// the bottleneck may be on the flow's path beyond the link: then it takes longer.
	slower      = 0.85
	slowerFor   = 3 * time.Second
	slowerAlone = 10 * time.Second

	// faster is how far a lower bound must exceed the estimate to replace it: less is noise.
	faster = 1.1

	// idle is a piece below this share of the mean rate: the link was waiting for flows.
	idle = 0.25

	// suspended is the gap between samples after which the host was asleep or overloaded: such rates mean nothing.
	suspended = 5 * time.Second
)

// direction is the state of one direction of a link.
type direction struct {
	recent recent
	piece  span    // incomplete
	last   float64 // rate of the previous piece, bits per second

	interval span    // since the last listing of flows
	lowest   float64 // lowest rate of its pieces
	measure  span    // intervals with the link as bottleneck, too short yet for a measurement
	flows    int     // least number of flows that showed it

	limited time.Duration // total time with the link as bottleneck
	peaks   []peak        // decreasing rates at increasing times: the first is the estimate
	known   bool          // at least one was a measurement
	low     low
}

// span is bytes in a time.
type span struct {
	from, until time.Duration
	bytes       uint64
}

func (s *span) length() time.Duration { return s.until - s.from }

func (s *span) rate() float64 {
	if s.length() <= 0 {
		return 0
	}
	return float64(s.bytes) * 8 / s.length().Seconds()
}

// peak is a rate at a time of direction.limited.
type peak struct {
	at   time.Duration
	rate float64
}

// low collects consecutive measurements below the estimate.
type low struct {
	begun bool // the first does not count: the link may have changed during it
	long  time.Duration
	best  float64
	alone bool // some were of a single flow
}

// evidence is what flows show about a direction since the last listing.
type evidence struct {
	limited bool // the link was the bottleneck
	flows   int  // number of flows that show it
}

func (d *direction) begin(at time.Duration) {
	d.restart(at)
	d.recent = recent{}
}

// restart starts new spans.
func (d *direction) restart(at time.Duration) {
	none := span{from: at, until: at}
	d.piece, d.interval, d.measure = none, none, none
	d.last, d.lowest = 0, -1
}

// carried adds bytes since the last call.
func (d *direction) carried(at time.Duration, bytes uint64) {
	switch between := at - d.piece.until; {
	case between <= 0 || between > suspended:
		d.begin(at)
		return
	default:
		d.recent.add(span{d.piece.until, at, bytes})
	}
	d.piece.until, d.interval.until = at, at
	d.piece.bytes += bytes
	d.interval.bytes += bytes
	long := d.piece.length()
	if long < shortestPiece || long < longestPiece && d.piece.bytes < pieceBytes {
		return
	}
	rate := d.piece.rate()
	if d.lowest < 0 || rate < d.lowest {
		d.lowest = rate
	}
	d.bound(min(rate, d.last)) // a single one may be a burst after a delay
	d.last = rate
	d.piece = span{from: at, until: at}
}

// judge evaluates the flows since the last call.
func (d *direction) judge(at time.Duration, e evidence) {
	i := d.interval
	lowest := d.lowest
	if d.piece.length() >= shortestPiece && (lowest < 0 || d.piece.rate() < lowest) {
		lowest = d.piece.rate()
	}
	if lowest < 0 {
		lowest = i.rate() // shorter than a piece
	}
	d.interval, d.lowest = span{from: i.until, until: i.until}, -1
	if !e.limited || i.bytes == 0 || lowest < idle*i.rate() {
		d.measure = span{from: i.until, until: i.until}
		return
	}
	if d.measure.bytes == 0 || e.flows < d.flows {
		d.flows = e.flows
	}
	d.measure.until, d.measure.bytes = i.until, d.measure.bytes+i.bytes
	if d.measure.bytes < measureBytes && d.measure.length() < longestMeasure {
		return
	}
	d.measured(d.measure.rate(), d.measure.length(), d.flows)
	d.measure = span{from: i.until, until: i.until}
}

// measured adds a rate with the link as bottleneck.
func (d *direction) measured(rate float64, long time.Duration, flows int) {
	d.limited += long
	if !d.known && d.estimate() <= faster*rate {
		d.peaks = d.peaks[:0] // bounds are less precise
	}
	d.known = true
	if rate >= slower*d.estimate() {
		d.low = low{}
		d.push(rate)
		return
	}
	d.push(rate)
	if !d.low.begun {
		d.low.begun = true
		return
	}
	d.low.long += long
	d.low.best = max(d.low.best, rate)
	d.low.alone = d.low.alone || flows < 2
	if d.low.long >= slowerFor && !d.low.alone || d.low.long >= slowerAlone {
		d.peaks = append(d.peaks[:0], peak{d.limited, d.low.best})
		d.low = low{}
	}
}

// bound adds a rate that the link has carried, whatever the bottleneck.
func (d *direction) bound(rate float64) {
	if rate > 0 && (!d.known && rate > d.estimate() || rate > faster*d.estimate()) {
		d.push(rate)
		d.low = low{}
	}
}

// push adds a rate after the higher ones, and removes lower and outdated ones.
func (d *direction) push(rate float64) {
	for len(d.peaks) > 0 && d.peaks[len(d.peaks)-1].rate <= rate {
		d.peaks = d.peaks[:len(d.peaks)-1]
	}
	d.peaks = append(d.peaks, peak{d.limited, rate})
	for len(d.peaks) > 1 && d.peaks[0].at < d.limited-window {
		d.peaks = d.peaks[1:]
	}
}

func (d *direction) estimate() float64 {
	if len(d.peaks) == 0 {
		return 0
	}
	return d.peaks[0].rate
}

func (d *direction) capacity() Capacity {
	rate := d.estimate()
	return Capacity{Rate: rate, Bound: rate > 0 && !d.known}
}

// recent is the traffic of the last seconds.
type recent struct{ spans []span }

const (
	recently = 2 * time.Second       // window of the reported rates
	brief    = 50 * time.Millisecond // shorter spans are merged
)

func (r *recent) add(s span) {
	if n := len(r.spans); n > 0 && r.spans[n-1].length() < brief {
		r.spans[n-1].until = s.until
		r.spans[n-1].bytes += s.bytes
	} else {
		r.spans = append(r.spans, s)
	}
	first := 0
	for s.until-r.spans[first].until >= recently {
		first++
	}
	r.spans = append(r.spans[:0], r.spans[first:]...)
}

func (r *recent) rate() float64 {
	if len(r.spans) == 0 {
		return 0
	}
	all := span{from: r.spans[0].from, until: r.spans[len(r.spans)-1].until}
	for _, s := range r.spans {
		all.bytes += s.bytes
	}
	return all.rate()
}
