package hello

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// memory is a connection whose peer has said all that it will.
type memory struct {
	in  io.Reader
	out bytes.Buffer
}

func (m *memory) Read(b []byte) (int, error)       { return m.in.Read(b) }
func (m *memory) Write(b []byte) (int, error)      { return m.out.Write(b) }
func (m *memory) Close() error                     { return nil }
func (m *memory) LocalAddr() net.Addr              { return nil }
func (m *memory) RemoteAddr() net.Addr             { return nil }
func (m *memory) SetDeadline(time.Time) error      { return nil }
func (m *memory) SetReadDeadline(time.Time) error  { return nil }
func (m *memory) SetWriteDeadline(time.Time) error { return nil }

// serve has crypto/tls read a stream as a server: what it sees, nil and why when it sees no hello.
func serve(stream []byte) (seen *tls.ClientHelloInfo, err error) {
	config := &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		seen = info
		return nil, errors.New("seen")
	}}
	err = tls.Server(&memory{in: bytes.NewReader(stream)}, config).Handshake()
	return seen, err
}

// agree compares Read with crypto/tls. Where only one of the two takes a hello, the reason must be one of those below.
func agree(t *testing.T, stream []byte) {
	t.Helper()
	h, err := Read(stream)
	seen, refused := serve(stream)
	switch {
	case err == nil && seen != nil:
		same(t, h, seen)
	case err == nil:
		lenient(t, stream, refused)
	case seen != nil && !stricter(stream, err):
		t.Errorf("Read = %v, but crypto/tls sees %+v", err, seen)
	}
}

func same(t *testing.T, h Hello, seen *tls.ClientHelloInfo) {
	t.Helper()
	if h.ServerName != Canonical(seen.ServerName) {
		t.Errorf("name %q, crypto/tls %q", h.ServerName, seen.ServerName)
	}
	if got := protocols(h); !slices.Equal(got, seen.SupportedProtos) {
		t.Errorf("protocols %q, crypto/tls %q", got, seen.SupportedProtos)
	}
	if has := slices.Contains(seen.Extensions, extECH); h.ECH != has {
		t.Errorf("ECH %v, crypto/tls %v", h.ECH, has)
	}
	// Without supported_versions crypto/tls lists what the legacy version allows, SSL 3.0 not among it.
	newest := uint16(0)
	for _, version := range seen.SupportedVersions {
		if version>>8 == 3 {
			newest = max(newest, version)
		}
	}
	if !slices.Contains(seen.Extensions, extSupportedVersions) {
		newest = max(min(newest, tls.VersionTLS12), 0x0300)
	}
	if h.MaxVersion != newest {
		t.Errorf("version %#x, crypto/tls %#x", h.MaxVersion, newest)
	}
}

// stricter tells whether crypto/tls is known to take what Read refuses so.
func stricter(stream []byte, err error) bool {
	switch err {
	case errVersion, errSessionID, errCompression: // crypto/tls checks these later or not at all
		return true
	case errCiphers: // an empty list
		return true
	case errNames: // names of other types are passed over
		return true
	case errName: // any bytes are a name
		return true
	case errRecordVersion: // in the first record below 16.0, later any
		return true
	case errExcess: // refused once the version is known
		return true
	case errTooLarge: // 64 KiB
		return true
	case errInterleaved: // warnings are passed over
		return bytes.Contains(stream, []byte{2, 1})
	case errNotTLS: // as those before the hello
		return stream[0] == recordAlert
	}
	return false
}

// readByOthers are the extensions whose inside crypto/tls reads and Read does not.
var readByOthers = map[uint16]bool{
	5: true, 10: true, 11: true, 13: true, 18: true, 23: true, extSessionTicket: true, extPreSharedKey: true, 42: true, 44: true, 45: true,
	50: true, 51: true, 57: true, extECH: true, 0xff01: true,
}

// lenient checks that crypto/tls refuses a hello for an extension that is the surrogate's affair, or for a dot at the end of the
// name: without those it must see what Read does.
func lenient(t *testing.T, stream []byte, refused error) {
	t.Helper()
	f, err := frame(stream)
	if err != nil {
		t.Fatal(err)
	}
	stripped := record(message(clientHello, strip(f.message(stream))))
	h, err := Read(stripped)
	if err != nil {
		t.Errorf("without its other extensions: %v", err)
		return
	}
	seen, err := serve(stripped)
	if seen == nil {
		t.Errorf("crypto/tls refuses what Read accepts: %v, and %v without its other extensions", refused, err)
		return
	}
	same(t, h, seen)
	whole, _ := Read(stream)
	if whole.ServerName != h.ServerName || !bytes.Equal(whole.Protocols, h.Protocols) || whole.MaxVersion != h.MaxVersion {
		t.Errorf("Read = %+v, and %+v without its other extensions", whole, h)
	}
}

// strip takes what crypto/tls alone refuses from a hello without its header.
func strip(b []byte) []byte {
	rest := cursor(b[2+randomSize:])
	rest.vector8()
	rest.vector16()
	rest.vector8()
	fixed := b[:len(b)-len(rest)]
	if len(rest) == 0 {
		return b
	}
	list, _ := rest.vector16()
	var kept []byte
	for len(list) > 0 {
		kind, _ := list.uint16()
		data, _ := list.vector16()
		if kind == extServerName {
			name := bytes.TrimSuffix(data[5:], []byte("."))
			kept = append(kept, serverName(string(name))...)
		} else if !readByOthers[kind] {
			kept = append(kept, extension(int(kind), data)...)
		}
	}
	return slices.Concat(fixed, vec16(kept))
}

func TestAgreesOnTheCorpus(t *testing.T) {
	for _, s := range corpus(t) {
		seen, err := serve(s.stream)
		if dot := bytes.Contains(s.stream, []byte("WWW.example.net.")); seen == nil && !dot {
			t.Errorf("%s: crypto/tls refuses it: %v", s.name, err)
		}
		agree(t, s.stream)
		agree(t, records(s.stream[recordHeaderSize:], 7))
	}
	for _, test := range badMessages {
		agree(t, record(test.message))
	}
	for _, test := range badStreams {
		agree(t, test.stream)
	}
}
