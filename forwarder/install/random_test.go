package install

import (
	"slices"

	"baton/openflow"
	"baton/packet"
)

// match makes a match that frames of a kind may meet.
func (w *world) match(k kind) openflow.Match {
	var m openflow.Match
	if w.often(30) {
		m = m.Port(openflow.PortNo(1 + w.IntN(rigPorts)))
	}
	if w.often(15) {
		mask := w.Uint64() & 3
		m = m.UintMasked(openflow.FieldMetadata, w.Uint64()&mask, mask)
	}
	if w.often(10) {
		m = m.Uint(openflow.FieldTunnelID, w.Uint64N(2))
	}
	for _, f := range []openflow.Field{openflow.FieldEthDst, openflow.FieldEthSrc} {
		if w.often(20) {
			value := w.mac()
			mask := one(w, packet.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, packet.MAC{1}, packet.MAC{0, 0, 0, 0, 0, 0xff})
			for i := range value {
				value[i] &= mask[i]
			}
			m = m.MACMasked(f, value, mask)
		}
	}
	if w.often(30) {
		m = w.matchTag(m)
	}
	if w.often(20) {
		return m
	}
	switch {
	case k.v4():
		return w.matchIPv4(m.Uint(openflow.FieldEthType, 0x0800), k)
	case k.v6():
		return w.matchIPv6(m.Uint(openflow.FieldEthType, 0x86dd), k)
	}
	return w.matchOther(m, k)
}

func (w *world) matchTag(m openflow.Match) openflow.Match {
	switch w.IntN(4) {
	case 0:
		return m.Uint(openflow.FieldVLANVID, 0)
	case 1:
		return m.UintMasked(openflow.FieldVLANVID, 0x1000, 0x1000)
	case 2:
		return m.UintMasked(openflow.FieldVLANVID, 0x1000|uint64(w.vid())&7, 0x1007)
	}
	m = m.Uint(openflow.FieldVLANVID, 0x1000|uint64(w.vid()))
	if w.often(50) {
		m = m.Uint(openflow.FieldVLANPCP, w.Uint64N(8))
	}
	return m
}

func (w *world) matchIPv4(m openflow.Match, k kind) openflow.Match {
	m = w.matchClass(m)
	if w.often(60) {
		m = m.Uint(openflow.FieldIPProto, uint64(k.protocol()))
	}
	for _, f := range []openflow.Field{openflow.FieldIPv4Src, openflow.FieldIPv4Dst} {
		if w.often(30) {
			m = w.masked(m, f, w.addr4(), one(w, []byte{255, 255, 255, 255}, []byte{255, 0, 0, 0}, []byte{255, 255, 255, 0}, []byte{0, 0, 0, 1}))
		}
	}
	return w.matchTransport(m, k)
}

func (w *world) matchIPv6(m openflow.Match, k kind) openflow.Match {
	m = w.matchClass(m)
	if w.often(60) {
		m = m.Uint(openflow.FieldIPProto, uint64(k.protocol()))
	}
	for _, f := range []openflow.Field{openflow.FieldIPv6Src, openflow.FieldIPv6Dst} {
		if w.often(30) {
			mask := make([]byte, 16)
			for i := range one(w, 1, 8, 16) {
				mask[i] = 0xff
			}
			m = w.masked(m, f, w.addr6(), mask)
		}
	}
	if w.often(15) {
		mask := one[uint64](w, 0xfffff, 1, 4)
		m = m.UintMasked(openflow.FieldIPv6Flabel, one[uint64](w, 0, 5)&mask, mask)
	}
	m = w.matchTransport(m, k)
	if w.often(20) {
		mask := one[uint64](w, 0x1ff, 16, 8, 128, 256, 64)
		m = m.UintMasked(openflow.FieldIPv6Exthdr, w.Uint64()&mask, mask)
	}
	return m
}

