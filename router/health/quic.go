package health

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"baton/packet/quic"
)

// unknownVersion is one that no server has (RFC 9000, section 15), so that each answers with those that it has (section 6.1): its
// QUIC is alive, and the check has cost it no handshake.
const unknownVersion = 0x1a2a3a4a

// Sizes of the question in bytes. A server answers no shorter datagram (RFC 9000, sections 6.1 and 14.1).
const (
	askedIDs    = 8
	maxAnswered = 1500
)

// askedTimes is how often a check asks within its timeout, as datagrams are lost.
const askedTimes = 3

// newQUIC makes the check of surrogates of protocol quic.
func newQUIC(ports PortRange) func(ctx context.Context, t Target) error {
	dialer := Dialer(ports)
	return func(ctx context.Context, t Target) error {
		ctx, cancel := context.WithTimeout(ctx, t.Check.Timeout)
		defer cancel()
		c, err := dialer.DialContext(ctx, "udp", t.Address.String())
		if err != nil {
			return failure(ctx, t, err)
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		if err := askVersions(c, t.Check.Timeout/askedTimes); err != nil {
			if errors.Is(err, syscall.ECONNREFUSED) {
				err = errors.New("no server at the port")
			}
			return failure(ctx, t, err)
		}
		return nil
	}
}

// askVersions asks until there is an answer, or the connection is closed.
func askVersions(c net.Conn, again time.Duration) error {
	question := make([]byte, quic.MinDatagram)
	_, _ = rand.Read(question) // never fails
	question[0] |= 0xc0        // long header, fixed bit
	binary.BigEndian.PutUint32(question[1:], unknownVersion)
	question[5], question[6+askedIDs] = askedIDs, askedIDs
	destination, source := question[6:6+askedIDs], question[7+askedIDs:7+2*askedIDs]
	answer := make([]byte, maxAnswered)
	for {
		if _, err := c.Write(question); err != nil {
			return fmt.Errorf("ask for versions: %w", err)
		}
		if err := c.SetReadDeadline(time.Now().Add(again)); err != nil {
			return fmt.Errorf("ask for versions: %w", err)
		}
		for {
			n, err := c.Read(answer)
			var lost net.Error
			if errors.As(err, &lost) && lost.Timeout() {
				break
			} else if err != nil {
				return fmt.Errorf("wait for versions: %w", err)
			}
			p, _, err := quic.Parse(answer[:n])
			if err == nil && p.Kind == quic.Negotiation && bytes.Equal(p.Destination, source) && bytes.Equal(p.Source, destination) {
				return nil
			}
		}
	}
}
