package relay_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"baton/lab"
	"baton/relay/config"
)

// holdFor is how long what must not end a flow lasts: longer than the relays' patience with peers that do not answer.
const holdFor = 5 * unackedTimeout / 2

// series are rows of the table that are tested on one network. The timeouts that are not named are so long that nothing which is seen
// can come of them.
var series = []struct {
	name  string
	short map[string]time.Duration
	has   func(actor, fault) bool
}{
	{"ends", nil, func(a actor, f fault) bool {
		return a.isEnd() && (f == resets || f == closes || f == halfCloses || f == killed)
	}},
	{"relays killed", nil, func(a actor, f fault) bool { return !a.isEnd() && f == killed }},
	{"relays stopped", map[string]time.Duration{"stop": stopTimeout}, func(a actor, f fault) bool { return !a.isEnd() && f == resets }},
	{"client held up", unackedAlone, func(a actor, f fault) bool { return a == client && (f == stalls || f == shutWindow) }},
	{"server held up", patience, func(a actor, f fault) bool { return a == server && (f == stalls || f == shutWindow) }},
	{"relays held up", unackedAlone, func(a actor, f fault) bool { return !a.isEnd() && f == stalls }},
	{"ends cut off", patience, func(a actor, f fault) bool { return a.isEnd() && f == cutOff }},
	{"relays cut off", unackedAlone, func(a actor, f fault) bool { return !a.isEnd() && f == cutOff }},
}

var (
	unackedAlone = map[string]time.Duration{"unacked": unackedTimeout}
	patience     = map[string]time.Duration{"unacked": unackedTimeout, "connect": connectTimeout}
)

func (a actor) isEnd() bool { return a == client || a == server }

// TestFaults goes through the table: for each row there is a flow at every moment, then the fault, and what the ends see of it. In the
// end nothing is left with the relays, and they serve the next flow.
func TestFaults(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup // t.Parallel runs as many as there are processors, and these wait for most of their time
	for _, trunks := range []config.Security{config.Plaintext, config.TLS} {
		for _, s := range series {
			all.Go(func() {
				t.Run(fmt.Sprintf("%s: %s", trunks, s.name), func(t *testing.T) {
					n := newNetwork(t, trunks)
					change := settings{"timeouts": longTimeouts(s.short)}
					n.relays(change, change)
					open := n.listen(openPort)
					for _, r := range faults {
						if s.has(r.actor, r.fault) && r.canBe() {
							n.try(t, r, open, change)
						}
					}
				})
			})
		}
	}
	all.Wait()
}

// longTimeouts are a configuration's, all but some long.
func longTimeouts(short map[string]time.Duration) string {
	text := "{"
	for i, name := range []string{"connect", "header", "unacked", "reset", "stop"} {
		after := 10 * time.Minute
		if v, ok := short[name]; ok {
			after = v
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s: %v", name, after)
	}
	return text + "}"
}

// try tests one row.
func (n *network) try(t *testing.T, r row, open *net.TCPListener, change settings) {
	t.Run(fmt.Sprintf("%s: %s", r.actor, r.fault), func(t *testing.T) {
		var flows []*caught
		for m, c := range r.cells {
			if c.never != "" {
				continue
			}
			f, err := n.catch(moment(m), open)
			if err != nil {
				t.Fatalf("%s: %v", momentNames[m], err)
			}
			defer f.leave()
			f.cell = c
			flows = append(flows, f)
		}
		began := time.Now()
		if err := n.fail(r, flows); err != nil {
			t.Fatal(err)
		}
		for _, f := range flows {
			if err := f.check(r); err != nil {
				t.Errorf("%s: %v", momentNames[f.moment], err)
			}
		}
		t.Logf("all was seen after %v", time.Since(began).Round(10*time.Millisecond))
		if err := n.recover(r, flows, change); err != nil {
			t.Error(err)
		}
		for _, f := range flows {
			f.leave()
		}
		if err := n.nothingLeft(); err != nil {
			t.Error(err)
		}
		if err := n.works(open); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		if t.Failed() {
			t.Logf("relay near:\n%s\nrelay far:\n%s", n.near.Log(), n.far.Log())
		}
	})
}

// works has a flow come and go.
func (n *network) works(open *net.TCPListener) error {
	return lab.Poll(soon, func() error {
		c, s, err := n.pair(open)
		if err != nil {
			return err
		}
		defer c.leave()
		defer s.leave()
		for _, e := range []*end{c, s} {
			if err := e.say(1000); err != nil {
				return err
			}
		}
		return complete(c, s)
	})
}

// nothingLeft waits until the relays hold nothing of a flow, and no trunk that has one end alone.
func (n *network) nothingLeft() error {
	return lab.Poll(soon, func() error {
		var trunks [][]socket
		for _, r := range []*relay{n.near, n.far} {
			h, err := r.idles()
			if err != nil {
				return fmt.Errorf("relay %s: %w", r.name, err)
			}
			trunks = append(trunks, h.trunks)
		}
		return matched(trunks[0], trunks[1])
	})
}

// idles tells of what a relay that has no flow still holds: flows, connections, goroutines, and more pipes than its workers may keep
// for the next flows.
func (r *relay) idles() (held, error) {
	const (
		standard = 3 // descriptors 0, 1 and 2
		scrape   = 3 // goroutines that come and go with the scrape that counts them: fewer than a row has flows
	)
	status, err := r.control.Relay(context.Background())
	if err != nil {
		return held{}, err
	}
	if status.Flows.Used > 0 {
		return held{}, fmt.Errorf("%d flows are left, such as %s", status.Flows.Used, r.someFlow())
	}
	h, err := r.holds()
	if err != nil {
		return held{}, err
	}
	if len(h.clients)+len(h.servers) > 0 || h.pipes > standard+r.kept {
		return held{}, fmt.Errorf("left are clients %v, servers %v, %d pipes", h.clients, h.servers, h.pipes)
	}
	if h.others > r.others {
		return held{}, fmt.Errorf("%d other descriptors, %d were there at first", h.others, r.others)
	}
	n, err := r.goroutines()
	if n > r.idle+scrape {
		return held{}, fmt.Errorf("%d goroutines, %d were there at first", n, r.idle)
	}
	return h, err
}

// someFlow tells of one.
func (r *relay) someFlow() string {
	for f, err := range r.control.RelayFlows(r.n.t.Context()) {
		return fmt.Sprintf("%+v, %v", f, err)
	}
	return "none"
}

// matched tells of trunks that have one end alone.
func matched(near, far []socket) error {
	alone := make(map[socket]bool)
	for _, s := range near {
		alone[socket{local: s.remote, remote: s.local}] = true
	}
	for _, s := range far {
		other := socket{local: s.local, remote: s.remote}
		if !alone[other] {
			return fmt.Errorf("trunk from %v is at the far end alone", s.remote)
		}
		delete(alone, other)
	}
	for s := range alone {
		return fmt.Errorf("trunk from %v is at the near end alone", s.remote)
	}
	return nil
}
