package router

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// stream is a session whose tests send bytes from either end. Every packet must pass.
type stream struct {
	k    *rig
	s    routerSplice
	c, v packet.Spec // next bytes of client and surrogate
}

// newStream returns a session between messages.
func (k *rig) newStream(f family) *stream {
	k.t.Helper()
	client, server := f.legs()
	st := &stream{k: k, s: spliceOf(client, server), c: f.fromClient(""), v: f.fromSurrogate("")}
	st.s.Request, st.s.Response, st.s.Surrogate, st.s.Pool = 0, 0, 1, 1
	st.s.ClientRequests = 2
	k.put(0, st.s)
	return st
}

func (st *stream) client(payload string) {
	st.k.t.Helper()
	st.c.Payload, st.c.Ack = []byte(payload), vipNext+(st.v.Seq-surrogateNext)
	st.k.want(packet.Build(st.c), routerVerdictTO_SERVER, actRedirect)
	st.c.Seq += packet.Seq(len(payload))
}

func (st *stream) surrogate(payload string) {
	st.k.t.Helper()
	st.v.Payload, st.v.Ack = []byte(payload), routerNext+(st.c.Seq-clientNext)
	r := st.k.want(packet.Build(st.v), routerVerdictTO_CLIENT, actRedirect)
	if got := r.parsed(st.k.t).Payload(); string(got) != payload {
		st.k.t.Fatalf("payload: got %q, want %q", got, payload)
	}
	st.v.Seq += packet.Seq(len(payload))
}

// framing is the state of the session in the kernel.
type framing struct{ request, response routerFraming }

func (f framing) String() string {
	names := [...]string{"quiet", "head", "part", "body", "chunked", "done", "close", "opaque"}
	return names[f.request] + "/" + names[f.response]
}

func (st *stream) at() framing {
	st.k.t.Helper()
	s := st.k.splice(0)
	return framing{routerFraming(s.Request), routerFraming(s.Response)}
}

var (
	quiet  = framing{}
	opaque = framing{routerFramingFRAMING_OPAQUE, routerFramingFRAMING_OPAQUE}
	head   = framing{routerFramingFRAMING_DONE, routerFramingFRAMING_HEAD}
	body   = framing{routerFramingFRAMING_DONE, routerFramingFRAMING_BODY}
	part   = framing{routerFramingFRAMING_DONE, routerFramingFRAMING_PART}
	chunks = framing{routerFramingFRAMING_DONE, routerFramingFRAMING_CHUNKED}
	closes = framing{routerFramingFRAMING_DONE, routerFramingFRAMING_CLOSE}
)

const (
	get     = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	headReq = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
	post4   = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
	ok      = "HTTP/1.1 200 OK\r\n"
)

