package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
)

// end is one of a flow's ends as the test plays it: it sends the pattern as it is told to, and reads and compares whatever comes.
type end struct {
	t    *testing.T
	name string
	conn *net.TCPConn
	host *lab.Host

	sent, got atomic.Int64 // bytes
	talking   atomic.Bool
	talk      sync.WaitGroup
	said      bool // FIN

	mu       sync.Mutex
	reading  *sync.Cond // of deaf
	deaf     bool       // reads nothing for now
	over     bool       // nothing more can be read
	fin      bool       // was read
	readErr  error      // other than of a FIN
	writeErr error
	wrong    error // bytes that nobody sent
}

// pattern is what ends send over and over: its length is odd, so that no shift by a power of two goes unnoticed.
var pattern = func() []byte {
	b := make([]byte, 1<<20-3)
	r := rand.NewChaCha8([32]byte{7})
	_, _ = r.Read(b)
	return b
}()

func newEnd(t *testing.T, name string, h *lab.Host, c *net.TCPConn) *end {
	e := &end{t: t, name: name, host: h, conn: c}
	e.reading = sync.NewCond(&e.mu)
	_ = c.SetDeadline(time.Now().Add(6 * soon)) // ends what hangs
	go e.read()
	t.Cleanup(e.leave)
	return e
}

// leave closes the end, whatever it does.
func (e *end) leave() {
	e.hush()
	e.listen()
	e.conn.Close()
	e.talk.Wait()
}

func (e *end) read() {
	b := make([]byte, 16<<10)
	for {
		e.mu.Lock()
		for e.deaf {
			e.reading.Wait()
		}
		e.mu.Unlock()
		n, err := e.conn.Read(b)
		e.mu.Lock()
		at := int(e.got.Load()) % len(pattern)
		for i := 0; i < n && e.wrong == nil; {
			k := min(n-i, len(pattern)-at)
			if !bytes.Equal(b[i:i+k], pattern[at:at+k]) {
				e.wrong = fmt.Errorf("%s got other bytes than were sent, around the %dth", e.name, e.got.Load())
			}
			i, at = i+k, 0
		}
		e.got.Add(int64(n))
		e.over = err != nil
		switch {
		case errors.Is(err, io.EOF):
			e.fin = true
		case err != nil:
			e.readErr = err
		}
		e.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// stopListening has the end read nothing, but perhaps what it is reading.
func (e *end) stopListening() {
	e.mu.Lock()
	e.deaf = true
	e.mu.Unlock()
}

func (e *end) listen() {
	e.mu.Lock()
	e.deaf = false
	e.mu.Unlock()
	e.reading.Broadcast()
}

// say sends so many bytes of the pattern.
func (e *end) say(n int) error {
	for n > 0 {
		at := int(e.sent.Load()) % len(pattern)
		k, err := e.conn.Write(pattern[at:min(at+n, len(pattern))])
		e.sent.Add(int64(k))
		if err != nil {
			e.mu.Lock()
			e.writeErr = err
			e.mu.Unlock()
			return err
		}
		n -= k
	}
	return nil
}

// chatter has the end send on and on, some megabytes a second.
func (e *end) chatter() {
	if e.talking.Swap(true) {
		return
	}
	e.talk.Go(func() {
		for e.talking.Load() {
			if e.say(16<<10) != nil {
				return
			}
			time.Sleep(4 * time.Millisecond)
		}
	})
}

// hush ends that, once what is being written is.
func (e *end) hush() {
	e.talking.Store(false)
}

// hushed waits until the end says nothing more.
func (e *end) hushed() {
	e.hush()
	e.talk.Wait()
}

// halfClose says FIN behind all that was said, once.
func (e *end) halfClose() error {
	e.hushed()
	if e.said {
		return nil
	}
	e.said = true
	return e.conn.CloseWrite()
}

// heard waits until all that was said has arrived at the relay.
func (e *end) heard() error {
	e.hushed()
	return lab.Poll(soon, func() error {
		if n, err := e.queue(unix.SIOCOUTQ); n > 0 || err != nil {
			return fmt.Errorf("%d bytes of the %s are not acknowledged, %w", n, e.name, err)
		}
		return nil
	})
}

// queue is how many bytes there are that the other side has not acknowledged (SIOCOUTQ), or that were not read (SIOCINQ).
func (e *end) queue(which uint) (n int, err error) {
	raw, err := e.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	if failed := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), which) }); failed != nil {
		err = failed
	}
	return n, err
}

