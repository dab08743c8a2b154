package script

import (
	"math/rand/v2"
	"slices"
)

// Draw makes the script of a class for a seed.
func Draw(c Class, seed uint64) Script {
	d := &drawer{rand.New(rand.NewPCG(seed, 0x6164)), Script{Class: c, Seed: seed}}
	switch c {
	case Client:
		d.client()
	case Surrogate:
		d.surrogate()
	default:
		d.stranger()
	}
	return d.s
}

// DrawAll makes count scripts of a class from one seed. A surrogate forges segments in all of them, or in none.
func DrawAll(c Class, seed uint64, count int) []Script {
	seeds := rand.New(rand.NewPCG(seed, 0x7365))
	var all []Script
	for range count {
		all = append(all, Draw(c, seeds.Uint64()&^1|seed&1))
	}
	return all
}

// Forged reports whether a surrogate forges segments of its own connections in one of the scripts: then its responses may be
// anything.
func Forged(scripts []Script) bool {
	return slices.ContainsFunc(scripts, func(s Script) bool {
		return slices.ContainsFunc(s.Steps, func(step Step) bool { return step.By == BySurrogate })
	})
}

type drawer struct {
	*rand.Rand
	s Script
}

func (d *drawer) add(s ...Step) { d.s.Steps = append(d.s.Steps, s...) }

// one is true once in n times.
func (d *drawer) one(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d *drawer, of ...T) T { return of[d.IntN(len(of))] }

// room is the number of further steps, without the last ones.
func (d *drawer) room() int { return MostSteps - 3 - len(d.s.Steps) }

// client draws a session: a handshake, some requests with stray segments, an end.
func (d *drawer) client() {
	d.add(d.open())
	for range 1 + d.IntN(4) {
		if d.room() < 4 {
			break
		}
		d.noise(min(d.IntN(3), d.room()-3))
		d.request(ByClient)
		d.noise(d.IntN(4))
		if !d.one(4) {
			d.add(Step{Do: Take, By: ByClient, Millis: 20 + d.IntN(60)})
		}
	}
	d.noise(d.IntN(3))
	d.end()
}

func (d *drawer) open() Step {
	s := Step{Do: Open, By: ByClient, Window: pick[uint16](d, 65535, 65535, 29200, 1000, 0), SACK: !d.one(4), Stamps: StampsRight}
	if d.one(4) {
		s.Stamps = StampsNone
	}
	if d.one(20) {
		s.VLAN = uint16(1 + d.IntN(4094))
	}
	return s
}

// request draws a request, complete or in two parts, the second of which may send another version.
func (d *drawer) request(by Actor) {
	all := AllData()
	s := Step{Do: Send, By: by, Flags: "PA", Seq: At(Next, 0), Ack: At(Next, 0), Window: 65535, Stamps: StampsRight,
		Data: pick(d, "get a", "get b", "get odd", "get up", "put a", "post a", "pipelined", pick(d, all...)), Size: 1 + d.IntN(3000)}
	s.BadSum = d.one(12)
	if d.one(8) {
		s.Flags, s.Urgent = "PAU", uint16(1+d.IntN(400))
	}
	if d.one(10) {
		s.Flags += "F"
	}
	if d.one(3) {
		first, second := s, s
		first.Cut = 1 + d.IntN(200)
		second.Cut = -first.Cut
		if d.one(3) {
			second.Seq = At(Next, -int64(d.IntN(first.Cut+1))) // overlaps sent bytes with other contents
		}
		second.Millis = d.IntN(30)
		d.add(first, second)
		return
	}
	d.add(s)
}

// noise draws stray segments.
func (d *drawer) noise(n int) {
	for range min(n, d.room()) {
		d.add(d.segment(ByClient))
	}
}

// segment draws any segment.
func (d *drawer) segment(by Actor) Step {
	s := Step{Do: Send, By: by, Flags: pick(d, "A", "A", "PA", "PA", "FA", "R", "RA", "S", "SA", "F", "U", "UA", "PAU", "SF", "FRA", "AEC", ""),
		Seq: d.number(), Ack: d.number(), Window: pick[uint16](d, 0, 1, 100, 65535, uint16(d.Uint32())),
		Stamps: pick(d, StampsRight, StampsRight, StampsRight, StampsNone, StampsAhead, StampsBehind, StampsGarbage, StampsShort),
		SACK:   d.one(6), BadSum: d.one(5), Millis: d.IntN(15)}
	if d.one(3) {
		s.Urgent = uint16(d.IntN(3000))
	}
	if d.one(3) {
		s.Data, s.Size = pick(d, junk, "byte", "body", "get a", pick(d, AllData()...)), 1+d.IntN(1400)
	}
	if d.one(25) {
		s.VLAN = uint16(1 + d.IntN(4094))
	}
	if d.one(8) {
		s.Times = 2 + d.IntN(6)
	}
	if by == ByClient && d.one(15) {
		return Step{Do: ICMP, By: by, Seq: pick(d, At(Random, 0), At(Oldest, 0), At(Next, -100)), Size: pick(d, 68, 552, 1000, 1400, 9000), Millis: s.Millis}
	}
	return s
}

