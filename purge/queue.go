package purge

import (
	"container/heap"
	"time"

	kernel "baton/datapath/purge"
)

// waiting is a marked connection that may still answer.
type waiting struct {
	mark   kernel.Mark
	policy string // its name
	due    time.Time
	tries  int // to end it
	place  int // in the heap
}

// queue holds each connection once, the earliest first. Callers synchronize access.
type queue struct {
	heap     dueHeap
	byCookie map[uint64]*waiting
}

func newQueue() *queue { return &queue{byCookie: make(map[uint64]*waiting)} }

func (q *queue) len() int { return len(q.heap) }

// add puts a connection in. It replaces an earlier mark of the same connection.
func (q *queue) add(w *waiting) {
	if old := q.byCookie[w.mark.Cookie]; old != nil {
		heap.Remove(&q.heap, old.place)
	}
	q.byCookie[w.mark.Cookie] = w
	heap.Push(&q.heap, w)
}

// next returns when the earliest is due; false: the queue is empty.
func (q *queue) next() (time.Time, bool) {
	if len(q.heap) == 0 {
		return time.Time{}, false
	}
	return q.heap[0].due, true
}

// pop removes up to n that are due.
func (q *queue) pop(now time.Time, n int) []*waiting {
	var out []*waiting
	for len(out) < n && len(q.heap) > 0 && !q.heap[0].due.After(now) {
		w := heap.Pop(&q.heap).(*waiting)
		delete(q.byCookie, w.mark.Cookie)
		out = append(out, w)
	}
	return out
}

type dueHeap []*waiting

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *dueHeap) Push(x any) {
	w := x.(*waiting)
	w.place = len(*h)
	*h = append(*h, w)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return w
}
