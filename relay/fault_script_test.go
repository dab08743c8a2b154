package relay_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/lab"
)

// caught is a flow at a moment.
type caught struct {
	moment
	cell
	n              *network
	client, server *end // the latter nil before the server has answered
	silent         *unresponsiveServer
	acked          int64 // bytes that the relays had of an end when it was cut off
}

const (
	aRequest = 1000      // bytes
	aStretch = 256 << 10 // bytes: more than a flow copies before it is spliced
)

// catch brings a new flow to a moment.
func (n *network) catch(m moment, open *net.TCPListener) (f *caught, err error) {
	f = &caught{moment: m, n: n}
	if m == beforeSYNACK {
		f.silent = n.listenUnresponsive()
		if f.client, err = n.dial(unresponsivePort); err != nil {
			return nil, err
		}
		return f, errors.Join(f.client.say(aRequest), n.awaitSYN())
	}
	if f.client, f.server, err = n.pair(open); err != nil {
		return nil, err
	}
	switch m {
	case midBody:
		f.client.chatter()
		f.server.chatter()
		err = errors.Join(f.client.hears(aStretch), f.server.hears(aStretch))
	case afterClientFIN:
		err = oneWay(f.client, f.server)
	case afterServerFIN:
		err = oneWay(f.server, f.client)
	}
	return f, err
}

// awaitSYN waits until the far relay has sent its SYN to the silent port.
func (n *network) awaitSYN() error {
	return lab.Poll(soon, func() error {
		h, err := n.far.holds()
		if err != nil {
			return err
		}
		for _, s := range h.servers {
			if s.state == stateSYNSent {
				return nil
			}
		}
		return fmt.Errorf("no SYN was sent to the server: %v", h.servers)
	})
}

// givenUp waits until the far relay, if there is one, does not want the server any more.
func (n *network) givenUp() error {
	return lab.Poll(soon, func() error {
		select {
		case <-n.far.Done():
			return nil
		default:
		}
		h, err := n.far.holds()
		for _, s := range h.servers {
			if s.state == stateSYNSent {
				return errors.New("the far relay still asks for the server")
			}
		}
		return err
	})
}

// oneWay has an end say a little and FIN, and the other much more.
func oneWay(first, then *end) error {
	if err := errors.Join(first.say(aRequest), first.halfClose()); err != nil {
		return err
	}
	err := lab.Poll(soon, func() error {
		if fin, _, err := then.ended(); !fin || err != nil {
			return fmt.Errorf("the %s has seen no FIN, %w", then.name, err)
		}
		return nil
	})
	then.chatter()
	return errors.Join(err, first.hears(aStretch))
}

// hears waits until an end has got so many bytes.
func (e *end) hears(n int64) error {
	return lab.Poll(soon, func() error {
		if got := e.got.Load(); got < n {
			return fmt.Errorf("the %s has got %d bytes", e.name, got)
		}
		return nil
	})
}

func (f *caught) leave() {
	f.client.leave()
	if f.server != nil {
		f.server.leave()
	}
	if f.silent != nil {
		f.silent.shut()
	}
}

// ends are who fails and who looks on, if it is one of the ends that fails.
func (f *caught) ends(a actor) (failing, other *end) {
	if a == client {
		return f.client, f.server
	}
	return f.server, f.client
}

// fail has the fault happen.
func (n *network) fail(r row, flows []*caught) error {
	switch {
	case r.fault == cutOff:
		for _, f := range flows {
			if failing, _ := f.ends(r.actor); failing != nil && r.actor.isEnd() {
				defer failing.noteAcked(&f.acked)
			}
		}
		for _, k := range n.links(r.actor) {
			cut(k, true)
		}
		return nil
	case r.actor.isEnd():
		var work errgroup.Group
		for _, f := range flows {
			work.Go(func() error {
				if err := f.fail(r); err != nil {
					return fmt.Errorf("%s: %w", momentNames[f.moment], err)
				}
				return nil
			})
		}
		if err := work.Wait(); err != nil {
			return err
		}
		if r.fault == stalls || r.fault == shutWindow {
			time.Sleep(holdFor)
		}
		return nil
	}
	relay := n.near
	if r.actor == second {
		relay = n.far
	}
	switch r.fault {
	case resets:
		return relay.Signal(syscall.SIGTERM)
	case killed:
		return relay.Kill()
	}
	if err := relay.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(holdFor)
	return relay.Signal(syscall.SIGCONT)
}

// links are those that are cut when the network of someone fails: first the one behind which nothing is heard of that.
func (n *network) links(a actor) []*lab.Link {
	switch a {
	case client:
		return []*lab.Link{n.toClient}
	case server:
		return []*lab.Link{n.toServer}
	case first:
		return []*lab.Link{n.toClient, n.between}
	case second:
		return []*lab.Link{n.toServer, n.between}
	}
	return []*lab.Link{n.between}
}

// noteAcked notes how much of what an end has said the relay has acknowledged.
func (e *end) noteAcked(acked *int64) {
	n, _ := e.queue(unix.SIOCOUTQ)
	*acked = e.sent.Load() - int64(n)
}

// fail has one of the ends fail, on one flow.
func (f *caught) fail(r row) error {
	e, other := f.ends(r.actor)
	if e == nil {
		switch r.fault {
		case resets:
			f.silent.shut()
		case killed:
			p, err := hold(f.n.server, f.silent.l)
			if err != nil {
				return err
			}
			f.silent.filler.Close()
			return p.Kill()
		}
		return nil
	}
	switch r.fault {
	case resets:
		return errors.Join(e.heard(), e.reset())
	case closes:
		return errors.Join(e.heard(), e.conn.Close())
	case halfCloses:
		return e.halfClose()
	case stalls:
		e.hushed()
		return nil
	case shutWindow:
		e.stopListening()
		other.chatter()
		return other.heldUp()
	}
	return f.kill(e, other)
}

