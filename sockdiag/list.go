package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Filter selects the sockets to list. The kernel applies it, so others are not copied.
type Filter struct {
	Local  []netip.Prefix // of the socket's own address; none: any. IPv4 on an IPv6 socket counts as IPv4
	States States         // none: established and closing
}

// State of a socket, as in include/net/tcp_states.h. UDP sockets are Established if connected, and else Close.
type State uint8

// The states.
const (
	Established State = iota + 1
	SynSent
	SynReceived
	FinWait1
	FinWait2
	TimeWait
	Close
	CloseWait
	LastAck
	Listen
	Closing
)

// States is a set of State: bit n stands for n.
type States uint32

// In returns the set of some states.
func In(states ...State) (set States) {
	for _, s := range states {
		set |= 1 << s
	}
	return set
}

// Connected are the states in which a connection may still carry data.
const Connected = States(1<<Established | 1<<FinWait1 | 1<<FinWait2 | 1<<CloseWait | 1<<LastAck | 1<<Closing)

// mostPrefixes bounds a filter: 32 bytes each.
const mostPrefixes = 64

// sockDiagByFamily is SOCK_DIAG_BY_FAMILY of linux/sock_diag.h; filterAttribute is INET_DIAG_REQ_BYTECODE of linux/inet_diag.h.
const (
	sockDiagByFamily = 20
	filterAttribute  = 1
)

// ListTCP visits each TCP socket that matches the filter. The argument of visit is valid only during the call.
//
// The kernel walks its table in several steps: a socket that is opened or closed meanwhile may or may not be visited; none is visited
// twice unless its addresses are reused.
func (c *Conn) ListTCP(f Filter, visit func(*TCP)) error {
	if f.States == 0 {
		f.States = Connected
	}
	var s TCP
	return c.list(unix.IPPROTO_TCP, 1<<(infoAttribute-1), f, func(body []byte) error {
		if err := parseTCP(body, &s); err != nil {
			return err
		}
		visit(&s)
		return nil
	})
}

// ListUDP is ListTCP for UDP sockets, for which the kernel keeps no measurements.
func (c *Conn) ListUDP(f Filter, visit func(*UDP)) error {
	if f.States == 0 {
		f.States = In(Established, Close)
	}
	var s UDP
	return c.list(unix.IPPROTO_UDP, 0, f, func(body []byte) error {
		if err := parseUDP(body, &s); err != nil {
			return err
		}
		visit(&s)
		return nil
	})
}

func (c *Conn) list(protocol, extensions uint8, f Filter, visit func(body []byte) error) error {
	code, err := f.code()
	if err != nil {
		return fmt.Errorf("list sockets: %w", err)
	}
	for _, family := range f.families() {
		c.request = appendDump(c.request[:0], c.next, family, protocol, extensions, f.States, code)
		err := c.dump(visit)
		switch {
		case errors.Is(err, ErrGone): // ENOENT here means that the protocol is not supported
			return fmt.Errorf("list sockets of IP protocol %d: the kernel cannot (CONFIG_INET_DIAG, CONFIG_INET_UDP_DIAG)", protocol)
		case err != nil:
			return fmt.Errorf("list sockets of IP protocol %d: %w", protocol, err)
		}
	}
	return nil
}

// families returns the address families to query. An IPv6 socket may have IPv4 addresses.
func (f Filter) families() []uint8 {
	for _, p := range f.Local {
		if p.Addr().Is4() {
			return []uint8{unix.AF_INET, unix.AF_INET6}
		}
	}
	if len(f.Local) > 0 {
		return []uint8{unix.AF_INET6}
	}
	return []uint8{unix.AF_INET, unix.AF_INET6}
}

