package compile

import (
	"fmt"
	"time"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// Entry compiles the instructions of a flow entry. The ops of apply-actions come first. The caller fills in the record's Ops, the index of the
// first op.
func Entry(e *pipeline.Entry, at Places) (kernel.Entry, []kernel.Op, error) {
	r := kernel.Entry{Table: uint8(e.Table), Cookie: be64(e.Cookie)}
	if e.TableMiss() {
		r.Flags |= kernel.EntryMiss
	}
	var apply, write []kernel.Op
	var err error
	for _, i := range e.Instructions {
		switch i := i.(type) {
		case openflow.InstructionMeter:
			r.Meter = at.Meter(i.Meter)
		case openflow.InstructionApplyActions:
			apply, err = Actions(i.Actions, at)
		case openflow.InstructionClearActions:
			r.Flags |= kernel.EntryClear
		case openflow.InstructionWriteActions:
			write, err = each(i.Actions, at) // write-actions are stored by slot
		case openflow.InstructionWriteMetadata:
			r.Flags |= kernel.EntryMetadata
			r.Metadata, r.MetadataMask = be64(i.Metadata), be64(i.Mask)
		case openflow.InstructionGotoTable:
			r.Flags |= kernel.EntryGoto
			r.Next = uint8(i.Table)
		default:
			err = fmt.Errorf("compile a flow entry: the kernel has no instruction %v", i.Type())
		}
		if err != nil {
			return r, nil, err
		}
	}
	r.Apply, r.Write = uint16(len(apply)), uint16(len(write))
	return r, append(apply, write...), nil
}

// Bucket compiles the actions of a bucket, and reports whether they are outputs only.
func Bucket(b openflow.Bucket, at Places) (ops []kernel.Op, plain bool, err error) {
	ops, err = Set(b.Actions, at)
	plain = true
	for _, op := range ops {
		plain = plain && op.Slot == kernel.SlotOutput
	}
	return ops, plain, err
}

// defaultBurst is the burst of a band that does not specify one [7.3.4.4], as a time at its rate.
const defaultBurst = 100 * time.Millisecond

// Meter compiles a meter.
func Meter(m *pipeline.Meter) (kernel.Meter, error) {
	r := kernel.Meter{Bands: uint32(len(m.Bands))}
	if len(m.Bands) > len(r.Band) {
		return r, fmt.Errorf("compile a meter: %d bands, where the kernel has %d", len(m.Bands), len(r.Band))
	}
	const ps = 1_000_000_000_000 // in one second
	for n, b := range m.Bands {
		k := &r.Band[n]
		rate := uint64(max(b.Rate, 1))
		k.Rate = b.Rate
		k.Cost = ps / (1000 * rate) // per bit
		if m.Flags&openflow.MeterFlagPktps != 0 {
			r.ByPacket = 1
			k.Cost = ps / rate
		}
		k.Burst = uint64(defaultBurst)
		if m.Flags&openflow.MeterFlagBurst != 0 && b.Burst != 0 { // kbit, or packets
			k.Burst = uint64(b.Burst) * uint64(time.Second) / rate
		}
		if b.Kind == openflow.BandDSCPRemark {
			k.Remark = uint32(max(b.PrecLevel, 1))
		}
	}
	return r, nil
}
