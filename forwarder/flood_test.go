package forwarder_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	of "baton/openflow"
)

// resident is how many bytes of memory a process has, the kernel's maps that it shares not among them.
func resident(t *testing.T, p *lab.Process) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			must(t, err)
			return n << 10
		}
	}
	t.Fatal("no RssAnon in its status")
	return 0
}

// TestFloodOfPacketIns: every packet of a flood is for the controllers, one of which does not read. Memory stays bounded, the other controller
// goes on getting packets, and its flow mods, barriers and echoes are served.
func TestFloodOfPacketIns(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	c := s.connect()
	s.commit(c, add(0, nil, of.ActionOutput{Port: of.PortController, MaxLen: of.MaxLenNoBuffer}))
	stalled := s.raw(t) // says hello and reads nothing
	lab.Eventually(t, patience, func() error {
		_, err := stalled.r.Peek(1)
		return err
	})
	before := resident(t, s.process)

	stop, done := make(chan struct{}), make(chan error, 1)
	var sent atomic.Int64
	go func() { done <- s.flood(s.outside(1), &sent, stop) }()
	// What comes is read all the time: the answers are behind it.
	var packets atomic.Int64
	wrong := make(chan *of.PacketIn, 1)
	reading, enough := context.WithCancel(t.Context())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			r, err := c.Receive(reading)
			if err != nil {
				return
			}
			if m, ok := r.Message.(*of.PacketIn); ok {
				packets.Add(1)
				if m.Reason != of.ReasonNoMatch || len(m.Data) != int(m.TotalLen) {
					select {
					case wrong <- m:
					default:
					}
				}
			}
		}
	}()
	const rounds = 60
	most := 0
	for i := range rounds {
		s.commit(c, add(uint16(1+i), udp(2, uint64(i)), output(1)))
		from := packets.Load()
		lab.Eventually(t, patience, func() error {
			if n := packets.Load() - from; n < 200 {
				return fmt.Errorf("%d packet-ins since the last flow mod", n)
			}
			return nil
		})
		most = max(most, resident(t, s.process))
	}
	close(stop)
	s.must(<-done)
	lost := func() float64 { // on the way to the process, or to a controller
		return s.metric("baton_forwarder_upcalls_lost_total") + s.metric("baton_forwarder_packet_ins_dropped_total")
	}
	missing := func() error { // those that are still on their way are not
		n := sent.Load() - packets.Load()
		if n <= 0 || lost() >= float64(n) {
			return nil
		}
		return fmt.Errorf("%d packets are missing and %v are counted as lost", n, lost())
	}
	lab.Eventually(t, patience, missing)
	enough()
	<-read
	select {
	case m := <-wrong:
		t.Errorf("packet-in %+v", m)
	default:
	}
	t.Logf("of %d packets %d were read and %v did not come up; memory from %d to %d KiB at most",
		sent.Load(), packets.Load(), lost(), before>>10, most>>10)
	if grown := most - before; grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	another := s.connect()
	if n := aggregate(s, another).Flows; n != rounds+1 {
		t.Errorf("%d flow entries, want %d", n, rounds+1)
	}
}

// metric reads a metric of the forwarder, of all its labels together.
func (s *stage) metric(name string) float64 {
	s.t.Helper()
	client := s.node.HTTPClient(patience)
	defer client.CloseIdleConnections()
	response, err := client.Get("http://127.0.0.1:9410/metrics")
	s.must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	s.must(err)
	sum, there := 0.0, false
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		s.must(err)
		sum, there = sum+v, true
	}
	if !there {
		s.t.Fatalf("there is no metric %s in\n%s", name, text)
	}
	return sum
}

// flood sends frames of 1,000 bytes out of an interface as fast as it can, until told to stop.
func (s *stage) flood(n *lab.Interface, sent *atomic.Int64, stop chan struct{}) error {
	var fd int
	err := n.Host.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	b := frame(nobody, somebody, localType, 1000, 0)
	for i := uint64(0); ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		binary.BigEndian.PutUint64(b[14:], i)
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: n.Index}); err == nil {
			sent.Add(1)
		} else if err != unix.ENOBUFS {
			return err
		}
	}
}

// TestFloodOfMessages: a controller that asks for more than it reads, and one that only writes, cost the others nothing.
func TestFloodOfMessages(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	c := s.connect()
	var mods []of.Message
	for i := range 1000 {
		mods = append(mods, add(uint16(i), udp(1, uint64(i)), output(2)))
	}
	s.commit(c, mods...)
	before := resident(t, s.process)
	greedy := s.raw(t)
	must(t, greedy.SetWriteDeadline(time.Now().Add(time.Second)))
	question := "04120038 00000abc 0001 0000 00000000 ff000000 ffffffff ffffffff 00000000 0000000000000000 0000000000000000 0001000400000000"
	var err error
	asked := 0
	for b := unhex(t, strings.Repeat(question, 100)); err == nil && asked < 100_000; asked += 100 {
		_, err = greedy.Write(b) // until nobody reads it any more
	}
	for range 20 {
		s.commit(c, add(2000, udp(1, 9000), output(2)))
	}
	if grown := resident(t, s.process) - before; grown > 128<<20 {
		t.Errorf("memory grew by %d MiB for %d requests whose answers nobody reads", grown>>20, asked)
	} else {
		t.Logf("memory grew by %d KiB for %d requests (%v)", grown>>10, asked, err)
	}
}
