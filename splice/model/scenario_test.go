package model

import "fmt"

// Requests of the scripts.
func request(owner, number, surrogate, body, response int, c Coding) []Unit {
	head := newUnit(owner, RequestHead, number, body, response, c, surrogate)
	out := []Unit{head}
	for i := range body {
		out = append(out, newUnit(owner, RequestBody, number, i, 0, 0, surrogate))
	}
	return out
}

// long is a request whose head has two units.
func long(owner, number, surrogate, body, response int) []Unit {
	out := request(owner, number, surrogate, 1+body, response, Length)
	out[1] = restOf(out[0])
	return out
}

func get(owner, number, surrogate int) []Unit { return request(owner, number, surrogate, 0, 1, Length) }

// visit is a client that sends one request and leaves with a FIN.
func visit(owner, surrogate int) []Segment {
	return []Segment{{Data: get(owner, 0, surrogate)}, {Fin: true, After: 2}}
}

// next is the client after it, which sends a request and stays.
var next = []Segment{{Data: get(2, 0, 0)}}

// marked have a unit inserted before each client's first on a leg.
var marked = []Scenario{
	{
		Name:    "marked, a visit",
		Scripts: [2][]Segment{visit(1, 0), nil},
		Insert:  true, Small: true,
	},
	{
		Name:    "marked, an upload in two segments, answered early",
		Scripts: [2][]Segment{{{Data: request(1, 0, 0, 2, 0, Length)[:2]}, {Data: request(1, 0, 0, 2, 0, Length)[2:]}, {Fin: true, After: 1}}, visit(2, 1)},
		Insert:  true, Early: true,
	},
	{
		Name:    "marked, pipelined in one packet with the FIN",
		Scripts: [2][]Segment{{{Data: append(get(1, 0, 0), get(1, 1, 0)...), Fin: true}}, nil},
		Insert:  true,
	},
	{
		Name:    "marked, a move",
		Scripts: [2][]Segment{{{Data: get(1, 0, 0)}, {Data: get(1, 1, 1), After: 2}, {Fin: true, After: 4}}, nil},
		Insert:  true, Routed: true,
	},
	{
		Name:    "marked, a reset in the middle",
		Scripts: [2][]Segment{{{Data: get(1, 0, 0)}, {Rst: true}}, nil},
		Insert:  true,
	},
	{
		Name:    "marked and held, in two packets",
		Scripts: [2][]Segment{{{Data: get(1, 0, 0)}, {Data: get(1, 1, 1)}, {Fin: true, After: 4}}, nil},
		Insert:  true, Hold: true,
	},
}

// edited have a unit inserted into the head of each request, on legs that are used again.
var edited = []Scenario{
	{
		Name:    "edited, a visit each",
		Scripts: [2][]Segment{visit(1, 0), next},
		Edit:    true, Hold: true, Small: true,
	},
	{
		Name:    "edited, keep-alive",
		Scripts: [2][]Segment{{{Data: get(1, 0, 0)}, {Data: stays[:1], After: 2}, {Data: stays[1:]}, {Fin: true, After: 3}}, next},
		Edit:    true, Hold: true, Apart: true,
	},
	{
		Name:    "edited, an upload in one segment, answered early",
		Scripts: [2][]Segment{{{Data: posted}, {Fin: true, After: 1}}, next},
		Edit:    true, Hold: true, Early: true,
	},
	{
		Name:    "edited, a move",
		Scripts: [2][]Segment{{{Data: get(1, 0, 0)}, {Data: get(1, 1, 1), After: 2}, {Fin: true, After: 4}}, next},
		Edit:    true, Hold: true,
	},
	{
		Name: "edited, pipelined in one packet, and in another",
		Scripts: [2][]Segment{{
			{Data: append(request(1, 0, 0, 0, 0, Length), request(1, 1, 0, 0, 0, Length)...)}, {Data: request(1, 2, 1, 0, 0, Length), Fin: true},
		}, nil},
		Edit: true, Hold: true, Apart: true,
	},
	{
		Name:    "edited, heads in parts",
		Scripts: [2][]Segment{{{Data: long(1, 0, 0, 1, 0)}, {Fin: true, After: 1}}, {{Data: long(2, 0, 0, 0, 0)}}},
		Edit:    true, Hold: true, Apart: true, Long: true, Parts: true,
	},
	{
		Name:    "edited, heads in parts, that grow",
		Scripts: [2][]Segment{{{Data: long(1, 0, 0, 0, 1)}, {Data: long(1, 1, 1, 0, 0), After: 2}, {Rst: true}}, nil},
		Edit:    true, Hold: true, Long: true, Parts: true, Small: true,
	},
	{
		Name:    "edited, two versions of a head",
		Scripts: [2][]Segment{{{Data: request(1, 0, 0, 1, 0, Length), Forged: request(1, 0, 0, 1, 1, Length)}, {Fin: true, After: 1}}, next},
		Edit:    true, Hold: true, Apart: true,
	},
}

