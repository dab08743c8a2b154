package hello

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
)

// golden is a hello by the RFCs, each field by hand.
const golden = `
16 0301 0066                record: handshake, version 3.1, 102 bytes
01 000062                   ClientHello, 98 bytes
0303                        legacy version: TLS 1.2
000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f  random
00                          no session id
0002 1301                   cipher suites: TLS_AES_128_GCM_SHA256
01 00                       compression methods: null
0037                        extensions, 55 bytes
  0000 0014                 server_name, 20 bytes
    0012                    list, 18 bytes
    00 000f 57772e6578616d706c652e6e65742e  host_name, 15 bytes: "Ww.example.net."
  002b 0005 04 0303 0304    supported_versions: 1.2, 1.3
  0010 000e                 application_layer_protocol_negotiation, 14 bytes
    000c                    list, 12 bytes
    02 6832                 "h2"
    08 687474702f312e31     "http/1.1"
  fe0d 0000                 encrypted_client_hello
17                          not of the hello
`

// unhex takes the words of hexadecimal digits from the beginning of each line.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(text) {
		for word := range strings.FieldsSeq(line) {
			part, err := hex.DecodeString(word)
			if err != nil {
				break
			}
			b = append(b, part...)
		}
	}
	return b
}

func TestGolden(t *testing.T) {
	stream := unhex(t, golden)
	built := record(plan{extensions: [][]byte{
		serverName("Ww.example.net."), versions(0x0303, 0x0304), alpn("h2", "http/1.1"), extension(extECH),
	}}.message())
	if !bytes.Equal(built, stream[:len(stream)-1]) {
		t.Fatalf("the tests' builder makes\n%x, want\n%x", built, stream)
	}
	h, err := Read(stream)
	if err != nil {
		t.Fatal(err)
	}
	if h.ServerName != "ww.example.net" || h.MaxVersion != 0x0304 || !h.ECH || h.Resumption || h.Length != len(stream)-1 {
		t.Errorf("Read = %+v", h)
	}
	if got := protocols(h); !slices.Equal(got, []string{"h2", "http/1.1"}) {
		t.Errorf("protocols %q", got)
	}
	if !h.Protocols.Has("h2") || !h.Protocols.Has("http/1.1") || h.Protocols.Has("h3") || h.Protocols.Has("") {
		t.Error("Has is not what All yields")
	}
}

func protocols(h Hello) []string {
	var names []string
	for name := range h.Protocols.All() {
		names = append(names, string(name))
	}
	return names
}

// readAll reads a stream, and checks on the way that each of its beginnings is incomplete or has the same result, and so has
// the stream with more behind it.
func readAll(t *testing.T, stream []byte) (Hello, error) {
	t.Helper()
	return readEach(t, stream, 1)
}

// readEach is readAll for each step-th of the beginnings.
func readEach(t *testing.T, stream []byte, step int) (Hello, error) {
	t.Helper()
	before := bytes.Clone(stream)
	h, err := Read(stream)
	end := len(stream)
	switch {
	case err == nil:
		end = h.Length
	case h.Length != 0 || h.ServerName != "" || h.Protocols != nil:
		t.Fatalf("Read = %+v with %v", h, err)
	}
	if end > len(stream) {
		t.Fatalf("a length of %d of %d bytes", end, len(stream))
	}
	for n := 0; n < end; n += step {
		early, earlyErr := Read(stream[:n:n])
		if err == nil && !errors.Is(earlyErr, ErrIncomplete) {
			t.Fatalf("%d of %d bytes: %+v, %v, want incomplete", n, end, early, earlyErr)
		}
		if earlyErr != err && !errors.Is(earlyErr, ErrIncomplete) {
			t.Fatalf("%d of %d bytes: %v, but the whole %v", n, end, earlyErr, err)
		}
	}
	if !errors.Is(err, ErrIncomplete) {
		for _, more := range []string{"\x16", "\x00\x00\x00\x00\x00\x00", "GET / HTTP/1.1\r\n\r\n"} {
			late, lateErr := Read(slices.Concat(stream[:end], []byte(more)))
			if lateErr != err || !equal(late, h) {
				t.Fatalf("with %q behind: %+v, %v, but %+v, %v", more, late, lateErr, h, err)
			}
		}
	}
	if !bytes.Equal(before, stream) {
		t.Fatal("Read has changed the stream")
	}
	return h, err
}

