package upcall

import (
	"strings"
	"testing"
	"time"

	"baton/packet"
	"baton/router/outcome"
	"baton/router/state"
)

// TestReusedPort: a client that uses its port again is only decided by its new request, also when the old one was being decided.
func TestReusedPort(t *testing.T) {
	run(t, func(s *script) { // while the old head is read
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, "GET / HTTP/1.1\r\nHost: two.test\r\n")
		s.opens(anna, web, 5_000_000)
		s.sends(anna, web, 5_000_000, 0, get("a.test"))
		s.expect(outcome.Spliced)
		s.expectReplayed(get("a.test"))
		s.expectNothingHeld()
	})
	run(t, func(s *script) { // while a leg is waited for
		s.noLegs[s.snapshot.IDs["t1"]], s.noLegs[s.snapshot.IDs["t2"]] = time.Second, time.Second
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, get("two.test"))
		s.opens(anna, web, 5_000_000)
		s.sends(anna, web, 5_000_000, 0, get("a.test"))
		s.expect(outcome.Spliced)
		s.expectReplayed(get("a.test"))
		time.Sleep(time.Minute)
		s.expect()
		s.expectReplayed()
		s.expectNothingHeld()
	})
}

// TestPauseOfTheProcess: packets of an earlier connection on the port that were still on their way up belong to
// nobody: they are not taken into the request of the next one, however near its numbers are, nor do they end it.
func TestPauseOfTheProcess(t *testing.T) {
	run(t, func(s *script) {
		earlier := get("two.test")
		s.opens(anna, web, 100_000) // the next connection, as the kernel knows it by now
		s.sendsWith(ackedThere, anna, web, 100_000-packet.Seq(len(earlier)), 0, earlier)
		s.sends(anna, web, 100_000, 0, get("a.test"))
		s.sendsWith(ackedThere, anna, web, 103_000, 0, strings.Repeat("y", 500)) // in the next one's span
		s.expect(outcome.Spliced)
		s.expectReplayed(get("a.test"))
		s.expectNothingHeld()
	})
	run(t, func(s *script) { // before the new request is whole
		s.opens(anna, web, 100_000)
		s.sendsWith(ackedThere, anna, web, 100_000+16, 0, "Host: two.test\r\n\r\n")
		s.sends(anna, web, 100_000, 0, "GET / HTTP/1.1\r\n")
		s.sends(anna, web, 100_000+16, 0, "Host: a.test\r\n\r\n")
		s.expect(outcome.Spliced)
		s.expectReplayed("GET / HTTP/1.1\r\n", "Host: a.test\r\n\r\n")
	})
	for _, flags := range []packet.Flags{packet.FIN, packet.RST, 0} { // its end
		run(t, func(s *script) {
			s.opens(anna, web, 100_000)
			s.sendsWith(ackedThere, anna, web, 100_000, flags, "")
			s.sends(anna, web, 100_000, 0, "GET / HTTP/1.1\r\n")
			s.sendsWith(ackedThere, anna, web, 100_000+16, flags, "")
			s.sends(anna, web, 100_000+16, 0, "Host: a.test\r\n\r\n")
			s.expect(outcome.Spliced)
		})
	}
}

// TestNextRequestOfASession: its packets acknowledge more and more of the responses before it; those of an earlier
// connection acknowledge less, and may be near.
func TestNextRequestOfASession(t *testing.T) {
	run(t, func(s *script) {
		s.asks(anna, web, 100_000, 50_000)
		s.sendsWith(49_900, anna, web, 100_016, 0, "Host: two.test\r\n\r\n")
		s.sendsWith(50_000, anna, web, 100_000, 0, "GET / HTTP/1.1\r\n")
		s.sendsWith(49_900, anna, web, 100_016, 0, "Host: two.test\r\n\r\n")
		s.sendsWith(51_460, anna, web, 100_016, 0, "Host: a.test\r\n\r\n")
		s.expect(outcome.Spliced)
		s.expectReplayed("GET / HTTP/1.1\r\n", "Host: a.test\r\n\r\n")
	})
}

