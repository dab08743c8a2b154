package northbound

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"baton/api"
)

// What may wait for a subscriber before it is cut off: 1,024 events are a second of a busy service, and less than 1 MB; 8 MiB are eighty
// large topologies.
const (
	subscriberQueue = 1024
	subscriberBytes = 8 << 20
)

// Hub distributes events. Publishing never waits: a subscriber whose queue is full is cut off.
type Hub struct {
	mu   sync.Mutex
	subs map[*subscriber]struct{}
	// watching counts the subscribers of a topic; it is read without the lock.
	watching map[api.ControllerTopic]*atomic.Int32

	// unsent are the bytes of events that wait for at least one subscriber. After each event crowded is called, which may be nil and is
	// set before the first subscriber joins.
	unsent  atomic.Int64
	crowded func()

	published, cut, failed atomic.Uint64
}

// message is an event as it is sent. Its subscribers share it.
type message struct {
	text    []byte
	readers atomic.Int32
}

// subscriber is one connection's queue. Its topics are guarded by the hub's lock.
type subscriber struct {
	topics map[api.ControllerTopic]bool
	queue  chan *message
	bytes  atomic.Int64
	slow   func() // called, by a goroutine of its own, when the subscriber is cut off
}

// topics are all topics and the role that may follow each.
var topics = map[api.ControllerTopic]Role{
	api.TopicTopology: Viewer, api.TopicSessions: Viewer, api.TopicHandoffs: Viewer, api.TopicSurrogates: Viewer,
	api.TopicDecisions: Viewer, api.TopicRates: Viewer, api.TopicDistances: Router,
}

// NewHub returns a hub without subscribers.
func NewHub() *Hub {
	h := &Hub{subs: map[*subscriber]struct{}{}, watching: map[api.ControllerTopic]*atomic.Int32{}}
	for t := range topics {
		h.watching[t] = new(atomic.Int32)
	}
	return h
}

// Watched reports whether a topic has subscribers. A publisher may ask before it makes an expensive value.
func (h *Hub) Watched(topic api.ControllerTopic) bool {
	n := h.watching[topic]
	return n != nil && n.Load() > 0
}

// Publish sends a value to the subscribers of a topic. It does not wait, and does nothing without subscribers. A value that
// JSON cannot have, such as a float that is not a number, is dropped and counted.
func (h *Hub) Publish(topic api.ControllerTopic, value any) {
	if !h.Watched(topic) {
		return
	}
	text, err := json.Marshal(notification{"2.0", api.EventMethod, event{topic, value}})
	if err != nil {
		h.failed.Add(1)
		return
	}
	h.published.Add(1)
	h.distribute(topic, text)
	if h.crowded != nil {
		h.crowded()
	}
}

func (h *Hub) distribute(topic api.ControllerTopic, text []byte) {
	m := &message{text: text}
	m.readers.Add(1) // until all have it
	h.unsent.Add(int64(len(text)))
	defer h.release(m)
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		if !s.topics[topic] {
			continue
		}
		if !s.take(m) {
			h.cut.Add(1)
			h.drop(s)
			go s.slow()
		}
	}
}

// take queues a message, and reports whether there was room for it.
func (s *subscriber) take(m *message) bool {
	bytes := int64(len(m.text))
	if s.bytes.Add(bytes) <= subscriberBytes {
		m.readers.Add(1)
		select {
		case s.queue <- m:
			return true
		default:
			m.readers.Add(-1)
		}
	}
	s.bytes.Add(-bytes)
	return false
}

// sent says that a message does not wait for a subscriber any more.
func (h *Hub) sent(s *subscriber, m *message) {
	s.bytes.Add(-int64(len(m.text)))
	h.release(m)
}

func (h *Hub) release(m *message) {
	if m.readers.Add(-1) == 0 {
		h.unsent.Add(-int64(len(m.text)))
	}
}

type notification struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  event  `json:"params"`
}

type event struct {
	Topic api.ControllerTopic `json:"topic"`
	Value any                 `json:"value"`
}

func (h *Hub) join(slow func()) *subscriber {
	s := &subscriber{topics: map[api.ControllerTopic]bool{}, queue: make(chan *message, subscriberQueue), slow: slow}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[s] = struct{}{}
	return s
}

// leave forgets a subscriber and what waits for it.
func (h *Hub) leave(s *subscriber) {
	h.mu.Lock()
	h.drop(s)
	h.mu.Unlock()
	for {
		select {
		case m := <-s.queue:
			h.sent(s, m)
		default:
			return
		}
	}
}

// drop forgets a subscriber. It does nothing for one that is not known any more.
func (h *Hub) drop(s *subscriber) {
	if _, ok := h.subs[s]; !ok {
		return
	}
	delete(h.subs, s)
	for t := range s.topics {
		h.watching[t].Add(-1)
	}
	clear(s.topics)
}

// follow adds or removes a subscriber's topic.
func (h *Hub) follow(s *subscriber, topic api.ControllerTopic, want bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.subs[s]; !ok || s.topics[topic] == want {
		return
	}
	if want {
		s.topics[topic] = true
		h.watching[topic].Add(1)
		return
	}
	delete(s.topics, topic)
	h.watching[topic].Add(-1)
}

// followed reports whether a subscriber follows one of some topics.
func (h *Hub) followed(s *subscriber, some func(api.ControllerTopic) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range s.topics {
		if some(t) {
			return true
		}
	}
	return false
}
