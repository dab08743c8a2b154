package script

import "slices"

// Directed are known attacks by name, always played.
func Directed() []Script {
	return append(append(byClients(), bySurrogates()...), byStrangers()...)
}

// DirectedOf are those of a class.
func DirectedOf(c Class) []Script {
	var of []Script
	for _, s := range Directed() {
		if s.Class == c {
			of = append(of, s)
		}
	}
	return of
}

var (
	opened   = Step{Do: Open, By: ByClient, Window: 65535, SACK: true, Stamps: StampsRight}
	answered = Step{Do: Take, By: ByClient, Millis: 60}
	left     = Step{Do: Leave, By: ByClient}
)

// says is a segment as a kernel would send it.
func says(d Data, size int) Step {
	return Step{Do: Send, By: ByClient, Flags: "PA", Seq: At(Next, 0), Ack: At(Next, 0), Window: 65535, Stamps: StampsRight, Data: d, Size: size}
}

// with changes a step.
func (s Step) with(change func(*Step)) Step { change(&s); return s }

func byClients() []Script {
	named := func(name string, times int, steps ...Step) Script {
		return Script{Class: Client, Name: name, Seed: 1, Times: times, Steps: steps}
	}
	bare := func(flags string, change func(*Step)) Step {
		return Step{Do: Send, By: ByClient, Flags: flags, Seq: At(Next, 0), Ack: At(Next, 0), Window: 65535, Stamps: StampsRight}.with(change)
	}
	crowd := named("half heads of many", 300, opened, says("get up", 0).with(func(s *Step) { s.Cut = 60 }))
	crowd.Hold = true
	all := []Script{
		named("urgent byte in a body", 16, opened,
			says("put a", 400).with(func(s *Step) { s.Flags, s.Urgent = "PAU", 300 }), answered, left),
		named("urgent byte in a posted body", 16, opened,
			says("post a", 400).with(func(s *Step) { s.Flags, s.Urgent = "PAU", 300 }), answered, left),
		named("urgent pointer into the next request", 16, opened, says("get a", 0), answered,
			bare("UA", func(s *Step) { s.Urgent = 100 }), left),
		named("bad checksum, reset, one byte", 24, opened, says("get a", 0).with(func(s *Step) { s.BadSum = true }),
			bare("R", func(s *Step) { s.Seq = At(First, 0) }), says("byte", 0).with(func(s *Step) { s.Seq = At(Next, 0); s.Millis = 2 }),
			Step{Do: Rest, Millis: 20}),
		named("closes through a proxy", 12, opened.with(func(s *Step) { s.Proxy = true }), says(AtA(Closes), 4), answered),
		named("garbage through a proxy", 12, opened.with(func(s *Step) { s.Proxy = true }), says(AtA(Garbage), 4), answered),
		named("closes", 12, opened, says(AtA(Closes), 4), answered),
		named("resets", 12, opened, says(AtA(Resets), 4), answered),
		named("credentials of a connection", 12, opened, says("ntlm", 0), answered, says("negotiate", 0), answered, left),
		named("offered credentials of a connection", 12, opened, says(AtA(NTLM), 4), answered, left),
		named("timestamps ahead, bad checksum", 16, opened, says("get a", 0), answered,
			bare("A", func(s *Step) { s.Stamps, s.BadSum = StampsAhead, true }), left),
		named("timestamps ahead, out of window", 16, opened, says("get a", 0), answered,
			bare("A", func(s *Step) { s.Stamps, s.Seq = StampsAhead, At(Random, 0) }), left),
		named("timestamps ahead, old acknowledgement", 16, opened, says("get a", 0), answered,
			bare("A", func(s *Step) { s.Stamps, s.Ack = StampsAhead, At(Next, 1<<20) }), left),
		named("window closed from beyond its bytes", 12, opened, says("get a", 0), answered,
			bare("A", func(s *Step) { s.Seq, s.Window = At(End, 0), 0 }), left),
		named("window closed a little beyond", 12, opened, says("get a", 0), answered,
			bare("A", func(s *Step) { s.Seq, s.Window = At(Next, 1000), 0 }), left),
		named("reset with data", 12, opened, says("get a", 0), answered, bare("R", func(s *Step) { s.Data = "byte" })),
		named("end that is not taken, reset behind it", 12, opened, says("get a", 0), answered,
			bare("FA", func(s *Step) { s.Ack, s.Millis = At(Next, -100_000), 2 }), bare("R", func(*Step) {})),
		named("path MTU, any number", 6, opened, says("get file", 0), Step{Do: ICMP, By: ByClient, Seq: At(Random, 0), Size: 552, Millis: 5}, answered, left),
		named("path MTU, in flight", 6, opened, says("get file", 0), Step{Do: ICMP, By: ByClient, Seq: At(Oldest, 0), Size: 68, Millis: 5}, answered, left),
		named("another VLAN", 4, opened.with(func(s *Step) { s.VLAN = 7 }), says("get a", 0).with(func(s *Step) { s.VLAN = 7 }), answered),
		named("pipelined past the routes", 6, opened, says("pipelined denied", 0), answered, says("post and denied", 0), answered),
		named("upgrade past the routes", 6, opened, says("upgrade", 0), answered, says("get denied", 0), answered),
		named("past the routes without an acknowledgement", 6, opened, says("get a", 0), answered,
			says("get denied", 0).with(func(s *Step) { s.Ack = At(Next, -1) }), answered),
		named("folded past the routes without an acknowledgement", 6, opened, says("get a", 0), answered,
			says("coding, folded", 0).with(func(s *Step) { s.Ack = At(Next, -1) }), answered),
		named("bad checksum behind a body that lacks its end", 8, opened, says("put a", 400).with(func(s *Step) { s.Cut = 164 }),
			says("put a", 400).with(func(s *Step) { s.Cut, s.Seq, s.Millis = -164, At(Next, -3), 10 }),
			says("get b", 0).with(func(s *Step) { s.BadSum, s.Millis = true, 5 }), answered, left),
		named("no window", 6, opened, says("get file", 0).with(func(s *Step) { s.Window = 0 }), answered, bare("A", func(s *Step) { s.Window = 0 })),
		named("request said twice", 8, opened, says("get a", 0).with(func(s *Step) { s.BadSum = true }),
			says("pipelined", 0).with(func(s *Step) { s.Millis = 3 }), answered, left),
		crowd,
	}
	for _, c := range Malformed {
		all = append(all, named("malformed: "+string(c), 6, opened, says(AtA(c), 4), answered, left))
	}
	proxied := opened.with(func(s *Step) { s.Proxy = true })
	for _, c := range slices.Concat(Malformed, Bound) {
		all = append(all, named("through a proxy: "+string(c), 6, proxied, says(AtA(c), 4), answered, left))
	}
	return append(all, named("through a proxy: credentials", 6, proxied, says("ntlm", 0), answered, says("negotiate", 0), answered, left))
}

