package passthrough

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"baton/packet/hello"
)

// handle serves a client: reads its hello, connects to its surrogate, and moves their bytes.
func (s *Server) handle(c *conn) {
	started := time.Now()
	flight, h, err := s.readHello(c)
	s.mu.Lock()
	ours := s.decided(c)
	full := len(s.sessions) >= maxSessions
	s.mu.Unlock()
	var refused *hello.Error
	switch {
	case !ours: // it had to make room
		_ = c.Conn.Close()
	case errors.As(err, &refused):
		s.refuse(c, refused.Alert, refused.Kind.String(), refused.Kind == hello.PlainHTTP)
	case err != nil:
		s.o.Hooks.Refused(c.client, "incomplete")
		c.reset()
	case full:
		s.refuse(c, hello.InternalError, "too_many", false)
	default:
		s.pass(c, flight, &h, started)
	}
}

// readHello reads until the hello is whole. The bytes may have more behind it.
func (s *Server) readHello(c *conn) ([]byte, hello.Hello, error) {
	if err := c.SetReadDeadline(time.Now().Add(s.o.Hello)); err != nil {
		return nil, hello.Hello{}, err
	}
	flight, work := make([]byte, 0, 4<<10), 0
	for {
		if len(flight) == cap(flight) {
			flight = append(make([]byte, 0, 2*cap(flight)), flight...)
		}
		n, err := c.Read(flight[len(flight):cap(flight)])
		flight = flight[:len(flight)+n]
		if n > 0 {
			h, unread := hello.Read(flight)
			if !errors.Is(unread, hello.ErrIncomplete) {
				return flight, h, unread
			}
			if work += len(flight); work > maxWork || len(flight) > maxFlight {
				return nil, h, &hello.Error{Kind: hello.TooLarge, Alert: hello.IllegalParameter, Reason: "too many records or segments"}
			}
		}
		if err != nil {
			return nil, hello.Hello{}, err
		}
	}
}

// refuse answers with an alert, or a client without TLS with what it can read, and closes. What the client has sent meanwhile is
// read first: closing with unread bytes sends an RST, which would destroy the answer on its way.
func (s *Server) refuse(c *conn, alert hello.Alert, reason string, plain bool) {
	s.o.Hooks.Refused(c.client, reason)
	answer := alert.Record()
	if plain {
		const text = "400 Bad Request: this port speaks HTTPS: use https://\n"
		answer = fmt.Appendf(nil, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
	_ = c.SetDeadline(time.Now().Add(lingerTime))
	_, err := c.Write(answer)
	if err == nil && closeWrite(c.tcp) == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, maxFlight)
	}
	_ = c.Conn.Close()
}

func closeWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("cannot close one direction")
	}
	return half.CloseWrite()
}

// pass connects a client to its surrogate and moves their bytes.
func (s *Server) pass(c *conn, flight []byte, h *hello.Hello, started time.Time) {
	var exclude []string
	for range attempts {
		d := s.o.Decide(h, c.client, exclude)
		if d.Alert != 0 {
			s.refuse(c, d.Alert, d.Reason, false)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
		up, err := s.o.Dial(ctx, "tcp", d.Address.String())
		cancel()
		if err != nil {
			s.o.Hooks.Failure(d.Surrogate, err)
			exclude = append(exclude, d.Surrogate)
			continue
		}
		of := Session{Client: c.client, Surrogate: d.Surrogate, Address: d.Address, Name: h.ServerName, Started: started}
		if err := d.Header.Write(up, c.client, s.o.VIP, h.Sent); err != nil {
			s.o.Hooks.Failure(d.Surrogate, err)
			reset(up)
			exclude = append(exclude, d.Surrogate)
			continue
		}
		s.move(c, up, flight, &of)
		s.o.Hooks.Session(of)
		return
	}
	s.refuse(c, hello.InternalError, "no_surrogate", false)
}

// move moves the bytes of both ends until both have closed, or one has failed.
func (s *Server) move(c *conn, up net.Conn, flight []byte, of *Session) {
	s.mu.Lock()
	c.surrogate = up
	s.sessions[c] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.sessions, c)
		s.mu.Unlock()
	}()
	_ = c.SetDeadline(time.Time{}) // fails only on a closed connection, as will all that follows
	back := make(chan error, 1)
	go func() {
		var err error
		of.Sent, err = flow(c.tcp, up)
		back <- err
	}()
	n, err := up.Write(flight)
	of.Received = int64(n)
	if err == nil {
		var more int64
		more, err = flow(up, c.tcp)
		of.Received += more
	}
	if err != nil { // the other direction is of no use any more
		reset(up)
		c.reset()
	}
	of.Err = errors.Join(err, <-back)
	_ = up.Close()
	_ = c.Conn.Close()
	of.Duration = time.Since(of.Started)
}

// flow moves bytes from one connection to another, in the kernel if both are of TCP (splice(2)), and then the FIN. If it fails
// both are reset: neither end shall take a broken stream for a complete one.
func flow(to, from net.Conn) (int64, error) {
	n, err := io.Copy(to, from)
	if err == nil {
		err = closeWrite(to)
		if errors.Is(err, syscall.ENOTCONN) {
			err = nil // it has closed both directions already
		}
	}
	if err != nil {
		reset(to)
		reset(from)
	}
	return n, err
}

// idleChecks is how many times within the limit sessions are looked at.
const idleChecks = 8

// endIdle ends sessions without bytes.
func (s *Server) endIdle() {
	for {
		limit := s.o.Idle()
		select {
		case <-s.stop:
			return
		case <-time.After(max(limit/idleChecks, 10*time.Millisecond)):
		}
		s.mu.Lock()
		for c := range s.sessions {
			if min(quietFor(c.tcp), quietFor(c.surrogate)) > limit {
				reset(c.surrogate)
				c.reset()
			}
		}
		s.mu.Unlock()
	}
}

// quietFor is how long ago the last bytes came, by the kernel's clock; 0 if it does not say.
func quietFor(c net.Conn) time.Duration {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return 0
	}
	var quiet time.Duration
	_ = control.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			quiet = time.Duration(info.Last_data_recv) * time.Millisecond
		}
	})
	return quiet
}
