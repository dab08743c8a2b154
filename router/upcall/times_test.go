package upcall

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/packet"
	"baton/router/outcome"
)

// TestTrickledHead: a head that comes too slowly is answered with 408 after timeouts.handshake, not before.
func TestTrickledHead(t *testing.T) {
	file := strings.Replace(configuration, `protocol: tls, routes: [{match: {sni: c.test}, pool: kept}]`, `routes: [{pool: kept}]`, 1)
	runBy(t, file, func(s *script) { // where a client may be silent for long
		s.opens(anna, keep, 1)
		for i, b := range pieces(get("a.test"), 1)[:9] {
			s.sends(anna, keep, packet.Seq(1+i), 0, b)
			time.Sleep(1100 * time.Millisecond)
		}
		s.expect()
		s.sends(anna, keep, 10, 0, "t")
		time.Sleep(expireEvery * 12 / 10)
		s.expect(outcome.Refused)
		s.expectVerdict(anna, 408)
		s.expectNothingHeld()
	})
}

// TestSilentHead: a part of a head that nothing follows for a while is left to the proxy, whose socket acknowledges
// it, however short: its client may wait for that. One that continues in time is spliced.
func TestSilentHead(t *testing.T) {
	const first = "GET / HTTP/1.1\r\n"
	for _, part := range []string{"G", first, first + "Host: a.test\r\nX: " + long} {
		run(t, func(s *script) {
			s.opens(anna, web, 1)
			s.sends(anna, web, 1, 0, part)
			time.Sleep(silence - time.Millisecond)
			s.expect()
			time.Sleep(2 * time.Millisecond)
			s.expect(outcome.Stalled)
			s.expectReplayed(part)
			s.expectNothingHeld()
		})
	}
	run(t, func(s *script) {
		s.opens(anna, web, 1)
		seq := packet.Seq(1)
		for _, b := range pieces(get("a.test"), 5) {
			s.sends(anna, web, seq, 0, b)
			seq = seq.Add(uint32(len(b)))
			time.Sleep(silence * 9 / 10)
		}
		s.expect(outcome.Spliced)
	})
	run(t, func(s *script) { // nothing new has come
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, first)
		for range 2 {
			time.Sleep(silence * 6 / 10)
			s.sends(anna, web, 1, 0, first)
		}
		s.expect(outcome.Stalled)
	})
	run(t, func(s *script) { // as a next request
		s.asks(anna, web, 1, acked)
		s.sends(anna, web, 1, 0, first)
		time.Sleep(silence + time.Millisecond)
		s.expect(outcome.Stalled)
	})
}

// TestEndOfAHalfHead: a client that ends within its head is answered at once.
func TestEndOfAHalfHead(t *testing.T) {
	run(t, func(s *script) {
		const half = "GET / HTTP/1.1\r\n"
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, half)
		s.sends(anna, web, packet.Seq(1+len(half)), packet.FIN, "")
		s.expect(outcome.Refused)
		s.expectVerdict(anna, 400)
		s.expectReplayed(half, "")
		s.expectNothingHeld()
	})
}

// TestFirstSegmentLost: no socket can acknowledge anything before the first segment: it is waited for.
func TestFirstSegmentLost(t *testing.T) {
	run(t, func(s *script) {
		text := get("a.test")
		s.opens(anna, web, 1)
		s.sends(anna, web, 6, 0, text[5:])
		time.Sleep(keptSilence * 9 / 10)
		s.sends(anna, web, 1, 0, text[:5])
		s.expect(outcome.Spliced)
	})
}

