package resume

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"baton/resume/part"
	"baton/resume/retry"
	"baton/resume/width"
)

// errNarrow ends a wide part of a download: what is missing is for one connection again.
var errNarrow = errors.New("one connection is enough")

// Bounds of what one connection is asked for at a time.
const (
	leastPiece = 32 << 10
	block      = 64 << 10

	leastWindow = 24 << 10
)

// wide is a download over several connections at a time, each at another piece of the file. Its bytes come in order.
//
// A connection that breaks leaves the rest of its piece as a hole, which is the next thing that anybody is asked for: no byte comes
// twice. What is there ahead of a hole waits in memory, up to Options.Window.
type wide struct {
	s       *Stream
	ctx     context.Context
	stop    context.CancelFunc
	have    part.Have // of the stream, when it began; not changed
	mu      sync.Mutex
	changed chan struct{} // closed and made anew when something has changed
	pieces  []*piece      // in order, the first one holds the byte that is read next
	at      int64         // next byte to be read
	next    int64         // first byte that is in no piece
	end     int64
	lanes   []*lane // running
	most    int     // lanes, as far as the servers bear it
	hurt    bool    // a lane has ended because of what a server did
	ids     int
	last    *lane // that ran last
	fatal   *Error
	over    chan struct{} // closed when no lane is left
	running sync.WaitGroup
}

// piece is bytes [first, end) of the file.
type piece struct {
	first, end int64
	got        int64    // bytes from first on that have come
	blocks     [][]byte // of those, what has not been read; the last block may be filled further
	taken      bool     // by a lane, or whole
}

// widen begins a wide part if one is worth it.
func (s *Stream) widen() bool {
	h := &s.have
	if s.narrow || !s.ranges || h.Offset == h.From || h.End() < 0 || !h.Validator.Strong() || s.options.Lanes < 2 {
		return false
	}
	if h.End()-h.Offset < 4*leastPiece || s.ledger.path().Lanes(s.options.Lanes) < 2 {
		return false
	}
	w := &wide{s: s, have: *h, changed: make(chan struct{}), over: make(chan struct{}),
		at: h.Offset, next: h.Offset, end: h.End(), most: s.options.Lanes, ids: s.lane.id + 1}
	w.ctx, w.stop = context.WithCancel(s.ctx)
	w.have.Overlap = 0
	s.wide = w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(s.lane)
	w.running.Add(1)
	go w.grow()
	return true
}

// window is what a connection may have under way: all that live together a little more than the path was seen to hold. Slow starts that run
// beside each other would fill the queue on the way: new connections would take longer to begin, and what is lost behind a hole is lost
// with the connection.
func (w *wide) window() int {
	path := w.s.ledger.path()
	w.mu.Lock()
	lanes := len(w.lanes)
	w.mu.Unlock()
	if lanes < 2 || path.Life <= path.Start {
		return 0
	}
	living := float64(lanes) * float64(path.Life-path.Start) / float64(path.Life)
	return max(leastWindow, int(1.5*path.Rate*path.Trip.Seconds()/max(1, living)))
}

// add runs a lane. The lock is held.
func (w *wide) add(l *lane) {
	l.window = w.window
	w.lanes = append(w.lanes, l)
	w.running.Add(1)
	go w.run(l)
	count := len(w.lanes)
	life := w.s.ledger.path().Life
	w.s.ledger.add(func(a *Account) { a.Lanes = max(a.Lanes, count) })
	w.s.ledger.event(Width{Lanes: count, Life: life})
}

// grow adds lanes one after the other, so that they are at different points of their lives.
func (w *wide) grow() {
	defer w.running.Done()
	for {
		path := w.s.ledger.path()
		wanted := path.Lanes(w.s.options.Lanes)
		t := time.NewTimer(min(max(path.Life/time.Duration(wanted), 20*time.Millisecond), 3*time.Second))
		select {
		case <-t.C:
		case <-w.over:
			t.Stop()
			return
		}
		w.mu.Lock()
		if len(w.lanes) > 0 && len(w.lanes) < min(wanted, w.most) && (w.next < w.end || len(w.lanes) < w.missing()) {
			w.add(newLane(w.s.options.Base, w.ids))
			w.ids++
		}
		w.mu.Unlock()
	}
}

// missing is how many pieces have bytes that have not come. The lock is held.
func (w *wide) missing() int {
	n := 0
	for _, p := range w.pieces {
		if p.first+p.got < p.end {
			n++
		}
	}
	return n
}

