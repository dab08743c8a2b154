package fallback

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of lingering close after a refused request: closing with unread data sends an RST, which would destroy the response in
// flight.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 1 << 20
)

// maxHeldBack bounds what a client may send before its connection has switched protocols, in bytes.
const maxHeldBack = 64 << 10

var errHeldBack = errors.New("too much data ahead of a protocol switch")

type guardState uint8

const (
	inHead guardState = iota
	inBody
	inChunks
	inUpgrade // the rest is not HTTP, or unread
	refusedAll
)

// guard wraps a client's connection for net/http. Read releases a request's head once it is complete and checked, and exactly its
// body. In place of a refused request, Read releases a harmless one, which keeps its place among pipelined requests; the handler
// gets its verdict from refusal.
type guard struct {
	net.Conn // for TLS, its content
	raw      net.Conn
	server   *Server
	client   netip.AddrPort
	name     string    // of TLS: the server that the client has named
	since    time.Time // accepted

	multiplexed bool // HTTP/2: the guard counts the connection, and does not read it

	// Owned by Read, whose calls net/http serializes.
	state   guardState
	in      []byte // received, not yet checked; part of buf
	buf     []byte
	out     []byte // checked, not yet released
	scanned int    // bytes of in that were searched without finding a complete head
	blank   bool   // skipped an empty line before this head
	left    int64  // inBody: bytes left
	chunks  chunks
	frame   framing
	looked  bool  // looked up an early verdict
	fault   error // of the body; repeated by later Reads

	headSince time.Time // time of the first byte of the current head
	refused   Verdict   // written before refusedAt, read after it

	heads     int64        // released
	refusedAt atomic.Int64 // ordinal of the refused request, from 1
	upgradeAt atomic.Int64 // ordinal of a request that may switch protocols
	switched  atomic.Bool  // protocol switched
	malformed atomic.Bool  // in a body, see fault
	served    int64        // owned by the handler

	private atomic.Pointer[http.Transport] // this client's own, see Server.transportFor
	headers sync.Map                       // by address of a surrogate: what goes first on this client's connections to it

	progress atomic.Int64 // ns since the epoch, last byte in either direction
	writeArm atomic.Int64 // ns since the epoch, when the write deadline was set

	mu       sync.Mutex
	deadline time.Time // net/http's read deadline
	own      time.Time // the guard's
	closed   bool
}

func newGuard(c net.Conn, s *Server) *guard {
	g := &guard{Conn: c, raw: c, server: s, since: time.Now()}
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		g.client = unmapped(a.AddrPort())
	}
	return g
}

// refusal reports whether the handler's n-th request on this connection stands for a refused one.
func (g *guard) refusal() (Verdict, bool) {
	g.served++
	if g.refusedAt.Load() != g.served {
		return Verdict{}, false
	}
	return g.refused, true
}

// mayUpgrade reports whether the handler's current request may switch protocols.
func (g *guard) mayUpgrade() bool { return !g.multiplexed && g.upgradeAt.Load() == g.served }

func (g *guard) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if len(g.out) > 0 {
			n := copy(p, g.out)
			g.out = g.out[n:]
			return n, nil
		}
		if g.fault != nil {
			return 0, g.fault
		}
		switch g.state {
		case inHead:
			if err := g.readHead(); err != nil {
				return 0, err
			}
		case inBody:
			n, err := g.take(p[:min(int64(len(p)), g.left)])
			if g.left -= int64(n); g.left == 0 {
				g.bodyDone()
			}
			return n, err
		case inChunks:
			return g.readChunks(p)
		case inUpgrade:
			if !g.switched.Load() {
				return 0, g.holdBack()
			}
			return g.take(p)
		case refusedAll:
			return 0, io.EOF
		}
	}
}

