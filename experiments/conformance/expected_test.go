package conformance

import (
	"slices"
	"strings"
	"testing"
)

var three = []Case{{File: "match/A", Name: "one"}, {File: "match/A", Name: "two"}, {File: "match/B", Name: "one"}}

func TestParseExpectations(t *testing.T) {
	tests := []struct {
		name, text string
		want       Expectations
		err        string
	}{
		{"empty", "#: nothing fails\n\n", Expectations{}, ""},
		{"cases below reasons", "# not yet\nmatch/A: one\n\n# never\nmatch/B: one\n",
			Expectations{"match/A: one": {Reason: "not yet"}, "match/B: one": {Reason: "never"}}, ""},
		{"a whole file", "# no\nmatch/A: *\n", Expectations{"match/A: one": {Reason: "no"}, "match/A: two": {Reason: "no"}}, ""},
		{"either", "# chance\n? match/A: two\n", Expectations{"match/A: two": {"chance", true}}, ""},
		{"no reason", "match/A: one\n", nil, "list:1: a case without a reason"},
		{"unknown case", "# no\nmatch/A: three\n", nil, `list:2: "match/A: three" is no case`},
		{"unknown file", "# no\nmatch/C: *\n", nil, `list:2: "match/C: *" is no case`},
		{"twice", "# no\nmatch/A: one\nmatch/A: *\n", nil, `list:3: "match/A: one" is in the list twice`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseExpectations("list", tt.text, three)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if len(got) != len(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			for c, x := range tt.want {
				if got[c] != x {
					t.Errorf("%s: got %v, want %v", c, got[c], x)
				}
			}
		})
	}
}

func TestSurprises(t *testing.T) {
	e := Expectations{"match/A: one": {Reason: "not yet"}, "match/A: two": {"chance", true}}
	tests := []struct {
		name       string
		file, kase string
		ok         bool
		want       string
	}{
		{"passes, as it should", "match/B", "one", true, ""},
		{"fails, as it should not", "match/B", "one", false, "baton: fails match/B: one: broken"},
		{"fails, as expected", "match/A", "one", false, ""},
		{"passes, though listed", "match/A", "one", true, "baton: passes match/A: one: take it out of the list (not yet)"},
		{"either fails", "match/A", "two", false, ""},
		{"either passes", "match/A", "two", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			for _, s := range e.surprises([]Verdict{{Target: "baton", File: tt.file, Case: tt.kase, OK: tt.ok, Reason: "broken"}}) {
				got += s.String()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLists: the lists that come with the program name cases of the suite, and targets.
func TestLists(t *testing.T) {
	suite := openSuite(t)
	entries, err := lists.ReadDir("failures")
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"unpatched.txt"}
	for _, target := range Targets() {
		known = append(known, target.Name+".txt")
	}
	for _, entry := range entries {
		if !slices.Contains(known, entry.Name()) {
			t.Errorf("%s belongs to no target", entry.Name())
		}
		if _, ok, err := Expect(strings.TrimSuffix(entry.Name(), ".txt"), suite); err != nil || !ok {
			t.Errorf("%s: %v, %v", entry.Name(), ok, err)
		}
	}
	if _, ok, err := Expect("nothing", suite); ok || err != nil {
		t.Errorf("a target without a list: %v, %v", ok, err)
	}
}