// reset ends the connection by an RST.
func (e *end) reset() error {
	return errors.Join(e.conn.SetLinger(0), e.conn.Close())
}

// hold gives a socket to a process on the host, which alone has it then.
func hold(h *lab.Host, socket interface {
	File() (*os.File, error)
	Close() error
}) (*lab.Process, error) {
	f, err := socket.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := h.Start(lab.Program{Path: "sleep", Args: []string{"1h"}, Files: []*os.File{f}, Unlogged: true})
	if err != nil {
		return nil, err
	}
	// The child has its descriptors once it runs its program.
	err = lab.Poll(soon, func() error {
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.Pid()))
		if err == nil && path[len(path)-1] == 't' {
			err = fmt.Errorf("it is still %s", path)
		}
		return err
	})
	return p, errors.Join(err, socket.Close())
}

// ended tells how the connection has ended, as far as the end knows: by a FIN, a reset, or not. A write may be told of a reset before
// what came in front of it is read: it counts when all was.
func (e *end) ended() (fin, reset bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wrong != nil {
		return false, false, e.wrong
	}
	for _, err := range []error{e.readErr, e.writeErr} {
		switch {
		case err == nil || errors.Is(err, net.ErrClosed):
		case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
			reset = e.over
		default:
			return false, false, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return e.fin, reset, nil
}

// dial opens a flow to a port of the server.
func (n *network) dial(port int) (*end, error) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return n.dialWithin(ctx, port)
}

func (n *network) dialWithin(ctx context.Context, port int) (*end, error) {
	c, err := n.client.Dial(ctx, "tcp", entryAt(port))
	if err != nil {
		return nil, err
	}
	return newEnd(n.t, "client", n.client, c.(*net.TCPConn)), nil
}

// accept takes the flow that was opened last.
func (n *network) accept(l *net.TCPListener, patience time.Duration) (*end, error) {
	if err := l.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	defer l.SetDeadline(time.Time{}) // others accept, too
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return newEnd(n.t, "server", n.server, c), nil
}

// pair opens a flow to the server's open port. It waits no longer for one that its client has seen end.
func (n *network) pair(l *net.TCPListener) (client, server *end, err error) {
	if client, err = n.dial(openPort); err != nil {
		return nil, nil, err
	}
	for begun := time.Now(); ; {
		server, err = n.accept(l, 100*time.Millisecond)
		fin, reset, failed := client.ended()
		switch {
		case err == nil:
			return client, server, nil
		case fin || reset || failed != nil:
			client.leave()
			return nil, nil, fmt.Errorf("the client saw an end: fin %t, reset %t, %w", fin, reset, failed)
		case !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) > soon:
			return client, nil, err
		}
	}
}

// complete ends a flow that is well: each byte has arrived, and then the FINs.
func complete(a, b *end) error {
	a.listen()
	b.listen()
	for _, e := range []*end{a, b} {
		if fin, reset, err := e.ended(); reset || err != nil {
			return fmt.Errorf("the %s saw an end: fin %t, reset %t, %w", e.name, fin, reset, err)
		}
		if err := e.halfClose(); err != nil {
			return fmt.Errorf("end the %s: %w", e.name, err)
		}
	}
	return lab.Poll(soon, func() error {
		for _, d := range [][2]*end{{a, b}, {b, a}} {
			from, to := d[0], d[1]
			fin, reset, err := to.ended()
			if got, sent := to.got.Load(), from.sent.Load(); err != nil || !fin || reset || got != sent {
				return fmt.Errorf("the %s has got %d of %d bytes, fin %t, reset %t, %w", to.name, got, sent, fin, reset, err)
			}
		}
		return nil
	})
}
