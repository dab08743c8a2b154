package channel

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/openflow"
)

// Why a channel ends, but for what the connection says.
var (
	// ErrVersion: the peer does not speak 1.3.
	ErrVersion = errors.New("no common version")
	// ErrNoHello: the peer's first message was no hello.
	ErrNoHello = errors.New("a message before the hello")
	// ErrSilent: nothing came for Options.Dead.
	ErrSilent = errors.New("the peer is silent")
	// ErrStalled: the peer read nothing for Options.Dead.
	ErrStalled = errors.New("the peer does not read")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("closed")
)

// machine is the protocol of a channel. Times are those of the channel's own clock, from its beginning.
type machine struct {
	idle, dead time.Duration

	up    bool
	heard time.Duration // when the last message came
	asked time.Duration // when the last echo request went, if that was later
	xid   uint32        // the last one used
}

// step is what is to be done after an event.
type step struct {
	send    openflow.Message // nil: nothing
	xid     uint32           // of send
	deliver openflow.Message // nil: nothing for the user
	up      bool             // the channel is now up
	end     error            // the channel ends, when send is sent
}

// nextXID returns a transaction id that has not been used for 2^32 requests. It is never 0, which many use for what
// nobody asked for.
func (m *machine) nextXID() uint32 {
	m.xid++
	if m.xid == 0 {
		m.xid = 1
	}
	return m.xid
}

// start opens the channel: both sides send a hello at once (7.5.1).
func (m *machine) start() step { return step{send: openflow.NewHello(), xid: m.nextXID()} }

// decoded is what the bytes of a message are.
type decoded struct {
	header  openflow.Header
	message openflow.Message
	err     error
}

func decode(raw []byte) (d decoded) {
	d.header, d.message, d.err = openflow.Decode(raw)
	return d
}

// take handles a message. What is delivered aliases its bytes.
func (m *machine) take(now time.Duration, raw []byte, d decoded) step {
	m.heard = now
	h, msg, err := d.header, d.message, d.err
	if !m.up {
		return m.open(h, msg, err)
	}
	var fault *openflow.Fault
	if errors.As(err, &fault) {
		if h.Type == openflow.TypeError {
			return step{} // no error answers an error
		}
		return step{send: fault.Answer(raw), xid: h.XID}
	}
	switch msg := msg.(type) {
	case *openflow.Hello, *openflow.EchoReply:
		return step{} // a sign of life
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
	if h.Type == openflow.TypeError { // malformed, too; but no error answers an error
		return step{end: fmt.Errorf("%w: the peer sends an error: %w", ErrVersion, err)}
	}
	if h.Type != openflow.TypeHello {
		return refuse(h, fmt.Errorf("%w: %v", ErrNoHello, h.Type))
	}
	if err != nil {
		return refuse(h, fmt.Errorf("%w: %w", ErrVersion, err))
	}
	// With a bitmap its versions count, else all up to the header's (7.5.1).
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

// refuse ends the channel for want of a common version, telling the peer why (7.5.1).
func refuse(h openflow.Header, why error) step {
	return step{
		send: &openflow.Error{Code: openflow.HelloFailedIncompatible, Data: []byte(why.Error())},
		xid:  h.XID,
		end:  why,
	}
}

// tick handles the passing of time.
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
