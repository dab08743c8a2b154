package quic

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// Config is the configuration of the whole data path.
type Config struct {
	Tap   int // ifindex of the tap to user space; 0: none
	Rate  int // upcalls a second for each prefix of clients, an IPv4 /24 or IPv6 /56
	Burst int // upcalls at once
}

// SetConfig applies c to all datagrams from then on.
func (q *QUIC) SetConfig(c Config) error {
	k := quicQuicConfig{Tap: uint32(c.Tap), Rate: uint32(c.Rate), Burst: uint32(c.Burst)}
	if err := q.maps.Settings.Put(uint32(0), k); err != nil {
		return fmt.Errorf("set config: %w", err)
	}
	return nil
}

// VIP is an address that clients send to.
type VIP struct {
	Layouts bool // its surrogates' ids may name them (server_id)
}

func addressOf(at netip.AddrPort) quicQuicAddress {
	return quicQuicAddress{Addr: at.Addr().As16(), Port: datapath.BigEndian(at.Port())}
}

// SetVIPs replaces the VIPs. What the kernel knows of those that stay is kept.
func (q *QUIC) SetVIPs(vips map[netip.AddrPort]VIP) error {
	want := make(map[quicQuicAddress]quicQuicVip)
	for at, v := range vips {
		k := quicQuicVip{}
		if v.Layouts {
			k.Layouts = 1
		}
		want[addressOf(at)] = k
		want[addressOf(netip.AddrPortFrom(at.Addr(), 0))] = quicQuicVip{} // its fragments have no ports
	}
	var (
		key  quicQuicAddress
		had  quicQuicVip
		gone []quicQuicAddress
	)
	it := q.maps.Vips.Iterate()
	for it.Next(&key, &had) {
		if v, stays := want[key]; stays {
			v.Lengths = had.Lengths
			want[key] = v
		} else {
			gone = append(gone, key)
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("set VIPs: %w", err)
	}
	for _, key := range gone {
		if err := q.maps.Vips.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("set VIPs: %w", err)
		}
	}
	for key, v := range want {
		if err := q.maps.Vips.Put(key, v); err != nil {
			return fmt.Errorf("set VIPs: %w", err)
		}
	}
	return nil
}

// Lengths lists the lengths, ascending, of the ids that the surrogates of a VIP have chosen.
func (q *QUIC) Lengths(vip netip.AddrPort) ([]int, error) {
	var k quicQuicVip
	err := q.maps.Vips.Lookup(addressOf(vip), &k)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read VIP: %w", err)
	}
	var lengths []int
	for n := range MaxID + 1 {
		if k.Lengths>>n&1 != 0 {
			lengths = append(lengths, n)
		}
	}
	return lengths, nil
}

// Server is the surrogate of a connection id.
type Server struct {
	Surrogate netip.AddrPort
	Ambiguous bool     // two have chosen the id
	Own       bool     // the client has chosen it
	Taught    bool     // by a client: nobody knows whether the surrogate has chosen it
	Learner   Identity // the session that had it first; zero of one's own
}

func idOf(vip netip.AddrPort, id []byte) quicQuicId {
	k := quicQuicId{Vip: vip.Addr().As16(), Port: datapath.BigEndian(vip.Port()), Length: uint8(len(id))}
	copy(k.Bytes[:], id)
	return k
}

// Server finds the surrogate of a connection id.
func (q *QUIC) Server(vip netip.AddrPort, id []byte) (_ Server, ok bool, err error) {
	if len(id) == 0 || len(id) > MaxID {
		return Server{}, false, nil
	}
	var s quicQuicServer
	err = q.maps.Ids.Lookup(idOf(vip, id), &s)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return Server{}, false, nil
	}
	if err != nil {
		return Server{}, false, fmt.Errorf("find connection id: %w", err)
	}
	flags := quicServerFlag(s.Flags)
	return Server{
		Surrogate: datapath.AddrPort(s.Addr, s.Port), Ambiguous: flags&quicServerFlagSERVER_AMBIGUOUS != 0, Own: flags&quicServerFlagSERVER_OWN != 0,
		Taught: flags&quicServerFlagSERVER_CLIENTS != 0, Learner: Identity{s.Learner.Session, s.Learner.Since},
	}, true, nil
}

// Own says that a client's packets with an id of its own choice go to a surrogate. An id that is there already stays as it is.
func (q *QUIC) Own(vip netip.AddrPort, id []byte, surrogate netip.AddrPort) error {
	if len(id) == 0 || len(id) > MaxID {
		return nil
	}
	s := quicQuicServer{Addr: surrogate.Addr().As16(), Port: datapath.BigEndian(surrogate.Port()), Flags: uint16(quicServerFlagSERVER_OWN)}
	if err := q.maps.Ids.Update(idOf(vip, id), s, ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("add connection id: %w", err)
	}
	return nil
}

// SetPaths replaces the interfaces of the routes to a surrogate. Its datagrams are accepted only from these, and from
// the interface of a session's own next hop.
func (q *QUIC) SetPaths(surrogate netip.Addr, ifindexes []int) error {
	if err := q.paths.Replace(q.maps.Paths, surrogate, ifindexes); err != nil {
		return fmt.Errorf("set the interfaces of surrogate %v: %w", surrogate, err)
	}
	return nil
}

// ForgetPaths removes the interfaces of surrogates that are not in use.
func (q *QUIC) ForgetPaths(used map[netip.Addr]bool) error {
	if err := q.paths.Keep(q.maps.Paths, used); err != nil {
		return fmt.Errorf("forget interfaces: %w", err)
	}
	return nil
}

func newPaths() *datapath.Paths[netip.Addr, quicQuicPath] {
	return &datapath.Paths[netip.Addr, quicQuicPath]{
		Key: func(surrogate netip.Addr, ifindex int) quicQuicPath {
			return quicQuicPath{Surrogate: surrogate.As16(), Ifindex: uint32(ifindex)}
		},
		Read: func(k *quicQuicPath) (netip.Addr, int) { return netip.AddrFrom16(k.Surrogate).Unmap(), int(k.Ifindex) },
	}
}

// ReadMAC reads the interface that an upcall's frame came in by.
func ReadMAC(mac [6]byte) (ifindex int, ok bool) {
	if mac[0] != byte(quicBoundUPCALL_MAC>>8) || mac[1] != byte(quicBoundUPCALL_MAC&0xff) {
		return 0, false
	}
	return int(mac[2])<<24 | int(mac[3])<<16 | int(mac[4])<<8 | int(mac[5]), true
}
