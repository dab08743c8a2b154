package quic_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/packet/quic"
	"baton/packet/quic/quictest"
)

// What Parse gives, without the parts that Open alone needs.
var visible = cmpopts.IgnoreUnexported(quic.Packet{})

func TestParse(t *testing.T) {
	server := quictest.Hex("f067a5502a4262b5")
	long := func(first byte, version uint32, rest string) []byte {
		b := []byte{first, byte(version >> 24), byte(version >> 16), byte(version >> 8), byte(version)}
		return append(b, quictest.Hex(rest)...)
	}
	tests := []struct {
		name string
		in   []byte
		want quic.Packet // Bytes is filled in from the input, less behind bytes
		left int
	}{
		{"RFC 9001 A.2", sampleClient1, quic.Packet{Kind: quic.Initial, Version: quic.Version1, Destination: sampleID}, 0},
		{"RFC 9001 A.3", sampleServer1, quic.Packet{Kind: quic.Initial, Version: quic.Version1, Source: server}, 0},
		{"RFC 9001 A.4", sampleRetry1, quic.Packet{Kind: quic.Retry, Version: quic.Version1, Source: server, Token: []byte("token"),
			Integrity: quictest.Hex("04a265ba2eff4d829058fb3f0f2496ba")}, 0},
		{"RFC 9001 A.5", sampleShort, quic.Packet{Kind: quic.Short}, 0},
		{"RFC 9369 A.2", sampleClient2, quic.Packet{Kind: quic.Initial, Version: quic.Version2, Destination: sampleID}, 0},
		{"RFC 9369 A.3", sampleServer2, quic.Packet{Kind: quic.Initial, Version: quic.Version2, Source: server}, 0},
		{"RFC 9369 A.4", sampleRetry2, quic.Packet{Kind: quic.Retry, Version: quic.Version2, Source: server, Token: []byte("token"),
			Integrity: quictest.Hex("c8646ce8bfe33952d955543665dcc7b6")}, 0},
		{"initial with a token", long(0xc0, 1, "01aa"+"01bb"+"02cafe"+"03010203"+"ff"), quic.Packet{Kind: quic.Initial, Version: quic.Version1,
			Destination: []byte{0xaa}, Source: []byte{0xbb}, Token: []byte{0xca, 0xfe}}, 1},
		{"0-RTT", long(0xd0, 1, "01aa"+"00"+"03010203"), quic.Packet{Kind: quic.ZeroRTT, Version: quic.Version1, Destination: []byte{0xaa}}, 0},
		{"handshake", long(0xe0, 1, "01aa"+"00"+"03010203"), quic.Packet{Kind: quic.Handshake, Version: quic.Version1, Destination: []byte{0xaa}}, 0},
		{"0-RTT of version 2", long(0xe0, 0x6b3343cf, "01aa"+"00"+"03010203"), quic.Packet{Kind: quic.ZeroRTT, Version: quic.Version2, Destination: []byte{0xaa}}, 0},
		{"handshake of version 2", long(0xf0, 0x6b3343cf, "01aa"+"00"+"03010203"), quic.Packet{Kind: quic.Handshake, Version: quic.Version2, Destination: []byte{0xaa}}, 0},
		{"length in eight bytes", long(0xe0, 1, "01aa"+"00"+"c000000000000001"+"77"), quic.Packet{Kind: quic.Handshake, Version: quic.Version1, Destination: []byte{0xaa}}, 0},
		{"fixed bit is not set", long(0x80, 1, "01aa"+"00"+"00"+"0101"), quic.Packet{Kind: quic.Initial, Version: quic.Version1, Destination: []byte{0xaa}}, 0},
		{"version negotiation", long(0x8a, 0, "01aa"+"01bb"+"00000001"+"6b3343cf"), quic.Packet{Kind: quic.Negotiation, Destination: []byte{0xaa}, Source: []byte{0xbb},
			Versions: quictest.Hex("000000016b3343cf")}, 0},
		{"unknown version, long id", long(0xc0, 0xff00001d, "15"+"000102030405060708090a0b0c0d0e0f1011121314"+"00"+"ffff"),
			quic.Packet{Kind: quic.Unknown, Version: 0xff00001d, Destination: quictest.Hex("000102030405060708090a0b0c0d0e0f1011121314")}, 0},
		{"id of 20 bytes", long(0xe0, 1, "14"+"000102030405060708090a0b0c0d0e0f10111213"+"00"+"00"),
			quic.Packet{Kind: quic.Handshake, Version: quic.Version1, Destination: quictest.Hex("000102030405060708090a0b0c0d0e0f10111213")}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := bytes.Clone(tt.in)
			got, rest, err := quic.Parse(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Bytes = tt.in[:len(tt.in)-tt.left]
			if diff := cmp.Diff(tt.want, got, visible, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("want, got:\n%s", diff)
			}
			if len(rest) != tt.left {
				t.Errorf("%d bytes are left, want %d", len(rest), tt.left)
			}
			if !bytes.Equal(before, tt.in) {
				t.Error("Parse changed its input")
			}
		})
	}
}

