package balance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// flow is a TCP connection to an echo server.
type flow struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	from string // the host's address as the server sees it

	ended chan error // of one that is drained
	read  counter
}

// dial begins one from the host.
func (n *network) dial(address string) (*flow, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), soon)
	defer cancel()
	c, err := n.host.Dial(ctx, "tcp", net.JoinHostPort(address, fmt.Sprint(echoPort)))
	if err != nil {
		return nil, err
	}
	n.t.Cleanup(func() { c.Close() })
	return begun(n.t, c)
}

// begun is a connection whose server has said where it comes from.
func begun(t *testing.T, c net.Conn) (*flow, error) {
	f := &flow{t: t, conn: c, in: bufio.NewReader(c)}
	c.SetReadDeadline(time.Now().Add(soon))
	line, err := f.in.ReadString('\n')
	f.from = strings.TrimSpace(line)
	return f, err
}

func (n *network) flow(address string) *flow {
	n.t.Helper()
	f, err := n.dial(address)
	if err != nil {
		n.t.Fatalf("a flow to %s: %v\n%s", address, err, n.picture())
	}
	return f
}

// works requires that the server answers.
func (f *flow) works() {
	f.t.Helper()
	if err := f.try(); err != nil {
		f.t.Fatal(err)
	}
}

// try says whether the server answers.
func (f *flow) try() error {
	text := make([]byte, 1000)
	peers.Pattern(text, 0)
	f.conn.SetDeadline(time.Now().Add(soon))
	if _, err := f.conn.Write(text); err != nil {
		return fmt.Errorf("write on a flow from %s: %w", f.from, err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(f.in, got); err != nil || string(got) != string(text) {
		return fmt.Errorf("read on a flow from %s: %w", f.from, err)
	}
	return nil
}

// download begins one of a file that is too long to end within a test.
func (n *network) download() *flow {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), soon)
	defer cancel()
	c, err := n.host.Dial(ctx, "tcp", net.JoinHostPort(server4, "80"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	f := &flow{t: n.t, conn: c, in: bufio.NewReader(c)}
	c.SetDeadline(time.Now().Add(soon))
	fmt.Fprint(c, "GET /1g HTTP/1.1\r\nHost: x\r\n\r\n")
	for {
		line, err := f.in.ReadString('\n')
		if err != nil {
			n.t.Fatal(err)
		}
		if line == "\r\n" {
			return f
		}
		if from, is := strings.CutPrefix(line, "X-From: "); is {
			f.from = strings.TrimSpace(from)
		}
	}
}

// drain reads on in the background.
func (f *flow) drain() {
	f.ended = make(chan error, 1)
	f.conn.SetDeadline(time.Time{})
	go func() {
		_, err := io.Copy(&f.read, f.in)
		f.ended <- err
	}()
}

// counter counts what is written.
type counter struct{ atomic.Int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.Add(int64(len(b)))
	return len(b), nil
}

// ends requires that a download that is drained is ended.
func (f *flow) ends() {
	f.t.Helper()
	select {
	case err := <-f.ended:
		if err == nil {
			f.t.Errorf("a download from %s has come to its end", f.from)
		}
	case <-time.After(soon):
		f.t.Errorf("a download from %s is not ended", f.from)
	}
}

// goesOn requires that more comes of a download that is drained.
func (f *flow) goesOn() {
	f.t.Helper()
	was := f.read.Load()
	lab.Eventually(f.t, soon, func() error {
		select {
		case err := <-f.ended:
			f.t.Fatalf("a download from %s has ended: %v", f.from, err)
		default:
		}
		if f.read.Load() < was+100_000 {
			return errors.New("nothing comes")
		}
		return nil
	})
}

// breaks requires that what is sent is not answered, but refused.
func (f *flow) breaks() {
	f.t.Helper()
	lab.Eventually(f.t, soon, func() error {
		f.conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := f.conn.Write([]byte("x"))
		if err == nil {
			_, err = f.in.ReadByte()
		}
		if err == nil {
			return fmt.Errorf("a flow from %s works", f.from)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return nil
	})
}

// isReset requires that the application notices that its connection has ended.
func (f *flow) isReset() {
	f.t.Helper()
	f.conn.SetReadDeadline(time.Now().Add(soon))
	if _, err := f.in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		f.t.Errorf("a flow from %s is not ended: %v", f.from, err)
	}
}

// datagram sends one from the host, from a socket of its own, and returns where the server says that it came from.
func (n *network) datagram(address string, port int, size int) (string, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), soon)
	defer cancel()
	c, err := n.host.Dial(ctx, "udp", net.JoinHostPort(address, fmt.Sprint(port)))
	if err != nil {
		return "", err
	}
	defer c.Close()
	text := make([]byte, size)
	peers.Pattern(text, 0)
	got := make([]byte, 4096)
	for deadline := time.Now().Add(soon); ; { // a datagram may be lost
		if _, err := c.Write(text); err != nil {
			return "", err
		}
		c.SetReadDeadline(time.Now().Add(time.Second))
		size, err := c.Read(got)
		if err == nil {
			from, rest, _ := strings.Cut(string(got[:size]), "\n")
			if rest != string(text) {
				return from, fmt.Errorf("%d bytes have come of %d", len(rest), len(text))
			}
			return from, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(deadline) {
			return "", err
		}
	}
}

// fetch gets a file of nginx's with a connection of its own, looks at each byte, and returns the address that nginx saw.
func (n *network) fetch(address, path string) (string, error) {
	client := n.host.HTTPClient(soon)
	defer client.CloseIdleConnections()
	r, err := client.Get("http://" + net.JoinHostPort(address, "80") + path)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	return r.Header.Get("X-From"), peers.CheckPattern(r.Body, peers.Files[path])
}
