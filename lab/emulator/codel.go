package emulator

import (
	"math"
	"time"
)

// RFC 8289 4.3: the delay that a queue may have for good, and how long it may be more.
const (
	codelTarget   = int64(5 * time.Millisecond)
	codelInterval = int64(100 * time.Millisecond)
)

// codel is the state of CoDel (RFC 8289 section 5), asked packet by packet. Times are nanoseconds.
type codel struct {
	firstAbove int64 // when the delay will have been above the target for an interval; 0: it is not above
	dropNext   int64
	count      int // drops since dropping began
	lastCount  int
	dropping   bool
}

// drop says whether the packet at the head of the queue goes, of which it has waited for the sojourn and which leaves
// a backlog (bytes) behind it.
func (c *codel) drop(now, sojourn int64, backlog int) bool {
	above := c.above(now, sojourn, backlog)
	switch {
	case c.dropping && !above:
		c.dropping = false
	case c.dropping && now >= c.dropNext:
		c.count++
		c.dropNext = c.next(c.dropNext)
		return true
	case !c.dropping && above:
		c.dropping = true
		// A queue that was bad a moment ago is dropped from as fast as it had to be then.
		if since := c.count - c.lastCount; since > 1 && now-c.dropNext < 16*codelInterval {
			c.count = since
		} else {
			c.count = 1
		}
		c.lastCount = c.count
		c.dropNext = c.next(now)
		return true
	}
	return false
}

func (c *codel) above(now, sojourn int64, backlog int) bool {
	if sojourn < codelTarget || backlog < fullPacket {
		c.firstAbove = 0
		return false
	}
	if c.firstAbove == 0 {
		c.firstAbove = now + codelInterval
		return false
	}
	return now >= c.firstAbove
}

func (c *codel) next(from int64) int64 {
	return from + int64(float64(codelInterval)/math.Sqrt(float64(c.count)))
}