// TestParseTruncated: every beginning of a packet with a length is refused, as is every beginning of a header.
func TestParseTruncated(t *testing.T) {
	for _, whole := range [][]byte{sampleClient1, sampleServer1, sampleClient2, sampleServer2} {
		for n := range len(whole) {
			if _, _, err := quic.Parse(whole[:n]); !errors.Is(err, quic.ErrTruncated) {
				t.Fatalf("first %d of %d bytes: %v, want %v", n, len(whole), err, quic.ErrTruncated)
			}
		}
	}
	for n := 1; n < len(sampleRetry1)-len("token"); n++ {
		if _, _, err := quic.Parse(sampleRetry1[:n]); !errors.Is(err, quic.ErrTruncated) {
			t.Errorf("first %d bytes of a Retry: %v, want %v", n, err, quic.ErrTruncated)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, in string
		want     error
	}{
		{"nothing", "", quic.ErrTruncated},
		{"destination of 21 bytes", "c00000000115" + "000102030405060708090a0b0c0d0e0f1011121314" + "000000", quic.ErrIDLength},
		{"source of 21 bytes", "c0000000010015" + "000102030405060708090a0b0c0d0e0f1011121314" + "0000", quic.ErrIDLength},
		{"length beyond the datagram", "e00000000100000201", quic.ErrTruncated},
		{"length beyond any datagram", "e0000000010000ffffffffffffffff01", quic.ErrTruncated},
		{"token beyond the datagram", "c00000000100004001", quic.ErrTruncated},
		{"negotiation without a version", "80000000000000", quic.ErrVersions},
		{"negotiation with half a version", "800000000000000000000100", quic.ErrVersions},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, rest, err := quic.Parse(quictest.Hex(tt.in))
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(quic.Packet{}, p, visible); diff != "" || rest != nil {
				t.Errorf("a value beside the error: %v, %x", p, rest)
			}
		})
	}
}

// TestPackets: a datagram of three packets and bytes that are none.
func TestPackets(t *testing.T) {
	c := quictest.Client{Version: quic.Version2, Destination: sampleID, Source: []byte{1, 2, 3, 4}}
	initial := c.Initial(0, []byte{byte(quic.Ping)}, 100)
	early := c.ZeroRTT(make([]byte, 50))
	datagram := bytes.Join([][]byte{initial, early, early, {0xc0, 0, 0}}, nil)
	var kinds []quic.Kind
	var sizes []int
	var last error
	for p, err := range quic.Packets(datagram) {
		if last = err; err == nil {
			kinds, sizes = append(kinds, p.Kind), append(sizes, len(p.Bytes))
		}
	}
	if diff := cmp.Diff([]quic.Kind{quic.Initial, quic.ZeroRTT, quic.ZeroRTT}, kinds); diff != "" {
		t.Errorf("kinds, want, got:\n%s", diff)
	}
	if diff := cmp.Diff([]int{100, len(early), len(early)}, sizes); diff != "" {
		t.Errorf("sizes, want, got:\n%s", diff)
	}
	if !errors.Is(last, quic.ErrTruncated) {
		t.Errorf("last error %v, want %v", last, quic.ErrTruncated)
	}
}

func TestShortID(t *testing.T) {
	p, _, err := quic.Parse([]byte{0x41, 1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := p.ShortID(4); !ok || !bytes.Equal(id, []byte{1, 2, 3, 4}) {
		t.Errorf("got %x, %v", id, ok)
	}
	if id, ok := p.ShortID(0); !ok || len(id) != 0 {
		t.Errorf("of length 0: got %x, %v", id, ok)
	}
	for _, n := range []int{5, -1} {
		if id, ok := p.ShortID(n); ok {
			t.Errorf("of length %d: got %x", n, id)
		}
	}
	if p, _, _ := quic.Parse(sampleServer1); p.Kind != quic.Initial {
		t.Fatal("the sample is no Initial")
	} else if _, ok := p.ShortID(0); ok {
		t.Error("a long header has a short id")
	}
}
