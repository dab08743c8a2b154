package emulator

import (
	"math/rand/v2"
	"time"
)

// line is one direction of a link. It is given every frame that comes and the time (nanoseconds of any clock that does
// not run backwards), and hands out what has arrived at the far end. A frame passes through
//
//	the queue ── at the rate ──▶ the wire (loss, corruption, repetition) ── after the delay ──▶ out, or held back
//
// and never overtakes another but by being held back.
type line struct {
	shape  Shape
	random *rand.Rand
	pool   *pool
	counts Counts
	down   bool

	queue      fifo[waiting]
	queued     int   // packets in queue
	queueBytes int   // of packets on the wire, in queue
	freeAt     int64 // when the last frame taken from the queue is sent
	codel      codel

	bad    bool // Gilbert's state: packets are lost
	wander wander

	flight      fifo[flying]
	flightBytes int
	lastDue     int64
	held        []heldFrame
}

type waiting struct {
	frame   []byte
	packets packets
	arrived int64
}

type flying struct {
	frame []byte
	count int // packets
	wire  int // bytes of them on the wire
	due   int64
	hold  bool
}

// heldFrame is one packet that later ones are to pass; due is when it goes whatever has passed.
type heldFrame struct {
	flying
	behind int
}

// Counts is what has happened to packets in one direction.
type Counts struct {
	Packets    int64         `json:"packets"` // that arrived, repetitions included
	Bytes      int64         `json:"bytes"`   // of them, whole frames
	Lost       int64         `json:"lost"`    // on the wire
	Dropped    int64         `json:"dropped"` // by the queue
	Duplicated int64         `json:"duplicated"`
	Corrupted  int64         `json:"corrupted"`
	Held       int64         `json:"held"`     // back, to be overtaken
	Cut        int64         `json:"cut"`      // came while the link was down
	Overrun    int64         `json:"overrun"`  // frames that the emulator or a host had to drop: results are void
	Late       int64         `json:"late"`     // delivered a millisecond or more after their time
	MaxLate    time.Duration `json:"max_late"` // longest delay after a packet's time
}

const (
	fullPacket = 1514

	// pieceTime is the most of a link's time that frames may take in one piece (nanoseconds): the finer the pieces, the
	// evener they arrive, and the more of them there are.
	pieceTime = int64(200 * time.Microsecond)

	// maxFlight bounds what is in flight in one direction (bytes): 10 Gbit/s for most of a second.
	maxFlight = 1 << 30

	lateness = int64(time.Millisecond)
)

