// Package serve has the sockets of a name server: several for UDP on each address, which read and send in batches, and one for TCP.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"baton/nameserver/answer"
)

// Options say where to listen, and how.
type Options struct {
	Addresses []netip.AddrPort
	Sockets   int // for UDP, on each address; 0: as many as processors
	Size      int // longest answer over UDP, in octets
	Buffer    int // of each UDP socket for queries that wait, in octets; 0: the kernel's default
	TCP       TCP
}

// Sockets are open, and answer once Serve is called.
type Sockets struct {
	o         Options
	log       *slog.Logger
	udp       []*socket
	listeners []net.Listener
	tcp       *tcp
	serving   bool

	failed, tooLong atomic.Uint64
}

// Listen opens all sockets. The caller calls Serve or Close.
func Listen(ctx context.Context, s *answer.Server, o Options, log *slog.Logger) (*Sockets, error) {
	if o.Sockets == 0 {
		o.Sockets = runtime.GOMAXPROCS(0)
	}
	all := &Sockets{o: o, log: log, tcp: newTCP(s, o.TCP, log)}
	for _, at := range o.Addresses {
		l, err := listenTCP(ctx, at)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen: %w", err), all.Close())
		}
		all.listeners = append(all.listeners, l)
		at = netip.AddrPortFrom(at.Addr(), uint16(l.Addr().(*net.TCPAddr).Port)) // of tests: any
		for range o.Sockets {
			u, err := openUDP(ctx, at, o.Size, o.Buffer)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("listen: %w", err), all.Close())
			}
			u.failed, u.tooLong = &all.failed, &all.tooLong
			all.udp = append(all.udp, u)
		}
	}
	return all, nil
}

// Addresses are where it listens.
func (s *Sockets) Addresses() (all []netip.AddrPort) {
	for _, l := range s.listeners {
		all = append(all, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return all
}

// Serve answers until the context ends, and closes all sockets.
func (s *Sockets) Serve(ctx context.Context) {
	var running sync.WaitGroup
	s.serving = true
	for _, u := range s.udp {
		w := s.tcp.server.Worker()
		running.Go(func() { u.serve(w, s.log) })
	}
	for _, l := range s.listeners {
		running.Go(func() { s.tcp.serve(l) })
	}
	<-ctx.Done()
	_ = s.Close()
	s.tcp.stop()
	running.Wait()
	for _, u := range s.udp {
		_ = u.fd.Close()
	}
}

// Close releases the sockets if Serve was never called.
func (s *Sockets) Close() error {
	var errs []error
	for _, u := range s.udp {
		if u.close(); !s.serving {
			errs = append(errs, u.fd.Close())
		}
	}
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Counts are of the sockets, since the start.
type Counts struct {
	Unsent, TooLong               uint64
	Connections                   int // open
	Opened, Refused, Disconnected uint64
}

// Counts are of the sockets, since the start.
func (s *Sockets) Counts() Counts {
	s.tcp.mu.Lock()
	n := len(s.tcp.conns)
	s.tcp.mu.Unlock()
	return Counts{
		Unsent: s.failed.Load(), TooLong: s.tooLong.Load(), Connections: n,
		Opened: s.tcp.opened.Load(), Refused: s.tcp.refused.Load(), Disconnected: s.tcp.failed.Load(),
	}
}
