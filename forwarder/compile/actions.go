// Package compile turns flow entries, groups and meters into the records that the kernel executes (bpf/forwarder/types.h).
package compile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"baton/datapath"
	"baton/forwarder/match"
	"baton/openflow"
)

// Places is where ports, groups and meters stand in the kernel's arrays. Each is asked for what is there: a port gets a place
// when it is first named.
type Places struct {
	Port  func(openflow.PortNo) uint32
	Group func(openflow.GroupID) uint32
	Meter func(openflow.MeterID) uint32
}

// Actions compiles an action list: executed as it stands.
func Actions(list []openflow.Action, at Places) ([]datapath.ForwarderOp, error) {
	ops, err := each(list, at)
	return fuse(ops), err
}

// each compiles actions one by one.
func each(list []openflow.Action, at Places) ([]datapath.ForwarderOp, error) {
	ops := make([]datapath.ForwarderOp, 0, len(list))
	for _, a := range list {
		op, err := action(a, at)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// Set compiles an action set in its order of execution [5.10]. Of several actions for one slot the last counts, and a group
// comes in the place of outputs.
func Set(list []openflow.Action, at Places) ([]datapath.ForwarderOp, error) {
	all, err := each(list, at)
	if err != nil {
		return nil, err
	}
	var ops []datapath.ForwarderOp
	group := slices.ContainsFunc(all, func(op datapath.ForwarderOp) bool { return op.Slot == datapath.SlotGroup })
	for n, op := range all {
		again := slices.ContainsFunc(all[n+1:], func(later datapath.ForwarderOp) bool { return later.Slot == op.Slot })
		if again || group && op.Slot == datapath.SlotOutput {
			continue
		}
		ops = append(ops, op)
	}
	slices.SortStableFunc(ops, func(a, b datapath.ForwarderOp) int { return cmp.Compare(a.Slot, b.Slot) })
	return fuse(ops), nil
}

func action(a openflow.Action, at Places) (datapath.ForwarderOp, error) {
	op := func(kind, slot uint8, arg uint32) (datapath.ForwarderOp, error) {
		return datapath.ForwarderOp{Kind: kind, Slot: slot, Arg: arg}, nil
	}
	handoff := func(kind uint8, s openflow.HandoffSubtype, arg uint32) (datapath.ForwarderOp, error) {
		return op(kind, datapath.SlotHandoff+uint8(s-openflow.HandoffIncSeq), arg)
	}
	switch a := a.(type) {
	case openflow.ActionOutput:
		return output(a, at), nil
	case openflow.ActionGroup:
		return op(datapath.OpGroup, datapath.SlotGroup, at.Group(a.Group))
	case openflow.ActionPick:
		return pick(a, at)
	case openflow.ActionUnpick:
		return op(datapath.OpUnpick, datapath.SlotGroup, at.Group(a.Group))
	case openflow.ActionSetQueue:
		return op(datapath.OpQueue, datapath.SlotQueue, a.Queue)
	case openflow.ActionSetMPLSTTL:
		return op(datapath.OpMPLSTTL, datapath.SlotMPLSTTL, uint32(a.TTL))
	case openflow.ActionDecMPLSTTL:
		return op(datapath.OpDecMPLSTTL, datapath.SlotDecMPLSTTL, 0)
	case openflow.ActionSetNWTTL:
		return op(datapath.OpNWTTL, datapath.SlotNWTTL, uint32(a.TTL))
	case openflow.ActionDecNWTTL:
		return op(datapath.OpDecNWTTL, datapath.SlotDecNWTTL, 0)
	case openflow.ActionCopyTTLOut:
		return op(datapath.OpCopyTTLOut, datapath.SlotCopyTTLOut, 0)
	case openflow.ActionCopyTTLIn:
		return op(datapath.OpCopyTTLIn, datapath.SlotCopyTTLIn, 0)
	case openflow.ActionPushVLAN:
		return op(datapath.OpPushVLAN, datapath.SlotPushVLAN, uint32(a.EtherType))
	case openflow.ActionPopVLAN:
		return op(datapath.OpPopVLAN, datapath.SlotPopVLAN, 0)
	case openflow.ActionPushMPLS:
		return op(datapath.OpPushMPLS, datapath.SlotPushMPLS, uint32(a.EtherType))
	case openflow.ActionPopMPLS:
		return op(datapath.OpPopMPLS, datapath.SlotPopMPLS, uint32(a.EtherType))
	case openflow.ActionPushPBB:
		return op(datapath.OpPushPBB, datapath.SlotPushPBB, uint32(a.EtherType))
	case openflow.ActionPopPBB:
		return op(datapath.OpPopPBB, datapath.SlotPopPBB, 0)
	case openflow.ActionSetField:
		return setField(a.Field)
	case openflow.ActionIncSeq:
		return handoff(datapath.OpIncSeq, openflow.HandoffIncSeq, a.By)
	case openflow.ActionIncAck:
		return handoff(datapath.OpIncAck, openflow.HandoffIncAck, a.By)
	case openflow.ActionIncSACK:
		return handoff(datapath.OpIncSACK, openflow.HandoffIncSACK, a.By)
	case openflow.ActionIncTSval:
		return handoff(datapath.OpIncTSval, openflow.HandoffIncTSval, a.By)
	case openflow.ActionIncTSecr:
		return handoff(datapath.OpIncTSecr, openflow.HandoffIncTSecr, a.By)
	case openflow.ActionRescaleWindow:
		return handoff(datapath.OpRescaleWindow, openflow.HandoffRescaleWindow, uint32(a.Sender)|uint32(a.Told)<<8)
	case openflow.ActionClampMSS:
		return handoff(datapath.OpClampMSS, openflow.HandoffClampMSS, uint32(a.MSS))
	case openflow.ActionStripOption:
		return handoff(datapath.OpStripOption, openflow.HandoffStripOption, uint32(a.Kind))
	}
	return datapath.ForwarderOp{}, fmt.Errorf("compile an action: the kernel has none for %v", a.Type())
}

// pickMethods are the kernel's words for how a bucket is chosen.
var pickMethods = map[openflow.PickMethod]uint8{
	openflow.PickTurns: datapath.PickTurns, openflow.PickLeast: datapath.PickLeast,
	openflow.PickFastest: datapath.PickFastest, openflow.PickHash: datapath.PickHash, openflow.PickEven: datapath.PickEven,
}

func pick(a openflow.ActionPick, at Places) (datapath.ForwarderOp, error) {
	method, ok := pickMethods[a.Method]
	if !ok {
		return datapath.ForwarderOp{}, fmt.Errorf("compile a pick: the kernel has no method %v", a.Method)
	}
	op := datapath.ForwarderOp{Kind: datapath.OpPick, Slot: datapath.SlotGroup, At: method, Arg: at.Group(a.Group)}
	binary.NativeEndian.PutUint32(op.Value[:], a.Together)
	return op, nil
}

func output(a openflow.ActionOutput, at Places) datapath.ForwarderOp {
	op := datapath.ForwarderOp{Slot: datapath.SlotOutput}
	switch a.Port {
	case openflow.PortInPort:
		op.Kind = datapath.OpInPort
	case openflow.PortTable:
		op.Kind = datapath.OpTable
	case openflow.PortNormal:
		op.Kind = datapath.OpNormal
	case openflow.PortFlood:
		op.Kind = datapath.OpFlood
	case openflow.PortAll:
		op.Kind = datapath.OpAll
	case openflow.PortController:
		op.Kind, op.Arg = datapath.OpController, uint32(a.MaxLen)
	default:
		op.Kind, op.Arg = datapath.OpOutput, at.Port(a.Port)
	}
	return op
}

// where says how a field is written into a packet.
type where struct {
	base, at, len uint8
	sums          uint8
	// shift is of a value whose bits share a word with others: mask is where they are then.
	shift int
	mask  uint32
}

const (
	ipAndPseudo = datapath.SumIP | datapath.SumPseudo
	pseudo      = datapath.SumPseudo
	l4          = datapath.SumL4
)

var fields = map[openflow.Field]where{
	openflow.FieldEthDst:       {base: datapath.BaseFrame, at: 0, len: 6},
	openflow.FieldEthSrc:       {base: datapath.BaseFrame, at: 6, len: 6},
	openflow.FieldEthType:      {base: datapath.BaseType, len: 2},
	openflow.FieldIPv4Src:      {base: datapath.BaseIPv4, at: 12, len: 4, sums: ipAndPseudo},
	openflow.FieldIPv4Dst:      {base: datapath.BaseIPv4, at: 16, len: 4, sums: ipAndPseudo},
	openflow.FieldIPv6Src:      {base: datapath.BaseIPv6, at: 8, len: 16, sums: pseudo},
	openflow.FieldIPv6Dst:      {base: datapath.BaseIPv6, at: 24, len: 16, sums: pseudo},
	openflow.FieldIPv6Flabel:   {base: datapath.BaseIPv6, at: 0, len: 4, mask: 0x000fffff},
	openflow.FieldTCPSrc:       {base: datapath.BaseTCP, at: 0, len: 2, sums: l4},
	openflow.FieldTCPDst:       {base: datapath.BaseTCP, at: 2, len: 2, sums: l4},
	openflow.FieldUDPSrc:       {base: datapath.BaseUDP, at: 0, len: 2, sums: l4},
	openflow.FieldUDPDst:       {base: datapath.BaseUDP, at: 2, len: 2, sums: l4},
	openflow.FieldSCTPSrc:      {base: datapath.BaseSCTP, at: 0, len: 2, sums: l4},
	openflow.FieldSCTPDst:      {base: datapath.BaseSCTP, at: 2, len: 2, sums: l4},
	openflow.FieldICMPv4Type:   {base: datapath.BaseICMP, at: 0, len: 2, sums: l4, mask: 0xff000000, shift: 24},
	openflow.FieldICMPv4Code:   {base: datapath.BaseICMP, at: 0, len: 2, sums: l4, mask: 0x00ff0000, shift: 16},
	openflow.FieldICMPv6Type:   {base: datapath.BaseICMPv6, at: 0, len: 2, sums: l4, mask: 0xff000000, shift: 24},
	openflow.FieldICMPv6Code:   {base: datapath.BaseICMPv6, at: 0, len: 2, sums: l4, mask: 0x00ff0000, shift: 16},
	openflow.FieldARPOp:        {base: datapath.BaseARP, at: 6, len: 2},
	openflow.FieldARPSHA:       {base: datapath.BaseARP, at: 8, len: 6},
	openflow.FieldARPSPA:       {base: datapath.BaseARP, at: 14, len: 4},
	openflow.FieldARPTHA:       {base: datapath.BaseARP, at: 18, len: 6},
	openflow.FieldARPTPA:       {base: datapath.BaseARP, at: 24, len: 4},
	openflow.FieldIPv6NDTarget: {base: datapath.BaseNDTarget, len: 16, sums: l4},
	openflow.FieldIPv6NDSLL:    {base: datapath.BaseNDSLL, len: 6, sums: l4},
	openflow.FieldIPv6NDTLL:    {base: datapath.BaseNDTLL, len: 6, sums: l4},
	openflow.FieldMPLSLabel:    {base: datapath.BaseLabel, len: 4, mask: 0xfffff000, shift: 12},
	openflow.FieldMPLSTC:       {base: datapath.BaseLabel, len: 4, mask: 0x00000e00, shift: 9},
	openflow.FieldMPLSBOS:      {base: datapath.BaseLabel, len: 4, mask: 0x00000100, shift: 8},
	openflow.FieldPBBISID:      {base: datapath.BaseServiceTag, len: 4, mask: 0x00ffffff},
}

// setField compiles a set-field action, which has one field.
func setField(m openflow.Match) (datapath.ForwarderOp, error) {
	for t, err := range m.All() {
		if err != nil {
			return datapath.ForwarderOp{}, fmt.Errorf("compile a set-field: %w", err)
		}
		op := datapath.ForwarderOp{Slot: datapath.SlotField + t.Field.Number()}
		switch t.Field {
		case openflow.FieldTunnelID:
			op.Kind = datapath.OpTunnel
			copy(op.Value[:], t.Value)
			return op, nil
		case openflow.FieldVLANVID:
			op.Kind = datapath.OpVLANVID
		case openflow.FieldVLANPCP:
			op.Kind = datapath.OpVLANPCP
		case openflow.FieldIPDSCP:
			op.Kind = datapath.OpDSCP
		case openflow.FieldIPECN:
			op.Kind = datapath.OpECN
		case openflow.FieldIPProto:
			op.Kind = datapath.OpProto
		default:
			return patch(op, t)
		}
		op.Arg = uint32(t.Uint())
		return op, nil
	}
	return datapath.ForwarderOp{}, fmt.Errorf("compile a set-field: no field")
}

func patch(op datapath.ForwarderOp, t openflow.TLV) (datapath.ForwarderOp, error) {
	w, ok := fields[t.Field]
	at, size, known := match.Place(t.Field)
	if !ok || !known || len(t.Value) > len(op.Value) {
		return op, fmt.Errorf("compile a set-field: the kernel cannot write %v", t.Field)
	}
	op.Kind = datapath.OpPatch
	op.Base, op.At, op.Len, op.Sums = w.base, w.at, w.len, w.sums
	op.FieldAt, op.FieldLen = uint8(at), uint8(size)
	if w.mask == 0 {
		copy(op.Value[:], t.Value)
		return op, nil
	}
	v := uint32(t.Uint())
	op.Mask = be32(w.mask)
	binary.BigEndian.PutUint32(op.Value[:], v<<w.shift&w.mask)
	// what stands in the field's place, from its first byte on
	op.Arg = be32(v << (32 - 8*size))
	return op, nil
}

// be32 is the number whose bytes in memory are those of v in network order.
func be32(v uint32) uint32 {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return bits.ReverseBytes32(v)
	}
	return v
}

func be64(v uint64) uint64 {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return bits.ReverseBytes64(v)
	}
	return v
}