// kill ends the process that has a socket, in the middle of what comes.
func (f *caught) kill(e, other *end) error {
	if err := e.heard(); err != nil {
		return err
	}
	e.stopListening()
	if other != nil && other.talking.Load() {
		err := lab.Poll(soon, func() error {
			if n, err := e.queue(unix.SIOCINQ); n == 0 || err != nil {
				return fmt.Errorf("the %s has nothing to read, %w", e.name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	p, err := hold(e.host, e.conn)
	if err != nil {
		return err
	}
	return p.Kill()
}

// heldUp waits until what an end says is not taken any more.
func (e *end) heldUp() error {
	const much = 4 << 20 // bytes: the buffers of three sockets and two pipes each way are far smaller
	last, still := int64(-1), 0
	return lab.Poll(soon, func() error {
		if sent := e.sent.Load(); sent != last {
			last, still = sent, 0
		}
		still++
		if last > much {
			return fmt.Errorf("%d bytes of the %s were taken, though nobody reads", last, e.name)
		}
		if still < 10 {
			return fmt.Errorf("%d bytes of the %s were taken, and more is", last, e.name)
		}
		return nil
	})
}

// check compares what the ends see with the table.
func (f *caught) check(r row) error {
	var err error
	switch v := f.cell.server; {
	case v == "":
	case v == gone:
		if err = f.n.givenUp(); err == nil {
			err = f.silent.unheard()
		}
	case f.moment == beforeSYNACK:
		err = f.answered(r, v)
	case v == goesOn:
		err = complete(f.client, f.server)
	default:
		err = f.server.sees(v, f.client, f, r)
	}
	if err != nil {
		return err
	}
	switch v := f.cell.client; {
	case v == "":
	case v != goesOn:
		return f.client.sees(v, f.server, f, r)
	case f.cell.server != goesOn:
		return complete(f.client, f.server)
	}
	return nil
}

// answered has the server answer the SYN at last, and looks at what it sees then.
func (f *caught) answered(r row, v view) error {
	c, err := f.silent.answer()
	if err != nil {
		return fmt.Errorf("no flow has come to the server: %w", err)
	}
	f.server = newEnd(f.n.t, "server", f.n.server, c)
	if v == goesOn {
		f.client.chatter()
		f.server.chatter()
		if err := errors.Join(f.client.hears(aStretch), f.server.hears(aStretch)); err != nil {
			return err
		}
		return complete(f.client, f.server)
	}
	return f.server.sees(v, f.client, f, r)
}

// sees waits until an end has seen what it should of the other's.
func (e *end) sees(v view, other *end, f *caught, r row) error {
	if v == nothing {
		if fin, reset, err := e.ended(); fin && e.seenFIN(f) || reset || err != nil {
			return fmt.Errorf("the %s: fin %t, reset %t, %w, want %s", e.name, fin, reset, err, v)
		}
		return nil
	}
	err := lab.Poll(soon, func() error {
		fin, reset, err := e.ended()
		if err != nil {
			return err
		}
		if v == getsFIN && (!fin || reset) || v != getsFIN && !reset {
			return fmt.Errorf("fin %t, reset %t", fin, reset)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the %s: %w, want %s", e.name, err, v)
	}
	if other == nil {
		return nil
	}
	switch got, sent := e.got.Load(), other.sent.Load(); {
	case (v == getsFIN || v == getsRST) && got != sent:
		return fmt.Errorf("the %s has got %d of %d bytes, and then %s", e.name, got, sent, v)
	case v == byUnacked && got < f.acked:
		return fmt.Errorf("the %s has got %d of %d bytes that the relay had", e.name, got, f.acked)
	}
	if v == getsFIN && r.fault == halfCloses {
		return complete(f.client, f.server)
	}
	return nil
}

// seenFIN tells whether a FIN is one that came after the flow was caught.
func (e *end) seenFIN(f *caught) bool {
	return !(e.name == "client" && f.moment == afterServerFIN || e.name == "server" && f.moment == afterClientFIN)
}

// recover undoes the fault. Who was cut off learns what has become of the flow when it says something.
func (n *network) recover(r row, flows []*caught, change settings) (err error) {
	if r.fault == cutOff {
		for _, k := range n.links(r.actor) {
			cut(k, false)
		}
		for _, f := range flows {
			err = errors.Join(err, f.learns(r))
		}
		return err
	}
	if r.actor.isEnd() || r.fault == stalls {
		return nil
	}
	if r.fault == resets {
		for _, relay := range []*relay{n.near, n.far} {
			if relay == n.near == (r.actor == first) {
				if err := relay.endsWell(); err != nil {
					return err
				}
			}
		}
	}
	if r.actor == first {
		n.near = n.near.restart(n.nearConfig(change))
	} else {
		n.far = n.far.restart(n.farConfig(change))
	}
	return nil
}

// learns has the ends that the relays could not reach say something.
func (f *caught) learns(r row) error {
	for _, e := range []*end{f.client, f.server} {
		if e == nil {
			continue
		}
		err := lab.Poll(soon, func() error {
			if _, reset, err := e.ended(); reset || err != nil {
				return err
			}
			if e.say(1) == nil {
				return errors.New("it can still speak")
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: the %s, when the network is back: %w", momentNames[f.moment], e.name, err)
		}
	}
	return nil
}
