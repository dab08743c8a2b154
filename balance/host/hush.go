package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// makeHush creates or replaces the table, in one transaction.
//
// Open vSwitch in user space gets copies of a link's packets, and also forwards those of the link's own connections to the internal
// interface. So the host's stack sees packets of connections that it does not know there, and would reset them or answer twice.
func makeHush(h Hush, keep bool) error {
	there, err := hasTable(h.Table)
	if err != nil || there && keep {
		return err
	}
	err = replaceHush(h, there, true)
	if unfit(err) { // the kernel lacks conntrack
		err = replaceHush(h, there, false)
	}
	return err
}

func unfit(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)
}

func hasTable(name string) (bool, error) {
	c, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("open nftables: %w", err)
	}
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("list nftables: %w", err)
	}
	for _, t := range tables {
		if t.Name == name {
			return true, nil
		}
	}
	return false, nil
}

// TryNftables returns why the host has no nftables.
func TryNftables() error {
	_, err := hasTable("")
	return err
}

func undoHush(h Hush) (bool, error) {
	there, err := hasTable(h.Table)
	if err != nil || !there {
		return false, err
	}
	c, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("open nftables: %w", err)
	}
	c.DelTable(&nftables.Table{Name: h.Table, Family: nftables.TableFamilyINet})
	if err := c.Flush(); err != nil {
		return false, err
	}
	return true, nil
}

func replaceHush(h Hush, there, conntrack bool) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	table := &nftables.Table{Name: h.Table, Family: nftables.TableFamilyINet}
	if there {
		c.DelTable(table)
	}
	c.AddTable(table)
	chain := func(name string, hook *nftables.ChainHook) *nftables.Chain {
		return c.AddChain(&nftables.Chain{
			Name: name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter,
		})
	}
	in, out := chain("input", nftables.ChainHookInput), chain("output", nftables.ChainHookOutput)
	rule := func(at *nftables.Chain, verdict expr.VerdictKind, parts ...[]expr.Any) {
		exprs := append(slices.Concat(parts...), &expr.Counter{}, &expr.Verdict{Kind: verdict})
		c.AddRule(&nftables.Rule{Table: table, Chain: at, Exprs: exprs})
	}
	add := func(at *nftables.Chain, parts ...[]expr.Any) { rule(at, expr.VerdictDrop, parts...) }
	// Nobody opens connections to the internal address.
	if conntrack {
		add(in, comesBy(h.Internal), state(expr.CtStateBitNEW|expr.CtStateBitINVALID))
	} else {
		add(in, comesBy(h.Internal), transport(unix.IPPROTO_TCP), flags(tcpSYN|tcpACK, tcpSYN))
	}
	// A reset without ACK answers a segment without a socket or, while the host opens a connection, a segment that is not its peer's: a
	// server may still have a connection that it closed a moment ago. Without conntrack the latter cannot be recognised, and the connection
	// waits until the server has forgotten the old one.
	for _, device := range append([]string{h.Internal}, h.Links...) {
		if conntrack {
			rule(out, expr.VerdictAccept, goesBy(device), transport(unix.IPPROTO_TCP), flags(tcpRST|tcpACK, tcpRST), original())
		}
		add(out, goesBy(device), transport(unix.IPPROTO_TCP), flags(tcpRST|tcpACK, tcpRST))
		add(out, goesBy(device), transport(unix.IPPROTO_ICMP), icmp(3, 3))   // port unreachable, RFC 792
		add(out, goesBy(device), transport(unix.IPPROTO_ICMPV6), icmp(1, 4)) // port unreachable, RFC 4443
	}
	return c.Flush()
}

// Bits of the flags in a TCP header, RFC 9293.
const (
	tcpSYN     = 0x02
	tcpRST     = 0x04
	tcpACK     = 0x10
	tcpFlagsAt = 13 // bytes into the header
)

func comesBy(device string) []expr.Any { return by(expr.MetaKeyIIFNAME, device) }
func goesBy(device string) []expr.Any  { return by(expr.MetaKeyOIFNAME, device) }

func by(key expr.MetaKey, device string) []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, device)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: name}}
}

func transport(protocol byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}}}
}

// flags matches TCP flags under a mask.
func flags(mask, value byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: tcpFlagsAt, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{mask}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{value}},
	}
}

func icmp(kind, code byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{kind, code}},
	}
}

// original matches the direction of the connection's initiator, as conntrack knows it.
func original() []expr.Any {
	const ipCtDirOriginal = 0 // enum ip_conntrack_dir
	return []expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{ipCtDirOriginal}}}
}

// state matches any of these conntrack states.
func state(bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}
