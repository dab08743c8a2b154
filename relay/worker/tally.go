package worker

import (
	"slices"

	"baton/relay/config"
	"baton/relay/flow"
)

// tally counts the flows of one entry, independently of its listener.
type tally struct {
	begun uint64
	live  int
}

// tallyOf returns an entry's tally.
func (w *Worker) tallyOf(name string) *tally {
	t := w.tallies[name]
	if t == nil {
		t = new(tally)
		w.tallies[name] = t
	}
	return t
}

// enter counts a new flow.
func (w *Worker) enter(s *split, t *tally) {
	s.tally = t
	t.begun++
	t.live++
	w.count.Flows.Add(1)
}

func (w *Worker) leave(s *split) {
	if s.tally != nil {
		s.tally.live--
	}
}

// countClientBytes counts the client's bytes that were read together with a header.
func (w *Worker) countClientBytes(s *split, n int) {
	s.dirs[flow.Client].total += uint64(n)
	w.count.Copied.Add(uint64(n))
}

// forgetEntries drops the tallies of removed entries. Those with flows are dropped at a later reload.
func (w *Worker) forgetEntries(cfg *config.Config) {
	for name, t := range w.tallies {
		if t.live == 0 && !slices.ContainsFunc(cfg.Entries, func(e config.Entry) bool { return e.Name == name }) {
			delete(w.tallies, name)
		}
	}
}
