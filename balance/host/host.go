package host

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Options are where a host's side is kept account of. The zero value is right for a host.
type Options struct {
	Folder string // of the journal; default: Folder
}

// Host is the host's side of a running balance, in the network namespace of the thread that opened it. Its methods may be called by any
// goroutine.
type Host struct {
	name string

	mu       sync.Mutex
	journal  *journal
	kernel   *stack
	plan     Plan
	diverted bool
	checked  bool // that nobody else has our tables and priorities
	marks    *marks

	done     chan struct{} // closed when default routes are followed no more
	watched  chan struct{} // closed then
	watchErr error         // what following them has failed with, which Refresh tells

	// reached is called at each point of a change: before something is made or undone, which the journal tells of, and after. Only tests
	// have one.
	reached func(point string)
}

// Open takes the balance's name, which one process has at a time: another one gets ErrRunning. What a process has left that was killed is
// taken over: Prepare makes of it what there should be, and flows go on meanwhile. The caller closes the Host.
func Open(name string, o Options) (*Host, error) {
	if o.Folder == "" {
		o.Folder = Folder
	}
	j, err := openJournal(o.Folder, name)
	if err != nil {
		return nil, err
	}
	k, err := openStack()
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	h := &Host{name: name, journal: j, kernel: k, marks: &marks{}, reached: func(string) {}, done: make(chan struct{}), watched: make(chan struct{})}
	updates, err := subscribe(h.done)
	if err != nil {
		k.close()
		return nil, errors.Join(err, j.close())
	}
	go h.watch(updates, h.done)
	return h, nil
}

// Left says whether there is something that a process before has left.
func (h *Host) Left() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.journal.items) > 0
}

// Prepare makes the host be as planned: at first, and whenever the plan has changed. New connections are not led to the inside before Divert;
// those that a process before has diverted stay so. It may fail in the midst: the caller closes the host, or calls Prepare again.
//
// A link that has gone meanwhile is no failure: who watches the links comes with another plan.
func (h *Host) Prepare(p Plan) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.checked {
		if err := h.check(p); err != nil {
			return fmt.Errorf("prepare the inside: %w", err)
		}
		h.checked = true
	}
	h.plan = p
	if err := h.reconcile(p); err != nil {
		return fmt.Errorf("prepare the inside: %w", err)
	}
	if err := h.tunnels(p); err != nil {
		return fmt.Errorf("prepare the inside: %w", err)
	}
	if err := h.marks.set(p.Groups); err != nil {
		return fmt.Errorf("prepare the inside: %w", err)
	}
	return nil
}

// Divert leads new connections to the inside, from now on. The switch must be ready.
func (h *Host) Divert() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.diverted = true
	if err := h.reconcile(h.plan); err != nil {
		return fmt.Errorf("divert connections to the inside: %w", err)
	}
	return nil
}

// Undivert leads new connections as main says again, before the switch stops and what goes by it is ended. All else is left until Close.
func (h *Host) Undivert() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.diverted = false
	var errs []error
	for _, d := range h.plan.Divert {
		if slices.ContainsFunc(h.journal.items, func(i Item) bool { return same(i, d) }) {
			_, err := h.undo(d)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("divert no more connections: %w", err)
	}
	return nil
}

// Refresh attaches to control groups that are there anew, as that of a service which was restarted, and mends what somebody else has taken
// away: systemd-networkd, when it starts, removes rules that are not its own. It is to be called every second or so. missing are control
// groups that there are none of. It also tells why VPNs' default routes are not followed.
func (h *Host) Refresh() (missing []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing, err = h.marks.refresh()
	err, h.watchErr = errors.Join(err, h.watchErr, h.mend()), nil
	return missing, err
}

func (h *Host) mend() error {
	if len(h.plan.Items) == 0 {
		return nil // nothing is prepared
	}
	rules := 0
	for _, i := range h.journal.items {
		if _, is := i.(Rule); is {
			rules++
		}
	}
	there, err := h.kernel.rules()
	if err == nil && there < rules {
		err = h.reconcile(h.plan)
	}
	if err != nil {
		return fmt.Errorf("mend the inside: %w", err)
	}
	return nil
}

