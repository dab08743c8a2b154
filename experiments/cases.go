package experiments

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"baton/document"
)

// Case is a point of the parameter grid.
type Case struct {
	Name  string             `json:"name"`         // empty if there is only one
	At    map[string]float64 `json:"at,omitempty"` // parameter → value
	Quick bool               `json:"-"`            // kept in a quick run; if none is marked, the first one is
	Once  bool               `json:"-"`            // only in the first round, because it takes too long
}

// Parameter is an axis of the grid.
type Parameter struct {
	Name   string    `json:"name"`  // as in Case.At
	Title  string    `json:"title"` // "round-trip time"
	Unit   string    `json:"unit,omitempty"`
	Values []float64 `json:"-"` // all values
	Quick  []float64 `json:"-"` // the values of a quick run; default: the first
}

// grid returns all combinations of the parameters' values, with the last parameter changing fastest.
func grid(parameters []Parameter) []Case {
	cases := []Case{{Quick: true}}
	for _, p := range parameters {
		cases = p.extend(cases)
	}
	return cases
}

// extend repeats each case for every value of the parameter.
func (p Parameter) extend(cases []Case) []Case {
	var all []Case
	for _, c := range cases {
		for i, v := range p.Values {
			n := Case{Name: strings.TrimPrefix(c.Name+", "+p.named(v), ", "), At: map[string]float64{p.Name: v}}
			maps.Copy(n.At, c.At)
			n.Quick = c.Quick && (slices.Contains(p.Quick, v) || len(p.Quick) == 0 && i == 0)
			all = append(all, n)
		}
	}
	return all
}

// named returns the value with name and unit: "rtt 20 ms".
func (p Parameter) named(v float64) string { return p.Name + " " + p.text(v) }

func (p Parameter) text(v float64) string {
	return strings.TrimSpace(strconv.FormatFloat(v, 'f', -1, 64) + " " + p.Unit)
}

// quickCases returns the cases of a quick run.
func quickCases(cases []Case) []Case {
	kept := slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return !c.Quick })
	if len(kept) == 0 {
		return cases[:1]
	}
	return kept
}

// choose selects by name, in the original order; no names select all. kind is the flag's name.
func choose[V any](kind string, all []V, names []string, name func(V) string) ([]V, error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, v := range all {
		known = append(known, name(v))
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("%s %q: %s", kind, n, document.Meant(n, known))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(v V) bool { return !slices.Contains(names, name(v)) }), nil
}