func newLine(s Shape, p *pool) *line {
	l := &line{pool: p, random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	l.set(0, s)
	return l
}

// set changes the shape. What is in flight arrives as it would have; what waits is sent at the new rate.
func (l *line) set(now int64, s Shape) {
	l.advance(now)
	if s.Seed != 0 && s.Seed != l.shape.Seed {
		l.random = rand.New(rand.NewPCG(s.Seed, 0))
	}
	l.shape = s.complete()
	l.bad = false
	l.wander = wander{}
	l.advance(now)
}

// cut takes the link down, with all that is on it, or up again.
func (l *line) cut(now int64, down bool) {
	l.advance(now)
	l.down = down
	if !down {
		return
	}
	drop := func(frame []byte, packets int) {
		l.counts.Cut += int64(packets)
		l.pool.put(frame)
	}
	for l.queue.len() > 0 {
		w := l.queue.pop()
		drop(w.frame, w.packets.count)
	}
	for l.flight.len() > 0 {
		f := l.flight.pop()
		drop(f.frame, f.count)
	}
	for _, h := range l.held {
		drop(h.frame, h.count)
	}
	l.held = l.held[:0]
	l.queued, l.queueBytes, l.flightBytes, l.freeAt, l.lastDue = 0, 0, 0, 0, 0
}

// arrive takes a frame, which belongs to the line from then on.
func (l *line) arrive(now int64, frame []byte) {
	l.advance(now)
	p := divide(frame)
	switch {
	case l.down:
		l.counts.Cut += int64(p.count)
		l.pool.put(frame)
	case l.flightBytes+l.queueBytes > maxFlight:
		l.counts.Overrun++
		l.pool.put(frame)
	case l.shape.Rate == 0 && l.queue.len() == 0:
		l.launch(now, frame, p)
	default:
		l.enqueue(now, frame, p)
		l.advance(now)
	}
}

// enqueue puts a frame into the queue in pieces that do not keep the link busy for long, as far as the queue can take them.
func (l *line) enqueue(now int64, frame []byte, p packets) {
	piece := p.count
	if p.count > 1 && l.shape.Rate > 0 {
		each := l.sendTime(p.headers + p.size)
		piece = min(piece, max(int(pieceTime/max(each, 1)), 1))
		if l.shape.Queue.Discipline == CoDel {
			piece = 1 // CoDel judges packets
		}
	}
	fits := l.fits(frame, p)
	l.counts.Dropped += int64(p.count - fits)
	if fits == p.count && piece >= p.count {
		l.push(waiting{frame, p, now})
		return
	}
	for from := 0; from < fits; from += piece {
		part := l.copy(frame, p, from, min(from+piece, fits))
		l.push(waiting{part, divide(part), now})
	}
	l.pool.put(frame)
}

// fits returns how many of a frame's packets the queue can take.
func (l *line) fits(frame []byte, p packets) int {
	fits, q := p.count, l.shape.Queue
	if q.Packets > 0 {
		fits = min(fits, q.Packets-l.queued)
	}
	if wire := p.wire(frame); q.Bytes > 0 && l.queueBytes+wire > q.Bytes {
		left := q.Bytes - l.queueBytes
		if p.count == 1 || left < 0 {
			return 0
		}
		fits = min(fits, left/(p.headers+p.size))
	}
	return max(fits, 0)
}

func (l *line) push(w waiting) {
	l.queue.push(w)
	l.queued += w.packets.count
	l.queueBytes += w.packets.wire(w.frame)
}

// advance sends from the queue what the link had begun to send by now.
func (l *line) advance(now int64) {
	for l.queue.len() > 0 {
		head := l.queue.head()
		begin := max(l.freeAt, head.arrived)
		if begin > now {
			return
		}
		w := l.queue.pop()
		wire := w.packets.wire(w.frame)
		l.queued -= w.packets.count
		l.queueBytes -= wire
		if l.shape.Queue.Discipline == CoDel && l.codel.drop(begin, begin-w.arrived, l.queueBytes) {
			l.counts.Dropped += int64(w.packets.count)
			l.pool.put(w.frame)
			continue
		}
		l.freeAt = begin + l.sendTime(wire)
		l.launch(l.freeAt, w.frame, w.packets)
	}
}

// sendTime is how long the link takes to send so many bytes (nanoseconds).
func (l *line) sendTime(bytes int) int64 {
	if l.shape.Rate == 0 {
		return 0
	}
	return int64(bytes) * 8 * int64(time.Second) / int64(l.shape.Rate)
}

// launch puts a frame whose last bit is sent at that time on the wire.
func (l *line) launch(sent int64, frame []byte, p packets) {
	due := sent + int64(l.shape.Delay)
	if l.shape.Jitter > 0 {
		due += l.wander.at(sent, int64(l.shape.Jitter), l.random)
	}
	due = max(due, l.lastDue) // the delay may have been shortened
	l.lastDue = due
	if !l.shape.chancy() {
		l.fly(flying{frame, p.count, p.wire(frame), due, false})
		return
	}
	whole := 0 // first packet that is not yet in the air
	for i := range p.count {
		f := l.fate()
		if f == (fate{}) {
			continue
		}
		l.flyPart(frame, p, whole, i, due)
		whole = i + 1
		if !f.lost {
			l.flyChanged(frame, p, i, due, f)
		}
	}
	if whole == 0 {
		l.fly(flying{frame, p.count, p.wire(frame), due, false})
		return
	}
	l.flyPart(frame, p, whole, p.count, due)
	l.pool.put(frame)
}

func (l *line) fly(f flying) {
	l.flight.push(f)
	l.flightBytes += len(f.frame)
}

// flyPart puts a copy of some packets of a frame in the air.
func (l *line) flyPart(frame []byte, p packets, from, to int, due int64) {
	if from < to {
		part := l.copy(frame, p, from, to)
		wire := packets{count: to - from, headers: p.headers}.wire(part)
		l.fly(flying{part, to - from, wire, due, false})
	}
}

// copy makes a frame of some packets of a frame, which stays as it is.
func (l *line) copy(frame []byte, p packets, from, to int) []byte {
	if p.count == 1 {
		return append(l.pool.get(len(frame))[:0], frame...)
	}
	return p.cut(l.pool.get(p.length(from, to)), frame, from, to)
}

// flyChanged puts one packet that meets something other than loss in the air.
func (l *line) flyChanged(frame []byte, p packets, i int, due int64, f fate) {
	one := l.copy(frame, p, i, i+1)
	if f.corrupt && len(one) > vnetLen+ethernetLen {
		complete(one)
		body := one[vnetLen+ethernetLen:]
		bit := l.random.IntN(len(body) * 8)
		body[bit/8] ^= 1 << (bit % 8)
		l.counts.Corrupted++
	}
	if f.twice {
		l.fly(flying{append(l.pool.get(len(one))[:0], one...), 1, len(one) - vnetLen, due, false})
		l.counts.Duplicated++
	}
	l.fly(flying{one, 1, len(one) - vnetLen, due, f.held})
}

// fate is what happens to a packet on the wire.
type fate struct{ lost, corrupt, twice, held bool }

func (l *line) fate() (f fate) {
	s := &l.shape
	if l.loses() {
		l.counts.Lost++
		return fate{lost: true}
	}
	f.corrupt = s.Corrupt > 0 && l.random.Float64() < float64(s.Corrupt)
	f.twice = s.Duplicate > 0 && l.random.Float64() < float64(s.Duplicate)
	f.held = s.Reorder > 0 && l.random.Float64() < float64(s.Reorder)
	return f
}

// loses draws from Gilbert's model: two states, in one of which every packet is lost. 1/Burst ends a burst, and the
// chance that begins one is what makes Loss of all packets the lost ones.
func (l *line) loses() bool {
	loss := float64(l.shape.Loss)
	if loss == 0 {
		return false
	}
	if l.shape.Burst <= 1 {
		return l.random.Float64() < loss
	}
	end := 1 / l.shape.Burst
	if l.bad {
		l.bad = l.random.Float64() >= end
	} else {
		l.bad = l.random.Float64() < loss*end/(1-loss)
	}
	return l.bad
}

func (s *Shape) chancy() bool {
	return s.Loss > 0 || s.Corrupt > 0 || s.Duplicate > 0 || s.Reorder > 0
}

// next is when deliver has something to do, if nothing comes before.
func (l *line) next() (due int64, any bool) {
	earliest := func(t int64) {
		if !any || t < due {
			due, any = t, true
		}
	}
	if l.flight.len() > 0 {
		earliest(l.flight.head().due)
	}
	if l.queue.len() > 0 {
		// What is sent then is not there before the delay is over.
		earliest(max(l.freeAt, l.queue.head().arrived) + int64(l.shape.Delay-l.shape.Jitter))
	}
	for _, h := range l.held {
		earliest(h.due)
	}
	return due, any
}

// deliver hands out what has arrived by now, in order. The frames belong to send only while it runs.
func (l *line) deliver(now int64, send func(frame []byte)) {
	l.advance(now)
	for l.flight.len() > 0 && l.flight.head().due <= now {
		f := l.flight.pop()
		l.flightBytes -= len(f.frame)
		if f.hold {
			l.counts.Held++
			f.due = now + int64(l.shape.Within)
			l.held = append(l.held, heldFrame{f, l.shape.Behind})
			continue
		}
		if late := now - f.due; late > 0 {
			l.counts.MaxLate = max(l.counts.MaxLate, time.Duration(late))
			if late >= lateness {
				l.counts.Late += int64(f.count)
			}
		}
		l.hand(f, send)
		l.release(now, f.count, send)
	}
	l.release(now, 0, send)
}

// release hands out held packets that enough later ones have passed, or whose time has come.
func (l *line) release(now int64, passed int, send func([]byte)) {
	if len(l.held) == 0 {
		return
	}
	kept := l.held[:0]
	for _, h := range l.held {
		h.behind -= passed
		if h.behind <= 0 || h.due <= now {
			l.hand(h.flying, send)
		} else {
			kept = append(kept, h)
		}
	}
	l.held = kept
}

func (l *line) hand(f flying, send func([]byte)) {
	l.counts.Packets += int64(f.count)
	l.counts.Bytes += int64(f.wire)
	send(f.frame)
	l.pool.put(f.frame)
}

// wander is a delay that changes with time: straight lines between random points so far apart that the delay never
// falls faster than time passes. So packets keep their order at any rate, and their number does not change it.
type wander struct {
	index    int64 // of the line that the last packet was on; 0: none
	from, to float64
}

// at is the deviation at a time: within ± amplitude (nanoseconds).
func (w *wander) at(t, amplitude int64, random *rand.Rand) int64 {
	step := 2 * amplitude
	draw := func() float64 { return (2*random.Float64() - 1) * float64(amplitude) }
	index := t/step + 1
	switch {
	case w.index == 0 || index > w.index+1:
		w.from, w.to = draw(), draw()
	case index == w.index+1:
		w.from, w.to = w.to, draw()
	}
	w.index = max(w.index, index)
	return int64(w.from + (w.to-w.from)*float64(t%step)/float64(step))
}
