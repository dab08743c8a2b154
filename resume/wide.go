package resume

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"baton/resume/part"
	"baton/resume/retry"
	"baton/resume/width"
)

// errNarrow ends the wide part of a download: a single connection fetches the rest.
var errNarrow = errors.New("one connection is enough")

// wide is a download over several connections at a time, each fetching another piece of the file. The bytes are returned in order.
//
// A connection that breaks leaves the rest of its piece as a hole, which is fetched next. No byte is received twice, except at the end of
// the file, where Options.Waste bounds the cost. Bytes ahead of a hole wait in memory, up to Options.Window.
type wide struct {
	s     *Stream
	ctx   context.Context
	stop  context.CancelFunc
	have  part.Have // of the stream at the start; not changed
	least int       // least number of lanes, if the servers accept it
	mu    sync.Mutex
	// +checklocks:mu
	changed chan struct{} // closed and replaced at each change
	// +checklocks:mu
	pieces pieces
	// +checklocks:mu
	spacing width.Spacing
	// +checklocks:mu
	lanes []*lane // running
	// +checklocks:mu
	most int // most lanes, as far as the servers accept them
	// +checklocks:mu
	hurt bool // a lane ended because of a server, or because of its cost
	// +checklocks:mu
	ids int
	// +checklocks:mu
	free bool // windows are not bounded any more
	// +checklocks:mu
	draining bool // do not add lanes yet: the path's queue should be empty when a second one starts
	// +checklocks:mu
	until time.Time // when draining ends at the latest
	// +checklocks:mu
	last *lane // the last one to run
	// +checklocks:mu
	fatal   *Error
	over    chan struct{} // closed when no lane is left
	running sync.WaitGroup
}

// start runs the stream's lane, which may be within content already, and more if they are desired.
func (w *wide) start(c *content, p *piece) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(w.s.lane, c, p)
	w.running.Add(1)
	go w.tend()
}

// wanted returns the desired number of lanes.
//
// +checklocks:w.mu
func (w *wide) wanted(path *width.Path) int {
	return min(max(path.Lanes(w.s.options.Lanes), w.least), w.most)
}

// add runs a lane.
//
// +checklocks:w.mu
func (w *wide) add(l *lane, c *content, p *piece) {
	l.at = p
	w.lanes = append(w.lanes, l)
	w.running.Add(1)
	go w.run(l, c, p)
	count := len(w.lanes)
	life := w.s.ledger.path().Life
	w.s.ledger.add(func(a *Account) { a.Lanes = max(a.Lanes, count) })
	w.s.ledger.event(Width{Lanes: count, Life: life})
}

// tend adds lanes one after the other, so that their lives are out of phase, and divides the path among them.
func (w *wide) tend() {
	defer w.running.Done()
	for {
		path := w.s.ledger.path()
		w.mu.Lock()
		if w.short(&path) && w.spacing.Free(time.Now(), path.Gap(w.wanted(&path))) {
			w.add(newLane(w.s.options.Base, w.s.lane.rotation, w.ids), nil, nil)
			w.ids++
		}
		w.balance(&path)
		w.mu.Unlock()
		select {
		case <-time.After(min(max(path.Trip/4, 10*time.Millisecond), 50*time.Millisecond)):
		case <-w.over:
			return
		}
	}
}

// balance bounds how much each connection may have in flight.
//
// If nothing breaks but the rate falls, others use the path: they would take more and more of it from bounded connections.
//
// +checklocks:w.mu
func (w *wide) balance(path *width.Path) {
	w.free = w.free || path.Pressed
	now := time.Now()
	var flights []int64
	for _, l := range w.lanes {
		l.inFlight = l.flight.Saw(now, path.Trip, l.brought())
		if l.at != nil {
			l.at.rate = l.rate(path)
		}
		if !l.idle {
			flights = append(flights, l.inFlight)
		}
	}
	if w.draining {
		flights = append(flights, 0)
	}
	starting, running := path.Hold(flights)
	if w.free {
		starting, running = 0, 0
	}
	for _, l := range w.lanes {
		if path.Starting(l.inFlight, len(flights)) {
			l.clamp(int(starting))
		} else {
			l.clamp(int(running))
		}
	}
	w.draining = w.draining && running > 0 && now.Before(w.until) && w.s.lane.window() > int(running)*11/10
}