// TestLatePackets: packets that were on their way up when the decision was made go back to the kernel, which has it.
func TestLatePackets(t *testing.T) {
	run(t, func(s *script) {
		text := get("a.test")
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, text)
		s.expect(outcome.Spliced)
		s.expectReplayed(text)
		s.sends(anna, web, packet.Seq(1+len(text)), 0, "body")
		s.expectReplayed("body")
		s.ForgetUpcall(anna, web, 1) // the kernel has used the decision
		s.sends(anna, web, packet.Seq(1+len(text)+4), 0, "more")
		s.expectReplayed("more")
		s.sendsWith(ackedThere, anna, web, packet.Seq(1+len(text)+8), 0, "of an earlier connection")
		s.expectReplayed()
		time.Sleep(time.Second)
		s.sends(anna, web, packet.Seq(1+len(text)+8), 0, "too late")
		s.expectReplayed()
		s.expect()
		s.expectNothingHeld()
	})
}

// TestStaleDecision: a configuration that changes while a leg is waited for is the one that decides.
func TestStaleDecision(t *testing.T) {
	moved := strings.Replace(configuration, "{match: {host: a.test}, pool: a}, {match: {host: two.test}, pool: two}", "{match: {host: a.test}, pool: two}", 1)
	run(t, func(s *script) {
		next := s.compile(moved)
		s.onWait = func() {
			s.mu.Lock()
			s.onWait = nil
			s.mu.Unlock()
			s.put(next)
		}
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, get("a.test"))
		s.expect(outcome.Spliced)
		if d := s.decision(anna, web); d.Pool != next.Pools[1].ID || s.handed[0] != "t1" {
			t.Errorf("decision %+v for %q, want pool two", d, s.handed)
		}
	})
	run(t, func(s *script) { // the VIP is gone
		s.onWait = func() { s.put(s.compile(strings.Replace(configuration, "10.9.9.1:80", "10.9.9.7:80", 1))) }
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, get("a.test"))
		s.expect()
		s.expectReplayed()
		s.expectNothingHeld()
	})
	run(t, func(s *script) { // a hello
		next := s.compile(strings.Replace(configuration, "{match: {sni: c.test}, pool: c}", "{match: {sni: d.test}, pool: c}", 1))
		s.onWait = func() { s.put(next) }
		s.opens(anna, secure, 1)
		s.sends(anna, secure, 1, 0, helloFor(t, "c.test"))
		s.expect(outcome.NoRoute)
	})
}

// TestHealthWhileWaiting: a change of health is no other configuration; the next surrogate is chosen from those that are up by
// then.
func TestHealthWhileWaiting(t *testing.T) {
	run(t, func(s *script) {
		s.noLegs[s.snapshot.IDs["t1"]] = time.Second
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, get("two.test"))
		s.put(snapshotOf(s.snapshot.Compiled, "t2"))
		time.Sleep(2 * time.Second)
		s.expect(outcome.NoLeg)
	})
}

// TestOneSnapshotAPacket: the reload that comes while a packet is judged does not mix two configurations: the one at the packet's
// arrival says that the VIP reads hellos, and decides.
func TestOneSnapshotAPacket(t *testing.T) {
	run(t, func(s *script) {
		plain := s.compile(strings.Replace(configuration, `{address: "10.9.9.4:443", interfaces: [eth0], protocol: tls, routes: [{match: {sni: c.test}, pool: c}]}`,
			`{address: "10.9.9.4:443", interfaces: [eth0], routes: [{pool: a}]}`, 1))
		asked := 0
		secureNow := s.snapshot
		s.decider.o.Snapshot = func() *state.Snapshot { // each question but the first is answered by the other file
			if asked++; asked == 1 {
				return secureNow
			}
			return plain
		}
		s.opens(anna, secure, 1)
		s.sends(anna, secure, 1, 0, helloFor(t, "c.test"))
		s.expect(outcome.Proxied) // decided again by the other file, whose socket reads it
	})
}

// TestPortTakenWhileDeparting: a client that leaves for a socket, and whose port is another session's by then, is forgotten.
func TestPortTakenWhileDeparting(t *testing.T) {
	run(t, func(s *script) {
		s.noLegs[s.snapshot.IDs["a1"]] = time.Second
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, get("a.test"))
		s.opens(anna, web, 9)
		time.Sleep(2 * time.Second)
		s.expect()
		s.expectReplayed()
		s.expectNothingHeld()
	})
}