// TestSilentHello: a part of a hello that nothing follows is left to the proxy after silence, or where that would
// refuse it, after keptSilence; one that continues in time is spliced.
func TestSilentHello(t *testing.T) {
	hello := helloFor(t, "c.test")
	for _, tt := range []struct {
		vip       netip.AddrPort
		wait, gap time.Duration // gap is that between pieces
		pieces    int
	}{{secure, silence, silence * 9 / 10, 10}, {keep, keptSilence, keptSilence * 4 / 10, 3}} {
		vip, wait := tt.vip, tt.wait
		run(t, func(s *script) {
			s.opens(anna, vip, 1)
			s.sends(anna, vip, 1, 0, hello[:100])
			time.Sleep(wait - time.Millisecond)
			s.expect()
			time.Sleep(2 * time.Millisecond)
			s.expect(outcome.Stalled)
			s.expectReplayed(hello[:100])
			s.expectNothingHeld()
		})
		run(t, func(s *script) {
			s.opens(anna, vip, 1)
			seq := packet.Seq(1)
			parts := pieces(hello, len(hello)/tt.pieces+1)
			for _, b := range parts {
				s.expect()
				s.sends(anna, vip, seq, 0, b)
				seq = seq.Add(uint32(len(b)))
				time.Sleep(tt.gap)
			}
			s.expect(outcome.Spliced)
			s.expectReplayed(parts...)
		})
	}
}

// TestNoTimerOutlivesRun: hellos that are not whole when the router stops do nothing afterwards (stop looks).
func TestNoTimerOutlivesRun(t *testing.T) {
	run(t, func(s *script) {
		hello := helloFor(t, "c.test")
		for i := range 10 {
			s.opens(nth(i), secure, 1)
			s.sends(nth(i), secure, 1, 0, hello[:100+i])
		}
		s.stop()
		s.expect()
		if n := len(s.decider.departed); n != 0 {
			t.Errorf("%d clients were queued", n)
		}
	})
}

// TestStopWhileDeciding: a router that stops waits for no leg.
func TestStopWhileDeciding(t *testing.T) {
	run(t, func(s *script) {
		s.noLegs[s.snapshot.IDs["a1"]] = time.Hour
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, get("a.test"))
		began := time.Now()
		s.cancel()
		<-s.ended
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		s.ended <- nil
	})
}

// TestFIN: a FIN behind a whole request changes nothing; one within a head ends the wait for it.
func TestFIN(t *testing.T) {
	text, hello := get("a.test"), helloFor(t, "c.test")
	run(t, func(s *script) {
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, packet.FIN, text)
		s.expect(outcome.Spliced)
		s.expectReplayed(text)
	})
	run(t, func(s *script) {
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, packet.FIN, text[:20])
		s.expect(outcome.Refused)
		s.expectVerdict(anna, 400)
		s.expectNothingHeld()
	})
	run(t, func(s *script) { // on a segment of its own, before what it follows
		s.opens(anna, web, 1)
		s.sends(anna, web, 11, packet.FIN, text[10:20])
		s.expect()
		s.sends(anna, web, 1, 0, text[:10])
		s.expect()
		s.sends(anna, web, 11, packet.FIN, text[10:20]) // repeated
		s.expect(outcome.Refused)
		s.expectVerdict(anna, 400)
	})
	run(t, func(s *script) {
		s.opens(anna, secure, 1)
		s.sends(anna, secure, 1, packet.FIN, hello[:100])
		s.expect(outcome.Refused)
	})
}

// TestBare: packets without bytes of an unknown client end its wait: if it still wants an answer, it repeats.
func TestBare(t *testing.T) {
	run(t, func(s *script) {
		for _, flags := range []packet.Flags{0, packet.FIN, packet.RST} {
			s.opens(anna, web, 1)
			s.sends(anna, web, 1, flags, "")
			if _, err := s.Pending(anna, web); err == nil {
				t.Errorf("flags %v: the kernel waits for a decision", flags)
			}
		}
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, "GET")
		s.sends(anna, web, 4, 0, "") // a bare ACK of a client that is being read
		if _, err := s.Pending(anna, web); err != nil {
			t.Error("a bare ACK has ended a request")
		}
		s.sends(anna, web, 4, packet.RST, "")
		if _, err := s.Pending(anna, web); err == nil {
			t.Error("the kernel waits for the decision on a client that has reset")
		}
		s.expect()
		s.expectNothingHeld()
	})
}

