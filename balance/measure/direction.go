package measure

import "time"

const (
	// A rate is of a piece of time: that long at least, and until it has that many bytes, so that single packets do not matter on slow links.
	shortestPiece, longestPiece = 200 * time.Millisecond, time.Second
	pieceBytes                  = 100_000

	// A measure is of that many bytes, or of that long.
	measureBytes   = 100_000
	longestMeasure = 3 * time.Second

	// window is how long a rate counts, of the time in which the link was the limit: a link that is not in use stays as it was known.
	window = time.Minute

	// When the link is the limit, but carries less than that share of the estimate for that long, it has become slower. With one flow alone
	// that may as well be the flow's own path, beyond the link: it is believed later.
	slower      = 0.85
	slowerFor   = 3 * time.Second
	slowerAlone = 10 * time.Second

	// faster is by what a lower bound is above the estimate when it is believed: less is noise.
	faster = 1.1

	// idle is a piece with less than that share of the mean: the link waited for flows.
	idle = 0.25

	// suspended is between two samples of a host that slept, or had no time: what the link carried per second then is nobody's measure.
	suspended = 5 * time.Second
)

// direction is what is known of one direction of a link.
type direction struct {
	recent recent
	piece  span    // that is not complete
	last   float64 // rate of the piece before, bits per second

	interval span    // since flows were listed last
	lowest   float64 // of its pieces
	measure  span    // intervals in which the link was the limit, too short yet for a measure
	flows    int     // least that showed it in them

	limited time.Duration // for how long the link was the limit, ever
	peaks   []peak        // falling rates, rising times: the first is the estimate
	known   bool          // one of them ever was a measure
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

// low are measures below the estimate, one after the other.
type low struct {
	begun bool // the first is not counted: the link may have changed within it
	long  time.Duration
	best  float64
	alone bool // they were of one flow
}

// evidence is what flows show of a direction, since they were listed last.
type evidence struct {
	limited bool // the link was the limit
	flows   int  // that show it
}

func (d *direction) begin(at time.Duration) {
	d.restart(at)
	d.recent = recent{}
}

// restart begins spans anew.
func (d *direction) restart(at time.Duration) {
	none := span{from: at, until: at}
	d.piece, d.interval, d.measure = none, none, none
	d.last, d.lowest = 0, -1
}

// carried notes what the direction has carried since the last time.
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
	d.bound(min(rate, d.last)) // one alone may be a burst of what had waited before
	d.last = rate
	d.piece = span{from: at, until: at}
}

// judge learns what flows have shown of the time since the last judgement.
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

// measured notes a rate that the link was the limit of.
func (d *direction) measured(rate float64, long time.Duration, flows int) {
	d.limited += long
	if !d.known && d.estimate() <= faster*rate {
		d.peaks = d.peaks[:0] // bounds are less exact
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

// bound notes a rate that the link has carried, whatever limited it.
func (d *direction) bound(rate float64) {
	if rate > 0 && (!d.known && rate > d.estimate() || rate > faster*d.estimate()) {
		d.push(rate)
		d.low = low{}
	}
}

// push puts a rate behind those that are higher, and takes away those that are too old.
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

// recent is what was carried in the last seconds.
type recent struct{ spans []span }

const (
	recently = 2 * time.Second       // of which rates are told
	brief    = 50 * time.Millisecond // spans that are shorter become one
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