func (w *world) masked(m openflow.Match, f openflow.Field, value, mask []byte) openflow.Match {
	value = slices.Clone(value)
	for i := range value {
		value[i] &= mask[i]
	}
	return m.Bytes(f, value, mask)
}

func (w *world) matchClass(m openflow.Match) openflow.Match {
	if w.often(10) {
		m = m.Uint(openflow.FieldIPDSCP, w.Uint64N(64))
	}
	if w.often(10) {
		m = m.Uint(openflow.FieldIPECN, w.Uint64N(4))
	}
	return m
}

func (w *world) matchTransport(m openflow.Match, k kind) openflow.Match {
	port := func(f openflow.Field) {
		if m.HasPrerequisite(f) && w.often(30) {
			m = m.Uint(f, uint64(w.port()))
		}
	}
	for _, f := range []openflow.Field{openflow.FieldTCPSrc, openflow.FieldTCPDst, openflow.FieldUDPSrc, openflow.FieldUDPDst,
		openflow.FieldSCTPSrc, openflow.FieldSCTPDst} {
		port(f)
	}
	if f := openflow.FieldTCPFlags; m.HasPrerequisite(f) && w.often(20) {
		mask := one[uint64](w, 2, 0x12, 0xfff)
		m = m.UintMasked(f, w.Uint64()&mask, mask)
	}
	if f := openflow.FieldICMPv4Type; m.HasPrerequisite(f) && w.often(50) {
		m = m.Uint(f, one[uint64](w, 0, 8, 3)).Uint(openflow.FieldICMPv4Code, w.Uint64N(2))
	}
	if f := openflow.FieldICMPv6Type; m.HasPrerequisite(f) && w.often(60) {
		m = m.Uint(f, one[uint64](w, 128, 135, 136))
		if f := openflow.FieldIPv6NDTarget; m.HasPrerequisite(f) && w.often(40) {
			m = m.Bytes(f, w.addr6(), nil)
		}
		for _, f := range []openflow.Field{openflow.FieldIPv6NDSLL, openflow.FieldIPv6NDTLL} {
			if m.HasPrerequisite(f) && w.often(40) {
				m = m.MAC(f, w.mac())
			}
		}
	}
	return m
}

func (w *world) matchOther(m openflow.Match, k kind) openflow.Match {
	switch k {
	case kindARP:
		m = m.Uint(openflow.FieldEthType, 0x0806)
		if w.often(30) {
			m = m.Uint(openflow.FieldARPOp, 1+w.Uint64N(2))
		}
		for _, f := range []openflow.Field{openflow.FieldARPSPA, openflow.FieldARPTPA} {
			if w.often(30) {
				m = w.masked(m, f, w.addr4(), one(w, []byte{255, 255, 255, 255}, []byte{255, 0, 0, 0}))
			}
		}
		for _, f := range []openflow.Field{openflow.FieldARPSHA, openflow.FieldARPTHA} {
			if w.often(20) {
				mac := w.mac()
				m = w.masked(m, f, mac[:], []byte{0xff, 0xff, 0xff, 0xff, 0xff, one[byte](w, 0, 0xff)})
			}
		}
	case kindMPLS:
		m = m.Uint(openflow.FieldEthType, one[uint64](w, 0x8847, 0x8848))
		if w.often(40) {
			m = m.Uint(openflow.FieldMPLSLabel, uint64(w.label()))
		}
		if w.often(20) {
			m = m.Uint(openflow.FieldMPLSTC, w.Uint64N(8))
		}
		if w.often(40) {
			m = m.Uint(openflow.FieldMPLSBOS, w.Uint64N(2))
		}
	case kindPBB:
		m = m.Uint(openflow.FieldEthType, 0x88e7)
		if w.often(40) {
			mask := one[uint64](w, 0xffffff, 1)
			m = m.UintMasked(openflow.FieldPBBISID, uint64(w.isid())&mask, mask)
		}
	default:
		m = m.Uint(openflow.FieldEthType, one[uint64](w, 0x88b5, 0x05ff, 0x88cc))
	}
	return m
}

