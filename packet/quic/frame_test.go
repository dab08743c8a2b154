package quic_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/packet/quic"
	"baton/packet/quic/quictest"
)

func framesOf(payload []byte) (out []quic.Frame, err error) {
	for f, e := range quic.Frames(payload) {
		if e != nil {
			err = e
			continue
		}
		out = append(out, f)
	}
	return out, err
}

func TestFrames(t *testing.T) {
	tests := []struct {
		name, in string
		want     []quic.Frame
	}{
		{"padding", "000000", nil},
		{"crypto between padding", "00" + "0600020102" + "00" + "0641000103" + "00", []quic.Frame{
			{Type: quic.Crypto, Data: []byte{1, 2}}, {Type: quic.Crypto, Offset: 256, Data: []byte{3}}}},
		{"crypto and ping", "01" + "06050103", []quic.Frame{{Type: quic.Ping}, {Type: quic.Crypto, Offset: 5, Data: []byte{3}}}},
		{"empty crypto", "060700", []quic.Frame{{Type: quic.Crypto, Offset: 7}}},
		{"crypto that ends at the last offset", "06fffffffffffffffe0109", []quic.Frame{{Type: quic.Crypto, Offset: 1<<62 - 2, Data: []byte{9}}}},
		{"ACK", "02" + "0a" + "4064" + "01" + "02" + "0003" + "01", []quic.Frame{{Type: quic.Ack}, {Type: quic.Ping}}},
		{"ACK down to packet 0", "02" + "05" + "00" + "01" + "01" + "0002", []quic.Frame{{Type: quic.Ack}}},
		{"ACK with ECN", "03" + "00" + "00" + "00" + "00" + "010203" + "01", []quic.Frame{{Type: quic.AckECN}, {Type: quic.Ping}}},
		{"CONNECTION_CLOSE", "1c" + "41ff" + "06" + "03616263" + "01", []quic.Frame{{Type: quic.ConnectionClose}, {Type: quic.Ping}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := framesOf(quictest.Hex(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("want, got:\n%s", diff)
			}
		})
	}
}

func TestFramesRefuses(t *testing.T) {
	tests := []struct{ name, in string }{
		{"nothing", ""},
		{"type in two bytes", "4001"},
		{"type in two bytes, behind others", "01004006"},
		{"crypto without a length", "0600"},
		{"crypto beyond the packet", "06000201"},
		{"crypto beyond the last offset", "06ffffffffffffffff0109"},
		{"ACK cut off", "020a00010000"},
		{"ACK below packet 0", "02" + "05" + "00" + "00" + "06"},
		{"ACK with a range below packet 0", "02" + "05" + "00" + "01" + "01" + "0003"},
		{"ACK with a gap below packet 0", "02" + "05" + "00" + "01" + "01" + "0300"},
		{"ACK with more ranges than bytes", "02" + "05" + "00" + "ffffffffffffffff" + "00"},
		{"ACK with ECN cut off", "0300000000" + "0102"},
		{"CONNECTION_CLOSE cut off", "1c" + "00" + "00" + "03" + "6162"},
	}
	for frameType := range 256 {
		switch quic.FrameType(frameType) {
		case quic.Padding, quic.Ping, quic.Ack, quic.AckECN, quic.Crypto, quic.ConnectionClose:
			continue
		}
		b := []byte{byte(frameType)}
		if got, err := framesOf(append(b, make([]byte, 40)...)); !errors.Is(err, quic.ErrFrame) || got != nil {
			t.Errorf("type %#02x: %v, %v", frameType, got, err)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := framesOf(quictest.Hex(tt.in))
			if !errors.Is(err, quic.ErrFrame) {
				t.Errorf("got %v, error %v", got, err)
			}
			if !strings.HasPrefix(tt.in, "01") && got != nil {
				t.Errorf("got %v beside the error", got)
			}
		})
	}
}
