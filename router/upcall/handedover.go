package upcall

import (
	"sync"
	"time"
)

// handedOver remembers what was decided about clients that are handed over to a socket, until it asks: the surrogate,
// as the proxy would otherwise advance round-robin again, and why they are not spliced.
type handedOver[V any] struct {
	mu sync.Mutex
	of map[clientKey]handedOverValue[V]
}

type handedOverValue[V any] struct {
	value V
	until time.Time
}

const (
	maxHandedOver  = 4096
	handedOverLife = 30 * time.Second
)

// keepValue does nothing when there are too many: the socket does without.
func (c *handedOver[V]) keepValue(key clientKey, value V, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[clientKey]handedOverValue[V])
	}
	if len(c.of) < maxHandedOver {
		c.of[key] = handedOverValue[V]{value, now.Add(handedOverLife)}
	}
}

// takeValue returns the value and forgets it; the zero value if there is none.
func (c *handedOver[V]) takeValue(key clientKey) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of[key]
	delete(c.of, key)
	return s.value
}

// expireValues forgets clients that did not come.
func (c *handedOver[V]) expireValues(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, s := range c.of {
		if now.After(s.until) {
			delete(c.of, key)
		}
	}
}