// settable are the fields that frames of a kind have.
func settable(k kind) []openflow.Field {
	list := []openflow.Field{openflow.FieldEthDst, openflow.FieldEthSrc, openflow.FieldTunnelID, openflow.FieldVLANVID, openflow.FieldVLANPCP}
	if k.v4() {
		list = append(list, openflow.FieldIPv4Src, openflow.FieldIPv4Dst)
	}
	if k.v6() {
		list = append(list, openflow.FieldIPv6Src, openflow.FieldIPv6Dst, openflow.FieldIPv6Flabel)
	}
	if k.v4() || k.v6() {
		list = append(list, openflow.FieldIPDSCP, openflow.FieldIPECN, openflow.FieldIPProto)
	}
	switch k {
	case kindTCP4, kindTCP6:
		list = append(list, openflow.FieldTCPSrc, openflow.FieldTCPDst)
	case kindUDP4, kindUDP6:
		list = append(list, openflow.FieldUDPSrc, openflow.FieldUDPDst)
	case kindSCTP4, kindSCTP6:
		list = append(list, openflow.FieldSCTPSrc, openflow.FieldSCTPDst)
	case kindICMP4:
		list = append(list, openflow.FieldICMPv4Type, openflow.FieldICMPv4Code)
	case kindICMP6:
		list = append(list, openflow.FieldICMPv6Type, openflow.FieldICMPv6Code)
	case kindND:
		list = append(list, openflow.FieldIPv6NDTarget, openflow.FieldIPv6NDSLL, openflow.FieldIPv6NDTLL)
	case kindARP:
		list = append(list, openflow.FieldARPOp, openflow.FieldARPSHA, openflow.FieldARPTHA, openflow.FieldARPSPA, openflow.FieldARPTPA)
	case kindMPLS:
		list = append(list, openflow.FieldMPLSLabel, openflow.FieldMPLSTC, openflow.FieldMPLSBOS)
	case kindPBB:
		list = append(list, openflow.FieldPBBISID)
	}
	return list
}

// set makes a set-field action.
func (w *world) set(f openflow.Field) openflow.Action {
	var m openflow.Match
	mac := w.mac()
	switch f {
	case openflow.FieldEthDst, openflow.FieldEthSrc, openflow.FieldARPSHA, openflow.FieldARPTHA, openflow.FieldIPv6NDSLL, openflow.FieldIPv6NDTLL:
		m = m.MAC(f, mac)
	case openflow.FieldIPv4Src, openflow.FieldIPv4Dst, openflow.FieldARPSPA, openflow.FieldARPTPA:
		m = m.Bytes(f, w.addr4(), nil)
	case openflow.FieldIPv6Src, openflow.FieldIPv6Dst, openflow.FieldIPv6NDTarget:
		m = m.Bytes(f, w.addr6(), nil)
	case openflow.FieldTCPSrc, openflow.FieldTCPDst, openflow.FieldUDPSrc, openflow.FieldUDPDst, openflow.FieldSCTPSrc, openflow.FieldSCTPDst:
		m = m.Uint(f, uint64(w.port()))
	case openflow.FieldVLANVID:
		m = m.Uint(f, 0x1000|uint64(w.vid()))
	case openflow.FieldTunnelID:
		m = m.Uint(f, w.Uint64N(2))
	case openflow.FieldEthType:
		m = m.Uint(f, one[uint64](w, 0x0800, 0x86dd, 0x0806, 0x88b5))
	case openflow.FieldIPProto:
		m = m.Uint(f, one[uint64](w, 6, 17, 1, 58, 47))
	case openflow.FieldICMPv6Type:
		m = m.Uint(f, one[uint64](w, 128, 135, 136))
	default:
		m = m.Uint(f, w.Uint64()&(1<<f.Bits()-1))
	}
	return openflow.ActionSetField{Field: m}
}

