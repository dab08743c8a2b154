package resume

import (
	"slices"

	"baton/resume/width"
)

// Bounds of a piece, the part that one connection requests at a time.
const (
	leastPiece = 32 << 10
	block      = 64 << 10
)

// lives is how many connection lives a new piece is for: it takes that many requests, and each piece but the first costs a connection an
// idle round trip.
const lives = 4

// piece is bytes [first, end) of the file.
type piece struct {
	first, end int64
	got        int64    // received bytes from first on
	blocks     [][]byte // the unread ones of them; the last block may still grow
	taken      bool     // by a lane, or complete
	rate       float64  // bytes per second of its lane, as far as known
}

// missing returns the first missing byte.
func (p *piece) missing() int64 { return p.first + p.got }

func (p *piece) whole() bool { return p.missing() >= p.end }

func (p *piece) add(b []byte) {
	p.got += int64(len(b))
	for len(b) > 0 {
		last := len(p.blocks) - 1
		if last < 0 || len(p.blocks[last]) == cap(p.blocks[last]) {
			p.blocks = append(p.blocks, make([]byte, 0, block))
			last++
		}
		n := min(len(b), cap(p.blocks[last])-len(p.blocks[last]))
		p.blocks[last] = append(p.blocks[last], b[:n]...)
		b = b[n:]
	}
}

func (p *piece) read(b []byte) int {
	if len(p.blocks) == 0 {
		return 0
	}
	n := copy(b, p.blocks[0])
	if p.blocks[0] = p.blocks[0][n:]; len(p.blocks[0]) == 0 {
		p.blocks = p.blocks[1:]
	}
	return n
}

// pieces are the missing parts of a file, in order: the first one contains the next byte to read.
type pieces struct {
	all    []*piece
	at     int64 // next byte to read
	next   int64 // first byte outside of all pieces
	end    int64
	window int64 // bytes from at on that may be held or requested
}

// demand describes a lane that needs work.
type demand struct {
	path  *width.Path
	lanes int     // desired number of lanes
	rate  float64 // bytes per second of this one so far
	split bool    // the cost of splitting a piece is acceptable
}

// fair returns each lane's equal share of the path.
func (d *demand) fair() float64 { return max(1, d.path.Rate/float64(d.lanes)) }

// flight returns how much a lane has in flight.
func (d *demand) flight() int64 { return int64(d.fair() * d.path.Trip.Seconds()) }

// choose returns a hole, the first one first, or a new piece, or a part of another lane's piece; nil: none. wait means to try again after a
// change: as long as others are still busy there may be a hole for a connection that is already fast.
func (q *pieces) choose(d *demand) (p *piece, wait bool) {
	for i, p := range q.all {
		if !p.taken {
			p.taken = true
			if d.path.Breaks > 0 { // before the first break one lane gets everything
				q.chop(i, q.size(d))
			}
			return p, false
		}
	}
	if q.next < q.end && d.lanes < 2 {
		return nil, false
	}
	ahead := q.at + q.window - q.next
	if q.next < q.end && ahead >= leastPiece {
		size := min(q.size(d), ahead)
		if q.end-q.next-size < leastPiece && q.end-q.next <= ahead {
			size = q.end - q.next
		}
		size = min(size, q.end-q.next)
		p := &piece{first: q.next, end: q.next + size, taken: true}
		q.next = p.end
		q.all = append(q.all, p)
		return p, false
	}
	if d.split {
		p = q.split(d)
	}
	return p, q.next < q.end || q.incomplete() > 0
}

// size returns the size of a lane's next piece. Towards the end all lanes get the same amount of work.
func (q *pieces) size(d *demand) int64 {
	left := q.end - q.next
	for _, p := range q.all {
		left += p.end - p.missing()
	}
	n := max(leastPiece, 2*d.flight(), min(lives*d.path.Expected(), left/int64(d.lanes)))
	return max(leastPiece, min(n, q.window*3/4/int64(d.lanes)))
}

// chop leaves this much of a large hole, and turns the rest into another one.
func (q *pieces) chop(i int, size int64) {
	p := q.all[i]
	if p.end-p.missing() < 2*size {
		return
	}
	rest := &piece{first: p.missing() + size, end: p.end}
	p.end = rest.first
	q.all = slices.Insert(q.all, i+1, rest)
}

// split cuts the piece that takes longest so that both lanes finish at the same time, if the gain exceeds the cost: data in flight beyond
// the piece's new end is discarded, and the other lane's connection cannot be reused.
func (q *pieces) split(d *demand) *piece {
	best, gain, size := -1, 0.0, int64(0)
	trip, mine := d.path.Trip.Seconds(), max(d.rate, d.fair()/2)
	for i, p := range q.all {
		its := max(p.rate, d.fair()/8)
		alone := float64(p.end-p.missing()) / its
		part := (alone - trip) * its * mine / (its + mine) // trip: until its first byte arrives
		sooner := alone - trip - part/mine
		if cost := trip * its / max(its, d.path.Rate); part >= leastPiece && sooner-cost > gain {
			best, gain, size = i, sooner-cost, int64(part)
		}
	}
	if best < 0 {
		return nil
	}
	p := q.all[best]
	rest := &piece{first: p.end - size, end: p.end, taken: true}
	p.end = rest.first
	q.all = slices.Insert(q.all, best+1, rest)
	return rest
}

// incomplete returns the number of pieces with missing bytes.
func (q *pieces) incomplete() int {
	n := 0
	for _, p := range q.all {
		if !p.whole() {
			n++
		}
	}
	return n
}

// early reports whether a piece is too far ahead to request its next byte; hole: no lane fetches what it waits for.
func (q *pieces) early(p *piece) (early, hole bool) {
	if p.missing() < q.at+q.window {
		return false, false
	}
	return true, !q.all[0].taken
}

// copy reads from the first piece.
func (q *pieces) copy(b []byte) int {
	for len(q.all) > 0 {
		p := q.all[0]
		if n := p.read(b); n > 0 {
			q.at += int64(n)
			return n
		}
		if q.at < p.end {
			return 0
		}
		q.all = q.all[1:]
	}
	return 0
}

// kept returns the number of unread bytes in memory.
func (q *pieces) kept() (n int64) {
	for _, p := range q.all {
		for _, b := range p.blocks {
			n += int64(len(b))
		}
	}
	return n
}
