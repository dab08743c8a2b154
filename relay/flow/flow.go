// Package flow is what a relay does with one split flow: a pure state machine of two connections and the bytes between them.
//
// Each direction ends by itself: a FIN is passed on behind the last byte, and the other direction goes on (half-close). A reset is
// passed on as a reset, so that an answer that was cut does not look complete (RFC 9112, section 8), behind the bytes that came in
// front of it.
package flow

import "fmt"

// End is a connection of a flow.
type End uint8

// The ends. Client is towards who opened the flow, Server towards who answers it; either may be a trunk.
const (
	Client End = iota
	Server
)

// Other is the end that what comes from e goes to.
func (e End) Other() End { return e ^ 1 }

func (e End) String() string {
	if e == Client {
		return "client"
	}
	return "server"
}

// Act is what the owner of the sockets has to do after an event, in the order of the bits.
type Act uint8

// An end is shut, then aborted or closed at most once; whatever of that an event asks for, it asks for once.
const (
	ShutClient Act = 1 << iota // shutdown(SHUT_WR): a FIN behind what was written
	ShutServer
	AbortClient // an RST when what was written is acknowledged, or the owner's patience ends
	AbortServer
	CloseClient // nothing more is said and nothing heard: an RST unless the end was shut and its FIN is here
	CloseServer
)

// half is one direction, by the end that it comes from.
type half struct {
	held       int  // bytes read and not yet written
	eof        bool // the end's FIN is here
	shut       bool // and was passed on
	cut        bool // the end was reset: an RST follows what is held
	unwritable bool // nothing can be written to the end any more
}

// Flow is the state of one. The zero value is of a flow whose server end is not connected yet.
type Flow struct {
	halves    [2]half
	gone      [2]bool // ends that were aborted or closed
	connected bool
}

// Over tells that nothing is to be done any more.
func (f *Flow) Over() bool { return f.gone[Client] && f.gone[Server] }

// Open tells whether an end is neither aborted nor closed.
func (f *Flow) Open(e End) bool { return !f.gone[e] }

// Connected tells whether the server end is there.
func (f *Flow) Connected() bool { return f.connected }

// Wants tells whether bytes of an end are wanted now: most is how many a direction may hold.
func (f *Flow) Wants(e End, most int) bool {
	h := &f.halves[e]
	other := &f.halves[e.Other()]
	return f.connected && !f.gone[e] && !f.gone[e.Other()] && !h.eof && !h.cut && !other.cut && !other.unwritable && h.held < most
}

// Held is how many bytes that came from an end are not written yet.
func (f *Flow) Held(e End) int { return f.halves[e].held }

// Ended tells whether an end has said its FIN.
func (f *Flow) Ended(e End) bool { return f.halves[e].eof }

// Connect is called when the server end is there.
func (f *Flow) Connect() Act {
	f.connected = true
	return f.settle(Client)
}

// Again is called when the server end was replaced by another one before it had said anything: n bytes that came from the client are to be
// written once more, and its FIN after them.
func (f *Flow) Again(n int) {
	h := &f.halves[Client]
	h.held, h.shut = n, false
}

// Read is called with bytes that have come from an end, or that the owner puts in front of them.
func (f *Flow) Read(e End, n int) { f.halves[e].held += n }

// Wrote is called when bytes that came from an end have been written to the other.
func (f *Flow) Wrote(e End, n int) Act {
	h := &f.halves[e]
	h.held -= n
	if h.held < 0 {
		panic(fmt.Sprintf("relay/flow: %d bytes more were written than read", -h.held))
	}
	return f.settle(e)
}

// EOF is called when an end's FIN is here.
func (f *Flow) EOF(e End) Act {
	if f.gone[e] {
		return 0
	}
	if f.halves[e].unwritable {
		return f.Reset(e) // which is what the write was told in the place of the read
	}
	f.halves[e].eof = true
	return f.settle(e)
}

// WriteFailed is called when a write has told that an end was reset, or failed in another way. What it has said in front of that is still to be
// read, up to where a read tells the same. What was held for it is dropped.
func (f *Flow) WriteFailed(e End) Act {
	h, other := &f.halves[e], &f.halves[e.Other()]
	if h.eof || f.gone[e] || f.gone[e.Other()] {
		return f.Reset(e) // nothing that it could say is of use
	}
	if other.unwritable {
		return f.Fail()
	}
	h.unwritable = true
	other.held = 0
	return 0
}

// IsUnwritable tells whether nothing can be written to an end any more.
func (f *Flow) IsUnwritable(e End) bool { return f.halves[e].unwritable }

// Reset is called when an end was reset, or failed in another way: nothing can be written to it, and what it said may be cut.
func (f *Flow) Reset(e End) Act {
	if f.gone[e] {
		return 0
	}
	f.gone[e] = true
	f.halves[e.Other()].held = 0
	act := CloseClient << e
	h := &f.halves[e]
	if h.shut { // it had said all, and that was passed on; what came for it cannot be delivered
		return act | f.abort(e.Other())
	}
	h.cut = true
	return act | f.settle(e)
}

// Fail ends the flow at once: a server that cannot be reached, a time that is over. Both ends are reset.
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

// settle passes on what follows the last byte of a direction when its turn has come.
func (f *Flow) settle(e End) Act {
	h := &f.halves[e]
	if h.held > 0 || f.gone[e.Other()] {
		return 0
	}
	if h.cut {
		act := f.abort(e.Other())
		if h.eof && !h.shut && act&(AbortClient<<e.Other()) != 0 {
			h.shut = true
			act |= ShutClient << e.Other() // it had said all, and the reset is about what came for it
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

// abort passes a reset on to an end. A server end that is not connected has nothing that could be acknowledged, and one that is deaf
// acknowledges nothing.
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
