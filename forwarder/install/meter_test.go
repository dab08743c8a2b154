package install

import (
	"encoding/binary"
	"testing"
	"time"

	"baton/forwarder/model"
	"baton/openflow"
	"baton/packet"
)

func (r *rig) meter(flags openflow.MeterFlags, bands ...openflow.Band) openflow.Instruction {
	r.t.Helper()
	m := &openflow.MeterMod{Command: openflow.MeterAdd, Meter: 1, Flags: flags, Bands: bands}
	if !r.do(m) {
		r.t.Fatalf("refused: %+v", m)
	}
	return openflow.InstructionMeter{Meter: 1}
}

// marked is a packet with a DSCP.
func marked(dscp byte) []byte {
	b := udp(1, 53)
	b[15], b[24], b[25] = dscp<<2, 0, 0
	binary.BigEndian.PutUint16(b[24:], packet.Checksum(b[14:34], 0))
	return b
}

// pour sends frames as fast as it goes, and returns how long after the one before each was sent.
func (r *rig) pour(n int, b []byte) []time.Duration {
	r.t.Helper()
	gaps, before := make([]time.Duration, n), time.Now()
	for i := range gaps {
		r.send(1, b)
		now := time.Now()
		gaps[i], before = now.Sub(before), now
	}
	return gaps
}

// countPassed returns how many packets a bucket lets through: of a rate in packets/s, and filled up to burst. A pause fills it, and no more.
func countPassed(gaps []time.Duration, rate, burst float64) (n float64) {
	tokens := burst
	for _, gap := range gaps {
		if tokens = min(tokens+rate*gap.Seconds(), burst); tokens >= 1 {
			tokens--
			n++
		}
	}
	return n
}

// about allows a quarter, and a few.
func about(got uint64, want float64) bool {
	return float64(got) > want*0.75-20 && float64(got) < want*1.25+20
}

// TestMeterRates: of packets that come faster, a band lets through its rate and, once, its burst.
func TestMeterRates(t *testing.T) {
	const length = 60
	tests := []struct {
		name  string
		flags openflow.MeterFlags
		band  openflow.Band
		rate  float64 // packets/s
		burst float64
	}{
		{"packets", openflow.MeterFlagPktps | openflow.MeterFlagBurst, openflow.Band{Kind: openflow.BandDrop, Rate: 1000, Burst: 50}, 1000, 50},
		{"bits", openflow.MeterFlagKbps | openflow.MeterFlagBurst, openflow.Band{Kind: openflow.BandDrop, Rate: 960, Burst: 48}, 2000, 100},
		{"no burst given", openflow.MeterFlagPktps, openflow.Band{Kind: openflow.BandDrop, Rate: 2000}, 2000, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, small)
			r.flow(0, 0, nil, r.meter(tt.flags, tt.band), apply(out(nowhere)))
			const n = 8000
			gaps := r.pour(n, udp(1, 53)[:length])
			all, bands := r.installed.Meter(1)
			if all.Packets != n || bands[0].Octets != bands[0].Packets*length {
				t.Errorf("%+v and %+v after %d packets", all, bands, n)
			}
			if passed, want := n-bands[0].Packets, countPassed(gaps, tt.rate, tt.burst); !about(passed, want) {
				t.Errorf("%d packets passed, want about %.0f", passed, want)
			}
		})
	}
}

