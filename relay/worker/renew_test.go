package worker

import (
	"io"
	"net/netip"
	"testing"
	"time"
)

// Trunks that wait are replaced when newer ones would begin with more, at both of their ends, and those that were opened since are not.
func TestRenewal(t *testing.T) {
	const waiting = 4
	tests := []struct {
		name string
		hop  int
		turn func(*Worker)
	}{
		{"by the opener", 0, func(w *Worker) {
			for _, p := range w.pools {
				p.renewed = -renewTick
				p.renew(w)
				p.fill(w)
			}
		}},
		{"by the acceptor", 1, func(w *Worker) {
			w.renewed = -renewTick
			w.now += renewAge
			w.renewIdle()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newChain(t, 2, nil)
			full := func(times uint64) bool {
				var opened, ready uint64
				for _, w := range c.hops[0] {
					for _, p := range w.pools {
						opened += p.count.Opened.Load()
						ready += uint64(p.count.Ready.Load())
					}
				}
				return opened == times*waiting && ready == waiting
			}
			turn := func(outgrown func(peer string, from netip.Addr) time.Time) {
				for _, w := range c.hops[tt.hop] {
					if err := w.ask(func(w *Worker) error {
						w.o.Outgrown = outgrown
						tt.turn(w)
						w.o.Outgrown = nil
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
			}
			eventually(t, "trunks are ready", func() bool { return full(1) })
			since := time.Now()
			asked := func(peer string, from netip.Addr) time.Time {
				if got, want := peer == "r2", tt.hop == 0; got != want || from.IsValid() == want {
					t.Errorf("asked for %q, %v", peer, from)
				}
				return since
			}
			eventually(t, "all are new", func() bool { turn(asked); return full(2) })
			turn(asked)
			turn(func(string, netip.Addr) time.Time { return time.Time{} })
			if n := c.hops[1][0].count.Waiting.Load() + c.hops[1][1].count.Waiting.Load(); !full(2) || n != waiting {
				t.Errorf("%d trunks wait at the acceptor, want %d, and no others", n, waiting)
			}
			for range 2 * waiting { // the new ones are good
				client, server := c.pair()
				say(t, client, "ask")
				expectRead(t, server, "ask")
				client.Close()
				expectEnd(t, server, io.EOF)
				server.Close()
			}
			c.settled()
		})
	}
}
