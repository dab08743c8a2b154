package lab

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// CaptureOptions narrow a capture. The zero value keeps whole frames of both directions.
type CaptureOptions struct {
	SnapLen int                     // bytes kept of each frame; 0: all
	Keep    func(frame []byte) bool // called on the capture's goroutine; nil: every frame
	Max     int                     // packets kept, the first ones; 0: 100,000
	Each    func(Packet)            // takes the packets, which are then not kept; called on the capture's goroutine
}

// Packet is a frame as tc and tcpdump see it on an interface.
type Packet struct {
	Time     time.Time
	Outgoing bool // sent by the interface's host
	Partial  bool // the L4 checksum holds only the pseudo header's sum, to be completed by hardware
	Length   int  // bytes of the whole frame
	Data     []byte
}

// Capture collects the packets of an interface.
type Capture struct {
	o     CaptureOptions
	fd    int
	stop  chan struct{}
	ended chan struct{}
	once  sync.Once

	mu      sync.Mutex
	packets []Packet
	beyond  int // packets over Max
	lost    int // frames that the kernel dropped
}

// Capture starts to collect. It has begun when Capture returns, and ends with Stop or with the lab.
func (n *Interface) Capture(o CaptureOptions) *Capture {
	l := n.Host.lab
	l.t.Helper()
	fd, err := n.Host.packetSocket(n, true)
	if err != nil {
		l.t.Fatalf("lab: capture: %v", err)
	}
	if o.Max == 0 {
		o.Max = 100_000
	}
	c := &Capture{o: o, fd: fd, stop: make(chan struct{}), ended: make(chan struct{})}
	go c.run()
	l.onClose(func() { c.Stop() })
	return c
}

// Stop takes what the kernel still holds, ends the capture and returns all packets. Later calls return them again.
func (c *Capture) Stop() []Packet {
	c.once.Do(func() {
		close(c.stop)
		<-c.ended
		if st, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			c.lost = int(st.Drops)
		}
		unix.Close(c.fd)
	})
	return c.Packets()
}

// Packets returns what was collected so far.
func (c *Capture) Packets() []Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Packet(nil), c.packets...)
}

// Missed returns, after Stop, how many frames are not among the packets: over Max, or lost by the kernel.
func (c *Capture) Missed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.beyond + c.lost
}

// stopCheck bounds how long an idle capture takes to notice that it should end.
const stopCheck = 20 * time.Millisecond

func (c *Capture) run() {
	defer close(c.ended)
	buffer, control := make([]byte, maxFrame), make([]byte, 256)
	for {
		n, oobn, _, from, err := unix.Recvmsg(c.fd, buffer, control, unix.MSG_DONTWAIT)
		switch err {
		case nil:
			c.add(buffer[:n], control[:oobn], from)
			continue
		case unix.EINTR, unix.ENETDOWN:
			continue
		case unix.EAGAIN:
		default:
			return
		}
		select {
		case <-c.stop:
			return // the queue is empty
		default:
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, int(stopCheck/time.Millisecond))
	}
}

func (c *Capture) add(frame, control []byte, from unix.Sockaddr) {
	if c.o.Keep != nil && !c.o.Keep(frame) {
		return
	}
	p := Packet{Time: time.Now(), Length: len(frame)}
	if ll, ok := from.(*unix.SockaddrLinklayer); ok {
		p.Outgoing = ll.Pkttype == unix.PACKET_OUTGOING
	}
	if messages, err := unix.ParseSocketControlMessage(control); err == nil {
		for _, m := range messages {
			if m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= 4 {
				p.Partial = binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_CSUMNOTREADY != 0
			}
		}
	}
	if c.o.SnapLen > 0 && len(frame) > c.o.SnapLen {
		frame = frame[:c.o.SnapLen]
	}
	p.Data = append([]byte(nil), frame...)
	if c.o.Each != nil {
		c.o.Each(p)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.packets) >= c.o.Max {
		c.beyond++
		return
	}
	c.packets = append(c.packets, p)
}

// WritePcap writes packets as a capture file.
func WritePcap(w io.Writer, packets []Packet) error {
	f, err := NewPcap(w)
	for _, p := range packets {
		if err != nil {
			break
		}
		err = f.Write(p)
	}
	return err
}

// Pcap writes a capture file (pcap 2.4, nanoseconds, Ethernet) that tcpdump and Wireshark read.
type Pcap struct {
	w io.Writer
}

// NewPcap writes the head of a capture file.
func NewPcap(w io.Writer) (*Pcap, error) {
	head := binary.LittleEndian.AppendUint32(nil, 0xa1b23c4d)
	head = binary.LittleEndian.AppendUint16(head, 2)
	head = binary.LittleEndian.AppendUint16(head, 4)
	head = append(head, make([]byte, 8)...) // zone, accuracy
	head = binary.LittleEndian.AppendUint32(head, maxFrame)
	head = binary.LittleEndian.AppendUint32(head, 1) // LINKTYPE_ETHERNET
	if _, err := w.Write(head); err != nil {
		return nil, fmt.Errorf("write pcap: %w", err)
	}
	return &Pcap{w}, nil
}

// Write appends a packet, in one write.
func (f *Pcap) Write(p Packet) error {
	b := make([]byte, 0, 16+len(p.Data))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Time.Unix()))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Time.Nanosecond()))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Data)))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Length))
	if _, err := f.w.Write(append(b, p.Data...)); err != nil {
		return fmt.Errorf("write pcap: %w", err)
	}
	return nil
}
