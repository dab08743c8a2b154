package model

// Requests of the scripts.
func request(owner, number, surrogate, body, response int, c Coding) []Unit {
	head := newUnit(owner, RequestHead, number, body, response, c, surrogate)
	out := []Unit{head}
	for i := range body {
		out = append(out, newUnit(owner, RequestBody, number, i, 0, 0, surrogate))
	}
	return out
}

func get(owner, number, surrogate int) []Unit { return request(owner, number, surrogate, 0, 1, Length) }

// visit is a client that asks once and leaves with a FIN.
func visit(owner, surrogate int) []Segment {
	return []Segment{{Data: get(owner, 0, surrogate)}, {Fin: true, After: 2}}
}

// next is the client that comes after: it asks and stays.
var next = []Segment{{Data: get(2, 0, 0)}}

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
	},
	{
		Name: "move of a request in two segments",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Data: upload[:1], After: 2}, {Data: upload[1:]}, {Fin: true, After: 3}},
			next,
		},
	},
	{
		Name: "move, and the FIN close behind the request",
		Scripts: [2][]Segment{
			{{Data: get(1, 0, 0)}, {Data: get(1, 1, 1), After: 2}, {Fin: true}},
			next,
		},
	},
}

// Second requests with a body: one that stays, one that moves.
var (
	stays  = request(1, 1, 0, 1, 0, Length)
	upload = request(1, 1, 1, 1, 0, Length)
)

// liar sends two requests where it had shown one with a body, and leaves after the first response.
var liar = Scenario{
	Name: "two versions of one segment",
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
}
