// Package proxyheader writes the header of the PROXY protocol for connections to surrogates that user space makes. The kernel program
// writes its own for those that it splices (bpf/router/header.h); both have the same TLVs in the same order.
package proxyheader

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"

	"baton/router/config"
)

// Version is that of the protocol; None is no header.
type Version byte

// The versions.
const (
	None Version = iota
	V1
	V2
)

// Of is the version that the surrogates of a pool expect.
func Of(p *config.Pool) Version {
	switch p.ClientAddress {
	case config.ProxyV1:
		return V1
	case config.ProxyV2:
		return V2
	}
	return None
}

// Write introduces a client of a VIP to a surrogate, with the server name that it has sent, if any. It writes at once: servers read a header whole or not at all.
func (v Version) Write(w io.Writer, client, vip netip.AddrPort, name string) error {
	if v == None {
		return nil
	}
	h := proxyproto.HeaderProxyFromAddrs(byte(v), tcp(client), tcp(vip))
	b, err := v.format(h, name)
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
		return fmt.Errorf("write PROXY header: %w", err)
	}
	return nil
}

const (
	maxName     = 150 // AUTHORITY of the kernel program
	uniqueBytes = 16
)

// format adds the TLVs of version 2: the name, if there is one and it fits, a random id, and a checksum of the whole.
func (v Version) format(h *proxyproto.Header, name string) ([]byte, error) {
	if v != V2 {
		return h.Format()
	}
	var tlvs []proxyproto.TLV
	if name != "" && len(name) <= maxName {
		tlvs = append(tlvs, proxyproto.TLV{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte(name)})
	}
	id := make([]byte, uniqueBytes)
	_, _ = rand.Read(id) // never fails (crypto/rand)
	tlvs = append(tlvs, proxyproto.TLV{Type: proxyproto.PP2_TYPE_UNIQUE_ID, Value: id}, proxyproto.TLV{Type: proxyproto.PP2_TYPE_CRC32C, Value: make([]byte, 4)})
	if err := h.SetTLVs(tlvs); err != nil {
		return nil, err
	}
	b, err := h.Format()
	if err == nil { // over the header with zeros in its place, which is the end
		binary.BigEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}
	return b, err
}

// WriteOwn introduces a connection of the router's own, such as a health check.
func (v Version) WriteOwn(w io.Writer) error {
	h := proxyproto.Header{Version: byte(v), Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}
	switch v {
	case None:
		return nil
	case V1:
		if _, err := io.WriteString(w, "PROXY UNKNOWN\r\n"); err != nil { // version 1 has no commands
			return fmt.Errorf("write PROXY header: %w", err)
		}
		return nil
	}
	if _, err := h.WriteTo(w); err != nil {
		return fmt.Errorf("write PROXY header: %w", err)
	}
	return nil
}

// Dial connects to a surrogate.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Own makes a Dial for connections of the router's own. version returns what the surrogate expects.
func Own(dial Dial, version func(ctx context.Context) Version) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := version(ctx).WriteOwn(c); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
}

func tcp(a netip.AddrPort) *net.TCPAddr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
}
