package packet

import (
	"bytes"
	"errors"
	"testing"
)

func TestSegment(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789"), 250) // 2,500 bytes
	tests := []struct {
		name  string
		s     Spec
		mss   int
		sizes []int
	}{
		{"IPv4", spec4(), 1000, []int{1000, 1000, 500}},
		{"IPv6", spec6(), 1000, []int{1000, 1000, 500}},
		{"an exact multiple", spec4(), 1250, []int{1250, 1250}},
		{"fits", spec4(), 9000, []int{2500}},
		{"odd size", spec6(), 1249, []int{1249, 1249, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.s
			s.Payload, s.Seq, s.Ack, s.ID, s.Window = payload, 0xffffff00, 77, 0xffff, 500
			s.Flags, s.Checksum, s.Padding = ACK|PSH|FIN|CWR, SumPartial, 3
			s.Options = Options{}.AppendNOP(2).AppendTimestamps(1, 2)
			whole := Build(s)
			before := bytes.Clone(whole)
			got, err := Segment(whole, tt.mss)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(tt.sizes) {
				t.Fatalf("got %d segments, want %d", len(got), len(tt.sizes))
			}
			at := 0
			for i, b := range got {
				want := s
				want.Payload, want.Checksum, want.Padding = payload[at:at+tt.sizes[i]], SumComplete, 0
				want.Seq, want.ID = s.Seq.Add(uint32(at)), s.ID+uint16(i)
				if i > 0 {
					want.Flags &^= CWR
				}
				if i < len(got)-1 {
					want.Flags &^= FIN | PSH
				}
				if !bytes.Equal(b, Build(want)) {
					t.Errorf("segment %d:\ngot  % x\nwant % x", i, b[:80], Build(want)[:80])
				}
				at += tt.sizes[i]
			}
			if !bytes.Equal(whole, before) {
				t.Error("Segment changed the frame")
			}
		})
	}
}

func TestSegmentWithoutPayloadIsOnePacket(t *testing.T) {
	s := spec4()
	s.Payload = nil
	got, err := Segment(Build(s), 100)
	if err != nil || len(got) != 1 || !bytes.Equal(got[0], Build(s)) {
		t.Errorf("got %d packets, error %v", len(got), err)
	}
}

func TestSegmentErrors(t *testing.T) {
	udp := edited(spec4(), func(b []byte) { b[14+9] = 17 })
	if _, err := Segment(udp, 100); !errors.Is(err, ErrNotTCP) {
		t.Errorf("UDP: got %v", err)
	}
	if _, err := Segment(nil, 100); !errors.Is(err, ErrNotIP) {
		t.Errorf("empty: got %v", err)
	}
	if _, err := Segment(Build(spec4()), 0); err == nil {
		t.Error("mss 0: got no error")
	}
}
