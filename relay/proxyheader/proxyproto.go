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

// Maximum lengths of PROXY protocol headers, in bytes: a version 1 line with its CRLF (section 2.1), and for version 2 what the library
// reads (its MaxV2HeaderSize) plus the first 16 bytes. A header with a certificate as a TLV has 1 to 2 KiB.
const (
	maxProxyLine = 107
	maxProxyV2   = 16 + 4096
)

const (
	proxyV1 = "PROXY "
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"
)

// proxy reads a PROXY protocol header. TLVs are ignored.
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

// proxySize is the length of the header at the start of b, 0 until it is complete.
func proxySize(b []byte) (int, error) {
	switch {
	case len(b) == 0:
		return 0, nil
	case startsLike(b, proxyV1):
		end := bytes.IndexByte(b[:min(len(b), maxProxyLine)], '\n') + 1
		if end == 0 && len(b) >= maxProxyLine {
			return 0, fmt.Errorf("%w: the line does not end within %d bytes", ErrTooLong, maxProxyLine)
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

// startsLike reports whether b starts with a prefix, as far as b goes.
func startsLike(b []byte, prefix string) bool {
	n := min(len(b), len(prefix))
	return string(b[:n]) == prefix[:n]
}

// setProxy parses a complete header.
func (t *Target) setProxy(b []byte) error {
	h, err := readWith(b, proxyproto.Read)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if h.Command.IsLocal() {
		return fmt.Errorf("%w: it is LOCAL or UNKNOWN, from the proxy itself", ErrDestination)
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

// source feeds complete input to a library.
type source struct {
	bytes bytes.Reader
	bufio *bufio.Reader
}

// sources hold buffers while a header is read, so that flows need none. A version 1 line must fit in one.
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