// anyKind is a random one mostly equal to k.
func (w *world) anyKind(k kind) kind {
	if w.often(90) {
		return k
	}
	return w.kind()
}

// action makes an action for frames of a kind, and says what kind they are then.
func (w *world) action(k kind) (openflow.Action, kind) {
	switch w.IntN(20) {
	case 0:
		return openflow.ActionPushVLAN{EtherType: one[uint16](w, 0x8100, 0x88a8)}, k
	case 1:
		return openflow.ActionPopVLAN{}, k
	case 2:
		return openflow.ActionPushMPLS{EtherType: one[uint16](w, 0x8847, 0x8848)}, kindMPLS
	case 3:
		if k == kindMPLS || w.often(5) {
			t := one[uint16](w, 0x0800, 0x0800, 0x86dd, 0x8847)
			return openflow.ActionPopMPLS{EtherType: t}, map[uint16]kind{0x0800: kindTCP4, 0x86dd: kindTCP6, 0x8847: kindMPLS}[t]
		}
		if !w.tiny {
			return openflow.ActionPushPBB{EtherType: 0x88e7}, kindPBB
		}
	case 4:
		if k == kindPBB || w.often(5) {
			return openflow.ActionPopPBB{}, kindTCP4
		}
	case 5:
		return w.ttlAction(k), k
	case 6, 7:
		if k == kindTCP4 || k == kindTCP6 || w.often(10) {
			return w.handoff(), k
		}
	case 8:
		if w.often(30) {
			return w.set(openflow.FieldEthType), w.kind()
		}
	case 9, 10, 11:
		return openflow.ActionOutput{Port: w.outPort(), MaxLen: one[uint16](w, 0, 128, 0xffff)}, k
	case 12, 13:
		return openflow.ActionGroup{Group: openflow.GroupID(w.IntN(rigGroups))}, k
	}
	list := settable(w.anyKind(k))
	f := list[w.IntN(len(list))]
	if (f == openflow.FieldVLANVID || f == openflow.FieldVLANPCP) && w.often(50) {
		f = openflow.FieldEthDst
	}
	return w.set(f), k
}

func (w *world) ttlAction(k kind) openflow.Action {
	if w.anyKind(k) == kindMPLS {
		return one[openflow.Action](w, openflow.ActionSetMPLSTTL{TTL: w.ttl()}, openflow.ActionDecMPLSTTL{}, openflow.ActionCopyTTLIn{},
			openflow.ActionCopyTTLOut{})
	}
	return one[openflow.Action](w, openflow.ActionSetNWTTL{TTL: w.ttl()}, openflow.ActionDecNWTTL{})
}

func (w *world) handoff() openflow.Action {
	n := one(w, 0, 1, 0xffffffff, w.Uint32())
	return one[openflow.Action](w, openflow.ActionIncSeq{By: n}, openflow.ActionIncAck{By: n, Plain: true}, openflow.ActionIncSACK{By: n},
		openflow.ActionIncTSval{By: n}, openflow.ActionIncTSecr{By: n}, openflow.ActionClampMSS{MSS: one[uint16](w, 536, 1400, 9000)},
		openflow.ActionRescaleWindow{Sender: uint8(w.IntN(15)), Advertised: uint8(w.IntN(15))},
		openflow.ActionStripOption{Kind: one[uint8](w, 0, 1, 2, 5, 8, 30)})
}

func (w *world) outPort() openflow.PortNo {
	return one(w, 1, 2, 3, 4, 1, 2, 3, 4, 9, openflow.PortInPort, openflow.PortAll, openflow.PortFlood, openflow.PortController)
}

