package assign

import "slices"

// Move moves an ingress from one site to another.
type Move struct {
	Ingress  int
	From, To int
}

// Schedule splits the change from the present map to another into steps, each of which moves at most the demand most, or one ingress.
// Ingresses without a live site come first and all at once: they have nothing to lose. After that, each move is the one that leaves the
// least overload.
func Schedule(p *Problem, sites []int, most float64) [][]Move {
	var steps [][]Move
	var rescue []Move
	var rest []Move
	load := make([]float64, len(p.Sites))
	for i, to := range sites {
		from := p.Ingresses[i].Site
		if from != Nowhere {
			load[from] += p.Ingresses[i].Demand
		}
		switch m := (Move{i, from, to}); {
		case from == to || to == Nowhere:
		case from == Nowhere || !p.Sites[from].Up:
			rescue = append(rescue, m)
		default:
			rest = append(rest, m)
		}
	}
	apply := func(m Move) {
		if m.From != Nowhere {
			load[m.From] -= p.Ingresses[m.Ingress].Demand
		}
		load[m.To] += p.Ingresses[m.Ingress].Demand
	}
	for _, m := range rescue {
		apply(m)
	}
	if len(rescue) > 0 {
		steps = append(steps, rescue)
	}
	var step []Move
	moved := 0.0
	for len(rest) > 0 {
		at := p.next(load, rest)
		m := rest[at]
		demand := p.Ingresses[m.Ingress].Demand
		if len(step) > 0 && moved+demand > most*(1+tolerance) {
			steps, step, moved = append(steps, step), nil, 0
		}
		step, moved = append(step, m), moved+demand
		apply(m)
		rest = slices.Delete(rest, at, at+1)
	}
	if len(step) > 0 {
		steps = append(steps, step)
	}
	return steps
}

// next returns the index of the move that leaves the least overload; among equals, the first.
func (p *Problem) next(load []float64, moves []Move) int {
	best, at := 0.0, -1
	for k, m := range moves {
		d := p.Ingresses[m.Ingress].Demand
		from, to := load[m.From], load[m.To]
		change := p.over(m.From, from-d) - p.over(m.From, from) + p.over(m.To, to+d) - p.over(m.To, to)
		if at < 0 || less(change, best, 1+d) < 0 {
			best, at = change, k
		}
	}
	return at
}

func (p *Problem) over(site int, load float64) float64 { return max(0, load-p.Sites[site].Capacity) }
