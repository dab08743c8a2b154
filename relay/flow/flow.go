// Package flow is the state machine of a split flow: two connections and the bytes between them. It is pure.
//
// Each direction ends separately: a FIN is forwarded after the last byte, and the other direction goes on (half-close). A reset is
// forwarded as a reset, after the bytes in front of it, so that a truncated response does not look complete (RFC 9112, section 8).
package flow

import "fmt"

// End is a connection of a flow.
type End uint8

// The ends. Client is towards the opener of the flow, Server towards its server; either may be a trunk.
const (
	Client End = iota
	Server
)

// Other is the opposite end.
func (e End) Other() End { return e ^ 1 }

func (e End) String() string {
	if e == Client {
		return "client"
	}
	return "server"
}

// Act is what the owner of the sockets must do after an event, in the order of the bits.
type Act uint8

// An end is shut at most once, and then aborted or closed at most once.
const (
	ShutClient Act = 1 << iota // shutdown(SHUT_WR): a FIN after what was written
	ShutServer
	AbortClient // an RST when what was written is acknowledged, or after a timeout
	AbortServer
	CloseClient // an RST, unless the end was shut and its FIN was received
	CloseServer
)

// half is one direction, named by its source.
type half struct {
	held       int  // bytes read and not yet written
	eof        bool // the end's FIN was received
	shut       bool // and was forwarded
	cut        bool // the end was reset: an RST follows what is held
	unwritable bool // nothing can be written to the end
}

// Flow is the state of a flow. The zero value has no server end yet.
type Flow struct {
	halves    [2]half
	gone      [2]bool // ends that were aborted or closed
	connected bool
}

// Over reports whether both ends were aborted or closed.
func (f *Flow) Over() bool { return f.gone[Client] && f.gone[Server] }

// Open reports whether an end is neither aborted nor closed.
func (f *Flow) Open(e End) bool { return !f.gone[e] }

// Connected reports whether the server end is connected.
func (f *Flow) Connected() bool { return f.connected }

// Wants reports whether bytes of an end may be read now; most limits what a direction holds.
func (f *Flow) Wants(e End, most int) bool {
	h := &f.halves[e]
	other := &f.halves[e.Other()]
	return f.connected && !f.gone[e] && !f.gone[e.Other()] && !h.eof && !h.cut && !other.cut && !other.unwritable && h.held < most
}

// Held is the number of bytes that were read from an end and not written yet.
func (f *Flow) Held(e End) int { return f.halves[e].held }

// Ended reports whether an end has sent its FIN.
func (f *Flow) Ended(e End) bool { return f.halves[e].eof }

// Connect is called when the server end is connected.
func (f *Flow) Connect() Act {
	f.connected = true
	return f.settle(Client)
}

// Again is called when the server end was replaced before it sent anything: n bytes of the client must be written again, and its FIN.
func (f *Flow) Again(n int) {
	h := &f.halves[Client]
	h.held, h.shut = n, false
}

// Read is called with bytes that were read from an end, or that the owner sends in front of them.
func (f *Flow) Read(e End, n int) { f.halves[e].held += n }

// Wrote is called when bytes from an end were written to the other.
func (f *Flow) Wrote(e End, n int) Act {
	h := &f.halves[e]
	h.held -= n
	if h.held < 0 {
		panic(fmt.Sprintf("relay/flow: %d bytes more were written than read", -h.held))
	}
	return f.settle(e)
}

// EOF is called when an end's FIN was received.
func (f *Flow) EOF(e End) Act {
	if f.gone[e] {
		return 0
	}
	if f.halves[e].unwritable {
		return f.Reset(e) // the failed write has consumed the error that the read would return
	}
	f.halves[e].eof = true
	return f.settle(e)
}

// WriteFailed is called when a write shows that an end was reset or failed. Bytes that it sent before are still to be read, until a read
// fails too. What was held for it is dropped.
func (f *Flow) WriteFailed(e End) Act {
	h, other := &f.halves[e], &f.halves[e.Other()]
	if h.eof || f.gone[e] || f.gone[e.Other()] {
		return f.Reset(e) // nothing that it sent is of use
	}
	if other.unwritable {
		return f.Fail()
	}
	h.unwritable = true
	other.held = 0
	return 0
}

// IsUnwritable reports whether nothing can be written to an end.
func (f *Flow) IsUnwritable(e End) bool { return f.halves[e].unwritable }

// Reset is called when an end was reset or failed: nothing can be written to it, and what it sent may be truncated.
func (f *Flow) Reset(e End) Act {
	if f.gone[e] {
		return 0
	}
	f.gone[e] = true
	f.halves[e.Other()].held = 0
	act := CloseClient << e
	h := &f.halves[e]
	if h.shut { // it had sent everything, and that was forwarded; what came for it cannot be delivered
		return act | f.abort(e.Other())
	}
	h.cut = true
	return act | f.settle(e)
}

// Fail ends the flow at once and resets both ends: the server is unreachable, or a timeout expired.
func (f *Flow) Fail() Act {
	var act Act
	for _, e := range []End{Client, Server} {
		if !f.gone[e] {
			f.gone[e] = true
			act |= CloseClient << e
		}
		f.halves[e].held = 0
	}
	return act
}

// settle forwards the FIN or reset of a direction once nothing is held.
func (f *Flow) settle(e End) Act {
	h := &f.halves[e]
	if h.held > 0 || f.gone[e.Other()] {
		return 0
	}
	if h.cut {
		act := f.abort(e.Other())
		if h.eof && !h.shut && act&(AbortClient<<e.Other()) != 0 {
			h.shut = true
			act |= ShutClient << e.Other() // it had sent everything: the reset is about what came for it
		}
		return act
	}
	if !f.connected || !h.eof || h.shut {
		return 0
	}
	h.shut = true
	act := ShutClient << e.Other()
	if f.halves[e.Other()].shut {
		f.gone = [2]bool{true, true}
		act |= CloseClient | CloseServer
	}
	return act
}

// abort forwards a reset to an end. It closes at once if nothing can be acknowledged: a server end that is not connected, or an unwritable
// end.
func (f *Flow) abort(e End) Act {
	if f.gone[e] {
		return 0
	}
	f.gone[e] = true
	f.halves[e].held = 0
	if e == Server && !f.connected || f.halves[e].unwritable {
		return CloseClient << e
	}
	return AbortClient << e
}
