package secure

import (
	"errors"
	"sync"
)

// Gate bounds how many handshakes compute at a time. One that waits for its peer does not count.
type Gate chan struct{}

// NewGate lets n compute.
func NewGate(n int) Gate { return make(Gate, n) }

// mostAhead bounds the bytes, of what the peer has said, that a handshake has not looked at.
const mostAhead = 32 << 10

// errStopped is what a handshake ends with whose Conn was closed.
var errStopped = errors.New("the connection was closed")

// handshake is what the goroutine of a handshake and the Conn's owner have in common.
type handshake struct {
	gate   Gate
	notify func()
	begun  bool          // the owner's
	wake   chan struct{} // of the goroutine; holds one

	mu      sync.Mutex
	in, out []byte
	stopped bool // the owner has lost interest
	over    bool
	err     error // when it is over
}

func newHandshake() *handshake { return &handshake{wake: make(chan struct{}, 1)} }

// Begin starts the handshake. tell is called on its goroutine, which must not be kept waiting there: when there may be something to be
// sent, when more can be fed, and when the handshake is over. Gate may be common to many.
func (c *Conn) Begin(gate Gate, tell func()) {
	h := c.memory.handshake
	h.begun, h.gate, h.notify = true, gate, tell
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

// read waits for what the peer says.
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

// feed has the goroutine go on.
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
	default: // it has not slept since
	}
}

func (h *handshake) feedLimit() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(0, mostAhead-len(h.in))
}

// output gives what is to be sent.
func (h *handshake) output() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.out
	h.out = nil
	return out
}

// result tells whether it is over, how, and what had come behind it.
func (h *handshake) result() (over bool, rest []byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over, h.in, h.err
}