// The state of a session after each packet of a script: "> " is from the client, "< " from the surrogate.
func TestFraming(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script []string
		want   framing
	}{
		{"request", []string{">" + get}, head},
		{"empty body", []string{">" + get, "<" + ok + "Content-Length: 0\r\n\r\n"}, quiet},
		{"body", []string{">" + get, "<" + ok + "Content-Length: 3\r\n\r\nabc"}, quiet},
		{"body in other packets", []string{">" + get, "<" + ok + "Content-Length: 3\r\n\r\n", "<a", "<bc"}, quiet},
		{"body not complete", []string{">" + get, "<" + ok + "Content-Length: 3\r\n\r\n", "<a"}, body},
		{"body too long", []string{">" + get, "<" + ok + "Content-Length: 3\r\n\r\nabcd"}, opaque},
		{"body too long later", []string{">" + get, "<" + ok + "Content-Length: 3\r\n\r\nab", "<cd"}, opaque},
		{"length of 15 digits", []string{">" + get, "<" + ok + "Content-Length: 999999999999999\r\n\r\nab"}, body},
		{"length of 16 digits", []string{">" + get, "<" + ok + "Content-Length: 1000000000000000\r\n\r\nab"}, opaque},
		{"length without blank", []string{">" + get, "<" + ok + "content-LENGTH:2\r\n\r\nab"}, quiet},
		{"length with blanks", []string{">" + get, "<" + ok + "Content-Length:   2\r\n\r\nab"}, quiet},
		{"length and trailing blank", []string{">" + get, "<" + ok + "Content-Length: 2 \r\n\r\nab"}, opaque},
		{"two lengths", []string{">" + get, "<" + ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab"}, opaque},
		{"HEAD", []string{">" + headReq, "<" + ok + "Content-Length: 300\r\n\r\n"}, quiet},
		{"HEAD, chunked", []string{">" + headReq, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n"}, quiet},
		{"HEAD with a body", []string{">" + headReq, "<" + ok + "Content-Length: 3\r\n\r\nabc"}, opaque},
		{"HEAD, then GET", []string{">" + headReq, "<" + ok + "Content-Length: 3\r\n\r\n", ">" + get, "<" + ok + "Content-Length: 3\r\n\r\n"}, body},
		{"204", []string{">" + get, "<HTTP/1.1 204 No Content\r\n\r\n"}, quiet},
		{"304", []string{">" + get, "<HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"}, quiet},
		{"404", []string{">" + get, "<HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx"}, quiet},
		{"100, then final", []string{">" + post4, "<HTTP/1.1 100 Continue\r\n\r\n", ">body", "<" + ok + "Content-Length: 0\r\n\r\n"}, quiet},
		{"103 twice, then final", []string{">" + get, "<HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", "<HTTP/1.1 103 Early Hints\r\n\r\n", "<" + ok + "Content-Length: 0\r\n\r\n"}, quiet},
		{"103 with Content-Length", []string{">" + get, "<HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n"}, head},
		{"100 and final together", []string{">" + get, "<HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n"}, quiet},
		{"103 twice and final together", []string{">" + get, "<HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + ok + "Content-Length: 3\r\n\r\na"}, body},
		{"100 and half of final", []string{">" + get, "<HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 2", "<00 OK\r\nContent-Length: 0\r\n\r\n"}, quiet},
		{"101", []string{">" + get, "<HTTP/1.1 101 Switching Protocols\r\n\r\n"}, opaque},
		{"close-delimited", []string{">" + get, "<" + ok + "\r\nabc", "<def"}, closes},
		{"chunked", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"}, quiet},
		{"chunked, upper case", []string{">" + get, "<" + ok + "TRANSFER-ENCODING: CHUNKED\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n"}, quiet},
		{"chunked, not complete", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"}, chunks},
		{"chunk extension", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0 ;z\r\n\r\n"}, quiet},
		{"bare LF in a chunk extension", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n3;x\ny\r\nabc\r\n0\r\n\r\n"}, opaque},
		{"bare CR in a chunk extension", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n3;x\ry\r\nabc\r\n0\r\n\r\n"}, opaque},
		{"blanks behind a chunk size", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n3 \t\r\nabc\r\n0\r\n\r\n"}, quiet},
		{"more than blanks behind a chunk size", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n2 xyz\r\nab\r\n0\r\n\r\n"}, opaque},
		{"HTTP/1.0, chunked", []string{">" + get, "<HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, opaque},
		{"blank in a field name", []string{">" + get, "<" + ok + "X y: z\r\nContent-Length: 0\r\n\r\n"}, opaque},
		{"blank before a colon", []string{">" + get, "<" + ok + "X : z\r\nContent-Length: 0\r\n\r\n"}, opaque},
		{"line without a colon", []string{">" + get, "<" + ok + "X\r\nContent-Length: 0\r\n\r\n"}, opaque},
		{"blank in a long line's field name", []string{">" + get, "<" + ok + "X y: " + strings.Repeat("z", 200), "<z\r\nContent-Length: 0\r\n\r\n"}, opaque},
		{"long line in pieces", []string{">" + get, "<" + ok + "X-Y: " + strings.Repeat("z", 200), "<z\r\nContent-Length: 0\r\n\r\n"}, quiet},
		{"field name of 63 bytes", []string{">" + get, "<" + ok + strings.Repeat("x", 63) + ": z\r\nContent-Length: 0\r\n\r\n"}, quiet},
		{"field name of 64 bytes", []string{">" + get, "<" + ok + strings.Repeat("x", 64) + ": z\r\nContent-Length: 0\r\n\r\n"}, opaque},
		{"offer of an upgrade", []string{">" + get, "<" + ok + "Upgrade: h2\r\nConnection: Upgrade, Keep-Alive\r\nContent-Length: 0\r\n\r\n"}, quiet},
		{"trailers", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\nZ:\r\n\r\n"}, quiet},
		{"trailer not complete", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n"}, chunks},
		{"bare LF in a trailer", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n"}, opaque},
		{"NUL in a trailer", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: \x00\r\n\r\n"}, opaque},
		{"bytes behind the trailers", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\nx"}, opaque},
		{"bytes behind the last chunk", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nx"}, opaque},
		{"chunked and length", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"}, opaque},
		{"gzip, chunked", []string{">" + get, "<" + ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"}, opaque},
		{"chunked twice", []string{">" + get, "<" + ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, opaque},
		{"head in two packets", []string{">" + get, "<HTTP/1.1 200", "< OK\r\nContent-Length: 0\r\n\r\n"}, quiet},
		{"head not complete", []string{">" + get, "<" + ok + "Content-Len"}, part},
		{"head in two packets is not HTTP", []string{">" + get, "<SSH-2.0-", "<x\r\n\r\n"}, opaque},
		{"one byte of the next message behind a head", []string{">" + headReq, "<" + ok, "<\r\nH"}, opaque},
		{"not HTTP", []string{">" + get, "<SSH-2.0-x\r\n\r\n"}, opaque},
		{"HTTP/2", []string{">" + get, "<HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"}, opaque},
		{"status of letters", []string{">" + get, "<HTTP/1.1 2x4 OK\r\n\r\n"}, opaque},
		{"status of two digits", []string{">" + get, "<HTTP/1.1 20 OK\r\n\r\n"}, opaque},
		{"unsolicited response", []string{"<" + ok + "Content-Length: 0\r\n\r\n"}, opaque},
		{"second response", []string{">" + get, "<" + ok + "Content-Length: 0\r\n\r\n", "<" + ok + "Content-Length: 0\r\n\r\n"}, opaque},
		{"pipelined together", []string{">" + get + get}, opaque},
		{"pipelined behind", []string{">" + get, ">" + get}, opaque},
		{"pipelined behind a body", []string{">" + post4 + "body" + get}, opaque},
		{"upload", []string{">" + post4 + "body", "<" + ok + "Content-Length: 0\r\n\r\n"}, quiet},
		{"upload in pieces", []string{">" + post4, ">bo", ">dy", "<" + ok + "Content-Length: 0\r\n\r\n"}, quiet},
		{"upload not complete", []string{">" + post4, ">bo"}, framing{routerFramingFRAMING_BODY, routerFramingFRAMING_HEAD}},
		{"upload too long", []string{">" + post4, ">bod", ">yx"}, opaque},
		{"response before the upload is complete", []string{">" + post4 + "b", "<" + ok + "Content-Length: 0\r\n\r\n"}, framing{routerFramingFRAMING_BODY, routerFramingFRAMING_DONE}},
		{"and then it is", []string{">" + post4 + "b", "<" + ok + "Content-Length: 0\r\n\r\n", ">ody"}, quiet},
		{"second request after an exchange", []string{">" + get, "<" + ok + "Content-Length: 0\r\n\r\n", ">" + post4, ">body", "<" + ok + "Content-Length: 0\r\n\r\n"}, quiet},
		{"no way back from opaque", []string{">" + get + get, "<" + ok + "Content-Length: 0\r\n\r\n", "<" + ok + "Content-Length: 0\r\n\r\n", ">" + get, "<" + ok + "Content-Length: 0\r\n\r\n"}, opaque},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, f := range families {
				k := newRig(t)
				k.vip(f)
				st := k.newStream(f)
				for _, line := range tc.script {
					if line[0] == '>' {
						st.client(line[1:])
					} else {
						st.surrogate(line[1:])
					}
				}
				if got := st.at(); got != tc.want {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			}
		})
	}
}

func TestLeaveAnnouncedByTheSurrogate(t *testing.T) {
	for head, want := range map[string]bool{
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n":      true,
		"HTTP/1.1 200 OK\r\nconnection:CLOSE\r\nContent-Length: 0\r\n\r\n":       true,
		"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n": false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":                           false,
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n":                           true,
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n": false,
	} {
		k := newRig(t)
		k.vip(families[0])
		st := k.newStream(families[0])
		st.client(get)
		st.surrogate(head)
		if got := k.splice(0).Flags&uint32(routerSpliceFlagSPLICE_NO_REUSE) != 0; got != want || st.at() != quiet {
			t.Errorf("%q: got %t, %v, want %t, quiet", head, got, st.at(), want)
		}
	}
}

var (
	chunkLine = regexp.MustCompile(`^0*(?:[0-9a-fA-F]{1,15}|[1-7][0-9a-fA-F]{15})[ \t]*(;[\t -~\x80-\xff]*)?$`)
	chunkPart = regexp.MustCompile(`^(0*[0-9a-fA-F]{0,15}|0*(?:[0-9a-fA-F]{1,15}|[1-7][0-9a-fA-F]{15})[ \t]*(;[\t -~\x80-\xff]*)?\r?)$`)
	fieldLine = regexp.MustCompile(`^[\t -~\x80-\xff]*$`)
	fieldPart = regexp.MustCompile(`^[\t -~\x80-\xff]*\r?$`)
)

// afterChunks is the state after a chunked body, parsed by the grammar of RFC 9112, 7.1.
func afterChunks(b []byte) framing {
	for {
		line, rest, found := bytes.Cut(b, []byte("\n"))
		if !found {
			if !chunkPart.Match(latin1(b)) {
				return opaque
			}
			return chunks
		}
		line, whole := bytes.CutSuffix(line, []byte("\r"))
		if !whole || !chunkLine.Match(latin1(line)) {
			return opaque
		}
		var size uint64
		fmt.Sscanf(strings.ToLower(string(line)), "%x", &size)
		if size == 0 {
			return afterTrailers(rest)
		}
		if uint64(len(rest)) <= size {
			return chunks
		}
		rest = rest[size:]
		if len(rest) == 1 {
			if rest[0] == '\r' {
				return chunks
			}
			return opaque
		}
		if rest[0] != '\r' || rest[1] != '\n' {
			return opaque
		}
		b = rest[2:]
	}
}

func afterTrailers(b []byte) framing {
	for {
		line, rest, found := bytes.Cut(b, []byte("\n"))
		if !found {
			if !fieldPart.Match(latin1(b)) {
				return opaque
			}
			return chunks
		}
		line, whole := bytes.CutSuffix(line, []byte("\r"))
		if !whole || !fieldLine.Match(latin1(line)) {
			return opaque
		}
		if len(line) == 0 {
			if len(rest) > 0 {
				return opaque
			}
			return quiet
		}
		b = rest
	}
}

// latin1 converts bytes to characters for regular expressions.
func latin1(b []byte) []byte {
	var out []byte
	for _, c := range b {
		out = utf8.AppendRune(out, rune(c))
	}
	return out
}

func randomChunks(r *rand.Rand) []byte {
	var b []byte
	for range r.IntN(5) {
		n := 1 + r.IntN(40)
		b = fmt.Appendf(b, []string{"%x", "%X", "0%x", "000%x;a=b", "%x \t ; a=b", "%x "}[r.IntN(6)]+"\r\n%s\r\n", n, strings.Repeat("\r\n0z"[r.IntN(4):][:1], n))
	}
	b = append(b, []string{"0\r\n\r\n", "0\r\n\r\n", "00;last\r\nT: u\r\n\r\n"}[r.IntN(3)]...)
	switch r.IntN(4) {
	case 0: // broken
		b[r.IntN(len(b))] = "\r\n0gG; :-fF\x00\xff\x7f\t"[r.IntN(14)]
	case 1: // cut
		b = b[:r.IntN(len(b))]
	}
	return b
}

const chunkedHead = ok + "Transfer-Encoding: chunked\r\n\r\n"

// However a chunked body is split into packets, it leaves the session in the state of the grammar.
func TestChunkedInAnyPieces(t *testing.T) {
	r := kerneltest.Rand(t)
	k := newRig(t)
	f := families[0]
	k.vip(f)
	try := func(pieces ...[]byte) {
		t.Helper()
		st := k.newStream(f)
		st.client(get)
		st.surrogate(chunkedHead + string(pieces[0]))
		for _, p := range pieces[1:] {
			if len(p) > 0 {
				st.surrogate(string(p))
			}
		}
		if got, want := st.at(), afterChunks(bytes.Join(pieces, nil)); got != want {
			t.Fatalf("%q: got %v, want %v", pieces, got, want)
		}
	}
	whole := []byte("5\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n")
	if afterChunks(whole) != quiet || afterChunks(whole[:9]) != chunks || afterChunks([]byte("5,x\r\n")) != opaque {
		t.Fatal("the reference is wrong")
	}
	for cut := range len(whole) + 1 {
		try(whole[:cut])
		try(whole[:cut], whole[cut:])
	}
	var single [][]byte
	for i := range whole {
		single = append(single, whole[i:i+1])
	}
	try(single...)
	outcomes := make(map[framing]int)
	for range kerneltest.Rounds(1500) {
		b := randomChunks(r)
		outcomes[afterChunks(b)]++
		var pieces [][]byte
		for rest := b; ; {
			n := r.IntN(len(rest) + 1)
			pieces, rest = append(pieces, rest[:n]), rest[n:]
			if len(rest) == 0 || len(pieces) > 8 {
				pieces = append(pieces, rest)
				break
			}
		}
		try(pieces...)
	}
	if outcomes[quiet] < kerneltest.Rounds(100) || outcomes[opaque] < kerneltest.Rounds(50) || outcomes[chunks] < kerneltest.Rounds(50) {
		t.Errorf("one-sided: %v", outcomes)
	}
}

// Retransmissions and overlaps do not count twice; gaps count if they are known to be within a body.
func TestRepetitionsAndGaps(t *testing.T) {
	response := ok + "Content-Length: 10\r\n\r\n0123456789" // 39 bytes of head, 10 of body
	for _, tc := range []struct {
		name string
		// offset and end of each packet of the response
		pieces [][2]int
		want   framing
	}{
		{"repeated", [][2]int{{0, 45}, {0, 45}}, body},
		{"repeated and completed", [][2]int{{0, 45}, {0, 45}, {45, 49}, {45, 49}}, quiet},
		{"overlap", [][2]int{{0, 45}, {40, 49}}, quiet},
		{"gap in the body", [][2]int{{0, 40}, {45, 49}}, quiet},
		{"gap in the body, filled", [][2]int{{0, 40}, {45, 49}, {40, 45}}, quiet},
		{"head missing", [][2]int{{39, 49}}, opaque},
		{"head late", [][2]int{{39, 49}, {0, 39}}, opaque},
		{"overlap of the head", [][2]int{{0, 10}, {5, 49}}, quiet},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newRig(t)
			k.vip(families[0])
			st := k.newStream(families[0])
			st.client(get)
			start := st.v.Seq
			for _, p := range tc.pieces {
				st.v.Seq = start + packet.Seq(p[0])
				st.surrogate(response[p[0]:p[1]])
			}
			if got := st.at(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	t.Run("request repeated with the next behind it", func(t *testing.T) {
		k := newRig(t)
		k.vip(families[0])
		st := k.newStream(families[0])
		start := st.c.Seq
		st.client(get)
		st.surrogate(ok + "Content-Length: 0\r\n\r\n")
		st.c.Seq = start
		st.client(get + get)
		if got := st.at(); got != opaque {
			t.Errorf("got %v, want %v", got, opaque)
		}
	})
}