// readHead takes one step towards releasing a head.
func (g *guard) readHead() error {
	if !g.looked {
		g.looked = true
		if g.earlyVerdict() {
			return nil
		}
	}
	if !g.blank && bytes.HasPrefix(g.in, []byte("\r\n")) {
		g.in, g.blank, g.scanned = g.in[2:], true, 0 // an empty line before a request, RFC 9112 section 2.2
	}
	if len(g.in) > 0 {
		if g.blank && g.in[0] == '\r' {
			g.refuse(*malformed("empty lines ahead of the request"))
			return nil
		}
		// Parsing again at every segment would be cheap to provoke and expensive for us.
		full := len(g.in) >= g.server.maxHead
		if g.scanned == 0 || full || bytes.IndexByte(g.in[g.scanned:], '\n') >= 0 {
			f, n, refused := checkHead(g.in)
			switch {
			case refused != nil:
				g.refuse(*refused)
				return nil
			case n > 0:
				g.release(f, n)
				return nil
			}
		}
		g.scanned = len(g.in)
		if full {
			g.refuse(tooLong(g.in))
			return nil
		}
	}
	return g.fill()
}

func (g *guard) earlyVerdict() bool {
	if g.server.verdicts == nil {
		return false
	}
	v, ok := g.server.verdicts.Take(g.client)
	if ok {
		g.refuse(v)
	}
	return ok
}

func tooLong(head []byte) Verdict {
	if bytes.IndexByte(head, '\n') < 0 {
		return Verdict{http.StatusRequestURITooLong, "request line is too long"}
	}
	return Verdict{http.StatusRequestHeaderFieldsTooLarge, "head is too long"}
}

func (g *guard) release(f framing, end int) {
	g.heads++
	g.out, g.in = g.in[:end], g.in[end:]
	g.frame, g.left, g.chunks, g.scanned, g.blank = f, f.length, chunks{}, 0, false
	if f.upgrade {
		g.upgradeAt.Store(g.heads)
	}
	switch {
	case f.chunked:
		g.state = inChunks
	case f.length > 0:
		g.state = inBody
	default:
		g.bodyDone()
	}
}

func (g *guard) bodyDone() {
	g.state, g.headSince = inHead, time.Time{}
	if g.frame.upgrade {
		g.state = inUpgrade
	}
}

// refuse releases a request in place of the current one. Nothing later on the connection is parsed as HTTP.
func (g *guard) refuse(v Verdict) {
	method := http.MethodGet
	if len(g.in) > 5 && string(g.in[:5]) == "HEAD " {
		method = http.MethodHead // whose response has no body
	}
	g.heads++
	g.refused = v
	g.refusedAt.Store(g.heads)
	g.out, g.in, g.state = []byte(method+" / HTTP/1.1\r\nHost: refused.invalid\r\nConnection: close\r\n\r\n"), nil, refusedAll
}