// short reports whether another lane is desired, and there is work for it.
//
// +checklocks:w.mu
func (w *wide) short(path *width.Path) bool {
	n := len(w.lanes)
	return n > 0 && !w.draining && n < w.wanted(path) && (w.pieces.next < w.pieces.end || n < w.pieces.incomplete())
}

// note wakes all who wait for a change.
//
// +checklocks:w.mu
func (w *wide) note() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// run fetches one piece after the other until there is no more work.
func (w *wide) run(l *lane, c *content, p *piece) {
	defer w.running.Done()
	if c != nil { // it was requested before the wide part, and ends with it
		cancel := c.cancel
		defer context.AfterFunc(w.ctx, func() { cancel(context.Canceled) })()
	}
	for idle := 0; ; c, p = nil, nil { // consecutive tries without bytes
		if p == nil {
			if p = w.take(l); p == nil {
				return
			}
		}
		got, fault := int64(0), (*Error)(nil)
		if c == nil {
			c, fault = w.ask(l, p)
		}
		if c != nil {
			got, fault = w.receive(l, c, p)
		}
		w.mu.Lock()
		p.taken = p.whole() // else it is a hole now
		l.at = nil
		if fault != nil && fault.Kind == Digest && w.fatal == nil {
			w.fatal = fault // some of it may have been read
		}
		w.note()
		w.mu.Unlock()
		switch {
		case fault == nil:
			idle = 0
			continue
		case got >= 1<<10:
			idle = 0
		default:
			idle++
		}
		if useless := idle > 1 || fault.stage() != retry.Body; useless || !pause(w.ctx, w.follow(l, got)) {
			w.leave(l, useless && w.ctx.Err() == nil)
			return
		}
	}
}

// follow returns how long a lane waits after a break.
func (w *wide) follow(l *lane, got int64) time.Duration {
	path := w.s.ledger.path()
	now := time.Now()
	w.mu.Lock()
	wait := w.spacing.Broke(now, l.begun(), path.Gap(max(w.wanted(&path), len(w.lanes))))
	w.draining = false // the path is empty
	w.mu.Unlock()
	if got == 0 {
		return wait + rand.N(max(1, w.s.options.Retry.First))
	}
	w.s.ledger.mu.Lock()
	defer w.s.ledger.mu.Unlock()
	return wait + w.s.schedule.Failed(now, retry.Failure{Stage: retry.Body, Source: w.s.at, Bytes: got}).Wait
}

// leave ends a lane. hurt: the servers do not accept it, and it is not replaced.
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

// drop removes a lane from the list.
//
// +checklocks:w.mu
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

