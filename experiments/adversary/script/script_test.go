package script

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestDrawnAgain: a seed makes the same script each time, within the bounds, and its line makes it again.
func TestDrawnAgain(t *testing.T) {
	for _, c := range Classes {
		seen := map[string]bool{}
		for seed := range uint64(3000) {
			s := Draw(c, seed)
			line := s.String()
			if line != Draw(c, seed).String() {
				t.Fatalf("seed %d draws another script the second time", seed)
			}
			again, err := Parse(line)
			if err != nil {
				t.Fatalf("seed %d: %v: %s", seed, err, line)
			}
			if again.String() != line || strings.Contains(line, "\n") {
				t.Fatalf("%s reads as %s", line, again)
			}
			seen[line[strings.Index(line, "steps"):]] = true
		}
		if len(seen) < 2900 {
			t.Errorf("%s: only %d different scripts of 3000 seeds", c, len(seen))
		}
	}
}

// TestEverythingIsDrawn: no flag, payload, victim or conduct is beyond the reach of the seeds.
func TestEverythingIsDrawn(t *testing.T) {
	flags, data, victims, verbs := map[string]bool{}, map[Data]bool{}, map[Victim]bool{}, map[Verb]bool{}
	for _, c := range Classes {
		for _, s := range DrawAll(c, 1, 6000) {
			for _, step := range s.Steps {
				flags[step.Flags], data[step.Data], victims[step.Whom], verbs[step.Do] = true, true, true, true
			}
		}
	}
	for _, d := range AllData() {
		if !data[d] {
			t.Errorf("data %q is never drawn", d)
		}
	}
	for _, v := range append(slices.Clone(Victims), Leg) {
		if !victims[v] {
			t.Errorf("%q is never a victim", v)
		}
	}
	if len(flags) < 15 || len(verbs) < 5 {
		t.Errorf("drawn: flags %v, verbs %v", flags, verbs)
	}
}

func TestDirected(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Directed() {
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%s: %v", s, err)
		}
		if key := string(s.Class) + s.Name; names[key] || s.Name == "" {
			t.Errorf("%q is not the name of one script", s.Name)
		} else {
			names[key] = true
		}
	}
	count := 0
	for _, c := range Classes {
		count += len(DirectedOf(c))
	}
	if count != len(names) {
		t.Errorf("%d scripts have a class, of %d", count, len(names))
	}
}

func TestRefused(t *testing.T) {
	for _, line := range []string{
		`{"class":"god","steps":[]}`,
		`{"class":"client","steps":[{"do":"fly"}]}`,
		`{"class":"client","steps":[{"do":"send","by":"client","flags":"X"}]}`,
		`{"class":"client","steps":[{"do":"send","by":"client","seq":"there+1"}]}`,
		`{"class":"client","steps":[{"do":"send","by":"surrogate"}]}`,
		`{"class":"client","steps":[{"do":"send","by":"client","data":"what"}]}`,
		`{"class":"client","steps":[{"do":"rest","ms":100000}]}`,
		`{"class":"stranger","steps":[{"do":"send","by":"as innocent","whom":"kept","flags":"R","seq":"nxt"}]}`,
		`{"class":"stranger","steps":[{"do":"open","by":"as innocent"}]}`,
		`{"class":"client","steps":[{"do":"send","by":"client","unknown":1}]}`,
	} {
		if s, err := Parse(line); err == nil {
			t.Errorf("%s is taken as %s", line, s)
		}
	}
}

// TestShrink finds the few items that matter.
func TestShrink(t *testing.T) {
	for range 50 {
		var items []int
		for i := range 40 {
			items = append(items, i)
		}
		want := []int{rand.IntN(20), 20 + rand.IntN(20)}
		tries := 0
		got := Shrink(items, 300, func(rest []int) bool {
			tries++
			return slices.Contains(rest, want[0]) && slices.Contains(rest, want[1])
		})
		if !slices.Equal(got, want) {
			t.Errorf("%v is left of 40, want %v, after %d tries", got, want, tries)
		}
	}
	if got := Shrink([]int{1, 2, 3}, 2, func([]int) bool { return false }); len(got) != 3 {
		t.Errorf("%v is left of what cannot be smaller", got)
	}
}

func TestPayloads(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, d := range AllData() {
		b := Step{Data: d, Size: 100}.Payload("evil-1", random)
		if len(b) == 0 || len(b) > MostSize {
			t.Errorf("%q has %d bytes", d, len(b))
		}
		first, second := Step{Data: d, Size: 100, Cut: 1}, Step{Data: d, Size: 100, Cut: -1}
		if got := string(first.Payload("evil-1", random)) + string(second.Payload("evil-1", random)); d != junk && got != string(b) {
			t.Errorf("%q in two parts is %q", d, got)
		}
	}
}