func bySurrogates() []Script {
	named := func(name string, times int, steps ...Step) Script {
		return Script{Class: Surrogate, Name: name, Seed: 1, Times: times, Steps: steps}
	}
	of := func(flags string, change func(*Step)) Step {
		return Step{Do: Send, By: BySurrogate, Flags: flags, Seq: At(Next, 0), Ack: At(Next, 0), Window: 65535, Stamps: StampsRight}.with(change)
	}
	var all []Script
	for _, c := range Conducts {
		all = append(all, named(string(c), 6, opened, says(AtOdd(c), 0), answered, left))
	}
	proxied := opened.with(func(s *Step) { s.Proxy = true })
	for _, c := range []Conduct{Surplus, SurplusLater, Twice, Unsolicited} {
		all = append(all, named("through a proxy: "+string(c), 6, proxied, says(AtOdd(c), 0), answered, left))
	}
	return append(all,
		named("surplus, then it moves", 8, opened, says(AtOdd(SurplusLater), 0), answered, says("get a", 0), answered, left),
		named("reset out of window", 8, opened, says("get odd", 0), of("R", func(s *Step) { s.Seq = At(Random, 0) }), answered, left),
		named("end out of window", 8, opened, says("get odd", 0), of("FA", func(s *Step) { s.Seq = At(Next, 1<<20) }), answered, left),
		named("old bytes again", 8, opened, says("get odd", 0), answered, left, of("PA", func(s *Step) { s.Seq, s.Data, s.Size = At(Next, -40), "body", 40 }), says("byte", 0)),
		named("bytes with a bad checksum", 8, opened, says("get odd", 0), of("PA", func(s *Step) { s.BadSum, s.Data, s.Size = true, "body", 100 }), answered, left),
		named("end with a bad checksum", 8, opened, says("get odd", 0), of("FA", func(s *Step) { s.BadSum = true }), answered, left),
		named("urgent bytes", 8, opened, says("get odd", 0), of("PAU", func(s *Step) { s.Urgent, s.Data, s.Size = 10, "body", 40 }), answered, left),
		named("keepalives with timestamps ahead", 8, opened, says("get odd", 0), of("A", func(s *Step) { s.Seq, s.Stamps = At(Next, -1), StampsAhead }), answered, left),
		named("another surrogate's address", 4, Step{Do: Send, By: AsSurrogate, Whom: Leg, Flags: "PA", Seq: At(Random, 0), Ack: At(Random, 0), Data: junk, Size: 20, Times: 100}),
	)
}

