package pipeline_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
)

// connections is how many flow entries the benchmarks are about: one for each of so many TCP connections.
const connections = 100_000

// connection is a match on all headers of a TCP connection.
func connection(i int) openflow.Match {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 0x0a000000+uint32(i))
	return openflow.Match{}.Port(1).Uint(openflow.FieldEthType, 0x0800).Uint(openflow.FieldIPProto, 6).
		Addr(openflow.FieldIPv4Src, netip.AddrFrom4(a)).Addr(openflow.FieldIPv4Dst, netip.AddrFrom4([4]byte{192, 0, 2, 1})).
		Uint(openflow.FieldTCPSrc, uint64(i)&0xffff).Uint(openflow.FieldTCPDst, 80)
}

// connectionMods returns a flow mod of that command for each connection.
func connectionMods(c openflow.FlowModCommand) []*openflow.FlowMod {
	set := openflow.ActionSetField{Field: openflow.Match{}.MAC(openflow.FieldEthDst, packet.MAC{2})}
	mods := make([]*openflow.FlowMod, connections)
	for i := range mods {
		mods[i] = flow(c, cookie(uint64(i), 0), fields(connection(i)), to(set, out(2)))
	}
	return mods
}

// filled is a pipeline with an entry for each connection.
func filled(b *testing.B) *pipeline.Pipeline {
	b.Helper()
	p := pipeline.New(pipeline.Limits{})
	apply(b, p, connectionMods(add))
	return p
}

func apply(b *testing.B, p *pipeline.Pipeline, mods []*openflow.FlowMod) {
	for _, m := range mods {
		if _, err := p.FlowMod(start, m); err != nil {
			b.Fatal(err)
		}
	}
}

// each reports the rate of flow mods, where the loop has done all of a list.
func each(b *testing.B) {
	b.ReportMetric(float64(b.N)*connections/b.Elapsed().Seconds(), "flowmods/s")
}

func BenchmarkAdd(b *testing.B) {
	mods := connectionMods(add)
	b.ReportAllocs()
	for b.Loop() {
		apply(b, pipeline.New(pipeline.Limits{}), mods)
	}
	each(b)
}

// BenchmarkAddTimed is of entries that expire.
func BenchmarkAddTimed(b *testing.B) {
	mods := connectionMods(add)
	for i, m := range mods {
		m.Idle = uint16(i%60 + 1)
	}
	for b.Loop() {
		apply(b, pipeline.New(pipeline.Limits{}), mods)
	}
	each(b)
}

// BenchmarkAddChecked has each new entry checked for overlaps.
func BenchmarkAddChecked(b *testing.B) {
	mods := connectionMods(add)
	for _, m := range mods {
		m.Flags = openflow.FlowCheckOverlap
	}
	for b.Loop() {
		apply(b, pipeline.New(pipeline.Limits{}), mods)
	}
	each(b)
}

func BenchmarkReplace(b *testing.B) {
	p, mods := filled(b), connectionMods(add)
	for b.Loop() {
		apply(b, p, mods)
	}
	each(b)
}

func BenchmarkModify(b *testing.B) {
	for name, c := range map[string]openflow.FlowModCommand{"strict": modifyStrict, "loose": modify} {
		b.Run(name, func(b *testing.B) {
			p, mods := filled(b), connectionMods(c)
			for b.Loop() {
				apply(b, p, mods)
			}
			each(b)
		})
	}
}

// BenchmarkDelete has half of its time in adding what it deletes.
func BenchmarkDelete(b *testing.B) {
	for name, c := range map[string]openflow.FlowModCommand{"strict": deleteStrict, "loose": deletes} {
		b.Run(name, func(b *testing.B) {
			mods := connectionMods(c)
			adds := connectionMods(add)
			p := pipeline.New(pipeline.Limits{})
			for b.Loop() {
				apply(b, p, adds)
				apply(b, p, mods)
			}
			each(b)
		})
	}
}

// BenchmarkDeleteByCookie looks at all entries for one.
func BenchmarkDeleteByCookie(b *testing.B) {
	p := filled(b)
	m := flow(deletes, cookie(1<<40, ^uint64(0)))
	for b.Loop() {
		if c, err := p.FlowMod(start, m); err != nil || !c.Empty() {
			b.Fatal(c, err)
		}
	}
}

// BenchmarkPriorities adds and deletes entries that all have a priority of their own.
func BenchmarkPriorities(b *testing.B) {
	p := pipeline.New(pipeline.Limits{})
	for b.Loop() {
		for n := range uint16(0xffff) {
			if _, err := p.FlowMod(start, flow(add, priority(n))); err != nil {
				b.Fatal(err)
			}
		}
		if c, err := p.FlowMod(start, flow(deletes)); err != nil || len(c.Removed) != 0xffff {
			b.Fatal(len(c.Removed), err)
		}
	}
}

// BenchmarkExpireNothing is what a tick costs when nothing is due.
func BenchmarkExpireNothing(b *testing.B) {
	p := pipeline.New(pipeline.Limits{})
	mods := connectionMods(add)
	for _, m := range mods {
		m.Idle = 10
	}
	apply(b, p, mods)
	for b.Loop() {
		p.Expire(at(9), never)
	}
}

func BenchmarkFlowStats(b *testing.B) {
	p := filled(b)
	for b.Loop() {
		if r, err := p.FlowStats(start, openflow.NewFlowQuery(), byCookie); err != nil || len(r) != connections {
			b.Fatal(len(r), err)
		}
	}
}
