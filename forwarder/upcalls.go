package forwarder

import (
	"errors"
	"math/bits"

	"baton/datapath"
	kernel "baton/datapath/forwarder"
	"baton/forwarder/frame"
	"baton/openflow"
	"baton/packet"
)

// swap converts between network byte order, which the kernel's records use for packet fields, and this machine's.
func swap(v uint32) uint32 { return bits.ReverseBytes32(v) }

// readUpcalls passes upcalls to the controllers until the kernel's side is closed.
func (f *Forwarder) readUpcalls() {
	var p kernel.Upcall
	for {
		err := f.kernel.Upcall(&p)
		if errors.Is(err, datapath.ErrClosed) {
			return
		}
		if err != nil {
			f.log.Error("an upcall could not be read", "error", err)
			continue
		}
		f.upcall(&p)
	}
}

func (f *Forwarder) upcall(p *kernel.Upcall) {
	h := p.Head
	b := p.Frame
	if h.TagType != 0 {
		b = frame.InsertVLAN(b, packet.EtherType(h.TagType), h.Tag)
	}
	m := &f.packetIn
	m.Buffer = openflow.NoBuffer
	m.Reason = openflow.PacketInReason(h.Reason)
	m.Table = openflow.TableID(h.Table)
	m.Cookie = bits.ReverseBytes64(h.Cookie)
	m.Match = m.Match[:0].Port(openflow.PortNo(swap(h.InPort)))
	if h.Metadata != 0 {
		m.Match = m.Match.Uint(openflow.FieldMetadata, bits.ReverseBytes64(h.Metadata))
	}
	if h.TunnelId != 0 {
		m.Match = m.Match.Uint(openflow.FieldTunnelID, bits.ReverseBytes64(h.TunnelId))
	}
	for one := range frame.Segments(b, int(h.Segment)) {
		m.TotalLen = uint16(min(len(one), 0xffff))
		m.Data = one
		f.controllers.PacketIn(m, uint16(min(h.MaxLen, 0xffff)))
	}
}