// note wakes whoever waits for something to change. The lock is held.
func (w *wide) note() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// run gets one piece after the other until there is none left for it.
func (w *wide) run(l *lane) {
	defer w.running.Done()
	idle := 0 // tries in a row without bytes
	for {
		p := w.take(l)
		if p == nil {
			return
		}
		got, fault := w.fetch(l, p)
		w.mu.Lock()
		p.taken = p.first+p.got >= p.end // else it is a hole now
		if fault != nil && fault.Kind == Digest && w.fatal == nil {
			w.fatal = fault // some of it may have been read
		}
		w.note()
		w.mu.Unlock()
		if fault == nil {
			idle = 0
			continue
		}
		if got >= 1<<10 {
			idle = 0
		} else if idle++; idle > 1 || fault.stage() != retry.Body {
			w.leave(l, true)
			return
		}
		w.s.ledger.mu.Lock()
		d := w.s.schedule.Failed(time.Now(), retry.Failure{Stage: retry.Body, Source: w.s.at, Bytes: got})
		w.s.ledger.mu.Unlock()
		if d.GiveUp != "" || !pause(w.ctx, d.Wait) {
			w.leave(l, true)
			return
		}
	}
}

// leave ends a lane. hurt: it is not wanted any more by the servers, and neither is another in its place.
func (w *wide) leave(l *lane, hurt bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(l)
	if hurt {
		w.most = max(1, len(w.lanes))
		w.hurt = w.hurt || len(w.lanes) == 0
	}
	w.note()
}

func (w *wide) drop(l *lane) {
	for i, other := range w.lanes {
		if other == l {
			w.lanes = append(w.lanes[:i], w.lanes[i+1:]...)
			break
		}
	}
	if w.last != nil && w.last != l {
		w.last.close()
	}
	w.last = l
	if len(w.lanes) == 0 {
		close(w.over)
	}
	w.s.ledger.event(Width{Lanes: len(w.lanes), Life: w.s.ledger.path().Life})
}

// take finds a piece for a lane: a hole, the first one first, or a new one, or a part of what another lane is at. nil ends the lane.
func (w *wide) take(l *lane) *piece {
	for {
		path := w.s.ledger.path()
		w.mu.Lock()
		wanted := min(path.Lanes(w.s.options.Lanes), w.most)
		p, wait := w.choose(&path, wanted)
		if p == nil && !wait || w.ctx.Err() != nil || len(w.lanes) > max(wanted, min(2, w.most))+1 {
			if p != nil {
				p.taken = false
			}
			w.drop(l)
			w.note()
			w.mu.Unlock()
			return nil
		}
		changed := w.changed
		w.mu.Unlock()
		if p != nil {
			return p
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
		}
	}
}

// choose marks a piece as taken. wait is to try again when something has changed. The lock is held.
func (w *wide) choose(path *width.Path, wanted int) (p *piece, wait bool) {
	for _, p := range w.pieces {
		if !p.taken {
			p.taken = true
			return p, false
		}
	}
	if w.next < w.end && wanted < 2 {
		return nil, false
	}
	room := w.at + w.s.options.Window - w.next
	if w.next < w.end && room >= leastPiece {
		p := &piece{first: w.next, end: w.next + min(w.size(path.Expected(), wanted), room), taken: true}
		w.next = p.end
		w.pieces = append(w.pieces, p)
		return p, false
	}
	return w.split(int64(path.Rate * path.Trip.Seconds())), w.next < w.end
}

// split takes the second half of the piece that has most to come, if that is worth the connection that it costs: what it sends behind
// its new end is not taken. The lock is held.
func (w *wide) split(least int64) *piece {
	best, left := -1, max(least, 2*leastPiece)
	for i, p := range w.pieces {
		if n := p.end - p.first - p.got; n > left {
			best, left = i, n
		}
	}
	if best < 0 {
		return nil
	}
	p := w.pieces[best]
	half := &piece{first: p.end - left/2, end: p.end, taken: true}
	p.end = half.first
	w.pieces = slices.Insert(w.pieces, best+1, half)
	return half
}

// lives is how many lives of a connection a new piece is for: it is asked for in as many requests, and each piece but the first costs a
// connection a round trip in which nothing comes.
const lives = 4