// honest are the scenarios in which nobody lies; between them they use every transition.
var honest = []Scenario{
	{
		Name:    "a visit each",
		Scripts: [2][]Segment{visit(1, 0), next},
		Small:   true,
	},
	{
		Name: "leaving with a reset",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Rst: true, After: 2}},
			next,
		},
		Small: true,
	},
	{
		Name: "reset in the middle of the response",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Rst: true, After: 1}},
			next,
		},
		Small: true,
	},
	{
		Name: "half-close with the request outstanding",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Fin: true}},
			next,
		},
		Small: true,
	},
	{
		Name: "FIN in the request's packet",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0), Fin: true}},
			next,
		},
	},
	{
		Name: "keep-alive",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Data: get(1, 1, 0), After: 2}, {Fin: true, After: 4}},
			next,
		},
	},
	{
		Name: "keep-alive with a request in two segments",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Data: stays[:1], After: 2}, {Data: stays[1:]}, {Fin: true, After: 3}},
			next,
		},
	},
	{
		Name: "keep-alive, then pipelined in two packets",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Data: request(1, 1, 0, 0, 0, Length), After: 2}, {Data: request(1, 2, 0, 0, 0, Length)}, {Fin: true, After: 3}},
			next,
		},
	},
	{
		Name: "keep-alive, and the FIN close behind the request",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Data: get(1, 1, 0), After: 2}, {Fin: true}},
			next,
		},
	},
	{
		Name: "upload in two segments, answered early",
		Scripts: [2][]Segment{
			{{Data: request(1, 0, 0, 2, 0, Length)[:2]}, {Data: request(1, 0, 0, 2, 0, Length)[2:]}, {Fin: true, After: 1}},
			next,
		},
		Early: true,
	},
	{
		Name: "pipelined in one packet, FIN before the last response",
		Scripts: [2][]Segment{
			{{Data: append(request(1, 0, 0, 0, 0, Length), request(1, 1, 0, 0, 0, Length)...)}, {Fin: true, After: 1}},
			next,
		},
		Small: true,
	},
	{
		Name: "pipelined in two packets, FIN before the last response",
		Scripts: [2][]Segment{
			{{Data: request(1, 0, 0, 0, 0, Length)}, {Data: request(1, 1, 0, 0, 0, Length)}, {Fin: true, After: 1}},
			next,
		},
	},
	{
		Name: "chunked response",
		Scripts: [2][]Segment{
			{{Data: request(1, 0, 0, 0, 1, Chunked)}, {Fin: true, After: 3}},
			next,
		},
		Small: true,
	},
	{
		Name: "response until close",
		Scripts: [2][]Segment{
			{{Data: request(1, 0, 0, 0, 1, UntilClose)}, {Fin: true, After: 2}},
			next,
		},
		Small: true,
	},
	{
		Name:    "surrogate closes the idle leg",
		Scripts: [2][]Segment{visit(1, 0), next},
		Budget:  Budget{Closes: 1},
	},
}

