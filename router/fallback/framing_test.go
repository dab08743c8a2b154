package fallback

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"net/netip"
)

// FuzzHeadAgreesWithNetHTTP: net/http parses what the guard passes as the same request with the same framing.
func FuzzHeadAgreesWithNetHTTP(f *testing.F) {
	for _, r := range refusals {
		f.Add([]byte(r.request))
	}
	for _, s := range []string{
		getRequest, "GET / HTTP/1.0\n\n", "POST /x?y HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 007\r\n\r\n1234567",
		"OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", "PUT http://h/a HTTP/1.1\r\nHost: i\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: h\r\nX: \xff\xfe\r\n\r\n", "GET /\xc3\xa4 HTTP/1.1\nHost: h\r\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, end, refused := checkHead(data)
		for length := range min(len(data), 64) {
			if _, n, early := checkHead(data[:length]); early != nil && refused == nil || n > 0 && n != end {
				t.Fatalf("of %d octets: head of %d, %v; of all: %d, %v", length, n, early, end, refused)
			}
		}
		if refused == nil && end == 0 || bytes.HasPrefix(data, []byte("\r")) {
			return // incomplete, or with an empty line before it, which readHead removes
		}
		if refused != nil {
			if refused.Status < 400 || refused.Reason == "" {
				t.Fatalf("verdict = %+v, want a status and a reason", refused)
			}
			return
		}
		r := bufio.NewReader(bytes.NewReader(data[:end]))
		req, err := http.ReadRequest(r)
		if err != nil {
			t.Fatalf("net/http refuses what the guard lets through: %v", err)
		}
		if frame.chunked != slices.Contains(req.TransferEncoding, "chunked") {
			t.Fatalf("chunked = %v, net/http says %v", frame.chunked, req.TransferEncoding)
		}
		if !frame.chunked && req.ContentLength != frame.length {
			t.Fatalf("length = %d, net/http says %d", frame.length, req.ContentLength)
		}
		if rest, _ := io.ReadAll(r); len(rest) != 0 {
			t.Fatalf("net/http ends the head %d octets earlier", len(rest))
		}
	})
}

// FuzzChunksAgreeWithNetHTTP: net/http finds the same end of a body as the guard, however it is split into reads.
func FuzzChunksAgreeWithNetHTTP(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "4\r\nabcd\r\n0\r\n\r\nGET", "A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n", "4 \t;x\r\nabcd\r\n0\r\n\r\n", "4 \t\r\nabcd\r\n00\r\nA: b\r\n\r\n",
		"4\nabcd\r\n0\r\n\r\n", "4\r\nabcd0\r\n\r\n", "fffffffffffffff\r\n", "1\r\na\r\n0;x\r\nA: b\r\nC: d\r\n\r\nx",
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint8) {
		var whole chunks
		used, done, err := whole.advance(data)
		var pieces chunks
		var usedInPieces int
		var doneInPieces bool
		var errInPieces error
		for rest := data; len(rest) > 0 && !doneInPieces && errInPieces == nil; {
			piece := rest[:min(len(rest), 1+int(cut))]
			n := 0
			n, doneInPieces, errInPieces = pieces.advance(piece)
			usedInPieces += n
			rest = rest[n:]
		}
		if used != usedInPieces || done != doneInPieces || (err == nil) != (errInPieces == nil) {
			t.Fatalf("whole: %d %v %v; in pieces: %d %v %v", used, done, err, usedInPieces, doneInPieces, errInPieces)
		}
		if !done {
			return
		}
		if last := bytes.LastIndex(data[:used], []byte("\r\n0")); last >= 0 && used-last > 4000 {
			return // net/http allows a shorter trailer section
		}
		r := bufio.NewReader(bytes.NewReader(data))
		if _, err := io.Copy(io.Discard, httputil.NewChunkedReader(r)); err != nil {
			t.Fatalf("net/http refuses what the guard lets through: %v", err)
		}
		for { // the trailer section, which NewChunkedReader does not read
			line, err := r.ReadBytes('\n')
			if err != nil {
				t.Fatalf("trailer section: %v", err)
			}
			if string(line) == "\r\n" {
				break
			}
		}
		if left, _ := io.ReadAll(r); len(left) != len(data)-used {
			t.Fatalf("net/http leaves %d octets behind the body, the guard %d", len(left), len(data)-used)
		}
	})
}

// TestListenIsPlainTCP: Go's listeners use MPTCP by default.
func TestListenIsPlainTCP(t *testing.T) {
	l, err := Listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		if proto, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || proto != unix.IPPROTO_TCP {
			t.Errorf("SO_PROTOCOL = %d, error %v, want %d", proto, err, unix.IPPROTO_TCP)
		}
		if v, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR); err != nil || v != 1 {
			t.Errorf("SO_REUSEADDR = %d, error %v, want 1", v, err)
		}
	})
}
