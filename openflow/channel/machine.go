package channel

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/openflow"
)

// Reasons why a channel ends, other than errors of the connection.
var (
	// ErrVersion: the peer does not support 1.3.
	ErrVersion = errors.New("no common version")
	// ErrNoHello: the peer's first message was not a hello.
	ErrNoHello = errors.New("a message before the hello")
	// ErrSilent: nothing was received for Options.Dead.
	ErrSilent = errors.New("the peer is silent")
	// ErrStalled: the peer has read nothing for Options.Dead.
	ErrStalled = errors.New("the peer does not read")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("closed")
)

// machine is the state machine of a channel. Times are relative to the channel's start.
type machine struct {
	idle, dead time.Duration

	up    bool
	heard time.Duration // last message received
	asked time.Duration // last echo request sent, if later
	xid   uint32        // the last one used
}

// step is the reaction to an event.
type step struct {
	send    openflow.Message // nil: nothing
	xid     uint32           // of send
	deliver openflow.Message // for the user; nil: nothing
	up      bool             // the channel has come up
	end     error            // the channel ends after send is sent
}

// nextXID returns a transaction id that has not been used for 2^32 requests. It is never 0, which is commonly used for unsolicited messages.
func (m *machine) nextXID() uint32 {
	m.xid++
	if m.xid == 0 {
		m.xid = 1
	}
	return m.xid
}

// start opens the channel: both sides send a hello at once (7.5.1).
func (m *machine) start() step { return step{send: openflow.NewHello(), xid: m.nextXID()} }

// decoded is a decoded message, or why it could not be decoded.
type decoded struct {
	header  openflow.Header
	message openflow.Message
	err     error
}

func decode(raw []byte) (d decoded) {
	d.header, d.message, d.err = openflow.Decode(raw)
	return d
}

// take handles a message. What it delivers aliases the bytes.
func (m *machine) take(now time.Duration, raw []byte, d decoded) step {
	m.heard = now
	h, msg, err := d.header, d.message, d.err
	if !m.up {
		return m.open(h, msg, err)
	}
	var fault *openflow.Fault
	if errors.As(err, &fault) {
		if h.Type == openflow.TypeError {
			return step{} // an error is never answered with an error
		}
		return step{send: fault.Answer(raw), xid: h.XID}
	}
	switch msg := msg.(type) {
	case *openflow.Hello, *openflow.EchoReply:
		return step{} // any message is a sign of life
	case *openflow.EchoRequest:
		return step{send: &openflow.EchoReply{Data: msg.Data}, xid: h.XID}
	}
	return step{deliver: msg}
}

// open handles the first message.
func (m *machine) open(h openflow.Header, msg openflow.Message, err error) step {
	if refusal, ok := msg.(*openflow.Error); ok {
		return step{end: fmt.Errorf("%w: the peer says %v %q", ErrVersion, refusal.Code, refusal.Data)}
	}
	if h.Type == openflow.TypeError { // malformed as well, but errors are not answered
		return step{end: fmt.Errorf("%w: the peer sends an error: %w", ErrVersion, err)}
	}
	if h.Type != openflow.TypeHello {
		return refuse(h, fmt.Errorf("%w: %v", ErrNoHello, h.Type))
	}
	if err != nil {
		return refuse(h, fmt.Errorf("%w: %w", ErrVersion, err))
	}
	// The bitmap's versions if there is one, else all up to the header's (7.5.1).
	versions, ok := msg.(*openflow.Hello).Versions()
	if ok && !slices.Contains(versions, openflow.Version) {
		return refuse(h, fmt.Errorf("%w: the peer speaks %d, not %d", ErrVersion, versions, openflow.Version))
	}
	if !ok && h.Version < openflow.Version {
		return refuse(h, fmt.Errorf("%w: the peer speaks %d, not %d", ErrVersion, h.Version, openflow.Version))
	}
	m.up = true
	return step{up: true}
}

// refuse ends the channel and tells the peer that there is no common version (7.5.1).
func refuse(h openflow.Header, why error) step {
	return step{
		send: &openflow.Error{Code: openflow.HelloFailedIncompatible, Data: []byte(why.Error())},
		xid:  h.XID,
		end:  why,
	}
}

// tick handles the passage of time.
func (m *machine) tick(now time.Duration) step {
	if now-m.heard >= m.dead {
		return step{end: fmt.Errorf("%w for %v", ErrSilent, now-m.heard)}
	}
	if !m.up || now-max(m.heard, m.asked) < m.idle {
		return step{}
	}
	m.asked = now
	return step{send: &openflow.EchoRequest{}, xid: m.nextXID()}
}
