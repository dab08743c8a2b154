// Package proxyheader writes the header of the PROXY protocol for connections to surrogates that user space makes. The kernel program
// writes its own for those that it splices (bpf/router/header.h), with more TLVs.
package proxyheader

import (
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

// Version is that of the protocol; None is no header.
type Version byte

// The versions.
const (
	None Version = iota
	V1
	V2
)

// Write introduces a client of a VIP to a surrogate. It writes at once: servers read a header whole or not at all.
func (v Version) Write(w io.Writer, client, vip netip.AddrPort) error {
	if v == None {
		return nil
	}
	h := proxyproto.HeaderProxyFromAddrs(byte(v), tcp(client), tcp(vip))
	if _, err := h.WriteTo(w); err != nil {
		return fmt.Errorf("write PROXY header: %w", err)
	}
	return nil
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

func tcp(a netip.AddrPort) *net.TCPAddr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
}
