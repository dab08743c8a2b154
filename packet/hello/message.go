package hello

import "encoding/binary"

// Extensions, by their numbers at IANA.
const (
	extServerName        = 0  // RFC 6066 section 3
	extALPN              = 16 // RFC 7301
	extSessionTicket     = 35 // RFC 5077
	extPreSharedKey      = 41 // RFC 8446 section 4.2.11
	extSupportedVersions = 43 // RFC 8446 section 4.2.1
	extECH               = 0xfe0d
)

const (
	randomSize   = 32
	maxSessionID = 32
	hostName     = 0 // the one type of a name that there is
	maxHostName  = 253
	maxLabel     = 63
)

var (
	errShort       = &Error{Malformed, DecodeError, "lengths that do not nest"}
	errTrailing    = &Error{Malformed, DecodeError, "bytes behind the extensions"}
	errVersion     = &Error{Malformed, ProtocolVersion, "a version before SSL 3.0"}
	errSessionID   = &Error{Malformed, DecodeError, "a session id of more than 32 bytes"}
	errCiphers     = &Error{Malformed, DecodeError, "no cipher suites, or half a one"}
	errCompression = &Error{Malformed, DecodeError, "no compression methods"}
	errTwice       = &Error{Malformed, DecodeError, "an extension is there twice"}
	errNames       = &Error{Malformed, DecodeError, "server_name is not one host name"}
	errName        = &Error{Malformed, DecodeError, "the server's name is not a host name"}
	errALPN        = &Error{Malformed, DecodeError, "ALPN is not a list of names"}
	errVersions    = &Error{Malformed, DecodeError, "supported_versions is not a list of versions"}
)

// body reads a hello without its header, to its end.
func body(b []byte) (Hello, error) {
	if len(b) < 2+randomSize {
		return Hello{}, errShort
	}
	legacy := binary.BigEndian.Uint16(b)
	if legacy < 0x0300 {
		return Hello{}, errVersion
	}
	rest := cursor(b[2+randomSize:])
	sessionID, ok := rest.vector8()
	if !ok {
		return Hello{}, errShort
	}
	ciphers, ok := rest.vector16()
	if !ok {
		return Hello{}, errShort
	}
	compression, ok := rest.vector8()
	switch {
	case !ok:
		return Hello{}, errShort
	case len(sessionID) > maxSessionID:
		return Hello{}, errSessionID
	case len(ciphers) == 0 || len(ciphers)%2 != 0:
		return Hello{}, errCiphers
	case len(compression) == 0:
		return Hello{}, errCompression
	}
	h := Hello{MaxVersion: min(legacy, 0x0303)} // RFC 8446 section 4.2.1: TLS 1.3 is offered by the extension alone
	if len(rest) == 0 {
		return h, nil // as before TLS 1.0 had extensions
	}
	list, ok := rest.vector16()
	if !ok {
		return Hello{}, errShort
	}
	if len(rest) > 0 {
		return Hello{}, errTrailing
	}
	if err := h.extensions(list); err != nil {
		return Hello{}, err
	}
	return h, nil
}

func (h *Hello) extensions(rest cursor) error {
	var seen [1 << 16 / 64]uint64 // by type: a list of all that came would take a square of them to search
	for len(rest) > 0 {
		kind, ok := rest.uint16()
		if !ok {
			return errShort
		}
		data, ok := rest.vector16()
		if !ok {
			return errShort
		}
		if seen[kind/64]&(1<<(kind%64)) != 0 {
			return errTwice
		}
		seen[kind/64] |= 1 << (kind % 64)
		if err := h.extension(kind, data); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hello) extension(kind uint16, data cursor) error {
	switch kind {
	case extServerName:
		return h.serverName(data)
	case extALPN:
		return h.protocols(data)
	case extSupportedVersions:
		return h.versions(data)
	case extECH:
		h.ECH = true
	case extPreSharedKey:
		h.Resumption = true
	case extSessionTicket: // empty: the client would take one
		h.Resumption = h.Resumption || len(data) > 0
	}
	return nil
}

// serverName takes a list of one host name. RFC 6066 allows names of other types beside it, but defines none, and servers read
// such a list in different ways.
func (h *Hello) serverName(data cursor) error {
	list, ok := data.vector16()
	if !ok || len(data) > 0 {
		return errNames
	}
	kind, ok := list.uint8()
	if !ok || kind != hostName {
		return errNames
	}
	name, ok := list.vector16()
	if !ok || len(list) > 0 {
		return errNames
	}
	if fault := nameFault(name); fault != "" {
		return errName
	}
	h.Sent = string(name)
	h.ServerName = Canonical(h.Sent)
	return nil
}

func (h *Hello) protocols(data cursor) error {
	list, ok := data.vector16()
	if !ok || len(data) > 0 || len(list) == 0 {
		return errALPN
	}
	for rest := list; len(rest) > 0; {
		name, ok := rest.vector8()
		if !ok || len(name) == 0 {
			return errALPN
		}
	}
	h.Protocols = Protocols(list)
	return nil
}

// versions takes the highest one of TLS: neither a draft's nor GREASE (RFC 8701), which are larger numbers.
func (h *Hello) versions(data cursor) error {
	list, ok := data.vector8()
	if !ok || len(data) > 0 || len(list) == 0 || len(list)%2 != 0 {
		return errVersions
	}
	h.MaxVersion = 0
	for len(list) > 0 {
		version, _ := list.uint16()
		if version>>8 == 3 {
			h.MaxVersion = max(h.MaxVersion, version)
		}
	}
	return nil
}

// cursor takes numbers and vectors (RFC 8446 section 3.4) from the beginning of bytes, in network byte order.
type cursor []byte

func (c *cursor) uint8() (uint8, bool) {
	if len(*c) < 1 {
		return 0, false
	}
	v := (*c)[0]
	*c = (*c)[1:]
	return v, true
}

func (c *cursor) uint16() (uint16, bool) {
	if len(*c) < 2 {
		return 0, false
	}
	v := binary.BigEndian.Uint16(*c)
	*c = (*c)[2:]
	return v, true
}

// vector8 takes a vector with 8 bits of length.
func (c *cursor) vector8() (cursor, bool) {
	n, ok := c.uint8()
	if !ok {
		return nil, false
	}
	return c.take(int(n))
}

// vector16 takes a vector with 16 bits of length.
func (c *cursor) vector16() (cursor, bool) {
	n, ok := c.uint16()
	if !ok {
		return nil, false
	}
	return c.take(int(n))
}

func (c *cursor) take(n int) (cursor, bool) {
	if len(*c) < n {
		return nil, false
	}
	v := (*c)[:n:n]
	*c = (*c)[n:]
	return v, true
}
