package quic_test

import (
	"bytes"
	"errors"
	"testing"

	"baton/packet/quic"
	"baton/packet/quic/quictest"
)

func mustParse(t testing.TB, b []byte) quic.Packet {
	t.Helper()
	p, _, err := quic.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustKeys(t testing.TB, v quic.Version, id []byte) *quic.Keys {
	t.Helper()
	k, err := quic.ClientKeys(v, id)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestOpenSamples opens the client's Initials of RFC 9001 and RFC 9369, appendix A.2.
func TestOpenSamples(t *testing.T) {
	want := append(bytes.Clone(sampleFrame), make([]byte, 917)...)
	for _, tt := range []struct {
		name   string
		packet []byte
	}{{"version 1", sampleClient1}, {"version 2", sampleClient2}} {
		t.Run(tt.name, func(t *testing.T) {
			p := mustParse(t, tt.packet)
			before := bytes.Clone(tt.packet)
			k := mustKeys(t, p.Version, p.Destination)
			for range 2 { // the keys are good for more than one packet
				frames, number, err := k.Open([]byte("prefix"), &p)
				if err != nil || number != 2 || !bytes.Equal(frames, append([]byte("prefix"), want...)) {
					t.Errorf("number %d, error %v, frames:\n%x", number, err, frames)
				}
			}
			if !bytes.Equal(before, tt.packet) {
				t.Error("Open changed the packet")
			}
		})
	}
}

// TestSealSamples holds the maker of test packets against the same samples.
func TestSealSamples(t *testing.T) {
	for _, want := range [][]byte{sampleClient1, sampleClient2} {
		p := mustParse(t, want)
		c := quictest.Client{Version: p.Version, Destination: sampleID}
		if got := c.Initial(2, sampleFrame, 1200); !bytes.Equal(got, want) {
			t.Errorf("version %#x: got\n%x", uint32(p.Version), got)
		}
	}
}

// TestOpenForged: no byte of an Initial can be changed, nor its keys be of another id or version.
func TestOpenForged(t *testing.T) {
	p := mustParse(t, sampleClient1)
	for i := range sampleClient1 {
		changed := bytes.Clone(sampleClient1)
		changed[i] ^= 0x01
		q, _, err := quic.Parse(changed)
		if err != nil || q.Kind != quic.Initial {
			continue // a length, the version or the type
		}
		into := []byte{1, 2, 3}
		frames, number, err := mustKeys(t, p.Version, sampleID).Open(into, &q)
		if !errors.Is(err, quic.ErrForged) || number != 0 || !bytes.Equal(frames, into) {
			t.Fatalf("byte %d changed: number %d, error %v, frames %x", i, number, err, frames)
		}
	}
	for _, k := range []*quic.Keys{mustKeys(t, quic.Version2, sampleID), mustKeys(t, quic.Version1, sampleID[1:]), mustKeys(t, quic.Version1, nil)} {
		if _, _, err := k.Open(nil, &p); !errors.Is(err, quic.ErrForged) {
			t.Errorf("with other keys: %v", err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	c := quictest.Client{Version: quic.Version1, Destination: sampleID}
	keys := mustKeys(t, quic.Version1, sampleID)
	tests := []struct {
		name   string
		packet []byte
		want   error
	}{
		{"reserved bits", c.Seal(0xcb, 0, []byte{1}, 100), quic.ErrReserved},
		{"too short for a sample", quictest.Hex("c00000000100000013" + "01020304" + "0102030405060708090a0b0c0d0e0f"), quic.ErrForged},
		{"0-RTT", c.ZeroRTT(make([]byte, 60)), quic.ErrForged},
		{"short header", append([]byte{0x40}, make([]byte, 60)...), quic.ErrForged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := mustParse(t, tt.packet)
			if frames, _, err := keys.Open(nil, &p); !errors.Is(err, tt.want) || len(frames) != 0 {
				t.Errorf("error %v, want %v; frames %x", err, tt.want, frames)
			}
		})
	}
	if _, err := quic.ClientKeys(0xff00001d, sampleID); err == nil {
		t.Error("there are keys of a version that is not known")
	}
}

// TestOpenNumbers: packet numbers of each length, and tokens of each.
func TestOpenNumbers(t *testing.T) {
	for _, version := range []quic.Version{quic.Version1, quic.Version2} {
		for length := 1; length <= 4; length++ {
			for _, token := range []int{0, 1, 63, 64, 400} {
				c := quictest.Client{Version: version, Destination: sampleID, Source: []byte{9}, Token: bytes.Repeat([]byte{7}, token)}
				want := uint32(0xa1b2c3d4) >> (8 * (4 - length))
				p := mustParse(t, c.Seal(0xc0|byte(length-1), want, []byte{1, 1, 1}, 0))
				frames, number, err := mustKeys(t, version, sampleID).Open(nil, &p)
				if err != nil || number != want || !bytes.Equal(frames, []byte{1, 1, 1}) {
					t.Errorf("version %#x, %d bytes, token of %d: number %#x, want %#x, error %v, frames %x", uint32(version), length, token, number, want, err, frames)
				}
				if len(p.Token) != token {
					t.Errorf("token of %d bytes, want %d", len(p.Token), token)
				}
			}
		}
	}
}
