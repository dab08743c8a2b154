package lab

import (
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"

	"baton/lab/emulator"
)

// End is one end of a link.
type End struct {
	Host  *Host
	Name  string   // of the interface; empty: eth0, eth1, … the first that is free on the host
	Addrs []string // with prefix length, IPv4 and IPv6
}

// LinkOptions hold for both ends of a link. The zero value is what `ip link add type veth` makes.
type LinkOptions struct {
	MTU        int // bytes; 0: 1500
	TxQueueLen int // packets; 0: the kernel's default
	Queues     int // transmit and receive queues of each end; 0: 1; not for an emulated link
	NoOffloads bool
	// Rate is what each end sends at most, 0 for no limit: by the kernel's token bucket (tbf), which costs next to no processor time and is
	// exact over some milliseconds only. A link is not emulated for it.
	Rate emulator.Rate

	// A link that has a shape, or may be given one by Set, is emulated.
	Emulated   bool
	AtoB, BtoA emulator.Shape
}

// Link is a cable between two hosts.
type Link struct {
	A, B *Interface

	emulated *emulatedLink // nil: a veth pair
}

// Interface is a network interface of a host.
type Interface struct {
	Host  *Host
	Name  string
	Index int
	MAC   net.HardwareAddr
}

// Link joins two hosts by a veth pair, gives both ends their addresses and brings them up.
func (l *Lab) Link(a, b End, o LinkOptions) *Link {
	l.t.Helper()
	k, err := link(a, b, o)
	if err != nil {
		l.t.Fatalf("lab: link %s-%s: %v", a.Host.name, b.Host.name, err)
	}
	return k
}

func link(a, b End, o LinkOptions) (*Link, error) {
	a.Name, b.Name = freeName(a), freeName(b)
	if a.Host == b.Host && a.Name == b.Name {
		b.Name = freeName(End{Host: b.Host}, a.Name)
	}
	k := &Link{}
	var err error
	if o.emulated() {
		k.emulated, err = emulate(a, b, o)
	} else {
		err = addVeth(a, b, o)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range []struct {
		End
		at **Interface
	}{{a, &k.A}, {b, &k.B}} {
		n, err := e.Host.lookup(e.Name)
		if err != nil {
			return nil, err
		}
		if err := n.configure(e.Addrs, o); err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name, err)
		}
		*e.at = n
	}
	return k, nil
}

func addVeth(a, b End, o LinkOptions) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = a.Name
	attrs.MTU = o.MTU
	if o.TxQueueLen > 0 {
		attrs.TxQLen = o.TxQueueLen
	}
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: b.Name, PeerNamespace: netlink.NsFd(b.Host.ns)}
	if o.Queues > 0 {
		veth.NumTxQueues, veth.NumRxQueues = o.Queues, o.Queues
		veth.PeerNumTxQueues, veth.PeerNumRxQueues = uint32(o.Queues), uint32(o.Queues)
	}
	if err := a.Host.nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("add veth %s-%s: %w", a.Name, b.Name, err)
	}
	return nil
}

func (n *Interface) configure(addrs []string, o LinkOptions) error {
	if o.MTU > 0 {
		if err := n.Host.nl.LinkSetMTU(n.link(), o.MTU); err != nil {
			return fmt.Errorf("set mtu: %w", err)
		}
	}
	if o.NoOffloads && !o.emulated() { // else the emulator says what it takes
		if err := n.setOffloads(false); err != nil {
			return err
		}
	}
	if o.Rate > 0 {
		if err := n.limit(o.Rate); err != nil {
			return err
		}
	}
	if err := n.Host.nl.LinkSetUp(n.link()); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	for _, a := range addrs {
		if err := n.addAddress(a); err != nil {
			return err
		}
	}
	return nil
}

// What a token bucket takes at once, and what may wait for it: some large frames each.
const (
	burst  = 256 << 10 // bytes
	behind = 2 << 20
)

// limit has an interface send no faster.
func (n *Interface) limit(rate emulator.Rate) error {
	bytes := uint64(rate) / 8
	bucket := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: n.Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       bytes, Limit: behind, Buffer: netlink.Xmittime(bytes, burst),
	}
	if err := n.Host.nl.QdiscAdd(bucket); err != nil {
		return fmt.Errorf("limit the rate of %s: %w", n.Name, err)
	}
	return nil
}

func freeName(e End, taken ...string) string {
	if e.Name != "" {
		return e.Name
	}
	for i := 0; ; i++ {
		name := fmt.Sprintf("eth%d", i)
		if _, err := e.Host.nl.LinkByName(name); err != nil && !slices.Contains(taken, name) {
			return name
		}
	}
}

