package selftest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/lab/emulator"
)

// pair is two hosts with an emulated link between them.
type pair struct {
	a, b  *lab.Host
	link  *lab.Link
	quick bool

	overran int
}

const (
	addressA, addressB = "10.0.0.1", "10.0.0.2"
	port               = 4000
)

func newPair(l *lab.Lab, quick bool) *pair {
	l.T().Helper()
	p := &pair{a: l.Host("a"), b: l.Host("b"), quick: quick}
	for _, h := range []*lab.Host{p.a, p.b} {
		// Windows that fill 10 Gbit/s over 20 ms, twice.
		h.Sysctl("net.ipv4.tcp_rmem", "4096 131072 67108864")
		h.Sysctl("net.ipv4.tcp_wmem", "4096 131072 67108864")
	}
	p.link = l.Link(lab.End{Host: p.a, Addrs: []string{addressA + "/24"}}, lab.End{Host: p.b, Addrs: []string{addressB + "/24"}},
		lab.LinkOptions{Emulated: true})
	// Nothing but what is measured crosses the link.
	for h, n := range map[*lab.Host]*lab.Interface{p.a: p.link.A, p.b: p.link.B} {
		h.Sysctl("net.ipv6.conf."+n.Name+".disable_ipv6", "1")
	}
	p.a.Neighbour(p.link.A, addressB, p.link.B.MAC)
	p.b.Neighbour(p.link.B, addressA, p.link.A.MAC)
	return p
}

// length is how long something is measured: shorter when the whole is to be quick.
func (p *pair) length(d time.Duration) time.Duration {
	if p.quick {
		return d / 3
	}
	return d
}

// seen is what a receiver of numbered datagrams found.
type seen struct {
	packets     int
	bytes       int // of Ethernet frames
	first, last time.Time
	disordered  int // came after one with a higher number
	bursts      int // runs of numbers that were missing at first
}

// flow is what a sends to b: numbered datagrams.
type flow struct {
	size   int           // bytes of UDP payload
	rate   float64       // datagrams a second
	length time.Duration // for so long
	whole  bool          // many in one frame, which segmentation offload divides
}

// datagrams has a send a flow, and returns how many datagrams it sent and what b received of them. Times are those of the kernel.
func (p *pair) datagrams(f flow) (sent int, got seen, err error) {
	receiver, err := socket(p.b, addressB)
	if err != nil {
		return 0, got, err
	}
	defer unix.Close(receiver)
	sender, err := socket(p.a, addressA)
	if err != nil {
		return 0, got, err
	}
	defer unix.Close(sender)
	to := &unix.SockaddrInet4{Port: port, Addr: netip.MustParseAddr(addressB).As4()}
	if err := unix.Connect(sender, to); err != nil {
		return 0, got, fmt.Errorf("connect: %w", err)
	}
	done := make(chan struct{})
	result := make(chan error, 1)
	go func() { result <- receive(receiver, f.size, &got, done) }()
	sent, err = f.send(sender)
	close(done)
	return sent, got, errors.Join(err, <-result)
}

func socket(h *lab.Host, address string) (fd int, err error) {
	err = h.Do(func() error {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	local := &unix.SockaddrInet4{Port: port, Addr: netip.MustParseAddr(address).As4()}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256<<20),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
		unix.Bind(fd, local))
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("socket: %w", err)
	}
	return fd, nil
}

func (f flow) send(fd int) (sent int, err error) {
	frame := 1
	if f.whole {
		frame = 60_000 / f.size
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, f.size); err != nil {
			return 0, fmt.Errorf("send: segmentation offload: %w", err)
		}
	}
	b := make([]byte, frame*f.size)
	for began := time.Now(); ; {
		passed := time.Since(began)
		if passed >= f.length {
			return sent, nil
		}
		due := int(passed.Seconds()*f.rate) - sent
		if due < frame {
			time.Sleep(200 * time.Microsecond)
			continue
		}
		for ; due >= frame; due -= frame {
			for i := range frame {
				binary.BigEndian.PutUint32(b[i*f.size:], uint32(sent+i))
			}
			if _, err := unix.Write(fd, b); err != nil && err != unix.ENOBUFS {
				return sent, fmt.Errorf("send: %w", err)
			}
			sent += frame
		}
	}
}

// quietPeriod is how long nothing must arrive after the last datagram was sent for the receiver to end.
const quietPeriod = 300 * time.Millisecond

func receive(fd, size int, got *seen, done <-chan struct{}) error {
	b, control := make([]byte, size+1), make([]byte, 128)
	highest, quiet := -1, time.Time{}
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, b, control, 0)
		if err == unix.EAGAIN || err == unix.EINTR {
			select {
			case <-done:
			default:
				continue
			}
			if quiet.IsZero() {
				quiet = time.Now()
			}
			if time.Since(quiet) > quietPeriod {
				return nil
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		quiet = time.Time{}
		if n != size {
			continue
		}
		at, err := timestamp(control[:oobn])
		if err != nil {
			return err
		}
		if got.packets == 0 {
			got.first = at
		}
		got.last = at
		got.packets++
		got.bytes += 14 + 20 + 8 + n
		number := int(binary.BigEndian.Uint32(b))
		switch {
		case number < highest:
			got.disordered++
		case number > highest+1:
			got.bursts++
		}
		highest = max(highest, number)
	}
}

// timestamp reads when the kernel received a packet (SO_TIMESTAMPNS, CLOCK_REALTIME).
func timestamp(control []byte) (time.Time, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Time{}, fmt.Errorf("read timestamp: %w", err)
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:]))), nil
		}
	}
	return time.Time{}, errors.New("read timestamp: the kernel gave none")
}

// overrun is how many frames from a to b the emulator has dropped for lack of capacity since the last call.
func (p *pair) overrun() int {
	there, _ := p.link.Counts()
	more := int(there.Overrun) - p.overran
	p.overran += more
	return more
}

func delay(d time.Duration) emulator.Shape { return emulator.Shape{Delay: d} }
