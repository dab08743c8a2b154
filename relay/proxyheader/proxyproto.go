package proxyheader

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/pires/go-proxyproto"
)

// Bounds of PROXY protocol headers, in bytes: a line of version 1 with its CRLF (section 2.1), and of version 2 what the library
// reads (its MaxV2HeaderSize), with the 16 bytes in front. With a certificate as a TLV it has 1 to 2 KiB.
const (
	maxProxyLine = 107
	maxProxyV2   = 16 + 4096
)

const (
	proxyV1 = "PROXY "
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"
)

// proxy reads a header of the PROXY protocol. What its TLVs say is ignored.
func (p *Parser) proxy(b []byte) (int, error) {
	n, err := proxySize(b)
	if n == 0 && err == nil {
		return 0, nil
	}
	if err == nil {
		err = p.Target.setProxy(b[:n])
	}
	if err != nil {
		return 0, fmt.Errorf("read the PROXY header: %w", err)
	}
	p.done = true
	return n, nil
}

// proxySize is the whole length of the header that b begins with, 0 until it is there.
func proxySize(b []byte) (int, error) {
	switch {
	case len(b) == 0:
		return 0, nil
	case startsLike(b, proxyV1):
		end := bytes.IndexByte(b[:min(len(b), maxProxyLine)], '\n') + 1
		if end == 0 && len(b) >= maxProxyLine {
			return 0, fmt.Errorf("%w: no end of the line in %d bytes", ErrTooLong, maxProxyLine)
		}
		return end, nil
	case !startsLike(b, proxyV2):
		return 0, fmt.Errorf("%w: there is none", ErrMalformed)
	case len(b) < 16:
		return 0, nil
	}
	size := 16 + int(binary.BigEndian.Uint16(b[14:]))
	switch {
	case size > maxProxyV2:
		return 0, fmt.Errorf("%w: %d bytes", ErrTooLong, size)
	case size > len(b):
		return 0, nil
	}
	return size, nil
}

// startsLike tells whether b begins with a prefix, as far as it goes.
func startsLike(b []byte, prefix string) bool {
	n := min(len(b), len(prefix))
	return string(b[:n]) == prefix[:n]
}

// setProxy reads a whole header.
func (t *Target) setProxy(b []byte) error {
	h, err := readWith(b, proxyproto.Read)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if h.Command.IsLocal() {
		return fmt.Errorf("%w: it is LOCAL or UNKNOWN, which the proxy sends for itself", ErrDestination)
	}
	client, server, ok := h.TCPAddrs()
	if !ok {
		return fmt.Errorf("%w: family and protocol %#02x, which is not TCP", ErrUnsupported, byte(h.TransportProtocol))
	}
	if err := t.setServer(addrPort(server)); err != nil {
		return err
	}
	t.Client = addrPort(client)
	return nil
}

func addrPort(a *net.TCPAddr) netip.AddrPort {
	address, _ := netip.AddrFromSlice(a.IP)
	return netip.AddrPortFrom(address.Unmap(), uint16(a.Port))
}

// source is what libraries read bytes from that are all there.
type source struct {
	bytes bytes.Reader
	bufio *bufio.Reader
}

// sources hold buffers for as long as a header is read, so that a flow has none. A line of version 1 must fit in one.
var sources = sync.Pool{New: func() any { return &source{bufio: bufio.NewReaderSize(nil, 512)} }}

func readWith[T any](b []byte, read func(*bufio.Reader) (T, error)) (T, error) {
	s := sources.Get().(*source)
	s.bytes.Reset(b)
	s.bufio.Reset(&s.bytes)
	v, err := read(s.bufio)
	s.bytes.Reset(nil)
	sources.Put(s)
	return v, err
}
