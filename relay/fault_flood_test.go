package relay_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/packet"
	"baton/relay/config"
)

// Limits of the relay that is flooded, and by how much more a moment may look: clients that are served, flows that are on their way out.
const (
	earlyLimit     = 200
	perSourceLimit = 8
	servedClients  = 4
	slack          = 4 * servedClients
	earlyTimeout   = time.Second
)

// strangers are where SYNs come from that nobody has sent: addresses of RFC 2544.
const strangers = "198.18.0.0/15"

// flood sends SYNs to the entry from the client's host, some ten thousand a second, until ctx ends. It returns how many.
func (n *network) flood(ctx context.Context, from func() netip.AddrPort) (count int, err error) {
	side := n.toClient.A
	b := packet.Build(packet.Spec{
		SrcMAC: packet.MAC(side.MAC), DstMAC: packet.MAC(n.toClient.B.MAC),
		Src: netip.MustParseAddrPort("198.18.0.0:1024"), Dst: netip.MustParseAddrPort(entryAt(openPort)), Flags: packet.SYN, Window: 64240,
		Options: packet.Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(1, 0).AppendWindowScale(7),
	})
	frame, err := packet.Parse(b)
	if err != nil {
		return 0, err
	}
	ip, tcp := frame.IPv4(), frame.TCP()
	var fd int
	err = n.client.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	to := &unix.SockaddrLinklayer{Ifindex: side.Index}
	for ; ctx.Err() == nil; count++ {
		if count%100 == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		frame.Src = from()
		ip.SetSrc(frame.Src.Addr())
		tcp.SetSrcPort(frame.Src.Port())
		tcp.SetSeq(packet.Seq(rand.Uint32()))
		ip.SetChecksum(0)
		ip.SetChecksum(packet.Checksum(ip, 0))
		tcp.SetChecksum(0)
		tcp.SetChecksum(frame.TransportChecksum())
		if err := unix.Sendto(fd, b, 0, to); err != nil && err != unix.ENOBUFS {
			return count, fmt.Errorf("SYN %d: %w", count, err)
		}
	}
	return count, nil
}

// anybody is some stranger, and onePort one and the same, at some port.
func anybody() netip.AddrPort {
	src := binary.BigEndian.AppendUint32(nil, 198<<24|18<<16|rand.Uint32N(1<<17))
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(src)), uint16(1024+rand.IntN(60000)))
}

func oneStranger() netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("198.18.7.7"), uint16(1024+rand.IntN(60000)))
}

// TestSYNFlood sends SYNs that nobody will follow up to an entry that begins the onward connection with the SYN. What they cause is bounded
// by limits.early, and by limits.per_source of one address; clients are served meanwhile, and then nothing is left.
func TestSYNFlood(t *testing.T) {
	t.Parallel()
	for _, early := range []config.EarlySYN{config.Optimistic, config.ConnectFirst} {
		t.Run(string(early), func(t *testing.T) {
			n := newNetwork(t, config.Plaintext)
			n.first.Route(strangers, "10.1.0.2")
			n.relays(settings{
				"entry":  fmt.Sprintf(", early_syn: %s, interfaces: [%s]", early, n.toClient.B.Name),
				"limits": fmt.Sprintf("{flows: 4000, early: %d, per_source: %d, pipe: 64KiB}", earlyLimit, perSourceLimit),
				"timeouts": fmt.Sprintf("{unacked: %v, connect: %v, reset: %v, early: %v}", unackedTimeout, connectTimeout, resetTimeout,
					earlyTimeout),
			}, nil)
			for _, r := range []*relay{n.near, n.far} {
				r.kept = 2 * 2 * (earlyLimit + slack)
			}
			open := n.listen(openPort)
			go hostServer(open)
			for _, f := range []struct {
				name string
				from func() netip.AddrPort
				most int
			}{
				{"from everywhere", anybody, earlyLimit},
				{"from one address", oneStranger, perSourceLimit},
			} {
				t.Run(f.name, func(t *testing.T) { n.endure(t, f.from, f.most) })
			}
		})
	}
}

// endure has clients come and go in a flood, of whose SYNs at most so many begin something at a time.
func (n *network) endure(t *testing.T, from func() netip.AddrPort, most int) {
	before := []int{n.near.memory(), n.far.memory()}
	began := n.flowsBegun(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sent atomic.Int64
	flooded := make(chan error, 1)
	go func() {
		count, err := n.flood(ctx, from)
		sent.Store(int64(count))
		flooded <- err
	}()
	c := n.crowd(servedClients)
	served := make(chan error, 1)
	go func() { served <- c.turns(400) }()
	peak, looks := 0, 0
	err := func() error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for least := time.After(2 * earlyTimeout); ; {
			select {
			case err := <-served:
				if err != nil {
					return err
				}
				served = nil
			case <-least:
				least = nil
			case <-tick.C:
				for _, r := range []*relay{n.near, n.far} {
					s, err := r.control.Relay(ctx)
					if err != nil {
						return err
					}
					peak = max(peak, s.Flows.Used)
					looks++
				}
			}
			if served == nil && least == nil {
				return nil
			}
		}
	}()
	if err != nil {
		t.Errorf("in the flood: %v", err)
	}
	cancel()
	if err := <-flooded; err != nil {
		t.Error(err)
	}
	if err := c.leaves(); err != nil {
		t.Errorf("a client in the flood: %v", err)
	}
	t.Logf("%d SYNs; at most %d flows at a time in %d looks", sent.Load(), peak, looks)
	if peak > most+slack || peak < most/2 {
		t.Errorf("%d flows at a time, want about %d", peak, most)
	}
	for i, r := range []*relay{n.near, n.far} {
		if more := r.memory() - before[i]; more > moreMemory {
			t.Errorf("relay %s holds %d bytes more", r.name, more)
		}
	}
	if n.flowsBegun(t) == began {
		t.Error("no flow was counted")
	}
	if err := n.nothingLeft(); err != nil {
		t.Error(err)
	}
}

// flowsBegun are those of the first relay's entries.
func (n *network) flowsBegun(t *testing.T) (count uint64) {
	t.Helper()
	s, err := n.near.control.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.Entries {
		count += e.Flows
	}
	return count
}
