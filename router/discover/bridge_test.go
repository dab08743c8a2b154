package discover

import (
	"slices"
	"testing"
)

func TestBridge(t *testing.T) {
	file := parse(t, "  web: {discover: [{file: /f}, {api: true}]}\n")
	webFile := Key{"web", "file /f"}
	of := func(names ...string) map[Key]Set {
		var s Set
		for i, name := range names {
			s.Surrogates = append(s.Surrogates, Surrogate{Name: name, Address: at(10*len(name) + i), Weight: 1})
		}
		return map[Key]Set{webFile: s}
	}
	for _, tt := range []struct {
		name          string
		before, after []string
		up            []string
		changes       []Change
		want          string
	}{
		{"all are exchanged, and none is checked yet", []string{"a", "b"}, []string{"cc"}, []string{"a"}, nil, "cc of file /f; a of file /f"},
		{"one of the new ones is up", []string{"a", "b"}, []string{"cc", "dd"}, []string{"a", "b", "dd"}, nil, "cc of file /f; dd of file /f"},
		{"one of the old ones stays", []string{"a", "b"}, []string{"a", "cc"}, []string{"a", "b"}, nil, "a of file /f; cc of file /f"},
		{"the one that stays is down", []string{"a", "b"}, []string{"a"}, []string{"b"}, nil, "a of file /f; b of file /f"},
		{"the old ones are down, too", []string{"a"}, []string{"cc"}, nil, nil, "cc of file /f"},
		{"none at all", []string{"a"}, nil, []string{"a"}, nil, ""},
		{"removed by API", []string{"a", "b"}, []string{"cc"}, []string{"a", "b"}, []Change{{Name: "a", Gone: true}}, "cc of file /f; b of file /f"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changes := Changes{}
			for _, c := range tt.changes {
				changes = changes.with(c)
			}
			before, _ := Merge(file, of(tt.before...), nil, 100)
			after, _ := Merge(file, of(tt.after...), changes, 100)
			plain := shown(after, "web")
			kept := Bridge(before, after, changes, func(name string) bool { return slices.Contains(tt.up, name) })
			if got := shown(after, "web"); got != tt.want || kept != (got != plain) {
				t.Errorf("got %q, %v, want %q", got, kept, tt.want)
			}
		})
	}
	// A source that is not in the file any more is taken at its word, too.
	before, _ := Merge(file, of("a"), nil, 100)
	after, _ := Merge(parse(t, "  web: {surrogates: [{name: new, address: \"10.2.1.1:80\"}]}\n"), nil, nil, 100)
	if Bridge(before, after, nil, func(name string) bool { return name == "a" }) {
		t.Errorf("kept: %q", shown(after, "web"))
	}
}
