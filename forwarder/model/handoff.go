package model

import (
	"encoding/binary"

	"baton/openflow"
	"baton/packet"
	"baton/splice"
)

// handoff executes one of Baton's own actions (docs/openflow-handoff.md). Packets other than TCP are unchanged.
func (p *state) handoff(a openflow.Action) {
	v := look(p.frame)
	if !v.tcp || !has(p.frame, v.l4, packet.TCPSize) {
		return
	}
	p.keeping(sumL4, func(b []byte) {
		header := b[v.l4:]
		tcp := packet.TCP(header[:packet.TCPSize])
		syn, ack := tcp.Flags().Has(packet.SYN), tcp.Flags().Has(packet.ACK)
		switch a := a.(type) {
		case openflow.ActionIncSeq:
			tcp.SetSeq(tcp.Seq().Add(a.By))
		case openflow.ActionIncAck:
			if ack {
				tcp.SetAck(tcp.Ack().Add(a.By))
			}
		case openflow.ActionRescaleWindow:
			if !syn {
				tcp.SetWindow(splice.Shifts{Sender: a.Sender, Receiver: a.Advertised}.Apply(tcp.Window()))
			}
		case openflow.ActionIncSACK:
			changeOptions(header, func(kind byte, data []byte) {
				for kind == byte(packet.OptionSACK) && len(data) >= 8 {
					add(data, a.By)
					add(data[4:], a.By)
					data = data[8:]
				}
			})
		case openflow.ActionIncTSval:
			changeOptions(header, func(kind byte, data []byte) {
				if kind == byte(packet.OptionTimestamps) && len(data) == 8 {
					add(data, a.By)
				}
			})
		case openflow.ActionIncTSecr:
			changeOptions(header, func(kind byte, data []byte) {
				if kind == byte(packet.OptionTimestamps) && len(data) == 8 && ack {
					add(data[4:], a.By)
				}
			})
		case openflow.ActionClampMSS:
			changeOptions(header, func(kind byte, data []byte) {
				if kind == byte(packet.OptionMSS) && len(data) == 2 && syn {
					binary.BigEndian.PutUint16(data, min(binary.BigEndian.Uint16(data), a.MSS))
				}
			})
		case openflow.ActionStripOption:
			stripOption(header, a.Kind)
		}
	})
}

func add(b []byte, n uint32) { binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)+n) }

// options are those of the TCP header at the start of b; nil if they are incomplete.
func options(b []byte) []byte {
	n := int(b[12]>>4) * 4
	if n < packet.TCPSize || n > len(b) {
		return nil
	}
	return b[packet.TCPSize:n]
}

// changeOptions calls f for each option except padding, unless any of them is malformed.
func changeOptions(b []byte, f func(kind byte, data []byte)) {
	all := options(b)
	for _, act := range []bool{false, true} { // check first, then change
		for at := 0; at < len(all) && all[at] != 0; {
			if all[at] == byte(packet.OptionNOP) {
				at++
				continue
			}
			if at+1 >= len(all) || all[at+1] < 2 || at+int(all[at+1]) > len(all) {
				return
			}
			if act {
				f(all[at], all[at+2:at+int(all[at+1])])
			}
			at += int(all[at+1])
		}
	}
}

// stripOption overwrites options of a kind with NOPs. NOPs and the end of the list are kept.
func stripOption(b []byte, kind uint8) {
	all := options(b)
	var found [][]byte
	complete := true
	for at := 0; at < len(all) && all[at] != 0; {
		size := 1
		if all[at] != byte(packet.OptionNOP) {
			if at+1 >= len(all) || all[at+1] < 2 || at+int(all[at+1]) > len(all) {
				complete = false
				break
			}
			size = int(all[at+1])
			if all[at] == kind {
				found = append(found, all[at:at+size])
			}
		}
		at += size
	}
	for _, option := range found {
		for i := range option {
			if complete {
				option[i] = byte(packet.OptionNOP)
			}
		}
	}
}
