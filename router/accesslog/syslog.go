package accesslog

import (
	"context"
	"errors"
	"net"
	"net/url"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const dialTimeout = 5 * time.Second

// syslog sends messages over a Unix datagram socket, UDP or TCP.
type syslog struct {
	over    transport
	address string
	conn    net.Conn
	stream
}

func newSyslog(u *url.URL) *syslog {
	if u.Scheme == "unix" {
		return &syslog{over: overUnix, address: u.Path}
	}
	return &syslog{over: transport(u.Scheme), address: u.Host}
}

func (s *syslog) deliver(ctx context.Context, b *batch) error {
	if s.conn != nil && s.over == overTCP && hasEnded(s.conn) {
		s.drop()
	}
	if s.conn == nil {
		dialer := net.Dialer{Timeout: dialTimeout}
		conn, err := dialer.DialContext(ctx, string(s.over), s.address)
		if err != nil {
			return err
		}
		s.conn, s.stream = conn, stream{w: conn}
	}
	err := s.send(ctx, b)
	if err != nil {
		s.drop()
	}
	return err
}

func (s *syslog) send(ctx context.Context, b *batch) error {
	if s.over == overTCP {
		if err := s.conn.SetWriteDeadline(time.Now().Add(stall)); err != nil {
			return err
		}
		return s.stream.deliver(ctx, b)
	}
	for b.left() > 0 && ctx.Err() == nil {
		if err := s.conn.SetWriteDeadline(time.Now().Add(stall)); err != nil {
			return err
		}
		switch _, err := s.conn.Write(b.record()); {
		case errors.Is(err, syscall.EMSGSIZE):
			b.lose(1, LostSize)
		case err != nil:
			return err
		default:
			b.wrote(1)
		}
	}
	return ctx.Err()
}

// drop has the next delivery connect again.
func (s *syslog) drop() {
	_ = s.conn.Close()
	s.conn = nil
}

// hasEnded tells whether a syslog, which never says anything, has closed the connection. A write would still succeed.
func hasEnded(conn net.Conn) bool {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	ended := false
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		ended = n == 0 && err == nil || err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
		return true
	})
	return ended || err != nil
}

func (s *syslog) refresh(bool) error { return nil }

func (s *syslog) close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}
