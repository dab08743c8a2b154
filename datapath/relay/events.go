package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"baton/datapath"
)

// SYN identifies a SYN: the initial sequence number distinguishes those with the same addresses and ports.
type SYN struct {
	Client, Server netip.AddrPort
	ISN            uint32 // host byte order
}

func (s SYN) key() relaySynKey {
	return relaySynKey{
		Tuple: relayTuple{
			Src: s.Client.Addr().As16(), Dst: s.Server.Addr().As16(), Sport: datapath.BigEndian(s.Client.Port()), Dport: datapath.BigEndian(s.Server.Port()),
		},
		Isn: s.ISN,
	}
}

// Event reports a SYN to an entry, or that its client gave up. Another SYN with the same addresses and ports replaces the earlier one.
type Event struct {
	SYN
	Cancelled bool
	Entry     uint32 // its ID
	Ifindex   int    // incoming interface
	// Hash is the packet's: a reuseport group that selects by it (SO_ATTACH_REUSEPORT_CBPF, SKF_AD_RXHASH) uses the same value.
	Hash uint32
	// Frame is that of a held SYN, for Release and Refuse; otherwise nil. The caller of Take owns it.
	Frame []byte
}

// Events reads the kernel's events for one reader. The caller closes it.
type Events struct {
	ring   *ebpf.Map
	reader *ringbuf.Reader
	record ringbuf.Record
}

// Events starts the reader with a number from 0 to Readers - 1. It receives the events whose Hash modulo Readers is its number. Each number
// has one reader at a time.
func (r *Relay) Events(number int) (*Events, error) {
	reader, err := ringbuf.NewReader(r.rings[number])
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	reader.SetDeadline(time.Unix(1, 0)) // never block
	return &Events{ring: r.rings[number], reader: reader}, nil
}

// FD is readable (epoll) when there are events. The Relay owns it.
func (e *Events) FD() int { return e.ring.FD() }

// Take reads pending events in order into to, and does not block. If it returns fewer than to can hold, FD becomes readable with the next
// event. A thread with its own table of descriptors needs only those of epoll instances. There is one caller at a time, and none after
// Close.
func (e *Events) Take(to []Event) (n int, err error) {
	for n < len(to) && e.reader.AvailableBytes() > 0 {
		err := e.reader.ReadInto(&e.record)
		if errors.Is(err, os.ErrDeadlineExceeded) { // the remaining ones were discarded
			continue
		}
		if err != nil {
			return n, fmt.Errorf("read events: %w", err)
		}
		if to[n], err = parseEvent(e.record.RawSample); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Close ends reading.
func (e *Events) Close() error { return e.reader.Close() }

func parseEvent(b []byte) (Event, error) {
	const size = int(unsafe.Sizeof(relaySynEvent{}))
	if len(b) < size {
		return Event{}, fmt.Errorf("read events: an event of %d bytes", len(b))
	}
	k := (*relaySynEvent)(unsafe.Pointer(&b[0])) // a sample is aligned to 8 bytes
	ev := Event{
		SYN:       SYN{Client: datapath.AddrPort(k.Tuple.Src, k.Tuple.Sport), Server: datapath.AddrPort(k.Tuple.Dst, k.Tuple.Dport), ISN: k.Isn},
		Cancelled: relayEventKind(k.Kind) == relayEventKindEVENT_CANCELLED,
		Entry:     k.Entry, Ifindex: int(k.Ifindex), Hash: k.Hash,
	}
	if k.Length > 0 {
		if len(b)-size < int(k.Length) {
			return Event{}, fmt.Errorf("read events: %d bytes of a frame of %d", len(b)-size, k.Length)
		}
		ev.Frame = slices.Clone(b[size : size+int(k.Length)])
	}
	return ev, nil
}
