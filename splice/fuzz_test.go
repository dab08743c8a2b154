package splice

import (
	"bytes"
	"testing"

	"baton/packet"
)

func addSeeds(f *testing.F) {
	f.Helper()
	for _, fam := range families {
		c, s := fam.fromClient(), fam.fromSurrogate()
		c.Options = timestamps(1, 2).AppendNOP(2).AppendSACK(packet.SACKBlock{Left: 3, Right: 4})
		f.Add(packet.Build(c))
		f.Add(packet.Build(s))
		c.Options = packet.Options{8, 10, 0, 0}
		f.Add(packet.Build(c))
		c.Src, c.Dst, c.Options = fam.router, fam.surrogate, timestamps(1, 2)
		sent := packet.Build(c)
		f.Add(fam.errorAbout(sent, fam.ipSize+8))
		f.Add(fam.errorAbout(sent, len(sent)-packet.EthernetSize))
	}
}

// fuzzDirections are the directions that the fuzz targets apply, over both families and policies.
func fuzzDirections() []Direction {
	var all []Direction
	for _, f := range families {
		client, server := f.legs()
		kept := New(client, server)
		client.SACK, client.Timestamps = false, false
		stripped := New(client, server)
		all = append(all, kept.ToServer, kept.ToClient, stripped.ToServer)
	}
	return all
}

// checkUntouched requires what holds for any frame: it keeps its length and, unless translated, its bytes; a packet that
// is translated keeps what it carries.
func checkUntouched(t *testing.T, before, after []byte, reason Reason) {
	t.Helper()
	if len(before) != len(after) {
		t.Fatalf("length: got %d, want %d", len(after), len(before))
	}
	if reason != Translated && !bytes.Equal(before, after) {
		t.Fatalf("%v, yet changed:\ngot  % x\nwant % x", reason, after, before)
	}
}

// FuzzTranslate: no panic, the length stays, what is not TCP or not forwarded is not touched; forwarded packets keep
// their payload, go to the direction's end, and a checksum is right afterwards exactly if it was.
func FuzzTranslate(f *testing.F) {
	addSeeds(f)
	directions := fuzzDirections()
	f.Fuzz(func(t *testing.T, frame []byte) {
		in, err := packet.Parse(frame)
		for _, d := range directions {
			after := bytes.Clone(frame)
			reason := d.Translate(after)
			checkUntouched(t, frame, after, reason)
			partial := bytes.Clone(frame)
			if got := d.TranslatePartial(partial); got != reason {
				t.Fatalf("TranslatePartial: got %v, Translate: %v", got, reason)
			}
			if reason != Translated {
				continue
			}
			if err != nil || in.Protocol != packet.ProtocolTCP {
				t.Fatalf("translated, but Parse: protocol %d, error %v", in.Protocol, err)
			}
			out, err := packet.Parse(after)
			if err != nil {
				t.Fatalf("the translation does not parse: %v", err)
			}
			if out.Src != d.Rewrite.Src || out.Dst != d.Rewrite.Dst || out.TTL() != in.TTL()-1 || out.L4 != in.L4 || out.Data != in.Data {
				t.Fatalf("got %v > %v, TTL %d, header %d-%d", out.Src, out.Dst, out.TTL(), out.L4, out.Data)
			}
			if !bytes.Equal(after[out.Data:], frame[in.Data:]) {
				t.Fatal("the payload or the padding changed")
			}
			right := func(p packet.Frame) bool { return p.TCP().Checksum()%0xffff == p.TransportChecksum()%0xffff }
			if right(in) != right(out) {
				t.Fatalf("checksum: right before %v, right after %v", right(in), right(out))
			}
			copy(partial[out.L4+16:], after[out.L4+16:out.L4+18])
			if !bytes.Equal(partial, after) {
				t.Fatal("TranslatePartial differs in more than the checksum")
			}
		}
	})
}

// FuzzTranslateICMP: the same for errors.
func FuzzTranslateICMP(f *testing.F) {
	addSeeds(f)
	directions := fuzzDirections()
	f.Fuzz(func(t *testing.T, frame []byte) {
		in, err := packet.Parse(frame)
		for _, d := range directions {
			after := bytes.Clone(frame)
			reason := d.TranslateICMP(after)
			checkUntouched(t, frame, after, reason)
			if reason != Translated {
				continue
			}
			if err != nil || in.Protocol == packet.ProtocolTCP {
				t.Fatalf("translated, but Parse: protocol %d, error %v", in.Protocol, err)
			}
			out, err := packet.Parse(after)
			if err != nil {
				t.Fatalf("the translation does not parse: %v", err)
			}
			q, err := out.Quote()
			if err != nil {
				t.Fatalf("the translation quotes nothing: %v", err)
			}
			if q.Src != d.Rewrite.Dst || q.Dst != d.Rewrite.Src || out.Dst.Addr() != q.Src.Addr() || out.TTL() != in.TTL()-1 {
				t.Fatalf("got %v > %v, TTL %d, quoting %v > %v", out.Src, out.Dst, out.TTL(), q.Src, q.Dst)
			}
			right := func(p packet.Frame) bool { return p.ICMP().Checksum()%0xffff == p.TransportChecksum()%0xffff }
			if right(in) != right(out) {
				t.Fatalf("checksum: right before %v, right after %v", right(in), right(out))
			}
		}
	})
}
