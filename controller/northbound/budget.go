package northbound

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"baton/api"
)

const (
	// reserved bytes are a connection's own: an answer of a few hundred bytes never waits for callers that do not read.
	reserved = 64 << 10
	// part is the number of bytes that are written at once. A caller that takes fewer than a part in Limits.Stall does not read.
	part = 16 << 10
	// unsent is how many bytes of an answer the kernel takes that it cannot send yet.
	unsent = 64 << 10
	// recheck is how often stalled callers are looked for while others wait.
	recheck = 50 * time.Millisecond
)

// budget bounds the bytes of answers that have been made and not been taken, in all and of each caller, and how many lists are copied
// and encoded at the same time: nobody knows an answer's size before.
//
// While the whole budget is used, callers that do not read are cut off to make room for others, and if there is none, those that have
// read longest. Of those that wait, whoever holds least is next, and of equals the newest: many callers that came before, and do not read,
// do not delay one that does.
type budget struct {
	limits Limits
	events func() int64 // bytes of events that wait for subscribers

	mu      sync.Mutex
	held    int64
	lists   int // that are being made
	holders map[*holder]struct{}
	waiting []*waiter
	ticking bool
}

// holder is a caller: a connection, or a request of the REST view.
type holder struct {
	end    func()       // closes its connection, as it does not read
	queued func() int64 // bytes of events that wait for it
	// Since when a message and a part of it wait to be taken, in nanoseconds of Unix time; 0: none does.
	message, part atomic.Int64

	// Guarded by the budget's lock.
	held  int64
	lists int
	ended bool
}

// waiter is a call that waits for room.
type waiter struct {
	*holder
	list  bool
	since time.Time
	ready chan struct{} // closed when it may go on
}

func newBudget(l Limits, events func() int64) *budget {
	return &budget{limits: l, events: events, holders: map[*holder]struct{}{}}
}

func (b *budget) join(h *holder) *holder {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holders[h] = struct{}{}
	return h
}

// leave forgets a holder and all that it holds.
func (b *budget) leave(h *holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.holders, h)
	b.held -= h.held
	h.held = 0
	b.admit()
}

// enter waits until a caller may have one more answer made, of a list or of a few bytes. A caller that holds answers which it cannot
// read before this one, as they are of the same batch, is refused where it would wait for room. After enter comes made.
func (b *budget) enter(ctx context.Context, h *holder, list, batch bool) error {
	w := &waiter{h, list, time.Now(), make(chan struct{})}
	b.mu.Lock()
	switch {
	case !list && h.held < reserved:
		b.mu.Unlock()
		return nil
	case batch && (h.held >= b.limits.Answer || b.full()):
		b.mu.Unlock()
		return b.refusal(h)
	}
	b.waiting = append(b.waiting, w)
	b.admit()
	b.mu.Unlock()
	late := time.NewTimer(b.limits.Call)
	defer late.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	case <-late.C:
	}
	b.mu.Lock()
	i := slices.Index(b.waiting, w)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	b.mu.Unlock()
	if i < 0 {
		return nil // meanwhile
	}
	return b.refusal(h)
}

func (b *budget) refusal(h *holder) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.held >= b.limits.Answer {
		return api.ControllerErrorf(api.ControllerTooMany, "%d bytes of answers wait to be read: read them first", h.held)
	}
	return api.ControllerErrorf(api.ControllerTooMany, "too many answers to other callers wait to be read: try again")
}

// made adds an answer's bytes to what its caller holds.
func (b *budget) made(h *holder, list bool, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if list {
		b.lists--
		h.lists--
	}
	b.held += bytes
	h.held += bytes
	b.admit()
}

// taken says that bytes have been written, or never will be.
func (b *budget) taken(h *holder, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes = min(bytes, h.held) // it may have left
	b.held -= bytes
	h.held -= bytes
	b.admit()
}

// relieve cuts off callers that do not read, if all is used.
func (b *budget) relieve() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.makeRoom()
}

// numbers are for metrics.
func (b *budget) numbers() (bytes int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held + b.events(), len(b.waiting)
}

// The following functions need the lock.

func (b *budget) full() bool { return b.held+b.events() >= b.limits.Answers }

// admit lets callers go on, while there is room.
func (b *budget) admit() {
	for len(b.waiting) > 0 {
		if b.full() {
			b.makeRoom()
			b.tick()
			return
		}
		i := b.next()
		if i < 0 {
			return // until an answer is made, or taken
		}
		w := b.waiting[i]
		b.waiting = slices.Delete(b.waiting, i, i+1)
		if w.list {
			b.lists++
			w.lists++
		}
		close(w.ready)
	}
}

// next returns the number of the waiter that is next, or -1 if none may go on.
func (b *budget) next() int {
	best := -1
	for i, w := range b.waiting {
		if w.held >= b.limits.Answer || w.list && b.lists >= b.limits.Lists {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(w.held, b.waiting[best].held), cmp.Compare(w.lists, b.waiting[best].lists)) <= 0 {
			best = i
		}
	}
	return best
}

// tick calls admit again in a while: callers that still read may be stalled by then.
func (b *budget) tick() {
	if b.ticking {
		return
	}
	b.ticking = true
	time.AfterFunc(recheck, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ticking = false
		b.admit()
	})
}

// makeRoom ends callers, as many as it needs. What they hold is free when their writers have noticed.
func (b *budget) makeRoom() {
	excess := b.held + b.events() - b.limits.Answers
	if excess < 0 {
		return
	}
	for _, h := range b.slowest() {
		if excess < 0 {
			return
		}
		excess -= h.held + h.queued()
		if !h.ended {
			h.ended = true
			go h.end()
		}
	}
}

// slowest are the callers that may be cut off, in the order in which they are, after those that have been already: who has read nothing
// for Stall; and while a call has waited as long, who has read for twice as long.
func (b *budget) slowest() []*holder {
	now := time.Now()
	waited := len(b.waiting) > 0 && now.Sub(b.waiting[0].since) > b.limits.Stall
	var ended, stalled, slow []*holder
	for h := range b.holders {
		switch {
		case h.held+h.queued() == 0:
		case h.ended:
			ended = append(ended, h)
		case longer(&h.part, now, b.limits.Stall):
			stalled = append(stalled, h)
		case waited && longer(&h.message, now, 2*b.limits.Stall):
			slow = append(slow, h)
		}
	}
	slices.SortFunc(stalled, func(a, b *holder) int { return cmp.Compare(a.part.Load(), b.part.Load()) })
	slices.SortFunc(slow, func(a, b *holder) int { return cmp.Compare(a.message.Load(), b.message.Load()) })
	return slices.Concat(ended, stalled, slow)
}

// longer reports whether something has been under way for more than some time.
func longer(since *atomic.Int64, now time.Time, than time.Duration) bool {
	t := since.Load()
	return t != 0 && now.UnixNano()-t > int64(than)
}

// Of a message that is written: when it begins, before each of its parts, and when it has ended.

func (h *holder) begins() { h.message.Store(time.Now().UnixNano()) }
func (h *holder) writes() { h.part.Store(time.Now().UnixNano()) }

func (h *holder) ends() {
	h.part.Store(0)
	h.message.Store(0)
}
