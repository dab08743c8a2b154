package sockdiag

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// TCP is a TCP socket with the kernel's measurements (struct tcp_info). Fields that an older kernel lacks are zero.
type TCP struct {
	Socket
	State State
	UID   uint32

	RTT, MinRTT                 time.Duration // of sent data; 0: unknown
	ReceiveRTT                  time.Duration // of received data: grows with queues on the path to this host; 0: unknown
	SendWindow                  uint32        // congestion window, segments
	MSS                         uint32        // for sending, bytes
	Unacked                     uint32        // segments in flight
	SegmentsOut, SegmentsIn     uint32        // including those without data
	DataOut, DataIn             uint32        // segments with data
	Retransmitted               uint32        // segments, in total
	OutOfOrder                  uint32        // received segments
	BytesSent, BytesAcked       uint64        // sent: including retransmissions
	BytesReceived               uint64        // in order
	DeliveryRate                uint64        // bytes per second, newest sample
	ApplicationLimited          bool          // that sample is: there was no more data to send
	Busy, ReceiverLimited       time.Duration // how long it had data to send; how much of that the receiver's window was full
	BufferLimited               time.Duration // how much of that the send buffer was too small
	SinceReceived               time.Duration // since the last data arrived
	ReceiveQueue, TransmitQueue uint32        // bytes that the application has not read, the peer has not acknowledged
}

// UDP is a UDP socket.
type UDP struct {
	Socket
	State                       State // Established: connected
	UID                         uint32
	ReceiveQueue, TransmitQueue uint32 // bytes
}

const (
	messageSize   = 72 // struct inet_diag_msg
	infoAttribute = 2  // INET_DIAG_INFO
)

// parseTCP reads a struct inet_diag_msg with its attributes.
func parseTCP(b []byte, s *TCP) error {
	*s = TCP{}
	var u UDP
	if err := parseUDP(b, &u); err != nil {
		return err
	}
	s.Socket, s.State, s.UID, s.ReceiveQueue, s.TransmitQueue = u.Socket, u.State, u.UID, u.ReceiveQueue, u.TransmitQueue
	for rest := b[messageSize:]; len(rest) > 0; {
		var (
			kind  uint16
			value []byte
			err   error
		)
		if kind, value, rest, err = parseAttribute(rest); err != nil {
			return err
		}
		if kind == infoAttribute {
			s.parseInfo(value)
		}
	}
	return nil
}

// parseUDP reads a struct inet_diag_msg without attributes.
func parseUDP(b []byte, s *UDP) error {
	if len(b) < messageSize {
		return fmt.Errorf("a socket of %d bytes", len(b))
	}
	var local, remote netip.Addr
	switch b[0] {
	case unix.AF_INET:
		local, remote = netip.AddrFrom4([4]byte(b[8:])), netip.AddrFrom4([4]byte(b[24:]))
	case unix.AF_INET6:
		local, remote = netip.AddrFrom16([16]byte(b[8:])).Unmap(), netip.AddrFrom16([16]byte(b[24:])).Unmap()
	default:
		return fmt.Errorf("a socket of address family %d", b[0])
	}
	order := binary.NativeEndian
	*s = UDP{
		Socket: Socket{
			Local:   netip.AddrPortFrom(local, binary.BigEndian.Uint16(b[4:])),
			Remote:  netip.AddrPortFrom(remote, binary.BigEndian.Uint16(b[6:])),
			Ifindex: int(order.Uint32(b[40:])),
			Cookie:  uint64(order.Uint32(b[44:])) | uint64(order.Uint32(b[48:]))<<32,
		},
		State: State(b[1]), ReceiveQueue: order.Uint32(b[56:]), TransmitQueue: order.Uint32(b[60:]), UID: order.Uint32(b[64:]),
	}
	return nil
}

// parseAttribute reads a struct rtattr, and returns the rest.
func parseAttribute(b []byte) (kind uint16, value, rest []byte, err error) {
	if len(b) < unix.SizeofRtAttr {
		return 0, nil, nil, fmt.Errorf("an attribute of %d bytes", len(b))
	}
	length := int(binary.NativeEndian.Uint16(b))
	if length < unix.SizeofRtAttr || length > len(b) {
		return 0, nil, nil, fmt.Errorf("an attribute of %d bytes in %d", length, len(b))
	}
	return binary.NativeEndian.Uint16(b[2:]), b[unix.SizeofRtAttr:length], b[min(len(b), (length+3)&^3):], nil
}

// infoSize is how much of a struct tcp_info is read. Kernels append fields, but never change it.
const infoSize = 228

// parseInfo reads a struct tcp_info of any length. For listeners its fields have other meanings: by default they are not listed.
func (s *TCP) parseInfo(b []byte) {
	var whole [infoSize]byte
	copy(whole[:], b)
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(whole[at:]) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(whole[at:]) }
	micros := func(n uint64) time.Duration { return time.Duration(min(n, 1<<53)) * time.Microsecond }
	s.ApplicationLimited = whole[7]&applicationLimited != 0
	s.MSS = u32(16)
	s.Unacked = u32(24)
	s.SinceReceived = time.Duration(u32(52)) * time.Millisecond
	s.RTT = micros(uint64(u32(68)))
	s.SendWindow = u32(80)
	s.ReceiveRTT = micros(uint64(u32(92)))
	s.Retransmitted = u32(100)
	s.BytesAcked, s.BytesReceived = u64(120), u64(128)
	s.SegmentsOut, s.SegmentsIn = u32(136), u32(140)
	if least := u32(148); least != noRTT {
		s.MinRTT = micros(uint64(least))
	}
	s.DataIn, s.DataOut = u32(152), u32(156)
	s.DeliveryRate = u64(160)
	s.Busy, s.ReceiverLimited, s.BufferLimited = micros(u64(168)), micros(u64(176)), micros(u64(184))
	s.BytesSent = u64(200)
	s.OutOfOrder = u32(224)
}

// noRTT is the value before the first measurement.
const noRTT = 0xffffffff

// applicationLimited is the bit of tcpi_delivery_rate_app_limited: bit fields begin at the lowest bit on little-endian machines, at the
// highest on big-endian ones.
var applicationLimited = func() byte {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return 1
	}
	return 1 << 7
}()