// moves are the scenarios in which the second request belongs to another surrogate.
var moves = []Scenario{
	{
		Name: "move",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Data: get(1, 1, 1), After: 2}, {Fin: true, After: 4}},
			next,
		},
		Routed: true,
	},
	{
		Name: "move of a request in two segments",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Data: upload[:1], After: 2}, {Data: upload[1:]}, {Fin: true, After: 3}},
			next,
		},
		Routed: true,
	},
	{
		Name: "move, and the FIN close behind the request",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Data: get(1, 1, 1), After: 2}, {Fin: true}},
			next,
		},
		Routed: true,
	},
}

// spokenTo is a client that moves to a leg whose surrogate sends an unsolicited response. No losses: a retransmission would
// acknowledge the request (AckFloor).
var spokenTo = Scenario{
	Name: "move, and the next surrogate sends an unsolicited response",
	Scripts: [2][]Segment{
		{{Data: get(1, 0, 0)}, {Data: get(1, 1, 1), After: 2}, {Fin: true, After: 4}},
		next,
	},
	Budget: Budget{Unsolicited: 1},
	Silent: [2]bool{true, false},
	Routed: true,
}

// Second requests with a body: one that stays, one that moves.
var (
	stays  = request(1, 1, 0, 1, 0, Length)
	upload = request(1, 1, 1, 1, 0, Length)
)

// lying are the scenarios of clients whose surrogate receives something else than the router.
var lying = []Scenario{
	{
		Name: "two versions of one segment", // one request with a body, then two; the client leaves after the first response
		Scripts: [2][]Segment{
			{
				{
					Data:   append(request(1, 0, 0, 0, 0, Length), request(1, 1, 0, 0, 0, Length)...),
					Forged: request(1, 0, 0, 1, 0, Length),
				},
				{Fin: true, After: 1},
			},
			next,
		},
		Small: true,
	},
	{
		Name: "a body of urgent data", // the surrogate removes it from the stream
		Scripts: [2][]Segment{
			{{Data: []Unit{hasty[0], hasty[1] | Urgent}}, {Fin: true, After: 1}},
			next,
		},
		Early: true,
	},
}

// Requests with a body, answered before it arrives.
var (
	hasty  = request(1, 0, 0, 1, 0, Length)
	posted = request(1, 0, 0, 2, 0, Length)
)

// held are the scenarios of pipelining clients whose requests are routed separately.
var held = []Scenario{
	{
		Name: "held, in one packet",
		Scripts: [2][]Segment{
			{{Data: append(request(1, 0, 0, 0, 0, Length), request(1, 1, 1, 0, 0, Length)...), Fin: true}},
			next,
		},
		Hold: true,
	},
	{
		Name: "held, in two packets",
		Scripts: [2][]Segment{
			{{Data: request(1, 0, 0, 0, 1, Length)}, {Data: request(1, 1, 1, 0, 0, Length)}, {Fin: true, After: 3}},
			next,
		},
		Small: true,
		Hold:  true,
	},
	{
		Name: "held, behind a body",
		Scripts: [2][]Segment{
			{{Data: posted[:1]}, {Data: posted[1:2]}, {Data: append(posted[2:3:3], request(1, 1, 1, 0, 0, Length)...), Fin: true}},
			next,
		},
		Early: true,
		Hold:  true,
	},
	{
		Name: "held, behind a response until close",
		Scripts: [2][]Segment{
			{{Data: request(1, 0, 0, 0, 1, UntilClose)}, {Data: request(1, 1, 1, 0, 0, Length)}, {Fin: true, After: 2}},
			next,
		},
		Small: true,
		Hold:  true,
	},
}

// clocks are the scenarios with a jumping client clock, on legs that were idle for long, or whose earlier clients' clocks were
// ahead.
func clocks() []Scenario {
	var out []Scenario
	for _, place := range []uint8{ring - 2, ring - 1, 0, 1, 2, 3} {
		out = append(out, Scenario{
			Name:    fmt.Sprintf("a clock that jumps, the router's at %d", place),
			Scripts: [2][]Segment{{{Data: request(1, 0, 0, 0, 0, Length)}, {Fin: true, After: 1}}, next},
			Times:   true,
			Clock:   place,
			Budget:  Budget{Lies: 2},
		})
	}
	return out
}
