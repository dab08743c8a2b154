package upcall

import (
	"sync"
	"time"
)

// chosen remembers the surrogates chosen for clients that are handed over to the proxy, which would otherwise advance
// round-robin again.
type chosen struct {
	mu sync.Mutex
	of map[clientKey]chosenSurrogate
}

type chosenSurrogate struct {
	name  string
	until time.Time
}

const (
	maxChosen  = 4096
	chosenLife = 30 * time.Second
)

// put does nothing when there are too many: the proxy chooses again.
func (c *chosen) put(key clientKey, surrogate string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[clientKey]chosenSurrogate)
	}
	if len(c.of) < maxChosen {
		c.of[key] = chosenSurrogate{surrogate, now.Add(chosenLife)}
	}
}

// take returns the surrogate and forgets it; "" if there is none.
func (c *chosen) take(key clientKey) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of[key]
	delete(c.of, key)
	return s.name
}

// expire forgets clients that did not come.
func (c *chosen) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, s := range c.of {
		if now.After(s.until) {
			delete(c.of, key)
		}
	}
}
