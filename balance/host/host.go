package host

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Options of a host's side. The zero value is valid.
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
	checked  bool // nobody else uses our tables and priorities
	marks    *marks

	done     chan struct{} // closed to stop following default routes
	watched  chan struct{} // closed when that has stopped
	watchErr error         // last error of following them, which Refresh returns

	// reached is called before and after something is made or undone, as the journal records it. Only tests set it.
	reached func(point string)
}

// Open takes the balance's name. One process can have it at a time: others get ErrRunning. What a killed process has left is taken over:
// Prepare changes it as needed, and flows continue meanwhile. The caller closes the Host.
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

// Left reports whether a previous process has left something.
func (h *Host) Left() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.journal.items) > 0
}

// Prepare applies the plan: first, and whenever it has changed. New connections go to the internal interface only after Divert; those that
// a previous process has diverted stay diverted. If it fails halfway, the caller closes the host or calls Prepare again.
//
// A link that has gone meanwhile is no error: the caller will get another plan.
func (h *Host) Prepare(p Plan) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.checked {
		if err := h.check(p); err != nil {
			return fmt.Errorf("prepare the host's side: %w", err)
		}
		h.checked = true
	}
	h.plan = p
	if err := h.reconcile(p); err != nil {
		return fmt.Errorf("prepare the host's side: %w", err)
	}
	if err := h.tunnels(p); err != nil {
		return fmt.Errorf("prepare the host's side: %w", err)
	}
	if err := h.marks.set(p.Groups); err != nil {
		return fmt.Errorf("prepare the host's side: %w", err)
	}
	return nil
}

// Divert routes new connections to the internal interface from now on. The switch must be ready.
func (h *Host) Divert() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.diverted = true
	if err := h.reconcile(h.plan); err != nil {
		return fmt.Errorf("divert connections: %w", err)
	}
	return nil
}

// Refresh attaches to control groups that were created again, as for a restarted service, and repairs what somebody else has removed:
// systemd-networkd removes foreign rules when it starts. Call it about once a second. missing are control groups that do not exist. It also
// returns errors of following VPNs' default routes.
func (h *Host) Refresh() (missing []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing, err = h.marks.refresh()
	err, h.watchErr = errors.Join(err, h.watchErr, h.mend()), nil
	return missing, err
}

func (h *Host) mend() error {
	if len(h.plan.Items) == 0 {
		return nil // not prepared
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
		return fmt.Errorf("repair the host's side: %w", err)
	}
	return nil
}

// check refuses tables and priorities that others use.
func (h *Host) check(p Plan) error {
	if len(h.journal.items) > 0 {
		return nil
	}
	ours, err := h.kernel.ours(p.Items[0].(Device))
	if err != nil || ours { // left by a process whose journal was lost
		return err
	}
	return h.kernel.unused(append(slices.Clone(p.Items), p.Divert...))
}

// reconcile applies the plan to the host and the journal.
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
			want = append(want, i) // tunnels decides about these
		}
	}
	return h.follow(difference(h.journal.items, want))
}

// follow performs the steps.
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

// undoAll undoes everything in the journal, the diversion first. Failed items stay in the journal.
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

// undoing returns the items in reverse order, but with the jumps first: other items may have been made after them.
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

// Close undoes everything, the diversion first, and gives up the name.
func (h *Host) Close() error {
	h.unwatch()
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.undoAll()
	return errors.Join(err, h.release())
}

// Leave gives up the name but leaves everything to the next process, as in an upgrade, or to Restore. Only the marks of control groups go.
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

// Restore undoes and lists what a killed process has left. While a process is running, the error wraps ErrRunning. It can be repeated, and
// retries what has failed.
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