func (d *drawer) number() Number {
	p := pick(d, Next, Next, Next, Oldest, First, End, Random)
	if p == Random || d.one(2) {
		return At(p, 0)
	}
	return At(p, pick[int64](d, -1, 1, 2, -2, -100, 100, int64(d.IntN(3000))-1500, int64(d.IntN(1<<20))-1<<19))
}

// end draws the end of the session. The actor finally resets what is left.
func (d *drawer) end() {
	switch d.IntN(4) {
	case 0:
		d.add(Step{Do: Send, By: ByClient, Flags: pick(d, "R", "RA"), Seq: At(Next, 0), Ack: At(Next, 0), Data: pick[Data](d, "", "", "byte")})
	case 1:
		d.add(Step{Do: Send, By: ByClient, Flags: "FA", Seq: At(Next, 0), Ack: At(Next, 0), Window: 65535, Stamps: StampsRight, Data: pick[Data](d, "", "byte")})
	case 2:
		d.add(Step{Do: Leave, By: ByClient})
	}
}

// surrogate draws a session with the adversary's own surrogate, which misbehaves as a server, or, with an odd seed, by forged
// segments.
func (d *drawer) surrogate() {
	forges := d.s.Seed&1 == 1
	d.add(d.open())
	for range 1 + d.IntN(4) {
		if d.room() < 6 {
			break
		}
		conduct := AtOdd(pick(d, Conducts...))
		if d.one(3) {
			conduct = "get odd"
		}
		d.add(Step{Do: Send, By: ByClient, Flags: "PA", Seq: At(Next, 0), Ack: At(Next, 0), Window: 65535, Stamps: StampsRight, Data: conduct})
		for range d.IntN(4) {
			if !forges {
				break
			}
			s := d.segment(BySurrogate)
			if s.Flags == "S" && d.one(2) {
				s.Flags = "A"
			}
			s.VLAN = 0 // a tag on its own link does not concern clients
			d.add(s)
		}
		d.add(Step{Do: Take, By: ByClient, Millis: 30 + d.IntN(60)})
	}
	if d.one(6) { // on the surrogates' side, with another's address
		d.add(Step{Do: Send, By: AsSurrogate, Whom: Leg, Flags: pick(d, "R", "FA", "PA"), Seq: At(Random, 0), Ack: At(Random, 0), Data: junk, Size: 20, Times: 5})
	}
	d.end()
}

// stranger draws floods of spoofed segments.
func (d *drawer) stranger() {
	for range 2 + d.IntN(5) {
		s := Step{Do: Send, By: AsInnocent, Whom: pick(d, Victims...), Flags: pick(d, "S", "S", "R", "RA", "FA", "F", "A", "A", "PA", "SA", "PAU"),
			Seq: At(Random, 0), Ack: At(Random, 0), Window: uint16(d.Uint32()), Millis: d.IntN(60), Times: 1 + d.IntN(40),
			Stamps: pick(d, StampsNone, StampsGarbage, StampsGarbage, StampsAhead), BadSum: d.one(4)}
		if d.one(4) {
			s.By, s.Whom = AsSurrogate, Leg
		}
		if d.one(3) {
			s.Data, s.Size = pick(d, junk, "get a", "body"), 1+d.IntN(1000)
		}
		if d.one(15) {
			s.VLAN = uint16(1 + d.IntN(4094))
		}
		if d.one(8) {
			s.Do, s.Data, s.Size = ICMP, "", pick(d, 68, 552, 1000)
		}
		d.add(s)
	}
}

// Apart are scripts in groups: those without forged segments, and those with them.
func Apart(scripts []Script) [][]Script {
	var honest, forged []Script
	for _, s := range scripts {
		if Forged([]Script{s}) {
			forged = append(forged, s)
		} else {
			honest = append(honest, s)
		}
	}
	return slices.DeleteFunc([][]Script{honest, forged}, func(g []Script) bool { return len(g) == 0 })
}
