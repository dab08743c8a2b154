package router

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// pieces cuts s at random places into at most eight pieces.
func pieces(r *rand.Rand, s string) []string {
	var all []string
	for len(all) < 7 && len(s) > 1 {
		n := 1 + r.IntN(len(s)-1)
		all, s = append(all, s[:n]), s[n:]
	}
	return append(all, s)
}

// A response head leaves the session in the same state however it is split into packets.
func TestHeadInAnyPieces(t *testing.T) {
	r := kerneltest.Rand(t)
	k := newRig(t)
	k.vip(families[0])
	end := func(parts ...string) framing {
		t.Helper()
		st := k.newStream(families[0])
		st.client(get)
		for _, p := range parts {
			st.surrogate(p)
		}
		return st.at()
	}
	lines := []string{
		"Content-Length: 3\r\n", "Content-Length: 3\r\n", "content-length:003\r\n", "Content-Length: 3x\r\n", "Content-Lengthy: 4\r\n",
		"Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip\r\n", "Connection: close\r\n", "Connection: keep-alive\r\n",
		"Connection: upgrade\r\n", "Upgrade: h2c\r\n", "X: y\r\n", "X:\r\n", " folded\r\n", "\tfolded\r\n", "T: a\tb\r\n", "bare\rCR\r\n", "bare\nLF\r\n",
		"Set-Cookie: " + strings.Repeat("c", 300) + "\r\n", "Content-Security-Policy: default-src 'self'\r\n",
	}
	outcomes := make(map[framing]int)
	for range kerneltest.Rounds(3000) {
		var b strings.Builder
		b.WriteString([]string{"HTTP/1.1 200 OK\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 404 \r\n", "HTTP/1.1 304 Not Modified\r\n", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n"}[r.IntN(5)])
		for range r.IntN(4) {
			b.WriteString(lines[r.IntN(len(lines))])
		}
		b.WriteString("\r\n")
		b.WriteString([]string{"", "abc", "3\r\nabc\r\n0\r\n\r\n"}[r.IntN(3)])
		whole := b.String()
		want := end(whole)
		outcomes[want]++
		cut := pieces(r, whole)
		if got := end(cut...); got != want {
			t.Fatalf("%q: got %v, whole %v", cut, got, want)
		}
	}
	for _, f := range []framing{quiet, opaque, body, chunks, closes} {
		if outcomes[f] < kerneltest.Rounds(15) {
			t.Errorf("one-sided: %v", outcomes)
		}
	}
}

// Heads of many lines, in packets of the usual size, and in one large one.
func TestLongHead(t *testing.T) {
	k := newRig(t)
	k.vip(families[0])
	for _, tc := range []struct {
		name string
		head string
		want framing
	}{
		{"many lines", strings.Repeat("Set-Cookie: session=0123456789abcdef; Path=/; HttpOnly\r\n", 150), quiet},
		{"one line", "Content-Security-Policy: " + strings.Repeat("x", 2900) + "\r\n", opaque}, // begins like Content-Length
		{"another line", "Report-To: " + strings.Repeat("x", 2900) + "\r\n", quiet},
	} {
		whole := ok + tc.head + "Content-Length: 3\r\n\r\nabc"
		for _, size := range []int{1448, 700, 3_500} {
			st := k.newStream(families[0])
			st.client(get)
			for rest := whole; len(rest) > 0; {
				n := min(size, len(rest))
				st.surrogate(rest[:n])
				rest = rest[n:]
			}
			if got := st.at(); got != tc.want {
				t.Errorf("%s, %d bytes a packet: got %v, want %v", tc.name, size, got, tc.want)
			}
		}
	}
}

// routed returns the stream's VIP several pools.
func (st *stream) routed() {
	st.k.t.Helper()
	s := st.k.splice(0)
	s.Flags |= uint32(routerSpliceFlagSPLICE_ROUTED)
	st.k.must(st.k.maps.Splices.Update(uint32(0), s, ebpf.UpdateAny))
}

// part sends the surrogate's bytes from..to of the response that began at start.
func (st *stream) part(start packet.Seq, response string, from, to int, verdict routerVerdict) {
	st.k.t.Helper()
	st.v.Seq, st.v.Payload, st.v.Ack = start+packet.Seq(from), []byte(response[from:to]), routerNext+(st.c.Seq-clientNext)
	action := uint32(actRedirect)
	if verdict == routerVerdictDROP_GAP {
		action = actShot
	}
	st.k.want(packet.Build(st.v), verdict, action)
}

// Where requests are routed separately, losses do not make the router lose track of their starts.
func TestGapsOfRoutedSessions(t *testing.T) {
	length := ok + "Content-Length: 10\r\n\r\n0123456789" // 39 bytes of head
	chunked := chunkedHead + "5\r\nhello\r\n3\r\nabc\r\n0\r\n\r\n"
	const at = len(chunkedHead)
	const to, gap = routerVerdictTO_CLIENT, routerVerdictDROP_GAP
	type step struct {
		from, to int
		verdict  routerVerdict
	}
	for _, tc := range []struct {
		name     string
		response string
		steps    []step
	}{
		{"head", length, []step{{39, 49, gap}, {0, 39, to}, {39, 49, to}}},
		{"rest of the head", length, []step{{0, 10, to}, {20, 49, gap}, {10, 49, to}}},
		{"body", length, []step{{0, 41, to}, {45, 49, to}}},
		{"within a chunk", chunked, []step{{0, at + 4, to}, {at + 6, len(chunked), to}}},
		{"up to the end of a chunk", chunked, []step{{0, at + 4, to}, {at + 8, len(chunked), to}}},
		{"end of a chunk", chunked, []step{{0, at + 4, to}, {at + 9, len(chunked), gap}, {at + 4, at + 9, to}, {at + 9, len(chunked), to}}},
		{"chunk size", chunked, []step{{0, at + 10, to}, {at + 11, len(chunked), gap}, {at + 8, len(chunked), to}}},
		{"repeated with what is new", chunked, []step{{0, at + 10, to}, {at + 1, len(chunked), to}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newRig(t)
			k.vip(families[0])
			st := k.newStream(families[0])
			st.routed()
			st.client(get)
			start := st.v.Seq
			for _, s := range tc.steps {
				st.part(start, tc.response, s.from, s.to, s.verdict)
			}
			if got := st.at(); got != quiet {
				t.Errorf("got %v, want %v", got, quiet)
			}
		})
	}
	t.Run("FIN behind a gap", func(t *testing.T) {
		k := newRig(t)
		k.vip(families[0])
		st := k.newStream(families[0])
		st.routed()
		st.client(get)
		start := st.v.Seq
		st.v.Flags |= packet.FIN
		st.part(start, length, 39, 49, to) // it closes: nothing is left to route
		if s := k.splice(0); s.Flags&uint32(routerSpliceFlagSPLICE_SERVER_FIN) == 0 || s.RcvNxt != uint32(start)+50 || st.at() != opaque {
			t.Errorf("splice: %+v", s)
		}
	})
	t.Run("FIN alone behind a gap", func(t *testing.T) {
		k := newRig(t)
		k.vip(families[0])
		st := k.newStream(families[0])
		st.client(get)
		start := st.v.Seq
		st.part(start, length, 0, 39, to)
		st.v.Flags |= packet.FIN
		st.part(start, length, 49, 49, to)
		if s := k.splice(0); s.Flags&uint32(routerSpliceFlagSPLICE_SERVER_FIN) == 0 || s.RcvNxt != uint32(start)+50 {
			t.Errorf("splice: %+v", s)
		}
	})
	t.Run("next request", func(t *testing.T) {
		k := newRig(t)
		k.vip(families[0])
		st := k.newStream(families[0])
		st.c.Seq += 3
		st.c.Payload = []byte(get)
		k.want(packet.Build(st.c), routerVerdictDROP_EARLY, actShot)
		st.c.Seq -= 3
		st.client(get)
		if got := st.at(); got != head {
			t.Errorf("got %v, want %v", got, head)
		}
	})
}

const postChunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

// A chunked request is tracked like a response, from the end of the head that user space has found.
func TestChunkedRequest(t *testing.T) {
	r := kerneltest.Rand(t)
	upload := "5\r\nhello\r\n1a;x\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nT: u\r\n\r\n"
	begin := func(k *rig, f family, first string) *stream {
		k.t.Helper()
		st := k.newStream(f)
		k.must(k.maps.Clients.Update(tuple(f.client, f.vip), &routerClient{
			State: uint8(routerClientStateCLIENT_SPLICE), Seq: uint32(st.c.Seq), Surrogate: 1, Pool: 1, Request: uint64(len(postChunked)), Chunked: 1,
		}, ebpf.UpdateAny))
		s := k.splice(0)
		s.Flags |= uint32(routerSpliceFlagSPLICE_UPCALL | routerSpliceFlagSPLICE_ROUTED)
		k.must(k.maps.Splices.Update(uint32(0), s, ebpf.UpdateAny))
		st.client(first)
		return st
	}
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		for range 200 {
			cut := pieces(r, postChunked+upload)
			st := begin(k, f, cut[0])
			for _, p := range cut[1:] {
				st.client(p)
			}
			if got := st.at(); got != head {
				t.Fatalf("%q: got %v, want %v", cut, got, head)
			}
			st.surrogate(ok + "Content-Length: 0\r\n\r\n")
			if got := st.at(); got != quiet {
				t.Fatalf("%q: got %v, want %v", cut, got, quiet)
			}
		}
	})
	for _, tc := range []struct {
		name string
		sent []string
		want framing
	}{
		{"half of the head", []string{postChunked[:20]}, framing{routerFramingFRAMING_HEAD, routerFramingFRAMING_HEAD}},
		{"head", []string{postChunked}, framing{routerFramingFRAMING_CHUNKED, routerFramingFRAMING_HEAD}},
		{"half of a chunk", []string{postChunked, upload[:5]}, framing{routerFramingFRAMING_CHUNKED, routerFramingFRAMING_HEAD}},
		{"not a chunk", []string{postChunked, "hello"}, opaque},
		{"next request behind it", []string{postChunked + upload + get}, opaque},
		{"next request in the next packet", []string{postChunked + upload, get}, opaque},
		{"answered early", []string{postChunked, "<" + ok + "Content-Length: 0\r\n\r\n"}, framing{routerFramingFRAMING_CHUNKED, routerFramingFRAMING_DONE}},
		{"and then complete", []string{postChunked, "<" + ok + "Content-Length: 0\r\n\r\n", upload}, quiet},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newRig(t)
			k.vip(families[0])
			st := begin(k, families[0], tc.sent[0])
			for _, p := range tc.sent[1:] {
				if p[0] == '<' {
					st.surrogate(p[1:])
				} else {
					st.client(p)
				}
			}
			if got := st.at(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	for _, tc := range []struct {
		from    int // of the upload: bytes after its first four
		verdict routerVerdict
	}{{6, routerVerdictTO_SERVER}, {8, routerVerdictTO_SERVER}, {9, routerVerdictDROP_EARLY}} {
		t.Run(fmt.Sprintf("gap of %d bytes", tc.from-4), func(t *testing.T) {
			k := newRig(t)
			k.vip(families[0])
			st := begin(k, families[0], postChunked+upload[:4])
			start := st.c.Seq
			action := uint32(actRedirect)
			if tc.verdict == routerVerdictDROP_EARLY {
				action = actShot
			}
			st.c.Seq, st.c.Payload = start+packet.Seq(tc.from-4), []byte(upload[tc.from:])
			k.want(packet.Build(st.c), tc.verdict, action)
			st.c.Seq = start
			st.client(upload[4:])
			if got := st.at(); got != head {
				t.Errorf("got %v, want %v", got, head)
			}
		})
	}
}