func equal(a, b Hello) bool {
	return a.ServerName == b.ServerName && bytes.Equal(a.Protocols, b.Protocols) && a.MaxVersion == b.MaxVersion &&
		a.ECH == b.ECH && a.Resumption == b.Resumption && a.Length == b.Length
}

func TestAccepted(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 61)
	for _, test := range []struct {
		name    string
		message []byte
		want    Hello
	}{
		{"no extensions", plan{}.message(), Hello{MaxVersion: 0x0303}},
		{"an empty list of extensions", with(), Hello{MaxVersion: 0x0303}},
		{"SSL 3.0", plan{version: 0x0300}.message(), Hello{MaxVersion: 0x0300}},
		{"a version of the future", plan{version: 0x0499}.message(), Hello{MaxVersion: 0x0303}},
		{"TLS 1.3 without its extension", plan{version: 0x0304}.message(), Hello{MaxVersion: 0x0303}},
		{"capitals and a dot", with(serverName("WWW.eXample.NET.")), Hello{MaxVersion: 0x0303, ServerName: "www.example.net"}},
		{"one label", with(serverName("localhost")), Hello{MaxVersion: 0x0303, ServerName: "localhost"}},
		{"a name of 253 bytes", with(serverName(long)), Hello{MaxVersion: 0x0303, ServerName: long}},
		{"253 bytes and the dot", with(serverName(long + ".")), Hello{MaxVersion: 0x0303, ServerName: long}},
		{"underscores, hyphens", with(serverName("_a.-b-.xn--c")), Hello{MaxVersion: 0x0303, ServerName: "_a.-b-.xn--c"}},
		{"an address, against RFC 6066", with(serverName("192.0.2.1")), Hello{MaxVersion: 0x0303, ServerName: "192.0.2.1"}},
		{"versions", with(versions(0x0301, 0x0304, 0x0303)), Hello{MaxVersion: 0x0304}},
		{"GREASE and drafts", with(versions(0xfafa, 0x7f1c, 0x0302)), Hello{MaxVersion: 0x0302}},
		{"no known version", with(versions(0x7f1c)), Hello{}},
		{"a ticket is welcome", with(extension(extSessionTicket)), Hello{MaxVersion: 0x0303}},
		{"a ticket", with(extension(extSessionTicket, []byte("t"))), Hello{MaxVersion: 0x0303, Resumption: true}},
		{"a pre-shared key", with(extension(extPreSharedKey, []byte("k"))), Hello{MaxVersion: 0x0303, Resumption: true}},
		{"ECH", with(extension(extECH, []byte("e"))), Hello{MaxVersion: 0x0303, ECH: true}},
		{"protocols", with(alpn("h2", "h2", "\x0a\x0a")), Hello{MaxVersion: 0x0303, Protocols: Protocols("\x02h2\x02h2\x02\x0a\x0a")}},
		{"the longest protocol", with(alpn(long[:255-4])), Hello{MaxVersion: 0x0303, Protocols: Protocols("\xfb" + long[:251])}},
		{"unknown extensions", with(extension(0x0a0a), extension(0xffff, []byte("x")), extension(0x1a1a, []byte{0})), Hello{MaxVersion: 0x0303}},
		{"16 KiB", with(extension(21, make([]byte, MaxBytes-len(with(extension(21)))))), Hello{MaxVersion: 0x0303}},
	} {
		t.Run(test.name, func(t *testing.T) {
			stream := record(test.message)
			got, err := readAll(t, stream)
			want := test.want
			want.Length = len(stream)
			if err != nil || !equal(got, want) {
				t.Errorf("Read = %+v, %v, want %+v", got, err, want)
			}
			want.Length = len(test.message)
			got, err = ReadMessage(append(test.message, "more"...))
			if err != nil || !equal(got, want) {
				t.Errorf("ReadMessage = %+v, %v, want %+v", got, err, want)
			}
		})
	}
}
