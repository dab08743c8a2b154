package seqack

import (
	"net/netip"
	"slices"

	"baton/experiments/forwarder"
	"baton/openflow"
	"baton/packet"
)

// kind is what a contender does to the packets of a session.
type kind struct {
	name, is string
	numbers  numbers
	alias    bool // the client asks for another address and port than the server's, and the server sees another client
}

// numbers are actions on the way there, and those that undo them on the way back.
type numbers struct{ there, back []openflow.Action }

// What sessions are shifted by. Any number will do; these make sums wrap.
const (
	bySeq   = 0xfffff000
	byAck   = 1 << 31
	byTSval = 0x12345678
	byTSecr = 0x87654321
)

// What changes nothing here, but is asked for each packet, or each SYN: window shifts that are the same on both sides, and an MSS
// above any.
const (
	windowShift = 7
	mss         = 65000
)

var (
	none   = numbers{}
	seq    = numbers{[]openflow.Action{openflow.ActionIncSeq{By: bySeq}}, []openflow.Action{openflow.ActionIncAck{By: inverse(bySeq)}}}
	seqAck = numbers{
		[]openflow.Action{openflow.ActionIncSeq{By: bySeq}, openflow.ActionIncAck{By: byAck}},
		[]openflow.Action{openflow.ActionIncSeq{By: inverse(byAck)}, openflow.ActionIncAck{By: inverse(bySeq)}},
	}
	all = numbers{
		slices.Concat(seqAck.there, []openflow.Action{openflow.ActionIncSACK{By: byAck}, openflow.ActionIncTSval{By: byTSval}, openflow.ActionIncTSecr{By: byTSecr},
			openflow.ActionRescaleWindow{Sender: windowShift, Advertised: windowShift}, openflow.ActionClampMSS{MSS: mss}}),
		slices.Concat(seqAck.back, []openflow.Action{openflow.ActionIncSACK{By: inverse(bySeq)}, openflow.ActionIncTSval{By: inverse(byTSecr)},
			openflow.ActionIncTSecr{By: inverse(byTSval)}, openflow.ActionRescaleWindow{Sender: windowShift, Advertised: windowShift},
			openflow.ActionClampMSS{MSS: mss}}),
	}
)

// inverse takes away what by adds, modulo 2³².
func inverse(by uint32) uint32 { return -by }

var kinds = []kind{
	{"plain", "output alone", none, false},
	{"inc_seq", "the paper's test: `inc_seq` there, `inc_ack` back", seq, false},
	{"inc_seq-ack", "`inc_seq` and `inc_ack`, both ways", seqAck, false},
	{"all-numbers", "also `inc_sack`, `inc_tsval`, `inc_tsecr`, `rescale_window`, `clamp_mss`", all, false},
	{"set-field", "`set_field` of both link addresses, both addresses and a port", none, true},
	{"splice", "all of these: what a session that was handed off needs", all, true},
}

// aliased says whether a turn's contender is of a kind with an alias.
func aliased(t *forwarder.Turn) bool { return t.Topology.Addressed }

func (k kind) contender() forwarder.Contender {
	return forwarder.Baton(k.name, k.is, k.alias, func(t *forwarder.Turn) []openflow.Message {
		// What is none of the sessions must pass too: the ping that asks whether the ways are open.
		if k.alias {
			return append(t.Topology.Routes(), k.entries(t.Topology.Ways())...)
		}
		return append(t.Topology.Plain(), k.entries(t.Topology.Ways())...)
	})
}

func (k kind) entries(ways []*forwarder.Way) []openflow.Message {
	var list []openflow.Message
	for _, w := range ways {
		there, back := end{w.InPort, w.Source, w.Target}, end{w.OutPort, w.Target, w.Source}
		var doThere, doBack []openflow.Action
		if k.alias {
			there.to, back.to = w.FarAlias, w.NearAlias
			doThere = []openflow.Action{
				link(openflow.FieldEthSrc, w.Out.MAC), link(openflow.FieldEthDst, w.Far.MAC),
				address(openflow.FieldIPv4Src, w.NearAlias), address(openflow.FieldIPv4Dst, w.Target), port(openflow.FieldTCPDst, serverPort),
			}
			doBack = []openflow.Action{
				link(openflow.FieldEthSrc, w.In.MAC), link(openflow.FieldEthDst, w.Near.MAC),
				address(openflow.FieldIPv4Src, w.FarAlias), address(openflow.FieldIPv4Dst, w.Source), port(openflow.FieldTCPSrc, aliasPort),
			}
		}
		doThere = append(append(doThere, k.numbers.there...), openflow.ActionOutput{Port: w.OutPort})
		doBack = append(append(doBack, k.numbers.back...), openflow.ActionOutput{Port: w.InPort})
		list = append(list, forwarder.Entry(forwarder.Session, there.match(), doThere...), forwarder.Entry(forwarder.Session, back.match(), doBack...))
	}
	return list
}

const (
	serverPort = 5201 // iperf3's
	aliasPort  = 5299
)

// end is what a session's packets are on one side of the forwarder.
type end struct {
	port     openflow.PortNo
	from, to string
}

func (e end) match() openflow.Match {
	return openflow.Match{}.Port(e.port).Uint(openflow.FieldEthType, uint64(packet.EtherTypeIPv4)).
		Uint(openflow.FieldIPProto, uint64(packet.ProtocolTCP)).
		Addr(openflow.FieldIPv4Src, netip.MustParseAddr(e.from)).Addr(openflow.FieldIPv4Dst, netip.MustParseAddr(e.to))
}

func link(f openflow.Field, mac []byte) openflow.Action {
	return openflow.ActionSetField{Field: openflow.Match{}.MAC(f, packet.MAC(mac))}
}

func address(f openflow.Field, a string) openflow.Action {
	return openflow.ActionSetField{Field: openflow.Match{}.Addr(f, netip.MustParseAddr(a))}
}

func port(f openflow.Field, p uint64) openflow.Action {
	return openflow.ActionSetField{Field: openflow.Match{}.Uint(f, p)}
}