// Interface returns an interface that exists on the host.
func (h *Host) Interface(name string) *Interface {
	h.lab.t.Helper()
	n, err := h.lookup(name)
	if err != nil {
		h.lab.t.Fatalf("lab: host %s: %v", h.name, err)
	}
	return n
}

func (h *Host) lookup(name string) (*Interface, error) {
	found, err := h.nl.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", name, err)
	}
	a := found.Attrs()
	return &Interface{Host: h, Name: name, Index: a.Index, MAC: a.HardwareAddr}, nil
}

// Bridge makes a bridge on the host, up, with these addresses. Attach puts interfaces of the host into it. Multicast
// goes everywhere, as through a cable: a bridge that snoops may forget listeners, and IPv6's neighbours with them.
func (h *Host) Bridge(name string, addrs ...string) *Interface {
	h.lab.t.Helper()
	snooping := false
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := h.nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}); err != nil {
		h.lab.t.Fatalf("lab: host %s: add bridge %s: %v", h.name, name, err)
	}
	n := h.Interface(name)
	if err := n.configure(addrs, LinkOptions{}); err != nil {
		h.lab.t.Fatalf("lab: host %s: bridge %s: %v", h.name, name, err)
	}
	return n
}

// Attach makes the interface a port of a bridge on the same host.
func (n *Interface) Attach(bridge *Interface) {
	n.Host.lab.t.Helper()
	if err := n.Host.nl.LinkSetMasterByIndex(n.link(), bridge.Index); err != nil {
		n.Host.lab.t.Fatalf("lab: host %s: attach %s to %s: %v", n.Host.name, n.Name, bridge.Name, err)
	}
}

// RemoveAddress takes an address with prefix length away.
func (n *Interface) RemoveAddress(cidr string) {
	n.Host.lab.t.Helper()
	addr, err := netlink.ParseAddr(cidr)
	if err == nil {
		err = n.Host.nl.AddrDel(n.link(), addr)
	}
	if err != nil {
		n.Host.lab.t.Fatalf("lab: host %s: remove address %s from %s: %v", n.Host.name, cidr, n.Name, err)
	}
}

// Address adds an address with prefix length, usable at once.
func (n *Interface) Address(cidr string) {
	n.Host.lab.t.Helper()
	if err := n.addAddress(cidr); err != nil {
		n.Host.lab.t.Fatalf("lab: host %s: %v", n.Host.name, err)
	}
}

func (n *Interface) addAddress(cidr string) error {
	addr, err := netlink.ParseAddr(cidr)
	if err != nil {
		return fmt.Errorf("parse address: %w", err)
	}
	if addr.IP.To4() == nil {
		addr.Flags = ifaNoDAD
	}
	if err := n.Host.nl.AddrAdd(n.link(), addr); err != nil {
		return fmt.Errorf("add address %s to %s: %w", cidr, n.Name, err)
	}
	return nil
}

const ifaNoDAD = 0x02 // IFA_F_NODAD of linux/if_addr.h

// SetUp and SetDown change the administrative state, as a cable that is pulled would.
func (n *Interface) SetUp() { n.Host.lab.t.Helper(); n.up() }

// SetDown takes the interface down. IPv6 addresses and routes over it are lost.
func (n *Interface) SetDown() {
	n.Host.lab.t.Helper()
	if err := n.Host.nl.LinkSetDown(n.link()); err != nil {
		n.Host.lab.t.Fatalf("lab: host %s: set %s down: %v", n.Host.name, n.Name, err)
	}
}

func (n *Interface) up() {
	n.Host.lab.t.Helper()
	if err := n.Host.nl.LinkSetUp(n.link()); err != nil {
		n.Host.lab.t.Fatalf("lab: host %s: set %s up: %v", n.Host.name, n.Name, err)
	}
}

// SetMTU changes the MTU (bytes).
func (n *Interface) SetMTU(mtu int) {
	n.Host.lab.t.Helper()
	if err := n.Host.nl.LinkSetMTU(n.link(), mtu); err != nil {
		n.Host.lab.t.Fatalf("lab: host %s: mtu of %s: %v", n.Host.name, n.Name, err)
	}
}

// SetMAC changes the MAC address: others take the host for a new one.
func (n *Interface) SetMAC(mac net.HardwareAddr) {
	n.Host.lab.t.Helper()
	if err := n.Host.nl.LinkSetHardwareAddr(n.link(), mac); err != nil {
		n.Host.lab.t.Fatalf("lab: host %s: MAC of %s: %v", n.Host.name, n.Name, err)
	}
	n.MAC = mac
}

// link is the netlink library's description of an existing interface.
func (n *Interface) link() netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: n.Name, Index: n.Index}}
}
