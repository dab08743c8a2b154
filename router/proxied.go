package router

import (
	"sync"
	"time"
)

// proxied remembers the surrogates chosen for clients that are handed over to the proxy, which would otherwise advance
// round-robin again.
type proxied struct {
	mu     sync.Mutex
	chosen map[clientKey]proxiedTo
}

type proxiedTo struct {
	surrogate string
	until     time.Time
}

func (c *proxied) add(of clientKey, surrogate string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chosen == nil {
		c.chosen = make(map[clientKey]proxiedTo)
	}
	if len(c.chosen) < verdictsHeld {
		c.chosen[of] = proxiedTo{surrogate, now.Add(verdictLife)}
	}
}

// pop returns the surrogate and forgets it; "" if there is none.
func (c *proxied) pop(of clientKey) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.chosen[of]
	delete(c.chosen, of)
	return to.surrogate
}

// expire forgets clients that did not come.
func (c *proxied) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, to := range c.chosen {
		if now.After(to.until) {
			delete(c.chosen, of)
		}
	}
}
