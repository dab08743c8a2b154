// Package compile turns flow entries, groups and meters into the records that the kernel executes (bpf/forwarder/types.h).
package compile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/match"
	"baton/openflow"
)

// Places map ports, groups and meters to indices in the kernel's arrays. They are called for existing groups and meters; a port gets an index
// when it is first named.
type Places struct {
	Port  func(openflow.PortNo) uint32
	Group func(openflow.GroupID) uint32
	Meter func(openflow.MeterID) uint32
}

// Actions compiles an action list.
func Actions(list []openflow.Action, at Places) ([]kernel.Op, error) {
	ops, err := each(list, at)
	return fuse(ops), err
}

// each compiles actions one by one.
func each(list []openflow.Action, at Places) ([]kernel.Op, error) {
	ops := make([]kernel.Op, 0, len(list))
	for _, a := range list {
		op, err := action(a, at)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// Set compiles an action set in execution order [5.10]. Of several actions for a slot the last one counts, and a group replaces outputs.
func Set(list []openflow.Action, at Places) ([]kernel.Op, error) {
	all, err := each(list, at)
	if err != nil {
		return nil, err
	}
	var ops []kernel.Op
	group := slices.ContainsFunc(all, func(op kernel.Op) bool { return op.Slot == kernel.SlotGroup })
	for n, op := range all {
		again := slices.ContainsFunc(all[n+1:], func(later kernel.Op) bool { return later.Slot == op.Slot })
		if again || group && op.Slot == kernel.SlotOutput {
			continue
		}
		ops = append(ops, op)
	}
	slices.SortStableFunc(ops, func(a, b kernel.Op) int { return cmp.Compare(a.Slot, b.Slot) })
	return fuse(ops), nil
}

func action(a openflow.Action, at Places) (kernel.Op, error) {
	op := func(kind, slot uint8, arg uint32) (kernel.Op, error) {
		return kernel.Op{Kind: kind, Slot: slot, Arg: arg}, nil
	}
	handoff := func(kind uint8, s openflow.HandoffSubtype, arg uint32) (kernel.Op, error) {
		return op(kind, kernel.SlotHandoff+uint8(s-openflow.HandoffIncSeq), arg)
	}
	switch a := a.(type) {
	case openflow.ActionOutput:
		return output(a, at), nil
	case openflow.ActionGroup:
		return op(kernel.OpGroup, kernel.SlotGroup, at.Group(a.Group))
	case openflow.ActionBind:
		return bind(a, at)
	case openflow.ActionUnbind:
		return op(kernel.OpUnbind, kernel.SlotGroup, at.Group(a.Group))
	case openflow.ActionSetQueue:
		return op(kernel.OpQueue, kernel.SlotQueue, a.Queue)
	case openflow.ActionSetMPLSTTL:
		return op(kernel.OpMPLSTTL, kernel.SlotMPLSTTL, uint32(a.TTL))
	case openflow.ActionDecMPLSTTL:
		return op(kernel.OpDecMPLSTTL, kernel.SlotDecMPLSTTL, 0)
	case openflow.ActionSetNWTTL:
		return op(kernel.OpNWTTL, kernel.SlotNWTTL, uint32(a.TTL))
	case openflow.ActionDecNWTTL:
		return op(kernel.OpDecNWTTL, kernel.SlotDecNWTTL, 0)
	case openflow.ActionCopyTTLOut:
		return op(kernel.OpCopyTTLOut, kernel.SlotCopyTTLOut, 0)
	case openflow.ActionCopyTTLIn:
		return op(kernel.OpCopyTTLIn, kernel.SlotCopyTTLIn, 0)
	case openflow.ActionPushVLAN:
		return op(kernel.OpPushVLAN, kernel.SlotPushVLAN, uint32(a.EtherType))
	case openflow.ActionPopVLAN:
		return op(kernel.OpPopVLAN, kernel.SlotPopVLAN, 0)
	case openflow.ActionPushMPLS:
		return op(kernel.OpPushMPLS, kernel.SlotPushMPLS, uint32(a.EtherType))
	case openflow.ActionPopMPLS:
		return op(kernel.OpPopMPLS, kernel.SlotPopMPLS, uint32(a.EtherType))
	case openflow.ActionPushPBB:
		return op(kernel.OpPushPBB, kernel.SlotPushPBB, uint32(a.EtherType))
	case openflow.ActionPopPBB:
		return op(kernel.OpPopPBB, kernel.SlotPopPBB, 0)
	case openflow.ActionSetField:
		return setField(a.Field)
	case openflow.ActionIncSeq:
		return handoff(kernel.OpIncSeq, openflow.HandoffIncSeq, a.By)
	case openflow.ActionIncAck:
		return handoff(kernel.OpIncAck, openflow.HandoffIncAck, a.By)
	case openflow.ActionIncSACK:
		return handoff(kernel.OpIncSACK, openflow.HandoffIncSACK, a.By)
	case openflow.ActionIncTSval:
		return handoff(kernel.OpIncTSval, openflow.HandoffIncTSval, a.By)
	case openflow.ActionIncTSecr:
		return handoff(kernel.OpIncTSecr, openflow.HandoffIncTSecr, a.By)
	case openflow.ActionRescaleWindow:
		return handoff(kernel.OpRescaleWindow, openflow.HandoffRescaleWindow, uint32(a.Sender)|uint32(a.Advertised)<<8)
	case openflow.ActionClampMSS:
		return handoff(kernel.OpClampMSS, openflow.HandoffClampMSS, uint32(a.MSS))
	case openflow.ActionStripOption:
		return handoff(kernel.OpStripOption, openflow.HandoffStripOption, uint32(a.Kind))
	}
	return kernel.Op{}, fmt.Errorf("compile an action: the kernel has none for %v", a.Type())
}

// bindMethods are the kernel's numbers of the methods.
var bindMethods = map[openflow.BindMethod]uint8{
	openflow.BindRoundRobin: kernel.BindRoundRobin, openflow.BindLeast: kernel.BindLeast,
	openflow.BindFastest: kernel.BindFastest, openflow.BindHash: kernel.BindHash, openflow.BindEven: kernel.BindEven,
}

func bind(a openflow.ActionBind, at Places) (kernel.Op, error) {
	method, ok := bindMethods[a.Method]
	if !ok {
		return kernel.Op{}, fmt.Errorf("compile a bind action: unknown method %v", a.Method)
	}
	op := kernel.Op{Kind: kernel.OpBind, Slot: kernel.SlotGroup, At: method, Arg: at.Group(a.Group)}
	binary.NativeEndian.PutUint32(op.Value[:], a.Affinity)
	return op, nil
}

func output(a openflow.ActionOutput, at Places) kernel.Op {
	op := kernel.Op{Slot: kernel.SlotOutput}
	switch a.Port {
	case openflow.PortInPort:
		op.Kind = kernel.OpInPort
	case openflow.PortTable:
		op.Kind = kernel.OpTable
	case openflow.PortNormal:
		op.Kind = kernel.OpNormal
	case openflow.PortFlood:
		op.Kind = kernel.OpFlood
	case openflow.PortAll:
		op.Kind = kernel.OpAll
	case openflow.PortController:
		op.Kind, op.Arg = kernel.OpController, uint32(a.MaxLen)
	default:
		op.Kind, op.Arg = kernel.OpOutput, at.Port(a.Port)
	}
	return op
}

// where describes how a field is written into a packet.
type where struct {
	base, at, len uint8
	sums          uint8
	// shift is for a value whose bits share a word with others, in which they are at mask.
	shift int
	mask  uint32
}

const (
	ipAndPseudo = kernel.SumIP | kernel.SumPseudo
	pseudo      = kernel.SumPseudo
	l4          = kernel.SumL4
)

var fields = map[openflow.Field]where{
	openflow.FieldEthDst:       {base: kernel.BaseFrame, at: 0, len: 6},
	openflow.FieldEthSrc:       {base: kernel.BaseFrame, at: 6, len: 6},
	openflow.FieldEthType:      {base: kernel.BaseType, len: 2},
	openflow.FieldIPv4Src:      {base: kernel.BaseIPv4, at: 12, len: 4, sums: ipAndPseudo},
	openflow.FieldIPv4Dst:      {base: kernel.BaseIPv4, at: 16, len: 4, sums: ipAndPseudo},
	openflow.FieldIPv6Src:      {base: kernel.BaseIPv6, at: 8, len: 16, sums: pseudo},
	openflow.FieldIPv6Dst:      {base: kernel.BaseIPv6, at: 24, len: 16, sums: pseudo},
	openflow.FieldIPv6Flabel:   {base: kernel.BaseIPv6, at: 0, len: 4, mask: 0x000fffff},
	openflow.FieldTCPSrc:       {base: kernel.BaseTCP, at: 0, len: 2, sums: l4},
	openflow.FieldTCPDst:       {base: kernel.BaseTCP, at: 2, len: 2, sums: l4},
	openflow.FieldUDPSrc:       {base: kernel.BaseUDP, at: 0, len: 2, sums: l4},
	openflow.FieldUDPDst:       {base: kernel.BaseUDP, at: 2, len: 2, sums: l4},
	openflow.FieldSCTPSrc:      {base: kernel.BaseSCTP, at: 0, len: 2, sums: l4},
	openflow.FieldSCTPDst:      {base: kernel.BaseSCTP, at: 2, len: 2, sums: l4},
	openflow.FieldICMPv4Type:   {base: kernel.BaseICMP, at: 0, len: 2, sums: l4, mask: 0xff000000, shift: 24},
	openflow.FieldICMPv4Code:   {base: kernel.BaseICMP, at: 0, len: 2, sums: l4, mask: 0x00ff0000, shift: 16},
	openflow.FieldICMPv6Type:   {base: kernel.BaseICMPv6, at: 0, len: 2, sums: l4, mask: 0xff000000, shift: 24},
	openflow.FieldICMPv6Code:   {base: kernel.BaseICMPv6, at: 0, len: 2, sums: l4, mask: 0x00ff0000, shift: 16},
	openflow.FieldARPOp:        {base: kernel.BaseARP, at: 6, len: 2},
	openflow.FieldARPSHA:       {base: kernel.BaseARP, at: 8, len: 6},
	openflow.FieldARPSPA:       {base: kernel.BaseARP, at: 14, len: 4},
	openflow.FieldARPTHA:       {base: kernel.BaseARP, at: 18, len: 6},
	openflow.FieldARPTPA:       {base: kernel.BaseARP, at: 24, len: 4},
	openflow.FieldIPv6NDTarget: {base: kernel.BaseNDTarget, len: 16, sums: l4},
	openflow.FieldIPv6NDSLL:    {base: kernel.BaseNDSLL, len: 6, sums: l4},
	openflow.FieldIPv6NDTLL:    {base: kernel.BaseNDTLL, len: 6, sums: l4},
	openflow.FieldMPLSLabel:    {base: kernel.BaseLabel, len: 4, mask: 0xfffff000, shift: 12},
	openflow.FieldMPLSTC:       {base: kernel.BaseLabel, len: 4, mask: 0x00000e00, shift: 9},
	openflow.FieldMPLSBOS:      {base: kernel.BaseLabel, len: 4, mask: 0x00000100, shift: 8},
	openflow.FieldPBBISID:      {base: kernel.BaseServiceTag, len: 4, mask: 0x00ffffff},
}

// setField compiles a set-field action, which has exactly one field.
func setField(m openflow.Match) (kernel.Op, error) {
	for t, err := range m.All() {
		if err != nil {
			return kernel.Op{}, fmt.Errorf("compile a set-field: %w", err)
		}
		op := kernel.Op{Slot: kernel.SlotField + t.Field.Number()}
		switch t.Field {
		case openflow.FieldTunnelID:
			op.Kind = kernel.OpTunnel
			copy(op.Value[:], t.Value)
			return op, nil
		case openflow.FieldVLANVID:
			op.Kind = kernel.OpVLANVID
		case openflow.FieldVLANPCP:
			op.Kind = kernel.OpVLANPCP
		case openflow.FieldIPDSCP:
			op.Kind = kernel.OpDSCP
		case openflow.FieldIPECN:
			op.Kind = kernel.OpECN
		case openflow.FieldIPProto:
			op.Kind = kernel.OpProto
		default:
			return patch(op, t)
		}
		op.Arg = uint32(t.Uint())
		return op, nil
	}
	return kernel.Op{}, fmt.Errorf("compile a set-field: no field")
}

func patch(op kernel.Op, t openflow.TLV) (kernel.Op, error) {
	w, ok := fields[t.Field]
	at, size, known := match.Place(t.Field)
	if !ok || !known || len(t.Value) > len(op.Value) {
		return op, fmt.Errorf("compile a set-field: the kernel cannot write %v", t.Field)
	}
	op.Kind = kernel.OpPatch
	op.Base, op.At, op.Len, op.Sums = w.base, w.at, w.len, w.sums
	op.FieldAt, op.FieldLen = uint8(at), uint8(size)
	if w.mask == 0 {
		copy(op.Value[:], t.Value)
		return op, nil
	}
	v := uint32(t.Uint())
	op.Mask = be32(w.mask)
	binary.BigEndian.PutUint32(op.Value[:], v<<w.shift&w.mask)
	// the value in struct fields, from its first byte on
	op.Arg = be32(v << (32 - 8*size))
	return op, nil
}

// be32 converts v to a number whose bytes in memory are in network order.
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
