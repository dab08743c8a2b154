package switches

import (
	"sync"
	"sync/atomic"

	"baton/openflow"
)

// queue holds what a switch has sent until it is handled. Packet-ins beyond its size are dropped, the newest first; everything else is kept, as a
// switch cannot send it at will: port states, removed entries and errors follow from what happens or what it was told.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	list    []openflow.Message
	packets int // in list
	size    int
	closed  bool
	dropped *atomic.Uint64
}

func newQueue(size int, dropped *atomic.Uint64) *queue {
	q := &queue{size: size, dropped: dropped}
	q.changed.L = &q.mu
	return q
}

// mostOthers bounds the messages that are no packet-ins: a switch that sends more faster than they are handled is broken.
const mostOthers = 1 << 16

func (q *queue) put(m openflow.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, packet := m.(*openflow.PacketIn); packet {
		if q.packets >= q.size {
			q.dropped.Add(1)
			return
		}
		q.packets++
	} else if len(q.list)-q.packets >= mostOthers {
		q.dropped.Add(1)
		return
	}
	q.list = append(q.list, m)
	q.changed.Signal()
}

// get waits for the next message. False: the queue was closed and is empty.
func (q *queue) get() (openflow.Message, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 {
		if q.closed {
			return nil, false
		}
		q.changed.Wait()
	}
	m := q.list[0]
	q.list[0] = nil
	q.list = q.list[1:]
	if _, packet := m.(*openflow.PacketIn); packet {
		q.packets--
	}
	return m, true
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}