// take finds a piece for a lane. nil ends the lane, which is then off the list.
func (w *wide) take(l *lane) *piece {
	for {
		path := w.s.ledger.path()
		w.mu.Lock()
		if !w.s.ledger.may(0, w.s.options.Waste) {
			w.most, w.hurt = 1, true
		}
		wanted := w.wanted(&path)
		d := demand{path: &path, lanes: wanted, rate: l.rate(&path)}
		d.split = w.s.ledger.may(d.flight(), w.s.options.Waste)
		p, wait := w.pieces.choose(&d)
		if p == nil && !wait || w.ctx.Err() != nil || w.crowded(wanted) {
			if p != nil {
				p.taken = false
			}
			w.drop(l)
			w.note()
			w.mu.Unlock()
			return nil
		}
		changed := w.changed
		l.at, l.idle = p, p == nil
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

// crowded reports whether there are too many lanes. Half more than desired are acceptable: estimates of lives vary, and a lane that ends
// has to be started again later.
//
// +checklocks:w.mu
func (w *wide) crowded(wanted int) bool {
	if w.most == 1 {
		return len(w.lanes) > 1
	}
	return len(w.lanes) > max(wanted, 2)*3/2
}

// ask requests the missing part of a piece.
func (w *wide) ask(l *lane, p *piece) (*content, *Error) {
	s := w.s
	h := w.have
	w.mu.Lock()
	h.Offset, h.Until = p.missing(), p.end
	lanes := len(w.lanes)
	w.mu.Unlock()
	s.ledger.add(func(a *Account) { a.Requests++ })
	t, fault := l.ask(w.ctx, s.options, s.sources[s.at], s.sent(), &h)
	if fault != nil {
		return nil, w.failed(l, fault, h.Offset)
	}
	v := part.Judge(h, t.answer())
	if v.Action != part.Append || t.status != http.StatusPartialContent {
		fault := t.failed(refused(v, t.status))
		t.close()
		l.renew() // a response with the whole file is on its way
		return nil, w.failed(l, fault, h.Offset)
	}
	s.ledger.answered(t, s.event(t, v), lanes)
	return newContent(t, v, nil), nil
}

func (w *wide) failed(l *lane, fault *Error, offset int64) *Error {
	l.rotation.blame(fault.Server)
	w.s.ledger.add(func(a *Account) { a.Failures++ })
	w.s.ledger.event(Broke{Error: fault, Why: fault.Err.Error(), Kind: fault.Kind, Server: fault.Server, Lane: l.id, Offset: offset})
	return fault
}

// receive reads a response's content into a piece. got counts the bytes since the connection started the piece.
func (w *wide) receive(l *lane, c *content, p *piece) (got int64, fault *Error) {
	before := c.taken
	fault = w.fill(c, p)
	w.s.ledger.ended(l.id, fault != nil && fault.broke(), c.taken)
	w.s.ledger.spent(c.missed)
	short := c.left != 0
	c.close()
	switch {
	case fault != nil:
		l.rotation.blame(fault.Server)
		l.renew()
		w.mu.Lock()
		missing := p.missing()
		w.mu.Unlock()
		w.s.ledger.event(Broke{Error: fault, Why: fault.Err.Error(), Kind: fault.Kind, Server: fault.Server, Lane: l.id, Bytes: c.taken, Offset: missing})
	case short:
		w.s.ledger.spent(l.renew()) // data in flight is useless
	}
	return c.taken - before, fault
}

// fill reads content up to the piece's end, which may move closer meanwhile.
func (w *wide) fill(c *content, p *piece) *Error {
	b := make([]byte, block)
	for {
		if !w.waitWindow(p) {
			return nil
		}
		n, err := c.Read(b)
		w.s.ledger.came(c.try, w.s.name(c.try), int64(n))
		w.mu.Lock()
		if over := p.missing() + int64(n) - p.end; over > 0 { // another lane fetches those
			c.missed += over
			n -= int(over)
		}
		p.add(b[:n])
		full := p.whole()
		w.note()
		w.mu.Unlock()
		switch {
		case full && (err == nil && c.left != 0 || err == io.EOF):
			return nil
		case err == io.EOF && c.taken < 1<<10:
			return c.failed(Receive, errShort)
		case err == io.EOF:
			return nil
		case err != nil:
			return asError(err)
		}
	}
}

// waitWindow waits until the window covers the next byte of a piece. It returns false if the lane must give up the piece: no lane fetches
// the byte that the window waits for, or the download is over.
func (w *wide) waitWindow(p *piece) bool {
	for {
		w.mu.Lock()
		early, hole := w.pieces.early(p)
		changed := w.changed
		w.mu.Unlock()
		if !early {
			return true
		}
		if hole {
			return false
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			return false
		}
	}
}

// read returns the next bytes, or waits for them. It returns errNarrow when no lane is left and all bytes in order were read.
func (w *wide) read(p []byte) (int, error) {
	for {
		w.mu.Lock()
		if n := w.pieces.copy(p); n > 0 && w.fatal == nil {
			w.note() // the window has moved
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

// close ends all lanes, and returns the last one to run. Bytes ahead of a hole are wasted.
func (w *wide) close() *lane {
	w.stop()
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.s.ledger.spent(w.pieces.kept())
	w.last.clamp(0)
	return w.last
}

// wasHurt reports whether a server, or its cost, ended a lane.
func (w *wide) wasHurt() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hurt
}
