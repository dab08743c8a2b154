package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
	"baton/packet"
)

// bodySize is that of what is fetched, in bytes: with -short, as in guests, what a slow machine can fetch.
func bodySize() int64 {
	if testing.Short() {
		return 8 << 20
	}
	return 64 << 20
}

// seen is what passes an interface, of TCP.
type seen struct {
	mu                           sync.Mutex
	carried                      map[netip.AddrPort]bool // connections with data; a guest is so slow (-short) that idle legs may be reset
	resets                       []string                // with -short: of these
	strangers, unstamped         int
	segments, blocks, farFetched int
	capture                      *lab.Capture
}

// watch looks at what passes an interface, whose host speaks to one address alone.
func watch(n *lab.Interface, peer string) *seen {
	s := &seen{carried: make(map[netip.AddrPort]bool)}
	s.capture = n.Capture(lab.CaptureOptions{Each: func(p lab.Packet) {
		f, err := packet.Parse(p.Data)
		if err != nil || f.Protocol != packet.ProtocolTCP {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		h := f.TCP()
		other := f.Src
		if p.Outgoing {
			other = f.Dst
		}
		if other.Addr().String() != peer {
			s.strangers++
		}
		own := f.Dst
		if p.Outgoing {
			own = f.Src
		}
		connection := netip.AddrPortFrom(other.Addr(), max(own.Port(), other.Port())) // the service's port is the lower one
		if len(f.Payload()) > 0 {
			s.carried[connection] = true
		}
		if h.Flags().Has(packet.RST) && (!testing.Short() || s.carried[connection]) {
			s.resets = append(s.resets, fmt.Sprintf("%v to %v, sequence number %d, acknowledges %d, after %d segments", f.Src, f.Dst, h.Seq(), h.Ack(), s.segments))
		}
		if len(f.Payload()) > 0 {
			s.segments++
		}
		if _, _, ok := h.Options().Timestamps(); !ok && !h.Flags().Has(packet.RST) {
			s.unstamped++
		}
		for _, b := range h.Options().SACK() {
			s.blocks++
			if d := int32(b.Right.Sub(h.Ack())); d < -1<<23 || d > 1<<23 || !b.Left.Less(b.Right) {
				s.farFetched++
			}
		}
	}})
	return s
}

// TestHandoff: curl gets its body from nginx behind the router's address, and neither notices that there were two sessions.
func TestHandoff(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shape emulator.Shape
	}{
		{"clean", emulator.Shape{}},
		{"1 % loss", emulator.Shape{Loss: 0.01, Delay: 500 * time.Microsecond, Seed: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, setup{shape: tt.shape})
			servers := map[string]bool{}
			for range 2 {
				client := watch(s.at["client"], "10.0.0.1")
				behind := []*seen{watch(s.at["s1"], "10.0.0.1"), watch(s.at["s2"], "10.0.0.1")}
				body := filepath.Join(s.Dir(), "body")
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				got, err := peers.Curl(ctx, s.client, "-o", body, "-r", fmt.Sprintf("0-%d", bodySize()-1), "http://10.0.0.1/100m")
				cancel()
				if err != nil {
					t.Fatal(err)
				}
				check(t, body)
				servers[got.Surrogate] = true
				for _, w := range append(behind, client) {
					w.capture.Stop()
					if len(w.resets)+w.strangers+w.unstamped+w.farFetched > 0 {
						t.Errorf("%d RSTs %q, %d packets of other addresses, %d without timestamps, %d SACK blocks that are far away",
							len(w.resets), w.resets, w.strangers, w.unstamped, w.farFetched)
					}
				}
				blocks := behind[0].blocks + behind[1].blocks
				if tt.shape.Loss > 0 && blocks == 0 {
					t.Error("the server was told of no loss by SACK")
				}
				t.Logf("%d bytes from %s in %v, %d segments, %d SACK blocks", got.Bytes, got.Surrogate, got.Total, client.segments, blocks)
			}
			if !servers["s1"] || !servers["s2"] {
				t.Errorf("the servers were %v", servers)
			}
		})
	}
}

// TestManySessions: handoffs at the same time do not mix up, and later requests of a session stay with its server.
func TestManySessions(t *testing.T) {
	s := newScene(t, setup{})
	const count = 24
	failed := make(chan error, count)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range count {
		go func() {
			got, err := peers.Curl(ctx, s.client, "http://10.0.0.1/16k", "http://10.0.0.1/16k")
			if half := len(got.Body) / 2; err == nil {
				err = errors.Join(peers.CheckPattern(strings.NewReader(got.Body[:half]), 16<<10),
					peers.CheckPattern(strings.NewReader(got.Body[half:]), 16<<10))
			}
			failed <- err
		}()
	}
	for range count {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	lab.Eventually(t, slow, func() error {
		if c := s.manager.Counts(); c.Done != count {
			return fmt.Errorf("%d handoffs for %d sessions: %+v", c.Done, count, c)
		}
		return nil
	})
}

func check(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := peers.CheckPattern(f, bodySize()); err != nil {
		t.Error(err)
	}
}
