package lldp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os/exec"
	"testing"
	"time"

	"baton/lab"
	"baton/packet"
)

var (
	start = time.Unix(1_000_000, 5)
	port  = packet.MAC{2, 0, 0, 0, 0, 1}
)

func TestRoundTrip(t *testing.T) {
	k := NewKey()
	r := Reader{Key: k, Age: time.Second}
	for i := range 3 {
		b, err := r.Read(k.Frame(0xabc, 7, port, start, time.Second), start.Add(time.Duration(i)*time.Millisecond))
		if err != nil || b.Switch != 0xabc || b.Port != 7 || !b.Time.Equal(start) {
			t.Fatalf("%+v, %v", b, err)
		}
	}
}

func TestRefused(t *testing.T) {
	k := NewKey()
	good := k.Frame(1, 2, port, start, time.Second)
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	plain := bytes.Clone(good[:packet.EthernetSize])
	plain = tlv(tlv(plain, typeChassis, []byte{7, 'x'}), typeEnd, nil)
	own := ownSize + 2 + 2 // from the end of the frame, with the end TLV
	tests := []struct {
		name  string
		frame []byte
		at    time.Duration
		want  error
	}{
		{"another key", NewKey().Frame(1, 2, port, start, time.Second), 0, ErrForged},
		{"another port", edit(func(b []byte) []byte { b[len(b)-own+2+4+11]++; return b }), 0, ErrForged},
		{"another switch", edit(func(b []byte) []byte { b[len(b)-own+2+4]++; return b }), 0, ErrForged},
		{"another signature", edit(func(b []byte) []byte { b[len(b)-3]++; return b }), 0, ErrForged},
		{"of a neighbour that is no controller's", plain, 0, ErrUnsigned},
		{"cut off", good[:len(good)-5], 0, ErrMalformed},
		{"no end", good[:len(good)-2], 0, ErrMalformed},
		{"signed twice", edit(func(b []byte) []byte {
			twice := append(bytes.Clone(b[:len(b)-2]), b[len(b)-own:len(b)-2]...)
			return append(twice, 0, 0)
		}), 0, ErrMalformed},
		{"too old", good, time.Second + 1, ErrOld},
		{"from the future", good, -time.Second - 1, ErrOld},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Reader{Key: k, Age: time.Second}
			if _, err := r.Read(tt.frame, start.Add(tt.at)); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// TestReplay: a frame is taken once, at any time within its age.
func TestReplay(t *testing.T) {
	k := NewKey()
	for first := time.Duration(-1000); first <= 1000; first += 250 {
		for again := first; again <= 3000; again += 250 {
			r := Reader{Key: k, Age: time.Second}
			f := k.Frame(1, 2, port, start, time.Second)
			if _, err := r.Read(f, start.Add(first*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			for mid := first; mid <= again; mid += 250 { // other frames turn the memory over
				now := start.Add(mid * time.Millisecond)
				if _, err := r.Read(k.Frame(1, 3, port, now, time.Second), now); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.Read(f, start.Add(again*time.Millisecond)); err == nil {
				t.Fatalf("taken at %d ms and at %d ms", first, again)
			}
		}
	}
}

// TestTcpdump: an independent reader finds the standard's fields in a frame, and no fault.
func TestTcpdump(t *testing.T) {
	if _, err := exec.LookPath("tcpdump"); err != nil {
		if lab.Required() {
			t.Fatal("tcpdump is required here and not installed: run make deps")
		}
		t.Skip("tcpdump is not installed: run make deps")
	}
	frame := NewKey().Frame(0xabc, 7, port, start, 3*time.Second)
	pcap := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	for _, v := range []uint32{2 | 4<<16, 0, 0, 1 << 16, 1, 0, 0, uint32(len(frame)), uint32(len(frame))} { // version 2.4, Ethernet; one packet
		pcap = binary.LittleEndian.AppendUint32(pcap, v)
	}
	dump := exec.Command("tcpdump", "-vv", "-nn", "-r", "-")
	dump.Stdin = bytes.NewReader(append(pcap, frame...))
	out, err := dump.CombinedOutput()
	if err != nil {
		t.Fatalf("tcpdump: %v\n%s", err, out)
	}
	for _, want := range []string{"Subtype Local (7): dpid:0000000000000abc", "Subtype Local (7): 7", "Time to Live TLV (3), length 2: TTL 3s", "End TLV (0)"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("tcpdump does not find %q:\n%s", want, out)
		}
	}
	if bytes.Contains(out, []byte("invalid")) || bytes.Contains(out, []byte("[|")) {
		t.Errorf("tcpdump finds a fault:\n%s", out)
	}
}

// FuzzRead: no frame that is not signed is taken, whatever it is.
func FuzzRead(f *testing.F) {
	k := Key("secret of the fuzzer")
	good := k.Frame(1, 2, port, start, time.Second)
	f.Add(good)
	f.Add(good[:30])
	f.Add(tlv(good[:packet.EthernetSize:packet.EthernetSize], typeEnd, nil))
	other := Key("another")
	f.Fuzz(func(t *testing.T, frame []byte) {
		r := Reader{Key: other, Age: time.Second}
		if b, err := r.Read(frame, start); err == nil {
			t.Fatalf("%+v of %x", b, frame)
		}
	})
}
