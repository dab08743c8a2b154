package router

import (
	"sync"
	"time"
)

// proxied remembers which surrogate was chosen for clients that are on their way to the proxy, so that it does not choose again: a
// second turn would be another's.
type proxied struct {
	mu     sync.Mutex
	chosen map[clientKey]proxiedTo
}

type proxiedTo struct {
	surrogate string
	until     time.Time
}

func (c *proxied) put(of clientKey, surrogate string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chosen == nil {
		c.chosen = make(map[clientKey]proxiedTo)
	}
	if len(c.chosen) < verdictsHeld {
		c.chosen[of] = proxiedTo{surrogate, now.Add(verdictLife)}
	}
}

// take returns the surrogate and forgets it; "" when there is none.
func (c *proxied) take(of clientKey) string {
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
