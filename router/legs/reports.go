package legs

import (
	"slices"
	"sync"
)

// maxReports bounds the reports of a surrogate that wait. The health checks act on the third failure of a few seconds.
const maxReports = 16

// reports passes on what Failed, Doubted and Changed of Options are for. The Manager adds reports with its lock held.
// The goroutine of deliver calls the functions without any lock, and those of one surrogate in order.
type reports struct {
	failed  func(surrogate, kind string)
	doubted func(surrogate string)
	changed func()
	wake    chan struct{} // capacity 1; closed at the end

	mu         sync.Mutex // no other is taken under it
	closed     bool
	hasChanged bool
	surrogates []string            // that have reports, each once; they take turns
	waiting    map[string][]report // of these surrogates, by time
}

// report is a failure of a kind, or, without one, a doubt.
type report struct{ kind string }

func newReports(o *Options) *reports {
	return &reports{
		failed: o.Failed, doubted: o.Doubted, changed: o.Changed,
		wake: make(chan struct{}, 1), waiting: make(map[string][]report),
	}
}

// addFailure has a failure reported. Of too many, the oldest are left out.
func (r *reports) addFailure(surrogate, kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queueLocked(surrogate, report{kind})
}

// addDoubt has a doubt reported, unless one waits.
func (r *reports) addDoubt(surrogate string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.waiting[surrogate], report{}) {
		r.queueLocked(surrogate, report{})
	}
}

// addChange has a change reported, unless one waits.
func (r *reports) addChange() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hasChanged = true
	r.wakeLocked()
}

func (r *reports) queueLocked(surrogate string, add report) {
	if r.closed {
		return
	}
	waiting := r.waiting[surrogate]
	if len(waiting) == 0 {
		r.surrogates = append(r.surrogates, surrogate)
	}
	if len(waiting) == maxReports {
		waiting = waiting[1:]
	}
	r.waiting[surrogate] = append(waiting, add)
	r.wakeLocked()
}

func (r *reports) wakeLocked() {
	if r.closed {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// deliverReports calls the functions until the reports are closed.
func (r *reports) deliverReports() {
	for range r.wake {
		for call := r.takeNext(); call != nil; call = r.takeNext() {
			call()
		}
	}
}

// takeNext returns the next call; nil: there is none.
func (r *reports) takeNext() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil
	case r.hasChanged:
		r.hasChanged = false
		return r.changed
	case len(r.surrogates) == 0:
		return nil
	}
	surrogate := r.surrogates[0]
	r.surrogates = r.surrogates[1:]
	next := r.waiting[surrogate][0]
	if rest := r.waiting[surrogate][1:]; len(rest) > 0 {
		r.waiting[surrogate] = rest
		r.surrogates = append(r.surrogates, surrogate)
	} else {
		delete(r.waiting, surrogate)
	}
	if next.kind == "" {
		return func() { r.doubted(surrogate) }
	}
	return func() { r.failed(surrogate, next.kind) }
}

// close drops the reports that wait. A call that is under way ends by itself, and deliver with it.
func (r *reports) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.waiting, r.surrogates = nil, nil
	close(r.wake)
}