// size of a new piece. Towards the end all have as much to do. The lock is held.
func (w *wide) size(expected int64, lanes int) int64 {
	left := w.end - w.next
	n := max(leastPiece, min(lives*expected, w.s.options.Window*3/4/int64(lanes), left/int64(lanes)))
	if left-n < leastPiece {
		return left
	}
	return n
}

// fetch gets what is missing of a piece, with one request.
func (w *wide) fetch(l *lane, p *piece) (got int64, fault *Error) {
	s := w.s
	h := w.have
	w.mu.Lock()
	h.Offset, h.Until = p.first+p.got, p.end
	lanes := len(w.lanes)
	w.mu.Unlock()
	s.ledger.add(func(a *Account) { a.Requests++ })
	t, fault := l.ask(w.ctx, s.options, s.sources[s.at], s.fields, &h)
	if fault != nil {
		return 0, w.failed(l, fault, h.Offset)
	}
	v := part.Judge(h, t.answer())
	if v.Action != part.Append || t.status != http.StatusPartialContent {
		fault := t.failed(refused(v, t.status))
		t.close()
		l.renew() // an answer with all of the file is on its way
		return 0, w.failed(l, fault, h.Offset)
	}
	c := newContent(t, v, nil)
	s.ledger.answered(t, s.event(t, v), lanes)
	fault = w.fill(c, p)
	s.ledger.ended(l.id, fault != nil && (fault.Kind == Receive || fault.Kind == Stalled), c.taken)
	s.ledger.add(func(a *Account) { a.Wasted += c.missed })
	short := c.left > 0
	c.close()
	if fault != nil {
		l.renew()
		s.ledger.event(Broke{Error: fault, Why: fault.Err.Error(), Kind: fault.Kind, Server: fault.Server, Lane: l.id, Bytes: c.taken, Offset: h.Offset + c.taken})
	} else if short {
		l.renew() // what is still on its way is of no use
	}
	return c.taken, fault
}

// fill takes the content of an answer into a piece, up to the piece's end, which may come nearer meanwhile.
func (w *wide) fill(c *content, p *piece) *Error {
	b := make([]byte, block)
	for {
		n, err := c.Read(b)
		w.s.ledger.came(c.try, w.s.name(c.try), int64(n))
		w.mu.Lock()
		if over := int64(n) - (p.end - p.first - p.got); over > 0 { // another lane is at those
			c.missed += over
			n -= int(over)
		}
		p.add(b[:n])
		full := p.first+p.got >= p.end
		w.note()
		w.mu.Unlock()
		switch {
		case full && (err == nil && c.left > 0 || errors.Is(err, io.EOF)):
			return nil
		case errors.Is(err, io.EOF) && c.taken < 1<<10:
			return c.failed(Receive, errShort)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return asError(err)
		}
	}
}

func (w *wide) failed(l *lane, fault *Error, offset int64) *Error {
	w.s.ledger.add(func(a *Account) { a.Failures++ })
	w.s.ledger.event(Broke{Error: fault, Why: fault.Err.Error(), Kind: fault.Kind, Server: fault.Server, Lane: l.id, Offset: offset})
	return fault
}

// read gives the next bytes, or waits for them. errNarrow is when no lane is left, and all that has come in order was read.
func (w *wide) read(p []byte) (int, error) {
	for {
		w.mu.Lock()
		if n := w.copy(p); n > 0 && w.fatal == nil {
			w.note() // there is room
			w.mu.Unlock()
			return n, nil
		}
		changed, lanes, fatal := w.changed, len(w.lanes), w.fatal
		w.mu.Unlock()
		if fatal != nil {
			return 0, fatal
		}
		if lanes == 0 {
			return 0, errNarrow
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
}

// copy reads from the first piece. The lock is held.
func (w *wide) copy(b []byte) int {
	for len(w.pieces) > 0 {
		p := w.pieces[0]
		if n := p.read(b); n > 0 {
			w.at += int64(n)
			return n
		}
		if w.at < p.end {
			return 0
		}
		w.pieces = w.pieces[1:]
	}
	return 0
}

// close ends all lanes and gives the one that ran last. What is there ahead of a hole is wasted.
func (w *wide) close() *lane {
	w.stop()
	w.running.Wait()
	wasted := int64(0)
	for _, p := range w.pieces {
		for _, b := range p.blocks {
			wasted += int64(len(b))
		}
	}
	w.s.ledger.add(func(a *Account) { a.Wasted += wasted })
	w.last.window = nil
	return w.last
}

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
