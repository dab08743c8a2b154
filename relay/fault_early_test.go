package relay_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"baton/relay/config"
)

// earlyRow is one fault before the server's SYN-ACK, at entries where the onward connection begins with the client's SYN: what the other
// end sees of it, or the client if a relay fails.
type earlyRow struct {
	actor
	fault
	optimistic, connectFirst view
}

// earlyFaults are another table of the document. Of the server's stall and cut network the relays see the same.
var earlyFaults = []earlyRow{
	{client, killed, getsFIN, getsRST}, // of a client that was not answered its system says nothing, until it is
	{client, cutOff, gone, byEarly},
	{server, resets, getsRST, refused},
	{server, stalls, byConnect, refusedBy},
	{server, killed, getsRST, refused},
	{server, cutOff, byConnect, refusedBy},
	{first, killed, losesRST, refused},
	{second, killed, losesRST, refused},
	{second, cutOff, byConnect, refusedBy},
}

func (r *earlyRow) seenBy() string {
	if r.actor == client {
		return "server"
	}
	return "client"
}

// inTime tells whether what is seen comes of a timeout.
func (r *earlyRow) inTime() bool { return r.fault == cutOff || r.fault == stalls }

// waiting is a client whose server does not answer.
type waiting struct {
	n      *network
	silent *unresponsiveServer
	leave  context.CancelFunc // ends the attempt
	ended  chan error         // of the attempt
	end    *end               // of the client, when that has succeeded
}

// ask has a client connect to the silent port, and returns when the far relay has asked the server. answered: the client is, too.
func (n *network) ask(answered bool) (*waiting, error) {
	w := &waiting{n: n, silent: n.listenUnresponsive(), ended: make(chan error, 1)}
	var ctx context.Context
	ctx, w.leave = context.WithCancel(n.t.Context())
	go func() {
		var err error
		w.end, err = n.dialWithin(ctx, unresponsivePort)
		w.ended <- err
	}()
	if err := n.awaitSYN(); err != nil {
		return w, err
	}
	if !answered {
		select {
		case err := <-w.ended:
			return w, fmt.Errorf("the client's attempt has ended before the server's answer: %w", err)
		default:
			return w, nil
		}
	}
	if err := <-w.ended; err != nil {
		return w, err
	}
	return w, w.end.say(aRequest)
}

// sees waits until the client has seen what it should.
func (w *waiting) sees(v view) error {
	if w.end != nil {
		return w.end.sees(v, nil, nil, row{})
	}
	err := <-w.ended
	if (v == refused || v == refusedBy) && errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return fmt.Errorf("the client's attempt ends with %w, want %s", err, v)
}

// shut ends what is left.
func (w *waiting) shut() {
	w.leave()
	if w.end != nil {
		w.end.leave()
	}
	w.silent.shut()
}

// TestEarlyFaults goes through the table, with trunks in plain text.
func TestEarlyFaults(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup // they wait for most of their time
	for _, early := range []config.EarlySYN{config.Optimistic, config.ConnectFirst} {
		for _, inTime := range []bool{false, true} {
			all.Go(func() {
				t.Run(fmt.Sprintf("%s: in time %t", early, inTime), func(t *testing.T) {
					n := newNetwork(t, config.Plaintext)
					timeouts := longTimeouts(nil)
					if inTime {
						timeouts = fmt.Sprintf("{unacked: %v, connect: %v, early: %v, reset: 10m}", unackedTimeout, connectTimeout, earlyTimeout)
					}
					near := settings{"entry": fmt.Sprintf(", early_syn: %s, interfaces: [%s]", early, n.toClient.B.Name), "timeouts": timeouts}
					n.relays(near, settings{"timeouts": timeouts})
					open := n.listen(openPort)
					for _, r := range earlyFaults {
						if r.inTime() == inTime {
							t.Run(fmt.Sprintf("%s: %s", r.actor, r.fault), func(t *testing.T) {
								n.tryEarly(t, &r, early, near)
								if err := n.works(open); err != nil {
									t.Errorf("afterwards: %v", err)
								}
							})
						}
					}
				})
			})
		}
	}
	all.Wait()
}

// tryEarly tests one row with one kind of early SYN.
func (n *network) tryEarly(t *testing.T, r *earlyRow, early config.EarlySYN, near settings) {
	v := r.connectFirst
	if early == config.Optimistic {
		v = r.optimistic
	}
	w, err := n.ask(early == config.Optimistic)
	defer w.shut()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.fail(r); err != nil {
		t.Fatal(err)
	}
	if r.actor == client {
		err = w.server(v)
	} else {
		err = w.sees(v)
	}
	if err != nil {
		t.Error(err)
	}
	if r.fault == cutOff {
		for _, k := range n.links(r.actor) {
			cut(k, false)
		}
	}
	switch {
	case r.actor == first && r.fault == killed:
		n.near = n.near.restart(n.nearConfig(near))
	case r.actor == second && r.fault == killed:
		n.far = n.far.restart(n.farConfig(settings{"timeouts": near["timeouts"]}))
	}
	w.shut()
	if err := n.nothingLeft(); err != nil {
		t.Error(err)
	}
}

// fail has the fault happen.
func (w *waiting) fail(r *earlyRow) error {
	switch {
	case r.fault == cutOff:
		for _, k := range w.n.links(r.actor) {
			cut(k, true)
		}
		return nil
	case r.fault == stalls:
		return nil // it does not answer as it is
	case r.actor == client && w.end == nil:
		w.leave()
		return nil
	case r.actor == first:
		return w.n.near.Kill()
	case r.actor == second:
		return w.n.far.Kill()
	}
	f := &caught{moment: beforeSYNACK, n: w.n, silent: w.silent, client: w.end}
	return f.fail(row{actor: r.actor, fault: r.fault})
}

// server looks at what the server sees of a client that fails, when it answers at last.
func (w *waiting) server(v view) error {
	if v == gone {
		if err := w.n.givenUp(); err != nil {
			return err
		}
		return w.silent.unheard()
	}
	c, err := w.silent.answer()
	if err != nil {
		return fmt.Errorf("no flow has come to the server: %w", err)
	}
	e := newEnd(w.n.t, "server", w.n.server, c)
	defer e.leave()
	return e.sees(v, nil, nil, row{})
}
