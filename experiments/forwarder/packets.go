package forwarder

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/packet"
)

// frameSize is the least that Ethernet carries, without its check sequence, in bytes: a packet of 64 bytes on a wire.
const frameSize = 60

const (
	// window is how many packets are under way at most: fewer than fit into the buffer of a packet socket with the kernel's
	// defaults, so that a switch in user space loses none.
	window = 256
	batch  = window / 2
	// silence is how long after the last arrival what is under way counts as lost.
	silence = 50 * time.Millisecond
)

// everyOne is for source: each packet is the first of a flow.
const everyOne = 1 << 32

// source sends packets of UDP to a way's sink by a packet socket.
type source struct {
	fd      int
	flows   uint64 // how many flows take turns
	first   uint64 // of them
	sent    uint64
	frames  [batch][frameSize]byte
	vectors [batch]unix.Iovec
	headers [batch]mmsghdr
}

// mmsghdr is struct mmsghdr of sendmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	length uint32
	_      [4]byte
}

// openSource returns a source on the client's interface of a way.
func openSource(w *Way, first, flows uint64) (*source, error) {
	s := &source{fd: -1, first: first, flows: flows}
	err := w.Near.Host.Do(func() (err error) {
		s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // protocol 0: it receives nothing
		return err
	})
	if err == nil {
		err = unix.Bind(s.fd, &unix.SockaddrLinklayer{Ifindex: w.Near.Index})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a source of packets: %w", err), s.close())
	}
	template := frame(w)
	for i := range s.frames {
		copy(s.frames[i][:], template)
		s.vectors[i].Base = &s.frames[i][0]
		s.vectors[i].SetLen(frameSize)
		s.headers[i].Iov = &s.vectors[i]
		s.headers[i].SetIovlen(1)
	}
	return s, nil
}

func (s *source) close() error {
	if s.fd < 0 {
		return nil
	}
	return unix.Close(s.fd)
}

// frame is a frame from the client to the sink, without ports.
func frame(w *Way) []byte {
	b := make([]byte, frameSize)
	ethernet := packet.Ethernet(b)
	ethernet.SetDst(w.to)
	ethernet.SetSrc(packet.MAC(w.Near.MAC))
	ethernet.SetType(packet.EtherTypeIPv4)
	ip := packet.IPv4(b[packet.EthernetSize:])
	ip[0] = 0x45
	ip.SetTotalLen(frameSize - packet.EthernetSize)
	ip.SetTTL(64)
	ip[9] = udpProtocol
	ip.SetSrc(netip.MustParseAddr(w.Source))
	ip.SetDst(netip.MustParseAddr(w.Sink))
	ip.SetChecksum(packet.Checksum(ip[:packet.IPv4Size], 0))
	binary.BigEndian.PutUint16(b[atUDP+4:], frameSize-atUDP) // its checksum is 0: none
	return b
}

const (
	udpProtocol = 17
	atUDP       = packet.EthernetSize + packet.IPv4Size
)

// putFlow makes a frame one of a flow: up to 2³² of them differ in their ports.
func putFlow(b []byte, flow uint64) {
	binary.BigEndian.PutUint16(b[atUDP:], uint16(flow))
	binary.BigEndian.PutUint16(b[atUDP+2:], uint16(flow>>16))
}

// send sends the next n packets, at most a batch.
func (s *source) send(n int) error {
	for i := range n {
		putFlow(s.frames[i][:], s.first+(s.sent+uint64(i))%s.flows)
	}
	for done := 0; done < n; {
		k, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.headers[done])), uintptr(n-done), 0, 0, 0)
		switch errno {
		case 0:
			done += int(k)
		case unix.EINTR, unix.ENOBUFS: // the latter: the queue is full
		default:
			return fmt.Errorf("send packets: %w", errno)
		}
	}
	s.sent += uint64(n)
	return nil
}

// passed is what came of packets that were sent.
type passed struct {
	arrived, lost uint64
	took          time.Duration
}

func (p passed) rate() float64 { return float64(p.arrived) / p.took.Seconds() }

// errSilent: of all packets none has arrived.
var errSilent = errors.New("no packet arrives")

// drive sends packets for a time, or until so many are sent, with no more than open of them under way. arrived counts.
func (s *source) drive(ctx context.Context, d time.Duration, most uint64, open int, arrived func() (uint64, error)) (p passed, err error) {
	base, err := arrived()
	if err != nil {
		return p, err
	}
	began := time.Now()
	last := began // when one arrived
	for more := true; ; {
		now := time.Now()
		got, err := arrived()
		if err != nil {
			return p, err
		}
		if got-base > p.arrived {
			p.arrived, last = got-base, now
		}
		underWay := int(s.sent) - int(p.arrived) - int(p.lost)
		if underWay > 0 && now.Sub(last) > silence {
			p.lost += uint64(underWay)
			last, underWay = now, 0
		}
		more = more && now.Sub(began) < d && s.sent < most
		if !more && underWay <= 0 {
			break
		}
		if n := min(batch, open-max(underWay, 0), int(most-s.sent)); more && n > 0 && n >= min(open/2, int(most-s.sent)) {
			if err := s.send(n); err != nil {
				return p, err
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return p, err
		}
		rest()
	}
	p.took = last.Sub(began)
	if p.arrived == 0 {
		return p, errSilent
	}
	return p, nil
}

// rest is between two looks at what has arrived: a part of what a switch in user space needs for half a window. The sleep of Go's
// own takes a millisecond at least.
func rest() {
	_ = unix.Nanosleep(&unix.Timespec{Nsec: int64(50 * time.Microsecond)}, nil) // shorter for a signal
}

// counter reads how many packets an interface has received.
type counter struct {
	file   *os.File
	prefix []byte
	buffer [4096]byte
}

func openCounter(n *lab.Interface) (*counter, error) {
	c := &counter{prefix: []byte(n.Name + ":")}
	err := n.Host.Do(func() (err error) {
		c.file, err = os.Open("/proc/thread-self/net/dev") // that of the thread's network, whoever reads it later
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count packets: %w", err)
	}
	return c, nil
}

func (c *counter) close() error { return c.file.Close() }

func (c *counter) read() (uint64, error) {
	n, _ := c.file.ReadAt(c.buffer[:], 0) // at its end: io.EOF
	return received(c.buffer[:n], c.prefix)
}

// received is the second number of an interface's line in /proc/net/dev.
func received(text, prefix []byte) (uint64, error) {
	_, line, found := bytes.Cut(text, prefix)
	_, line, counted := bytes.Cut(bytes.TrimLeft(line, " "), []byte(" "))
	packets, _, more := bytes.Cut(bytes.TrimLeft(line, " "), []byte(" "))
	if !found || !counted || !more {
		return 0, fmt.Errorf("count packets: no line %q", prefix)
	}
	return strconv.ParseUint(string(packets), 10, 64)
}