func (w *world) actions(k kind, most int) []openflow.Action {
	var list []openflow.Action
	for range w.IntN(most + 1) {
		var a openflow.Action
		a, k = w.action(k)
		list = append(list, a)
	}
	if (k == kindTCP4 || k == kindTCP6) && w.often(20) { // a session's translation is several in a row
		for range 2 + w.IntN(7) {
			list = append(list, w.handoff())
		}
	}
	if w.often(70) {
		list = append(list, out(openflow.PortNo(1+w.IntN(rigPorts))))
	}
	return list
}

const (
	rigTables = 4
	rigGroups = 6
)

// flowMod makes a message about the flow entries. Two entries that the same packet may meet have not the same priority.
func (w *world) flowMod() *openflow.FlowMod {
	m := openflow.NewFlowMod(one(w, openflow.FlowAdd, openflow.FlowAdd, openflow.FlowAdd, openflow.FlowAdd, openflow.FlowModify,
		openflow.FlowModifyStrict, openflow.FlowDelete, openflow.FlowDeleteStrict))
	k := w.kind()
	m.Table = openflow.TableID(w.IntN(rigTables))
	m.Priority = uint16(w.IntN(6))
	m.Cookie = w.Uint64()
	m.Flags = openflow.FlowCheckOverlap
	m.Match = w.match(k)
	if w.often(15) {
		m.Priority, m.Match = 0, nil
	}
	if m.Command == openflow.FlowDelete && len(m.Match) == 0 {
		m.Command = openflow.FlowAdd
	}
	if w.often(10) {
		m.Flags |= openflow.FlowResetCounts
	}
	if w.often(80) {
		m.Instructions = append(m.Instructions, apply(w.actions(k, 5)...))
	}
	if w.often(10) {
		m.Instructions = append(m.Instructions, openflow.InstructionClearActions{})
	}
	if w.often(40) {
		m.Instructions = append(m.Instructions, openflow.InstructionWriteActions{Actions: w.actions(k, 4)})
	}
	if w.often(30) {
		mask := w.Uint64() & 7
		m.Instructions = append(m.Instructions, openflow.InstructionWriteMetadata{Metadata: w.Uint64() & mask, Mask: mask})
	}
	if m.Table < rigTables-1 && w.often(60) {
		next := m.Table + 1 + openflow.TableID(w.IntN(rigTables-1-int(m.Table)))
		m.Instructions = append(m.Instructions, openflow.InstructionGotoTable{Table: next})
	}
	return m
}

// groupMod makes a message about a group. A group gives packets to groups with higher numbers alone.
func (w *world) groupMod() *openflow.GroupMod {
	g := &openflow.GroupMod{
		Command: one(w, openflow.GroupAdd, openflow.GroupAdd, openflow.GroupModify, openflow.GroupModify, openflow.GroupDelete),
		Kind:    openflow.GroupType(w.IntN(4)), Group: openflow.GroupID(w.IntN(rigGroups)),
	}
	n := 1
	if g.Kind != openflow.GroupTypeIndirect {
		n = w.IntN(4)
	}
	for range n {
		b := openflow.Bucket{WatchPort: openflow.PortAny, WatchGroup: openflow.GroupAny}
		if g.Kind == openflow.GroupTypeSelect {
			b.Weight = uint16(1 + w.IntN(3))
		}
		if g.Kind == openflow.GroupTypeFF || g.Kind == openflow.GroupTypeSelect && w.often(50) {
			b.WatchPort = openflow.PortNo(1 + w.IntN(rigPorts))
		}
		if (g.Kind == openflow.GroupTypeFF || g.Kind == openflow.GroupTypeSelect) && w.often(20) {
			b.WatchGroup = g.Group + 1 + openflow.GroupID(w.IntN(3))
			if w.often(50) {
				b.WatchPort = openflow.PortAny
			}
		}
		for _, a := range w.actions(w.kind(), 3) {
			if a, ok := a.(openflow.ActionGroup); ok && a.Group <= g.Group {
				continue
			}
			b.Actions = append(b.Actions, a)
		}
		g.Buckets = append(g.Buckets, b)
	}
	return g
}