// dump sends the prepared request, and reads all answers.
func (c *Conn) dump(visit func(body []byte) error) error {
	sequence := c.next
	c.next++
	if err := unix.Sendto(c.fd, c.request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	for {
		n, _, flags, _, err := unix.Recvmsg(c.fd, c.answer, nil, 0)
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		if flags&unix.MSG_TRUNC != 0 {
			return fmt.Errorf("read the answer: it is longer than %d bytes", len(c.answer))
		}
		done, err := parseDump(c.answer[:n], sequence, visit)
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		if done {
			return nil
		}
	}
}

// parseDump parses the result of one read of a dump. done: it was the last. Answers to earlier requests are skipped.
func parseDump(b []byte, sequence uint32, visit func(body []byte) error) (done bool, err error) {
	for len(b) > 0 {
		var m message
		if m, b, err = parseMessage(b); err != nil {
			return false, err
		}
		if m.sequence != sequence {
			continue
		}
		switch m.kind {
		case sockDiagByFamily:
			if err := visit(m.body); err != nil {
				return false, err
			}
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			said, err := parseError(m.body)
			return err == nil && said == nil, errors.Join(err, said)
		case unix.NLMSG_NOOP:
		default:
			return false, fmt.Errorf("a message of type %d", m.kind)
		}
	}
	return false, nil
}

// appendDump writes a netlink message with a struct inet_diag_req_v2 and the filter.
func appendDump(b []byte, sequence uint32, family, protocol, extensions uint8, states States, code []byte) []byte {
	body := requestSize
	if len(code) > 0 {
		body += unix.SizeofRtAttr + len(code)
	}
	order := binary.NativeEndian
	b = appendHeader(b, body, sockDiagByFamily, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, sequence)
	b = append(b, family, protocol, extensions, 0)
	b = order.AppendUint32(b, uint32(states))
	var anyone [48]byte // struct inet_diag_sockid: dumps use only its ports, and 0 is any
	b = append(b, anyone[:]...)
	if len(code) > 0 {
		b = order.AppendUint16(b, uint16(unix.SizeofRtAttr+len(code)))
		b = order.AppendUint16(b, filterAttribute)
		b = append(b, code...)
	}
	return b
}

// Operations of the kernel's filter language (linux/inet_diag.h): each jumps forward, by yes if it holds for the socket, else by no. A
// socket matches if the last jump hits the end exactly; 4 bytes beyond it rejects.
const (
	jump        = 1 // never true
	localPrefix = 7 // its own address is in a prefix
)

const (
	sizeOfOperation = 4  // struct inet_diag_bc_op
	sizeOfCondition = 8  // struct inet_diag_hostcond, without the address
	anyPort         = -1 // of a condition
)

// code compiles the filter: one condition after another, each but the last followed by a jump to the end. The kernel requires jump
// targets to be operations that are also reachable by yes jumps alone.
func (f Filter) code() ([]byte, error) {
	if len(f.Local) > mostPrefixes {
		return nil, fmt.Errorf("a filter of %d prefixes, %d is the most", len(f.Local), mostPrefixes)
	}
	var conditions [][]byte
	total := 0
	for _, p := range f.Local {
		if !p.IsValid() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("a filter for %v", p)
		}
		c := condition(p)
		conditions = append(conditions, c)
		total += sizeOfOperation + len(c)
	}
	total += max(len(conditions)-1, 0) * sizeOfOperation
	b := make([]byte, 0, total)
	for i, c := range conditions {
		yes := sizeOfOperation + len(c)
		no := yes + sizeOfOperation // after the jump; of the last condition: beyond the end
		b = appendOperation(b, localPrefix, yes, no)
		b = append(b, c...)
		if i < len(conditions)-1 {
			b = appendOperation(b, jump, sizeOfOperation, total-len(b))
		}
	}
	return b, nil
}

func appendOperation(b []byte, code uint8, yes, no int) []byte {
	b = append(b, code, uint8(yes))
	return binary.NativeEndian.AppendUint16(b, uint16(no))
}

// condition is a struct inet_diag_hostcond.
func condition(p netip.Prefix) []byte {
	family := uint8(unix.AF_INET)
	if p.Addr().Is6() {
		family = unix.AF_INET6
	}
	b := make([]byte, 0, sizeOfCondition+16)
	b = append(b, family, uint8(p.Bits()), 0, 0)
	port := int32(anyPort)
	b = binary.NativeEndian.AppendUint32(b, uint32(port))
	return append(b, p.Masked().Addr().AsSlice()...)
}
