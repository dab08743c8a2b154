package serve

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"baton/nameserver/answer"
)

// TCP bounds what clients over TCP may use.
type TCP struct {
	Connections int           // in all
	PerNetwork  int           // from one /24 or /56
	Idle        time.Duration // for the next query
}

// transmission is how long a query, or an answer, may take on its way.
const transmission = 5 * time.Second

// hurried divides the time for the next query while more than half of the connections are in use.
const hurried = 5

// tcp answers over TCP (RFC 7766): queries of a connection one after the other, as many as the client likes.
type tcp struct {
	TCP
	server *answer.Server
	log    *slog.Logger

	opened, refused, failed atomic.Uint64
	mu                      sync.Mutex
	conns                   map[net.Conn]netip.Prefix
	networks                map[netip.Prefix]int
	closed                  bool
	free                    []*desk
	done                    sync.WaitGroup
}

// desk is what it takes to answer a query. Between queries a connection has none.
type desk struct {
	*answer.Worker
	query, out []byte
}

const longest = 1<<16 - 1

func newTCP(s *answer.Server, o TCP, log *slog.Logger) *tcp {
	return &tcp{
		TCP: o, server: s, log: log, conns: make(map[net.Conn]netip.Prefix), networks: make(map[netip.Prefix]int),
	}
}

// desk is one that is free. There are as many as ever were needed at the same time: their workers' counts stay.
func (t *tcp) desk() *desk {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		d := t.free[n-1]
		t.free = t.free[:n-1]
		return d
	}
	return &desk{Worker: t.server.Worker(), query: make([]byte, longest), out: make([]byte, 2+longest)}
}

func (t *tcp) leaveDesk(d *desk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free = append(t.free, d)
}

// serve accepts connections until the listener is closed.
func (t *tcp) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.log.Warn("a connection cannot be accepted", "err", err)
			time.Sleep(10 * time.Millisecond) // such as no more files: it would be the same at once
			continue
		}
		if !t.admit(c) {
			t.refused.Add(1)
			c.Close()
			continue
		}
		t.opened.Add(1)
		t.done.Go(func() {
			defer t.leave(c)
			if !errors.Is(t.converse(c), io.EOF) {
				t.failed.Add(1)
			}
		})
	}
}

func addressOf(c net.Conn) netip.AddrPort {
	a, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// admit reports whether a connection is within the bounds, and counts it.
func (t *tcp) admit(c net.Conn) bool {
	a := addressOf(c).Addr()
	width := 56
	if a.Is4() {
		width = 24
	}
	network, _ := a.WithZone("").Prefix(width)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.conns) >= t.Connections || t.networks[network] >= t.PerNetwork {
		return false
	}
	t.conns[c] = network
	t.networks[network]++
	return true
}

func (t *tcp) leave(c net.Conn) {
	c.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	network := t.conns[c]
	delete(t.conns, c)
	if t.networks[network]--; t.networks[network] == 0 {
		delete(t.networks, network)
	}
}

// idle is how long a client may take for its next query.
func (t *tcp) idle() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if 2*len(t.conns) > t.Connections {
		return t.Idle / hurried
	}
	return t.Idle
}

// converse answers the queries of a connection, and returns why it has ended: io.EOF if the client closed it.
func (t *tcp) converse(c net.Conn) error {
	from := addressOf(c)
	in, out := bufio.NewReaderSize(c, 4096), bufio.NewWriterSize(c, 8192)
	for {
		if in.Buffered() == 0 { // the client has no further query under way: it gets what is ready
			if err := flush(c, out); err != nil {
				return err
			}
		}
		if err := c.SetReadDeadline(time.Now().Add(t.idle())); err != nil {
			return err
		}
		if _, err := in.Peek(2); err != nil {
			return err
		}
		if err := t.one(c, in, out, from); err != nil {
			return err
		}
	}
}

func flush(c net.Conn, out *bufio.Writer) error {
	if out.Buffered() == 0 {
		return nil
	}
	if err := c.SetWriteDeadline(time.Now().Add(transmission)); err != nil {
		return err
	}
	return out.Flush()
}

// one answers a query, of which the first octets are there.
func (t *tcp) one(c net.Conn, in *bufio.Reader, out *bufio.Writer, from netip.AddrPort) error {
	deadline := time.Now().Add(transmission)
	if err := errors.Join(c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline)); err != nil {
		return err
	}
	var length [2]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return err
	}
	d := t.desk()
	defer t.leaveDesk(d)
	query := d.query[:binary.BigEndian.Uint16(length[:])]
	if _, err := io.ReadFull(in, query); err != nil {
		return err
	}
	write := func(msg []byte) error {
		binary.BigEndian.PutUint16(length[:], uint16(len(msg)))
		if _, err := out.Write(length[:]); err != nil {
			return err
		}
		_, err := out.Write(msg)
		return err
	}
	transferred, err := d.Transfer(query, from, d.out, func(msg []byte) error {
		if err := c.SetWriteDeadline(time.Now().Add(transmission)); err != nil {
			return err
		}
		return write(msg)
	})
	if transferred || err != nil {
		return err
	}
	n := d.Handle(query, from, true, d.out[:longest])
	if n == 0 {
		return errors.New("not a query")
	}
	return write(d.out[:n])
}

// stop ends all connections.
func (t *tcp) stop() {
	t.mu.Lock()
	t.closed = true
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.done.Wait()
}

func listenTCP(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	network := "tcp6"
	if at.Addr().Is4() {
		network = "tcp4"
	}
	return (&net.ListenConfig{}).Listen(ctx, network, at.String())
}
