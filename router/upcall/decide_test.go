package upcall

import (
	"slices"
	"strings"
	"testing"
	"time"

	"baton/packet"
	"baton/router/fallback"
	"baton/router/outcome"
)

// TestOutcomes: each request comes to its end, with the decision and the answer that it should get, and nothing of it is kept.
func TestOutcomes(t *testing.T) {
	hello, unknown := helloFor(t, "c.test"), helloFor(t, "other.test")
	for _, tt := range []struct {
		name    string
		vip     string
		text    string
		prepare func(s *script)
		want    outcome.Outcome
		status  int    // of the answer
		to      string // the surrogate it is spliced to
	}{
		{"a request", "web", get("a.test"), nil, outcome.Spliced, 0, "a1"},
		{"no route", "web", get("other.test"), nil, outcome.NoRoute, 404, ""},
		{"malformed", "web", "GET\r\n\r\n", nil, outcome.Refused, 400, ""},
		{"a malformed chunked body", "web", "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", nil, outcome.Refused, 400, ""},
		{"no surrogate is up", "web", get("a.test"), func(s *script) { s.put(snapshotOf(s.snapshot.Compiled, "a1")) }, outcome.NoSurrogate, 503, ""},
		{"a surrogate on this host", "web", get("a.test"), func(s *script) { s.local[s.snapshot.IDs["a1"]] = true },
			outcome.LocalSurrogate, 0, ""},
		{"a surrogate on loopback", "mixed", get("a.test"), nil, outcome.LocalSurrogate, 0, ""},
		{"a surrogate of the other family", "mixed", get("six.test"), nil, outcome.OtherFamily, 0, ""},
		{"no leg", "web", get("a.test"), func(s *script) { s.noLegs[s.snapshot.IDs["a1"]] = 0 }, outcome.NoLeg, 0, ""},
		{"no place for a session", "web", get("a.test"), func(s *script) { s.noPlace = true }, outcome.NoPlace, 0, ""},
		{"no place for a session of TLS", "secure", hello, func(s *script) { s.noPlace = true }, outcome.NoPlace, 0, ""},
		{"no place, the address kept", "keep", hello, func(s *script) { s.noPlace = true }, outcome.NoPlace, 0, ""},
		{"a leg of the other surrogate", "web", get("two.test"), func(s *script) { s.noLegs[s.snapshot.IDs["t1"]] = 0 }, outcome.Spliced, 0, "t2"},
		{"two requests at once, held", "hold", get("a.test") + get("a.test"), nil, outcome.Pipelined, 0, ""},
		{"two requests at once, passed", "web", get("a.test") + get("a.test"), nil, outcome.Spliced, 0, "a1"},
		{"a field of ours", "fields", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1\r\n\r\n", nil, outcome.ClientField, 0, ""},
		{"fields that cannot be put in", "fields", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", nil, outcome.NotInsertable, 0, ""},
		{"a hello", "secure", hello, nil, outcome.Spliced, 0, "c1"},
		{"a hello for nobody", "secure", unknown, nil, outcome.NoRoute, 0, ""},
		{"no hello", "secure", get("a.test"), nil, outcome.Refused, 0, ""},
		{"a hello, the client's address kept", "keep", hello, nil, outcome.Spliced, 0, "k1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(s *script) {
				vip := map[string]int{"web": 0, "hold": 1, "fields": 2, "secure": 3, "keep": 4, "mixed": 5}[tt.vip]
				at := s.snapshot.Config.VIPs[vip].Address
				if tt.prepare != nil {
					tt.prepare(s)
				}
				s.opens(anna, at, 1000)
				s.sends(anna, at, 1000, packet.PSH, tt.text)
				s.expect(tt.want)
				s.expectReplayed(tt.text)
				s.expectVerdict(anna, tt.status)
				s.expectNothingHeld()
				if why := s.decider.TakeReason(anna, at); why != tt.want && tt.want != outcome.Spliced {
					t.Errorf("the socket is given reason %q, want %q", why, tt.want)
				}
				d := s.decision(anna, at)
				if d.Local != (tt.to == "") {
					t.Errorf("decision %+v, want surrogate %q", d, tt.to)
				}
				if tt.to != "" && (d.Surrogate != s.snapshot.IDs[tt.to] || !slices.Equal(s.handed, []string{tt.to})) {
					t.Errorf("decision %+v, handed %q, want surrogate %q", d, s.handed, tt.to)
				}
			})
		})
	}
}

// TestDecision: the kernel learns what it needs of a request.
func TestDecision(t *testing.T) {
	run(t, func(s *script) {
		head := "POST / HTTP/1.1\r\nHost: A.test:80\r\nContent-Length: 10\r\n\r\n"
		s.opens(anna, web, 7)
		s.sends(anna, web, 7, 0, head+"0123")
		d := s.decision(anna, web)
		if d.Request != uint64(len(head)+10) || d.Chunked || d.Opaque || d.Keep || d.Pool != s.snapshot.Pools[0].ID {
			t.Errorf("decision %+v", d)
		}
		s.expect(outcome.Spliced)
		hello := helloFor(t, "c.test")
		s.opens(anna, keep, 7)
		s.sends(anna, keep, 7, 0, hello)
		if d := s.decision(anna, keep); !d.Opaque || !d.Keep || d.Leg != 7 {
			t.Errorf("decision %+v", d)
		}
		s.opens(berta, secure, 7)
		s.sends(berta, secure, 7, 0, hello)
		if !slices.Equal(s.names, []string{"c.test"}) {
			t.Errorf("kept names %q, want the one for the PROXY header", s.names)
		}
	})
}