// fill reads more of a head.
func (g *guard) fill() error {
	if len(g.in) == 0 {
		if g.buf == nil {
			g.buf = make([]byte, 0, 4096)
		}
		g.in, g.headSince = g.buf[:0], time.Time{}
	}
	if len(g.in) == cap(g.in) {
		grown := make([]byte, len(g.in), min(2*cap(g.in)+4096, g.server.maxHead+4096))
		copy(grown, g.in)
		g.in = grown
	}
	var limit time.Time
	if len(g.in) > 0 {
		if g.headSince.IsZero() {
			g.headSince = time.Now()
		}
		limit = g.headSince.Add(g.server.timeouts.Head)
	}
	g.arm(limit)
	n, err := g.Conn.Read(g.in[len(g.in):cap(g.in)])
	g.in = g.in[:len(g.in)+n]
	if n > 0 {
		g.progress.Store(time.Now().UnixNano())
		if g.heads == 0 {
			g.earlyVerdict() // has passed while the first bytes were in flight
		}
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && len(g.in) > 0 && !g.aborted() {
		g.refuseLate()
		return nil
	}
	return err
}

// refuseLate refuses a request whose head is not whole in time: by what is wrong with it, wherever its client has
// cut it.
func (g *guard) refuseLate() {
	v := Verdict{http.StatusRequestTimeout, "request header not received in time"}
	if _, _, refused := checkHead(g.in); refused != nil {
		v = *refused
	}
	g.refuse(v)
}

// holdBack keeps what follows an upgrade request until the surrogate has agreed: httputil.ReverseProxy would lose a byte that
// net/http has read ahead. It returns when the client has gone or net/http interrupts it.
func (g *guard) holdBack() error {
	for len(g.in) < maxHeldBack {
		g.arm(time.Time{}) // the surrogate's own timeouts hold
		piece := make([]byte, 4096)
		n, err := g.Conn.Read(piece)
		g.in = append(g.in, piece[:n]...)
		if n == 0 && err != nil {
			return err
		}
	}
	return errHeldBack
}

// take reads bytes that need no check: first those received with the head.
func (g *guard) take(p []byte) (int, error) {
	if len(g.in) > 0 {
		n := copy(p, g.in)
		g.in = g.in[n:]
		return n, nil
	}
	for {
		g.arm(g.stallLimit())
		n, err := g.Conn.Read(p)
		if n > 0 {
			g.progress.Store(time.Now().UnixNano())
			return n, err
		}
		if g.switched.Load() && errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(g.stallLimit()) {
			continue // the other direction has progressed
		}
		return n, err
	}
}

func (g *guard) stallLimit() time.Time {
	if g.switched.Load() {
		return time.Unix(0, g.progress.Load()).Add(g.server.timeouts.Stall)
	}
	return time.Now().Add(g.server.timeouts.Stall)
}

func (g *guard) readChunks(p []byte) (int, error) {
	buffered := len(g.in) > 0
	if buffered {
		p = p[:min(len(p), len(g.in))]
		copy(p, g.in)
	}
	n, err := len(p), error(nil)
	if !buffered {
		n, err = g.take(p)
	}
	used, done, bad := g.chunks.advance(p[:n])
	switch {
	case buffered:
		g.in = g.in[used:]
	case used < n && bad == nil:
		g.in = append([]byte(nil), p[used:n]...)
	}
	if bad != nil {
		g.fault = bad
		g.malformed.Store(true)
		if used == 0 {
			return 0, bad
		}
		return used, nil
	}
	if done {
		g.bodyDone()
	}
	return used, err
}

func (g *guard) Write(p []byte) (int, error) {
	now := time.Now()
	stall := g.server.timeouts.Stall
	if now.UnixNano()-g.writeArm.Load() > int64(stall/8) {
		g.writeArm.Store(now.UnixNano())
		if err := g.Conn.SetWriteDeadline(now.Add(stall)); err != nil {
			return 0, err
		}
	}
	n, err := g.Conn.Write(p)
	if n > 0 {
		g.progress.Store(time.Now().UnixNano())
	}
	return n, err
}

// SetReadDeadline is called by net/http, also with a time long past to interrupt a Read. The guard's own deadline applies as
// well.
func (g *guard) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline = t
	return g.Conn.SetReadDeadline(earlier(g.deadline, g.own))
}

func (g *guard) SetDeadline(t time.Time) error {
	return errors.Join(g.SetReadDeadline(t), g.SetWriteDeadline(t))
}

// SetWriteDeadline lets net/http clear its deadlines; writes are bounded by Stall.
func (g *guard) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return nil
	}
	g.writeArm.Store(0)
	return g.Conn.SetWriteDeadline(t)
}

func (g *guard) arm(limit time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if limit.Equal(g.own) {
		return
	}
	if late := limit.Sub(g.own); !g.own.IsZero() && late > 0 && late < g.server.timeouts.Stall/8 {
		return // avoids a new timer for each read of a body
	}
	g.own = limit
	g.Conn.SetReadDeadline(earlier(g.deadline, g.own)) // fails only on a closed connection, as will the read
}

// aborted reports whether net/http has interrupted the Read, as opposed to a timeout.
func (g *guard) aborted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.deadline.IsZero() && g.deadline.Before(g.since)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// CloseWrite lets net/http close the sending side first.
func (g *guard) CloseWrite() error {
	if c, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// Close closes the connection; after a refused request it is drained first, see Server.linger.
func (g *guard) Close() error {
	g.mu.Lock()
	first := !g.closed
	g.closed = true
	g.mu.Unlock()
	if !first {
		return net.ErrClosed
	}
	if g.refusedAt.Load() != 0 {
		return g.server.linger(g)
	}
	defer g.server.forget(g)
	return g.Conn.Close()
}

// drain reads until the client closes, within limits, then closes.
func (g *guard) drain() {
	defer g.server.forget(g)
	defer g.Conn.Close()
	if g.CloseWrite() != nil {
		return
	}
	g.Conn.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, g.Conn, lingerBytes)
}

type guardKey struct{}

func guardOf(ctx context.Context) *guard { return ctx.Value(guardKey{}).(*guard) }