// check refuses tables and priorities that others use.
func (h *Host) check(p Plan) error {
	if len(h.journal.items) > 0 {
		return nil
	}
	ours, err := h.kernel.ours(p.Items[0].(Device))
	if err != nil || ours { // it is left from a process whose journal was lost
		return err
	}
	return h.kernel.unused(append(slices.Clone(p.Items), p.Divert...))
}

// reconcile makes the host be as planned, and the journal.
func (h *Host) reconcile(p Plan) error {
	want := slices.Clone(p.Items)
	for _, d := range p.Divert {
		if h.diverted || slices.ContainsFunc(h.journal.items, func(i Item) bool { return same(i, d) }) {
			want = append(want, d)
		}
	}
	want, err := h.kernel.measured(want, h.journal.items)
	if err != nil {
		return err
	}
	for _, i := range h.journal.items {
		if r, is := i.(Route); is && r.Table == p.TunnelTable {
			want = append(want, i) // tunnels will say
		}
	}
	return h.follow(difference(h.journal.items, want))
}

// follow takes the steps.
func (h *Host) follow(steps []step) error {
	for _, s := range steps {
		switch s.kind {
		case undoItem:
			if _, err := h.undo(s.item); err != nil {
				return err
			}
		default:
			if err := h.make(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *Host) make(s step) error {
	if s.kind == makeItem {
		if err := h.kernel.free(s.item); err != nil {
			return err
		}
		if err := h.journal.add(s.item); err != nil {
			return err
		}
		h.reached("before making " + s.item.String())
	}
	if err := h.kernel.make(s.item, s.kind == keepItem); err != nil {
		return fmt.Errorf("make %s: %w", s.item, err)
	}
	if s.kind == makeItem {
		h.reached("after making " + s.item.String())
	}
	if _, is := s.item.(Device); is {
		if err := h.kernel.settle(h.plan); err != nil {
			return err
		}
	}
	return h.journal.drop(s.old...)
}

func (h *Host) undo(i Item) (did bool, err error) {
	h.reached("before undoing " + i.String())
	if did, err = h.kernel.undo(i); err != nil {
		return did, fmt.Errorf("undo %s: %w", i, err)
	}
	h.reached("after undoing " + i.String())
	if err := h.journal.drop(i); err != nil {
		return did, err
	}
	return did, nil
}

// undoAll takes away what the journal tells of, the diversion first. What fails is left in the journal.
func (h *Host) undoAll() (undone []string, err error) {
	var errs []error
	for _, i := range undoing(h.journal.items) {
		did, err := h.undo(i)
		errs = append(errs, err)
		if did {
			undone = append(undone, i.String())
		}
	}
	return undone, errors.Join(errs...)
}

// undoing is the reverse order of making, but that the jumps come first: other items may have come after them.
func undoing(made []Item) []Item {
	var first, then []Item
	for _, i := range slices.Backward(made) {
		if r, is := i.(Rule); is && r.Incoming == loopback {
			first = append(first, i)
		} else {
			then = append(then, i)
		}
	}
	return append(first, then...)
}

// Close takes everything away, the diversion first, and gives the name up.
func (h *Host) Close() error {
	h.unwatch()
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.undoAll()
	return errors.Join(err, h.release())
}

// Leave gives the name up and leaves everything for a process that comes at once, as when a newer version is started, or for Restore.
// Marks of control groups go nevertheless.
func (h *Host) Leave() error {
	h.unwatch()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.release()
}

func (h *Host) release() error {
	err := h.marks.close()
	h.kernel.close()
	return errors.Join(err, h.journal.close())
}

// Restore undoes what a process has left that was killed, and tells what that was. While one is running, the error wraps ErrRunning. It
// may be called again and again: what has failed is tried anew.
func Restore(name string, o Options) (undone []string, err error) {
	h, err := Open(name, o)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	h.unwatch()
	undone, err = h.undoAll()
	if err = errors.Join(err, h.release()); err != nil {
		return undone, fmt.Errorf("restore: %w", err)
	}
	return undone, nil
}