// TestMeterBands: the band with the highest rate that is exceeded is the one that counts.
func TestMeterBands(t *testing.T) {
	r := newRig(t, small)
	m := r.meter(openflow.MeterFlagPktps|openflow.MeterFlagBurst,
		openflow.Band{Kind: openflow.BandDSCPRemark, Rate: 500, Burst: 10, PrecLevel: 1}, openflow.Band{Kind: openflow.BandDrop, Rate: 2000, Burst: 40})
	r.flow(0, 0, nil, m, apply(out(2)))
	const n, af11, af12 = 4000, 10, 12
	gaps := r.pour(n, marked(af11))
	_, bands := r.installed.Meter(1)
	seen := make(map[byte]uint64)
	for b, ok := r.receive(2); ok; b, ok = r.receive(2) {
		if packet.Checksum(b[14:34], 0) != 0 {
			t.Fatalf("wrong checksum: %x", b)
		}
		seen[b[15]>>2]++
	}
	if seen[af12] != bands[0].Packets || seen[af11]+seen[af12]+bands[1].Packets != n || len(seen) != 2 {
		t.Errorf("seen %v, counted %+v of %d", seen, bands, n)
	}
	if passed, want := seen[af11]+seen[af12], countPassed(gaps, 2000, 40); !about(passed, want) {
		t.Errorf("%d packets passed, want about %.0f", passed, want)
	}
	if want := countPassed(gaps, 500, 10); !about(seen[af11], want) {
		t.Errorf("%d packets passed as they were, want about %.0f", seen[af11], want)
	}
}

// remarkAll is a meter that remarks each packet but the first.
func (r *rig) remarkAll(level uint8) openflow.Instruction {
	r.t.Helper()
	return r.meter(openflow.MeterFlagPktps|openflow.MeterFlagBurst, openflow.Band{Kind: openflow.BandDSCPRemark, Rate: 1, Burst: 1, PrecLevel: level})
}

// TestRemark: the drop precedence of an assured-forwarding class goes up, and other code points stay (RFC 2597).
func TestRemark(t *testing.T) {
	tests := []struct {
		dscp  byte
		level uint8
		want  byte
	}{
		{10, 1, 12}, {10, 2, 14}, {12, 2, 14}, {14, 1, 14}, {34, 1, 36}, {38, 3, 38}, {0, 1, 0}, {46, 1, 46}, {8, 1, 8}, {11, 1, 11}, {42, 1, 42},
	}
	r := newRig(t, small)
	for _, tt := range tests {
		r.deleteAll()
		r.flow(0, 0, nil, r.remarkAll(tt.level), apply(out(2)))
		var got model.Result
		for range 3 {
			r.send(1, marked(tt.dscp))
		}
		for r.gather(&got); len(got.Sent) < 3; r.gather(&got) {
		}
		if last := got.Sent[2].Frame; last[15]>>2 != tt.want || packet.Checksum(last[14:34], 0) != 0 {
			t.Errorf("%d by %d became %d, want %d", tt.dscp, tt.level, last[15]>>2, tt.want)
		}
	}
}

// TestRemarkIsSeenLater: a later table matches the new code point, also where the path of the packets before is cached; and what was put out
// before has the old one.
func TestRemarkIsSeenLater(t *testing.T) {
	r := newRig(t, small)
	m := r.remarkAll(1)
	r.flow(0, 0, nil, apply(out(3)), openflow.InstructionGotoTable{Table: 1})
	r.flow(1, 0, nil, m, openflow.InstructionGotoTable{Table: 2})
	ip := openflow.Match{}.Uint(openflow.FieldEthType, 0x0800)
	r.flow(2, 1, ip.Uint(openflow.FieldIPDSCP, 10), apply(out(2)))
	r.flow(2, 2, ip.Uint(openflow.FieldIPDSCP, 12), apply(out(4)))
	const n = 20
	for range n {
		r.send(1, marked(10))
	}
	var got model.Result
	for r.gather(&got); len(got.Sent) < 2*n; r.gather(&got) {
	}
	seen := make(map[openflow.PortNo]int)
	for _, s := range got.Sent {
		seen[s.Port]++
		if want := map[openflow.PortNo]byte{2: 10, 3: 10, 4: 12}[s.Port]; s.Frame[15]>>2 != want {
			t.Errorf("port %d got a packet with DSCP %d", s.Port, s.Frame[15]>>2)
		}
	}
	if seen[3] != n || seen[4] < n/2 || seen[2] == 0 {
		t.Errorf("packets by port: %v", seen)
	}
}