// TestSegments: a request in pieces is decided when its head is whole, whatever their order, and replayed in order and once.
func TestSegments(t *testing.T) {
	text := get("a.test")
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 0, 2, 1, 3}} {
		run(t, func(s *script) {
			parts := pieces(text, (len(text)+3)/4)
			s.opens(anna, web, 1<<32-10) // the sequence numbers wrap in it
			for _, i := range order {
				s.sends(anna, web, packet.Seq(1<<32-10).Add(uint32(i*len(parts[0]))), 0, parts[i])
			}
			s.expect(outcome.Spliced)
			s.expectReplayed(parts...)
			s.expectNothingHeld()
		})
	}
}

// TestSegmentsWhileDeciding: what comes while a leg is waited for is replayed behind the request.
func TestSegmentsWhileDeciding(t *testing.T) {
	run(t, func(s *script) {
		s.noLegs[s.snapshot.IDs["t1"]] = time.Second
		s.opens(anna, web, 1)
		text := get("two.test")
		s.sends(anna, web, 1, 0, text)
		s.sends(anna, web, packet.Seq(1+len(text)), 0, "more")
		s.expect()
		time.Sleep(2 * time.Second)
		s.expect(outcome.Spliced)
		s.expectReplayed(text, "more")
		s.expectNothingHeld()
	})
}

// TestLegsInVain: at most three surrogates are tried for a request, none twice, each for a while.
func TestLegsInVain(t *testing.T) {
	run(t, func(s *script) {
		s.noLegs[s.snapshot.IDs["t1"]], s.noLegs[s.snapshot.IDs["t2"]] = time.Hour, time.Hour
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, get("two.test"))
		time.Sleep(2*legWait - time.Millisecond)
		s.expect()
		time.Sleep(2 * time.Millisecond)
		s.expect(outcome.NoLeg)
		if got := s.decider.TakeChosen(anna, web); got != "" {
			t.Errorf("the proxy gets %q, which has no leg", got)
		}
	})
}

// TestChosenForTheProxy: a surrogate that cannot be spliced to is the one that the proxy takes, for a while and once.
func TestChosenForTheProxy(t *testing.T) {
	run(t, func(s *script) {
		s.local[s.snapshot.IDs["a1"]] = true
		for range 2 {
			s.opens(anna, web, 1)
			s.sends(anna, web, 1, 0, get("a.test"))
			s.expect(outcome.LocalSurrogate)
		}
		if got := s.decider.TakeChosen(anna, web); got != "a1" {
			t.Errorf("chosen %q, want a1", got)
		}
		if got := s.decider.TakeChosen(anna, web); got != "" {
			t.Errorf("chosen %q a second time", got)
		}
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, get("a.test"))
		time.Sleep(handedOverLife + 2*expireEvery)
		if got := s.decider.TakeChosen(anna, web); got != "" {
			t.Errorf("chosen %q long after", got)
		}
	})
}

// TestKernelCannotInsert: a request that the kernel has routed, and cannot put fields into, is proxied.
func TestKernelCannotInsert(t *testing.T) {
	run(t, func(s *script) {
		s.opens(anna, fields, 1)
		s.clients[clientKey{anna, fields}].Proxy = true
		s.sends(anna, fields, 1, 0, get("h"))
		s.expect(outcome.NotInsertable)
		s.expectNothingHeld()
	})
}

// TestOldVerdict: an answer that was decided for an earlier client of the port is not given to a proxied one.
func TestOldVerdict(t *testing.T) {
	run(t, func(s *script) {
		s.verdicts.Put(anna, fallback.Verdict{Status: 404, Reason: "of an earlier session"})
		s.local[s.snapshot.IDs["a1"]] = true
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, get("a.test"))
		s.expect(outcome.LocalSurrogate)
		s.expectVerdict(anna, 0)
	})
}

// TestTooLong: a head that is too long is refused; one in too many segments, and a hello that is too long, are for
// the socket to judge.
func TestTooLong(t *testing.T) {
	run(t, func(s *script) {
		s.opens(anna, web, 1)
		s.sends(anna, web, 1, 0, "GET / HTTP/1.1\r\nHost: a.test\r\nX: ")
		seq := packet.Seq(1 + len("GET / HTTP/1.1\r\nHost: a.test\r\nX: "))
		for i := 0; len(s.outcomes) == 0 && i < maxPendingSegments+1; i++ {
			s.sends(anna, web, seq, 0, long)
			seq = seq.Add(uint32(len(long)))
		}
		s.expect(outcome.Refused)
		s.expectVerdict(anna, 431)
		s.expectNothingHeld()

		s.opens(anna, web, 1)
		seq = 1
		short := "GET /" + strings.Repeat("x", maxPendingSegments)
		for _, b := range pieces(short, 1)[:maxPendingSegments+1] {
			s.sends(anna, web, seq, 0, b)
			seq = seq.Add(1)
		}
		s.expect(outcome.Proxied)
		s.expectNothingHeld()

		s.opens(anna, secure, 1)
		seq = 1
		for _, b := range pieces(strings.Repeat(helloFor(t, "c.test"), 2), 2)[:maxPendingSegments+1] { // more segments than are kept
			s.sends(anna, secure, seq, 0, b)
			seq = seq.Add(2)
		}
		s.expect(outcome.Proxied)
		s.expectNothingHeld()
	})
}
