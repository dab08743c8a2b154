package secure

import (
	"errors"
	"sync"
)

// Gate limits how many handshakes compute at a time. One that waits for its peer does not count.
type Gate chan struct{}

// NewGate allows n handshakes.
func NewGate(n int) Gate { return make(Gate, n) }

// mostAhead limits the received bytes that a handshake has not consumed.
const mostAhead = 32 << 10

// errStopped ends the handshake of a closed Conn.
var errStopped = errors.New("the connection was closed")

// handshake is shared by the goroutine of a handshake and the Conn's owner.
type handshake struct {
	gate   Gate
	notify func()
	begun  bool          // used by the owner
	wake   chan struct{} // wakes the goroutine; capacity 1

	mu      sync.Mutex
	in, out []byte
	stopped bool // the Conn was closed
	over    bool
	err     error // valid when it is over
}

func newHandshake() *handshake { return &handshake{wake: make(chan struct{}, 1)} }

// Begin starts the handshake. Its goroutine calls notify, which must not block, when something may be pending, when more can be fed, and
// when the handshake is over. A gate may be shared by many.
func (c *Conn) Begin(gate Gate, notify func()) {
	h := c.memory.handshake
	h.begun, h.gate, h.notify = true, gate, notify
	go h.run(c)
}

// run is the handshake's goroutine.
func (h *handshake) run(c *Conn) {
	h.gate <- struct{}{}
	err := c.tls.Handshake()
	<-h.gate
	h.mu.Lock()
	h.over, h.err = true, err
	h.mu.Unlock()
	h.notify()
}

// read waits for bytes of the peer.
func (h *handshake) read() ([]byte, error) {
	for {
		h.mu.Lock()
		in, stopped := h.in, h.stopped
		h.in = nil
		h.mu.Unlock()
		switch {
		case stopped:
			return nil, errStopped
		case len(in) > 0:
			return in, nil
		}
		<-h.gate
		h.notify()
		<-h.wake
		h.gate <- struct{}{}
	}
}

func (h *handshake) write(b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.out = append(h.out, b...)
}

// feed wakes the goroutine with more bytes.
func (h *handshake) feed(b []byte) {
	h.mu.Lock()
	h.in = append(h.in, b...)
	h.mu.Unlock()
	h.wakeUp()
}

func (h *handshake) stop() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
	h.wakeUp()
}

func (h *handshake) wakeUp() {
	select {
	case h.wake <- struct{}{}:
	default: // it is awake
	}
}

func (h *handshake) feedLimit() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(0, mostAhead-len(h.in))
}

// output returns the bytes to send.
func (h *handshake) output() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.out
	h.out = nil
	return out
}

// result reports whether it is over, its error, and the bytes that followed it.
func (h *handshake) result() (over bool, rest []byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over, h.in, h.err
}
