package legs

import (
	"net/netip"
	"time"

	kernel "baton/datapath/router"
	"baton/router/config"
)

// pool is the legs of one surrogate.
type pool struct {
	id      uint16
	name    string
	server  netip.AddrPort
	bounds  config.Legs
	reuse   config.Reuse
	usable  bool // up and not draining
	router  netip.Addr
	ifindex int
	paths   []int // interfaces that the route leads over; ascending
	local   bool  // on this host: cannot be spliced

	ports   *ports
	legs    int // splices of ours that are not free
	opening map[uint32]*opening
	classes map[uint8]*class

	fresh     idleLimit // of legs that have served no request: servers may wait longer, or shorter, for the first
	used      idleLimit // of the others
	requests  requestLimit
	serverMSS uint16 // told by the surrogate
	noTS      bool   // it refuses timestamps
	unread    bool   // it was said that its queues cannot be read

	due     time.Time     // when it is looked at next
	renewAt time.Time     // when a leg may have been idle for long enough
	backoff time.Duration // between attempts while it refuses
	retryAt time.Time
}

type opening struct {
	leg   kernel.Leg
	sent  time.Time
	tries int

	answered  time.Time // zero: not yet
	completed bool      // and acknowledged
}

// class is the idle legs with one set of options.
type class struct {
	floor          int   // idle legs without demand
	sizer          sizer // of all idle legs; where new clients take fresh ones alone, of the others
	fresh          sizer // of those that have served nobody: they fit every client
	popped, missed uint64
	poppedFresh    uint64
	recycled       uint64
	waiters        []chan error // each for one answer: nil, there is a leg
	lastUsed       time.Time    // a request last needed it
	bands          uint32       // that have a queue, but for the fresh: bit n is band n
	looked         bool         // for queues of an earlier process
}

// Limits of trying to open a leg.
const (
	synTimeout   = time.Second // to the first repetition; then doubled
	synTries     = 3
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
	openBatch    = 64 // SYNs a tick and surrogate
)

// rareClassLife is how long a class that was opened for one client's options is kept ready after the last such client.
const rareClassLife = time.Minute

// idle is the limit that holds for a leg that has served so many requests.
func (p *pool) idle(requests uint32) *idleLimit {
	if requests == 0 {
		return &p.fresh
	}
	return &p.used
}

func (p *pool) class(id uint8) *class {
	c := p.classes[id]
	if c == nil {
		c = &class{}
		p.classes[id] = c
	}
	return c
}

func (p *pool) failed(now time.Time) {
	p.backoff = min(max(2*p.backoff, firstBackoff), maxBackoff)
	p.retryAt = now.Add(p.backoff)
}
