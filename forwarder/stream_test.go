package forwarder_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	of "baton/openflow"
)

type errMissing struct{ n int }

func (e errMissing) Error() string { return fmt.Sprintf("%d packets have not come", e.n) }

// stream is numbered UDP packets, each sent once.
type stream struct {
	t    *testing.T
	next atomic.Uint64 // the number of the last packet that was, or is about to be, sent
	stop chan struct{}
	sent chan struct{} // closed when no more are sent
}

// send sends numbered packets from the host of a port to another's until end, one each pace.
func (s *stage) send(from, to, port int, pace time.Duration) *stream {
	s.t.Helper()
	conn, err := s.host(from).Dial(s.within(), "udp", netip.AddrPortFrom(address(to), uint16(port)).String())
	s.must(err)
	r := &stream{t: s.t, stop: make(chan struct{}), sent: make(chan struct{})}
	go func() {
		defer close(r.sent)
		defer conn.Close()
		b := make([]byte, 32)
		for tick := time.NewTicker(pace); ; <-tick.C {
			select {
			case <-r.stop:
				tick.Stop()
				return
			default:
			}
			binary.BigEndian.PutUint64(b, r.next.Add(1))
			_, _ = conn.Write(b) // who refuses it is not listened to
		}
	}()
	s.t.Cleanup(r.end)
	return r
}

// end ends the stream; later calls do nothing.
func (r *stream) end() {
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	<-r.sent
}

// backlog is how many packets this machine has dropped since it started because a processor was behind with those that it had to take in.
func backlog(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/net/softnet_stat")
	must(t, err)
	sum := 0
	for line := range strings.Lines(string(text)) {
		n, err := strconv.ParseUint(strings.Fields(line)[1], 16, 32)
		must(t, err)
		sum += int(n)
	}
	return sum
}

// intact fails the test unless all packets of the streams have come to the sinks beside them, but for what the machine had no time for, from
// where its backlog was on.
func intact(t *testing.T, from int, sinks []*sink, streams []*stream) {
	t.Helper()
	for i, r := range streams {
		r.end()
		lost := sinks[i].lost(r)
		if late := backlog(t) - from; len(lost) > late {
			t.Errorf("stream %d: %d of %d packets lost, from %d to %d; the machine has dropped %d",
				i, len(lost), r.next.Load(), lost[0], lost[len(lost)-1], late)
		}
	}
}

// more waits until so many more packets have been sent.
func (r *stream) more(n uint64) {
	r.t.Helper()
	from := r.next.Load()
	lab.Eventually(r.t, patience, func() error {
		if now := r.next.Load(); now < from+n {
			return fmt.Errorf("%d packets sent, want %d", now-from, n)
		}
		return nil
	})
}

// sink is what came of a stream.
type sink struct {
	close func()
	mu    sync.Mutex
	came  map[uint64]int // number → how often
}

// sink collects the numbered packets to a port of UDP that come to the host of a port.
func (s *stage) sink(at, port int) *sink {
	s.t.Helper()
	conn, err := s.host(at).ListenPacket("udp", netip.AddrPortFrom(address(at), uint16(port)).String())
	s.must(err)
	raw, err := conn.(*net.UDPConn).SyscallConn()
	s.must(err)
	const room = 16 << 20 // bytes: a test that has to wait for a processor must not lose packets by that
	s.must(raw.Control(func(fd uintptr) { s.must(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room)) }))
	k := &sink{came: make(map[uint64]int)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 2048)
		for {
			n, _, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			if n >= 8 {
				k.mu.Lock()
				k.came[binary.BigEndian.Uint64(b)]++
				k.mu.Unlock()
			}
		}
	}()
	k.close = func() { conn.Close(); <-done }
	s.t.Cleanup(k.close)
	return k
}

// lost waits until all packets of a stream that has ended are there, and returns the numbers of those that do not come.
func (k *sink) lost(r *stream) []uint64 { return k.lostWithin(r, 2*time.Second) }

func (k *sink) lostWithin(r *stream, patience time.Duration) []uint64 {
	var lost []uint64
	last := r.next.Load()
	_ = lab.Poll(patience, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		lost = lost[:0]
		for n := uint64(1); n <= last; n++ {
			if k.came[n] == 0 {
				lost = append(lost, n)
			}
		}
		if len(lost) > 0 {
			return fmt.Errorf("%d lost", len(lost))
		}
		return nil
	})
	return lost
}

// arrived waits until a packet with a number above n is there.
func (k *sink) arrived(t *testing.T, n uint64) {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		for m := range k.came {
			if m > n {
				return nil
			}
		}
		return fmt.Errorf("nothing above %d has arrived", n)
	})
}

// ways is out of which ports the numbered packets of a stream came.
type ways struct {
	mu   sync.Mutex
	came map[uint64][]of.PortNo
}

// ways watches ports for numbered packets until the test ends.
func (s *stage) ways(ports ...int) *ways {
	s.t.Helper()
	w := &ways{came: make(map[uint64][]of.PortNo)}
	const header = 14 + 20 + 8
	for _, port := range ports {
		capture := s.outside(port).Capture(lab.CaptureOptions{
			Keep: func(b []byte) bool { return len(b) == header+32 && b[23] == 17 },
			Each: func(p lab.Packet) {
				w.mu.Lock()
				defer w.mu.Unlock()
				n := binary.BigEndian.Uint64(p.Data[header:])
				w.came[n] = append(w.came[n], of.PortNo(port))
			},
		})
		s.t.Cleanup(func() { capture.Stop() })
	}
	return w
}

// all waits until each of the first n packets has come.
func (w *ways) all(n uint64) error {
	return lab.Poll(patience, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.came) < int(n) {
			return errMissing{int(n) - len(w.came)}
		}
		return nil
	})
}

func (w *ways) of(n uint64) []of.PortNo {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.came[n]
}
