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

// makeHush makes the table, or makes it anew, in one transaction.
//
// Open vSwitch in user space gets copies of what comes by a link, and sends copies of what comes for one of the link's own connections to the
// inside as well. So the host's stack hears of connections that are not its own there, and would end them or answer twice.
func makeHush(h Hush, keep bool) error {
	there, err := hasTable(h.Table)
	if err != nil || there && keep {
		return err
	}
	err = replaceHush(h, there, true)
	if unfit(err) { // the kernel has no conntrack
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
	// Nobody opens connections to the inside.
	if conntrack {
		add(in, comesBy(h.Internal), state(expr.CtStateBitNEW|expr.CtStateBitINVALID))
	} else {
		add(in, comesBy(h.Internal), transport(unix.IPPROTO_TCP), flags(tcpSYN|tcpACK, tcpSYN))
	}
	// A reset without ACK answers a segment that no socket is there for, or, of a connection that the host opens, one that is not its peer's: a server may
	// still have what it closed a moment ago. Without conntrack the latter cannot be told apart, and waits until the server has forgotten.
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

// Bits of the octet of a TCP header's flags, RFC 9293.
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

// flags are those under a mask.
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

// original is the direction of who has begun the connection, as far as conntrack knows one.
func original() []expr.Any {
	const ipCtDirOriginal = 0 // enum ip_conntrack_dir
	return []expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{ipCtDirOriginal}}}
}

// state is one of these of conntrack.
func state(bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}
