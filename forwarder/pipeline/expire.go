package pipeline

import (
	"container/heap"
	"time"

	"baton/openflow"
)

// schedule is a heap of the slots whose entries have a timeout, ordered by the earliest time they may expire.
type schedule []*slot

// Len implements [heap.Interface], as the methods below do.
func (q schedule) Len() int           { return len(q) }
func (q schedule) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q schedule) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].turn, q[j].turn = i, j
}

func (q *schedule) Push(s any) {
	s.(*slot).turn = len(*q)
	*q = append(*q, s.(*slot))
}

func (q *schedule) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	s.turn = -1
	return s
}

// plan adds the slot of a new entry.
func (q *schedule) plan(s *slot) {
	e := s.entry
	if e.Idle == 0 && e.Hard == 0 {
		q.drop(s)
		return
	}
	s.due, _ = deadline(e, e.Created)
	if s.turn >= 0 {
		heap.Fix(q, s.turn)
	} else {
		heap.Push(q, s)
	}
}

func (q *schedule) drop(s *slot) {
	if s.turn >= 0 {
		heap.Remove(q, s.turn)
	}
}

// deadline returns when an entry with a timeout expires if last used then, and why.
func deadline(e *Entry, used time.Time) (time.Time, openflow.FlowRemovedReason) {
	if used.Before(e.Created) {
		used = e.Created
	}
	hard := e.Created.Add(time.Duration(e.Hard) * time.Second)
	idle := used.Add(time.Duration(e.Idle) * time.Second)
	if e.Idle == 0 || e.Hard != 0 && !hard.After(idle) {
		return hard, openflow.RemovedHardTimeout
	}
	return idle, openflow.RemovedIdleTimeout
}

// Expire removes expired entries [5.5]. used returns when a packet last matched an entry, or any time before Created if none did; it is called
// for an entry at most once per idle timeout, and never for those without one.
func (p *Pipeline) Expire(now time.Time, used func(*Entry) time.Time) Change {
	var c Change
	for len(p.timed) > 0 && !p.timed[0].due.After(now) {
		s := p.timed[0]
		last := s.entry.Created
		if s.entry.Idle != 0 {
			last = used(s.entry)
		}
		due, why := deadline(s.entry, last)
		if due.After(now) {
			s.due = due
			heap.Fix(&p.timed, 0)
			continue
		}
		p.removeEntry(&c, s, why)
	}
	return c
}
