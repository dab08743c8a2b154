package router

import (
	"math/rand/v2"
	"strings"
	"testing"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// parts are what heads are made of: fields that the router sets, in forms that some server may take for them, and ordinary lines.
var parts = []string{
	"X-Forwarded-For", "x-forwarded-for", "X_FORWARDED-FOR", "X-Forwarded_For", "X-Forwarded-For ", " X-Forwarded-For", "X-Forwarded-For\t", "\x00X-Forwarded-For", "Host", "A", "Connection", "Content-Length",
	"Transfer-Encoding", ":", ": ", ":\t", " : ", "10.6.6.6", "a", "5", "0", "chunked", "close", "close, X-Forwarded-For", "keep-alive", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\n ", "\r\n\t", "\r\n\r\n",
	"GET /a HTTP/1.1\r\nHost: a\r\n", "\x0b", "\xa0", ",",
}

// aHead is a request that is likely to be spliced, with anything in it.
func aHead(r *rand.Rand) string {
	b := "GET /a HTTP/1.1\r\nHost: a\r\n"
	if r.IntN(8) == 0 {
		b = "GET /a HTTP/1.0\r\n"
	}
	for range r.IntN(4) {
		if r.IntN(2) == 0 {
			b += "A: b\r\n"
			continue
		}
		for range 1 + r.IntN(6) {
			b += parts[r.IntN(len(parts))]
		}
		b += "\r\n"
	}
	return b + "\r\n"
}

// told is what a lenient server takes for the client's address in the first head of b: LF ends a line, blanks count for nothing, and
// '_' is '-'.
func told(b string) (values []string) {
	for line := range strings.SplitSeq(b, "\n") {
		line = strings.Trim(line, "\r")
		if line == "" {
			return values
		}
		name, value, _ := strings.Cut(line, ":")
		name = strings.Map(func(c rune) rune {
			switch {
			case c == '_':
				return '-'
			case c <= ' ' || c > 0x7f:
				return -1
			}
			return c
		}, name)
		if strings.EqualFold(name, "X-Forwarded-For") {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return append(values, "no end")
}

// spoofs sends so many random heads, and requires that each that is spliced tells the client's address alone.
func spoofs(t *testing.T, heads int) {
	r := kerneltest.Rand(t)
	f := families[0]
	k, _, _ := marked(t, f, forwardedFor)
	spliced := 0
	for range heads {
		s := k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.seq += packet.Seq(r.Uint32())
		c.connect(routerVerdictSYN_ANSWERED)
		request := aHead(r)
		res := k.run(packet.Build(c.packet(packet.ACK, request)))
		if res.verdict == Verdict(routerVerdictHANDOFF) {
			spliced++
			got := string(s.takes(res).Payload())
			if values := told(got); len(values) != 1 || values[0] != f.client.Addr().String() || len(got) != len(request)+len("X-Forwarded-For: 192.0.2.7\r\n") {
				t.Fatalf("%q\nbecame %q", request, got)
			}
		}
		k.must(replace(k.maps.Flows, map[routerTuple]routerFlow{}, all))
		k.must(replace(k.maps.Clients, map[routerTuple]routerClient{}, all))
		k.queued(1, f.class())
	}
	if t.Logf("%d of %d heads were spliced", spliced, heads); spliced < heads/10 || spliced == heads {
		t.Errorf("%d of %d heads were spliced", spliced, heads)
	}
}

// TestNoSpoof: no head makes a surrogate believe its client's own words.
func TestNoSpoof(t *testing.T) { spoofs(t, 2000) }
