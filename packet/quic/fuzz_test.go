package quic_test

import (
	"bytes"
	"testing"

	"baton/packet/quic"
	"baton/packet/quic/quictest"
)

// FuzzDatagram: packets lie in the datagram one behind the other, their parts in them, and an Initial that opens is read in bounds.
func FuzzDatagram(f *testing.F) {
	for _, seed := range [][]byte{sampleClient1, sampleClient2, sampleServer1, sampleRetry1, sampleRetry2, sampleShort,
		quictest.Hex("8000000000000000000001"), quictest.Hex("c0ff00001d0401020304000102"), append(bytes.Clone(sampleServer1), sampleShort...)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, datagram []byte) {
		before := bytes.Clone(datagram)
		at := 0
		for p, err := range quic.Packets(datagram) {
			if err != nil {
				if p.Bytes != nil || p.Destination != nil {
					t.Fatal("a packet beside an error")
				}
				break
			}
			if len(p.Bytes) == 0 || !bytes.Equal(p.Bytes, datagram[at:at+len(p.Bytes)]) {
				t.Fatalf("packet of %d bytes is not at %d", len(p.Bytes), at)
			}
			at += len(p.Bytes)
			for _, part := range [][]byte{p.Destination, p.Source, p.Token, p.Versions, p.Integrity} {
				if !bytes.Contains(p.Bytes, part) {
					t.Fatalf("part %x is not in the packet", part)
				}
			}
			open(t, &p)
		}
		if at > len(datagram) || !bytes.Equal(before, datagram) {
			t.Fatal("the datagram was changed, or read beyond its end")
		}
	})
}

func open(t *testing.T, p *quic.Packet) {
	if !p.Version.Known() {
		return
	}
	payload, _, err := mustKeys(t, p.Version, p.Destination).Open(nil, p)
	if err != nil && payload != nil {
		t.Fatal("frames beside an error")
	}
	if len(payload) > len(p.Bytes) {
		t.Fatalf("%d bytes of frames in a packet of %d", len(payload), len(p.Bytes))
	}
}

// FuzzFrames: what has been read is written again, and read to be the same.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{"00", "0600020102", "02050001010002", "0300000000010203", "1c41ff0603616263", "06fffffffffffffffe0109"} {
		f.Add(quictest.Hex(seed))
	}
	f.Add(sampleFrame)
	f.Fuzz(func(t *testing.T, payload []byte) {
		frames, err := framesOf(payload)
		total := 0
		for _, frame := range frames {
			total += 1 + len(frame.Data)
			if frame.Type != quic.Crypto {
				continue
			}
			again, err := framesOf(quictest.Crypto(int(frame.Offset), frame.Data))
			if err != nil || len(again) != 1 || again[0].Offset != frame.Offset || !bytes.Equal(again[0].Data, frame.Data) {
				t.Fatalf("%v is read again as %v, error %v", frame, again, err)
			}
		}
		if total > len(payload) || len(payload) == 0 && err == nil {
			t.Fatalf("%d bytes of frames in %d, error %v", total, len(payload), err)
		}
	})
}

// FuzzInitial: what a client seals is opened as it was, and no bit of it can be changed.
func FuzzInitial(f *testing.F) {
	f.Add(false, []byte("12345678"), []byte("token"), uint32(7), uint8(2), sampleFrame, uint16(99))
	f.Add(true, []byte{}, []byte{}, uint32(0), uint8(3), []byte{1}, uint16(0))
	f.Fuzz(func(t *testing.T, second bool, id, token []byte, number uint32, length uint8, frames []byte, flip uint16) {
		length &= 3
		if len(id) > quic.MaxID || len(frames) < 4 || len(frames)+len(token) > 8000 {
			return
		}
		c := quictest.Client{Version: quic.Version1, Destination: id, Token: token}
		if second {
			c.Version = quic.Version2
		}
		number &= 1<<(8*(uint(length)+1)) - 1
		sealed := c.Seal(0xc0|length, number, frames, 0)
		p := mustParse(t, sealed)
		keys := mustKeys(t, c.Version, id)
		got, n, err := keys.Open(nil, &p)
		if err != nil || n != number || !bytes.Equal(got, frames) {
			t.Fatalf("number %d, want %d, error %v, frames %x, want %x", n, number, err, got, frames)
		}
		sealed[int(flip>>3)%len(sealed)] ^= 1 << (flip & 7)
		if p, _, err := quic.Parse(sealed); err == nil && p.Version == c.Version && p.Kind == quic.Initial {
			if _, _, err := keys.Open(nil, &p); err == nil {
				t.Fatal("a changed packet opens")
			}
		}
	})
}

// FuzzServerID: a server id is the bits of the connection id that the layout names.
func FuzzServerID(f *testing.F) {
	f.Add([]byte("\x41\x23\xc0"), byte(0xc0), byte(0x40), 2, 16, 0)
	f.Add([]byte("123456789abcdef0"), byte(0), byte(0), 8, 64, 16)
	f.Fuzz(func(t *testing.T, id []byte, mask, value byte, offset, length, total int) {
		l := quic.Layout{Mask: mask, Value: value, Offset: offset, Length: length, Total: total}
		got, ok := l.Server(id)
		if !ok {
			return
		}
		if l.Check() != nil || id[0]&mask != value {
			t.Fatalf("%+v reads %x", l, id)
		}
		want := make([]byte, (length+7)/8)
		for i := range length {
			if id[(offset+i)/8]&(0x80>>((offset+i)%8)) != 0 {
				to := 8*len(want) - length + i
				want[to/8] |= 0x80 >> (to % 8)
			}
		}
		if w, err := quic.MakeServerID(want); err != nil || got != w {
			t.Fatalf("got %v, want %x", got, want)
		}
	})
}
