package proxyheader

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"baton/relay/trunkproto"
)

// Numbers from RFC 1928, sections 3 to 6.
const (
	socksVersion    = 5
	socksNoMethod   = 0xff
	socksConnect    = 1
	socksIPv4       = 1
	socksName       = 3
	socksIPv6       = 4
	socksSucceeded  = 0
	socksFailed     = 1
	socksNotAllowed = 2
	socksNoNetwork  = 3
	socksNoHost     = 4
	socksRefused    = 5
	socksExpired    = 6
	socksNoCommand  = 7
	socksNoFamily   = 8
)

var (
	socksChosen   = []byte{socksVersion, 0}             // no authentication
	socksUnchosen = []byte{socksVersion, socksNoMethod} // the client closes the connection
)

// socks reads the methods and the request, which a client may send together.
func (p *Parser) socks(b []byte) (n int, reply []byte, err error) {
	if !p.greeted {
		n, reply, err = socksMethods(b)
		if n == 0 || err != nil {
			return 0, reply, err
		}
		p.greeted = true
	}
	size, code, err := p.Target.setSOCKS(b[n:])
	if err != nil {
		refusal := appendSOCKS(bytes.Clone(reply), code, netip.AddrPort{})
		return n, refusal, fmt.Errorf("read the SOCKS request: %w", err)
	}
	p.done = size > 0
	return n + size, reply, nil
}

// socksMethods reads the methods that the client offers.
func socksMethods(b []byte) (n int, reply []byte, err error) {
	if len(b) > 0 && b[0] != socksVersion {
		return 0, nil, fmt.Errorf("read the SOCKS methods: %w: version %d", ErrUnsupported, b[0])
	}
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return 0, nil, nil
	}
	n = 2 + int(b[1])
	if bytes.IndexByte(b[2:n], 0) < 0 {
		return 0, socksUnchosen, fmt.Errorf("read the SOCKS methods: %w: the client requires authentication", ErrUnsupported)
	}
	return n, socksChosen, nil
}

// setSOCKS reads the request. code is the reply to an error.
func (t *Target) setSOCKS(b []byte) (n int, code byte, err error) {
	if len(b) > 0 && b[0] != socksVersion {
		return 0, socksFailed, fmt.Errorf("%w: version %d", ErrMalformed, b[0])
	}
	if len(b) > 1 && b[1] != socksConnect {
		return 0, socksNoCommand, fmt.Errorf("%w: command %d", ErrUnsupported, b[1])
	}
	if len(b) < 4 {
		return 0, 0, nil
	}
	n = 4 + 2
	switch b[3] {
	case socksIPv4:
		n += 4
	case socksIPv6:
		n += 16
	case socksName:
		if n++; len(b) > 4 {
			n += int(b[4])
		}
	default:
		return 0, socksNoFamily, fmt.Errorf("%w: address of type %d", ErrUnsupported, b[3])
	}
	if len(b) < n {
		return 0, 0, nil
	}
	address, port := b[4:n-2], binary.BigEndian.Uint16(b[n-2:])
	if b[3] == socksName {
		err = t.setHost(string(address[1:]), port)
	} else {
		ip, _ := netip.AddrFromSlice(address)
		err = t.setServer(netip.AddrPortFrom(ip, port))
	}
	if err != nil {
		return 0, socksFailed, err
	}
	return n, 0, nil
}

// socksCode is the reply for a flow's status. A timeout has no code of its own; TTL expired is the nearest, as in Tor.
func socksCode(status trunkproto.Status) byte {
	switch status {
	case trunkproto.Connected:
		return socksSucceeded
	case trunkproto.Refused:
		return socksRefused
	case trunkproto.Unreachable:
		return socksNoHost
	case trunkproto.TimedOut:
		return socksExpired
	case trunkproto.NotAllowed:
		return socksNotAllowed
	case trunkproto.NoTrunk, trunkproto.NoSuchRelay:
		return socksNoNetwork
	}
	return socksFailed
}

// appendSOCKS appends a reply, with 0.0.0.0 for an invalid address.
func appendSOCKS(b []byte, code byte, bound netip.AddrPort) []byte {
	address := bound.Addr().Unmap()
	switch {
	case !address.IsValid():
		b = append(b, socksVersion, code, 0, socksIPv4, 0, 0, 0, 0)
	case address.Is4():
		four := address.As4()
		b = append(append(b, socksVersion, code, 0, socksIPv4), four[:]...)
	default:
		sixteen := address.As16()
		b = append(append(b, socksVersion, code, 0, socksIPv6), sixteen[:]...)
	}
	return binary.BigEndian.AppendUint16(b, bound.Port())
}
