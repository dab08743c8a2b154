package quic_test

import (
	"testing"

	"baton/packet/quic"
	"baton/packet/quic/quictest"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func serverID(t testing.TB, digits string) quic.ServerID {
	return must[quic.ServerID](t)(quic.MakeServerID(quictest.Hex(digits)))
}

func TestLayouts(t *testing.T) {
	layout := must[quic.Layout](t)
	odd := quic.Layout{Offset: 3, Length: 11}
	tests := []struct {
		name   string
		layout quic.Layout
		id     string
		want   string // "" for none
	}{
		{"bytes", quic.Bytes(2, 3), "0001aabbcc02", "aabbcc"},
		{"bytes to the end", quic.Bytes(0, 4), "aabbccdd", "aabbccdd"},
		{"too short", quic.Bytes(2, 3), "0001aabb", ""},
		{"empty", quic.Bytes(0, 1), "", ""},
		{"zeros count", quic.Bytes(0, 2), "0000", "0000"},
		{"longest", quic.Bytes(4, 16), "00000000" + "000102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0f"},
		// The plaintext samples of the draft are ids like this: rotation and length, server id, nonce.
		{"QUIC-LB", layout(quic.QUICLB(0, 3)), "07ed793aee080dbf", "ed793a"},
		{"QUIC-LB, rotation 2", layout(quic.QUICLB(2, 2)), "5fed7901020304", "ed79"},
		{"QUIC-LB, another rotation", layout(quic.QUICLB(2, 2)), "1fed7901020304", ""},
		{"QUIC-LB, no configuration", layout(quic.QUICLB(6, 2)), "ffed7901020304", ""},
		{"AWS", quic.AWS(), "a5" + "1122334455667788" + "01020304050607", "1122334455667788"},
		{"AWS, another length", quic.AWS(), "a5" + "1122334455667788" + "010203040506", ""},
		// Bits 2 to 17 are the host; the two last bits of the third byte's front are its end.
		{"mvfst 1", layout(quic.Mvfst(1)), "4" + "1" + "23" + "c0" + "0000000000", "048f"},
		{"mvfst 1, all bits", layout(quic.Mvfst(1)), "7fffc00000000000", "ffff"},
		{"mvfst 1, bits around", layout(quic.Mvfst(1)), "40003fffffffffff", "0000"},
		{"mvfst 2", layout(quic.Mvfst(2)), "bf01020304050607", "010203"},
		{"mvfst 3", layout(quic.Mvfst(3)), "c001020304050607", "01020304"},
		{"mvfst of another version", layout(quic.Mvfst(3)), "8001020304050607", ""},
		{"odd bits", odd, "e000", "0000"},
		{"odd bits set", odd, "1ffc", "07ff"},
		{"odd bits, one", odd, "0004", "0001"},
		{"no layout", quic.Layout{}, "0102", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := quictest.Hex(tt.id)
			got, ok := tt.layout.Server(id)
			if ok != (tt.want != "") || ok && got != serverID(t, tt.want) {
				t.Fatalf("got %v, %v, want %q", got, ok, tt.want)
			}
			if len(id) == 0 {
				return
			}
			// In a short header the id has no end: a layout that tells the length is content with more bytes.
			p := mustParse(t, append([]byte{0x40}, id...))
			if short, shortOK := tt.layout.ShortServer(&p); shortOK != ok || short != got {
				t.Errorf("in a short header %v, %v, else %v, %v", short, shortOK, got, ok)
			}
		})
	}
}

func TestLayoutCheck(t *testing.T) {
	for _, l := range []quic.Layout{
		{}, quic.Bytes(0, 17), quic.Bytes(5, 16), quic.Bytes(-1, 2), {Length: 8, Total: 21}, {Offset: 8, Length: 8, Total: 1},
		{Length: 8, Mask: 0x40, Value: 0xc0}, {Offset: 1 << 40, Length: 8}, {Length: -8, Offset: 16},
	} {
		if l.Check() == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
	for _, l := range []quic.Layout{quic.Bytes(0, 1), quic.Bytes(4, 16), quic.AWS()} {
		if err := l.Check(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := quic.QUICLB(7, 2); err == nil {
		t.Error("rotation 7 is accepted")
	}
	for _, version := range []int{-1, 0, 4} {
		if _, err := quic.Mvfst(version); err == nil {
			t.Errorf("version %d is accepted", version)
		}
	}
	for _, length := range []int{0, 17} {
		if _, err := quic.MakeServerID(make([]byte, length)); err == nil {
			t.Errorf("server id of %d bytes is accepted", length)
		}
	}
}

func TestDirectory(t *testing.T) {
	lb, mvfst := must[quic.Layout](t)(quic.QUICLB(1, 2)), must[quic.Layout](t)(quic.Mvfst(1))
	var d quic.Directory[string]
	for _, a := range []struct {
		layout  quic.Layout
		id, who string
	}{{lb, "0a01", "a"}, {lb, "0a02", "b"}, {mvfst, "0a01", "c"}} {
		if err := d.Add(a.layout, serverID(t, a.id), a.who); err != nil {
			t.Fatal(err)
		}
	}
	if d.Add(lb, serverID(t, "0a02"), "z") == nil || d.Add(lb, serverID(t, "000a02"), "z") == nil || d.Add(quic.Layout{}, serverID(t, "01"), "z") == nil {
		t.Error("an id that is taken, one of another length, or no layout is accepted")
	}
	if d.Add(quic.Layout{Length: 10}, serverID(t, "0400"), "z") == nil {
		t.Error("an id with more bits than its layout is accepted")
	}
	tests := []struct{ name, packet, want string }{
		{"short", "40" + "2f0a02ffffffff", "b"},
		{"short, second layout", "40" + "4280400000000000", "c"},
		{"short, nobody's", "40" + "2f0affffffffff", ""},
		{"too short", "40" + "2f", ""},
		{"handshake", "e000000001" + "072f0a01ffffffff" + "00" + "00", "a"},
		{"an initial's id is its client's", "c000000001" + "072f0a01ffffffff" + "00" + "00" + "00", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := mustParse(t, quictest.Hex(tt.packet))
			if got, ok := d.Find(&p); got != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, %v, want %q", got, ok, tt.want)
			}
		})
	}
}