func byStrangers() []Script {
	named := func(name string, times int, steps ...Step) Script {
		return Script{Class: Stranger, Name: name, Seed: 1, Times: times, Steps: steps}
	}
	blind := func(as Actor, whom Victim, flags string, change func(*Step)) Step {
		return Step{Do: Send, By: as, Whom: whom, Flags: flags, Seq: At(Random, 0), Ack: At(Random, 0), Window: 1000, Times: 40, Millis: 40}.with(change)
	}
	same := func(*Step) {}
	data := func(s *Step) { s.Data, s.Size = junk, 200 }
	return []Script{
		named("data during a response", 10, blind(AsInnocent, Kept, "PA", data), blind(AsInnocent, Kept, "PA", data)),
		named("FIN during a response", 10, blind(AsInnocent, Kept, "FA", same), blind(AsInnocent, Poll, "FA", same)),
		named("FIN of who waits", 10, blind(AsInnocent, Poll, "FA", same), Step{Do: Rest, Millis: 200}),
		named("timestamps", 30, blind(AsInnocent, Kept, "A", func(s *Step) { s.Stamps, s.Times, s.Millis = StampsGarbage, 200, 30 })),
		named("SYN without options before the request", 120, blind(AsInnocent, Fresh, "S", func(s *Step) { s.Times, s.Millis = 2, 25 })),
		named("RST before the request", 120, blind(AsInnocent, Fresh, "R", func(s *Step) { s.Times, s.Millis = 2, 25 })),
		named("SYN to a proxied session", 20, blind(AsInnocent, Proxied, "S", func(s *Step) { s.Times, s.BadSum = 4, true })),
		named("SYN to a session that is proxied to", 20, blind(AsInnocent, Near, "S", func(s *Step) { s.Times, s.BadSum = 4, true })),
		named("SYN in a session", 20, blind(AsInnocent, Kept, "S", func(s *Step) { s.BadSum = true }), blind(AsInnocent, Download, "S", same)),
		named("RST in a session", 20, blind(AsInnocent, Kept, "R", same), blind(AsInnocent, Poll, "RA", same), blind(AsInnocent, Download, "R", same)),
		named("a surrogate's data", 6, blind(AsSurrogate, Leg, "PA", data), blind(AsSurrogate, Leg, "PA", data)),
		named("a surrogate's FIN", 6, blind(AsSurrogate, Leg, "FA", same), blind(AsSurrogate, Leg, "FA", same)),
		named("a surrogate's RST", 6, blind(AsSurrogate, Leg, "R", same), blind(AsSurrogate, Leg, "RA", same)),
		named("path MTU", 6, blind(AsInnocent, Download, "", func(s *Step) { s.Do, s.Size = ICMP, 552 }), blind(AsInnocent, Kept, "", func(s *Step) { s.Do, s.Size = ICMP, 552 })),
		named("another VLAN", 4, blind(AsInnocent, Kept, "A", func(s *Step) { s.VLAN = 9 }), blind(AsInnocent, Download, "PA", func(s *Step) { data(s); s.VLAN = 9 })),
	}
}