// TestResetOutsideTheWindow: an RST is believed at the number that the client's next byte has, by what has come (RFC
// 5961).
func TestResetOutsideTheWindow(t *testing.T) {
	run(t, func(s *script) {
		s.opens(anna, web, 1000)
		s.sends(anna, web, 1001, packet.RST, "") // ahead of all bytes
		s.sends(anna, web, 1000, 0, "GET")
		for _, seq := range []packet.Seq{90_000, 1001, 1002, 1004, 999} {
			s.sends(anna, web, seq, packet.RST, "")
			if _, err := s.Pending(anna, web); err != nil {
				t.Fatalf("RST %d: %v", seq, err)
			}
		}
		s.sends(anna, web, 1003, packet.RST, "")
		if _, err := s.Pending(anna, web); err == nil {
			t.Error("the client's RST is not believed")
		}
		s.expectNothingHeld()
	})
}

// TestTooLateForTheKernel: a client that the kernel has forgotten is forgotten.
func TestTooLateForTheKernel(t *testing.T) {
	run(t, func(s *script) {
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, "GET")
		s.mu.Lock()
		delete(s.clients, clientKey{anna, web})
		s.mu.Unlock()
		s.sends(anna, web, 4, 0, " /")
		s.expect()
		s.expectReplayed()
		s.expectNothingHeld()
	})
}

// TestFlood: more clients than limits.pending are not kept, nor more than deciding ones; they repeat, and are served when there is
// room.
func TestFlood(t *testing.T) {
	run(t, func(s *script) {
		for i := range 200 {
			s.opens(nth(i), web, 1)
			s.sends(nth(i), web, 1, 0, "GET / HT")
		}
		if n := len(s.decider.clients); n != 64 {
			t.Errorf("%d clients are kept, want limits.pending", n)
		}
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, get("a.test"))
		s.expect()
		time.Sleep(2 * silence) // the flood is a socket's
		s.expect(slices.Repeat([]outcome.Outcome{outcome.Stalled}, 64)...)
		s.sends(anna, web, 1, 0, get("a.test"))
		s.expect(outcome.Spliced)
		s.expectNothingHeld()
	})
}

// TestFloodOfBytes: the source that holds most makes room; another's client stays.
func TestFloodOfBytes(t *testing.T) {
	file := strings.Replace(configuration, "pending: 64", "pending: 65536", 1)
	runBy(t, file, func(s *script) {
		s.decider.holding.limit = 1 << 20
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, "GET / HTTP/1.1\r\n")
		flooder := berta.Addr()
		for i := range 1000 {
			from := netip.AddrPortFrom(flooder, uint16(2000+i))
			s.opens(from, web, 1)
			s.sends(from, web, 1, 0, "GET / HTTP/1.1\r\nX: "+long)
			if held := s.decider.holding.bytes; held > 1<<20+8192 {
				t.Fatalf("%d bytes are held", held)
			}
		}
		if len(s.forgot) == 0 {
			t.Error("nobody has made room")
		}
		for _, key := range s.forgot {
			if key.client == anna {
				t.Error("the client of another source has made room")
			}
		}
		s.sends(anna, web, 17, 0, "Host: a.test\r\n\r\n")
		s.expect(outcome.Spliced)
	})
}

// TestFullQueue: a client that the queue to the sockets has no room for is tried again.
func TestFullQueue(t *testing.T) {
	run(t, func(s *script) {
		s.decider.mu.Lock()
		queue := s.decider.departed
		s.decider.departed = make(chan departure) // full, and nobody reads it
		s.decider.mu.Unlock()
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, "GET\r\n\r\n")
		s.opens(berta, fields, 1)
		s.clients[clientKey{berta, fields}].Proxy = true
		s.sends(berta, fields, 1, 0, get("h"))
		s.expect()
		s.decider.mu.Lock()
		s.decider.departed = queue
		s.decider.mu.Unlock()
		time.Sleep(2 * expireEvery)
		s.expectAnyOrder(outcome.Refused, outcome.NotInsertable)
		s.expectVerdict(anna, 400)
		s.expectNothingHeld()
	})
}
