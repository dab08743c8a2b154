package legs

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	kernel "baton/datapath/router"
	"baton/packet"
)

// RawWire sends through raw sockets, and what can wait for others by the kernel program, many at once.
type RawWire struct {
	v4, v6 int
	frames FrameSender // nil: none
	queue  []queued
}

// FrameSender sends frames that are whole but for their Ethernet addresses, by one interface and of one family. It
// returns those that it could not send: *kernel.Router.
type FrameSender interface {
	SendFrames(ifindex int, frames [][]byte) (unsent [][]byte, err error)
}

// queued are frames for one call.
type queued struct {
	ifindex int
	v4      bool
	frames  [][]byte
}

const rawSocket = unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK

// OpenWire opens the sockets, which needs CAP_NET_RAW. The caller closes them.
func OpenWire(frames FrameSender) (_ *RawWire, err error) {
	w := &RawWire{v4: -1, v6: -1, frames: frames}
	if w.v4, err = unix.Socket(unix.AF_INET, rawSocket, unix.IPPROTO_RAW); err != nil {
		return nil, fmt.Errorf("open a raw socket: %w", err)
	}
	if w.v6, err = unix.Socket(unix.AF_INET6, rawSocket, unix.IPPROTO_RAW); err != nil {
		if err != unix.EAFNOSUPPORT { // without IPv6 in the kernel there are no IPv6 surrogates
			w.Close()
			return nil, fmt.Errorf("open a raw IPv6 socket: %w", err)
		}
		w.v6 = -1
	}
	return w, nil
}

// Close closes the sockets. Legs stay.
func (w *RawWire) Close() {
	for _, fd := range []int{w.v4, w.v6} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// sendSegment routes the segment like any packet of this host.
func (w *RawWire) sendSegment(s packet.Spec) error {
	s.DontFragment = true
	return w.sendFrame(packet.Build(s), s.Dst)
}

// queueSegment queues a segment of a leg for Flush.
func (w *RawWire) queueSegment(ifindex int, s packet.Spec) error {
	if w.frames == nil || ifindex == 0 {
		return w.sendSegment(s)
	}
	s.DontFragment = true
	frame, v4 := packet.Build(s), s.Dst.Addr().Is4()
	if n := len(w.queue); n == 0 || w.queue[n-1].ifindex != ifindex || w.queue[n-1].v4 != v4 {
		w.queue = append(w.queue, queued{ifindex: ifindex, v4: v4})
	}
	last := &w.queue[len(w.queue)-1]
	last.frames = append(last.frames, frame)
	return nil
}

// Flush sends what is queued. What is lost will be repeated.
func (w *RawWire) Flush() error {
	var errs []error
	for _, q := range w.queue {
		unsent, err := w.frames.SendFrames(q.ifindex, q.frames)
		errs = append(errs, err)
		for _, frame := range unsent {
			f, err := packet.Parse(frame)
			if err == nil {
				err = w.sendFrame(frame, f.Dst)
			}
			errs = append(errs, err)
		}
	}
	w.queue = w.queue[:0]
	return errors.Join(errs...)
}

func (w *RawWire) sendFrame(frame []byte, to netip.AddrPort) error {
	datagram := frame[packet.EthernetSize:]
	var err error
	if dst := to.Addr(); dst.Is4() {
		err = unix.Sendto(w.v4, datagram, 0, &unix.SockaddrInet4{Addr: dst.As4()})
	} else {
		err = unix.Sendto(w.v6, datagram, 0, &unix.SockaddrInet6{Addr: dst.As16()})
	}
	if err != nil {
		return fmt.Errorf("send to %v: %w", to, err)
	}
	return nil
}

// synWindow is the window of our SYNs, unscaled: the most that a surrogate may send before a client's window is known.
const synWindow = 65535

// SYN opens a leg with the options of its class: at once if a request waits for it.
func (w *RawWire) SYN(l kernel.Leg, mss uint16) error {
	opts := packet.Options{}.AppendMSS(mss).AppendSACKPermitted()
	if l.Class&1 != 0 {
		opts = opts.AppendTimestamps(l.TSval, 0)
	} else {
		opts = opts.AppendNOP(2)
	}
	opts = opts.AppendNOP(1).AppendWindowScale(kernel.OurWscale)
	s := packet.Spec{
		Src: l.Router, Dst: l.Server, Seq: packet.Seq(l.ISS), Flags: packet.SYN, Window: synWindow, Options: opts,
	}
	if l.Late == 0 {
		return w.sendSegment(s)
	}
	return w.queueSegment(l.Ifindex, s)
}

// ACK completes the handshake of an answered leg.
func (w *RawWire) ACK(s kernel.Splice, tsval uint32) error {
	var opts packet.Options
	if s.Timestamps {
		opts = opts.AppendNOP(2).AppendTimestamps(tsval, s.TSServer)
	}
	return w.queueSegment(s.Ifindex, packet.Spec{
		Src: s.Router, Dst: s.Server,
		Seq: packet.Seq(s.SndNxt), Ack: packet.Seq(s.RcvNxt), Flags: packet.ACK, Window: s.IdleWindow(), Options: opts,
	})
}

// badRequest is the response to an unreadable chunked body, as the proxy sends it.
const badRequest = "HTTP/1.1 400 Bad Request\r\nServer: baton\r\nConnection: close\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 40\r\n\r\n400 Bad Request: malformed chunked body\n"

// Refuse answers the current request in place of the surrogate, and closes. Later packets of the client draw a RST.
func (w *RawWire) Refuse(s kernel.Splice) error {
	var opts packet.Options
	if s.Timestamps {
		opts = opts.AppendNOP(2).AppendTimestamps(s.TSClient, s.TSFromClient)
	}
	return w.sendSegment(packet.Spec{
		Src: s.VIP, Dst: s.Client, Seq: packet.Seq(s.RcvNxt - s.ToServerAck), Ack: packet.Seq(s.SndUna - s.ToServerSeq),
		Flags: packet.ACK | packet.PSH | packet.FIN, Window: 0, Options: opts, Payload: []byte(badRequest),
	})
}

// Reset resets a connection at the peer. seq must be the exact next number, as any other would only be challenged (RFC
// 5961, 3).
func (w *RawWire) Reset(from, to netip.AddrPort, seq uint32) error {
	return w.sendSegment(packet.Spec{Src: from, Dst: to, Seq: packet.Seq(seq), Flags: packet.RST})
}

// TooBig tells by ICMP, from the packet's destination, and quotes what shows the sender that it is its own (RFC 1191,
// RFC 8201).
func (w *RawWire) TooBig(b kernel.TooBig) error {
	quote := packet.Build(packet.Spec{
		Src: b.From, Dst: b.To, Seq: packet.Seq(b.Seq), Flags: packet.ACK, DontFragment: true,
	})
	s := packet.ICMPSpec{
		Src: b.To.Addr(), Dst: b.From.Addr(), Type: packet.ICMPv4Unreachable, Code: packet.ICMPv4CodeFragNeeded,
		MTU: b.MTU, Quote: quote[packet.EthernetSize:],
	}
	if s.Dst.Is6() {
		s.Type, s.Code = packet.ICMPv6PacketTooBig, 0
	}
	return w.sendFrame(packet.BuildICMP(s), b.From)
}

// End resets a leg at its surrogate, whether or not the surrogate has received what it has not acknowledged.
func (w *RawWire) End(s kernel.Splice) error {
	err := w.Reset(s.Router, s.Server, s.SndNxt)
	if s.SndUna != s.SndNxt {
		err = errors.Join(err, w.Reset(s.Router, s.Server, s.SndUna))
	}
	return err
}
