package discover

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"baton/router/config"
)

func TestStore(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "a", "b")}
	if cs, err := s.Changes(); err != nil || len(cs) != 0 {
		t.Fatalf("nothing is saved: %v, %v", cs, err)
	}
	want := Changes{
		"a1": {Name: "a1", Pool: "web", Address: at(9), Weight: weight(0)},
		"s1": {Name: "s1", Drain: true, Of: &Base{"web", at(1), 2}},
		"o1": {Name: "o1", Gone: true, Of: &Base{"other", netip.MustParseAddrPort("[2001:db8::1]:80"), 1}},
	}
	if err := s.SaveChanges(want); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Changes(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	sets := map[Key]Set{
		webDNS:  {Surrogates: []Surrogate{{Address: at(2), Weight: 3, Priority: 1}}, Zones: []config.Zone{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Surrogates: []string{"x"}}}},
		webFile: {Surrogates: []Surrogate{}},
	}
	var states []State
	for key, set := range sets {
		states = append(states, State{Key: key, Set: &set})
	}
	if err := s.SaveSets(append(states, State{Key: otherDNS})); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Sets(); err != nil || !reflect.DeepEqual(got, sets) {
		t.Errorf("got %v, %v, want %v", got, err, sets)
	}
}

// TestStoreBroken: what cannot be read is set aside, so that the next change does not overwrite it.
func TestStoreBroken(t *testing.T) {
	for _, text := range []string{"{", `{"format":2,"changes":[]}`, ""} {
		s := Store{t.TempDir()}
		path := filepath.Join(s.Dir, changesFile)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if cs, err := s.Changes(); err == nil || !strings.Contains(err.Error(), path) || len(cs) != 0 {
			t.Errorf("%q: %v, %v", text, cs, err)
		}
		if kept, err := os.ReadFile(path + ".broken"); err != nil || string(kept) != text {
			t.Errorf("%q was not kept: %q, %v", text, kept, err)
		}
		if cs, err := s.Changes(); err != nil || len(cs) != 0 {
			t.Errorf("the next start: %v, %v", cs, err)
		}
	}
}

// TestStoreNone: without a folder nothing is kept, and nothing fails.
func TestStoreNone(t *testing.T) {
	var s Store
	if err := s.SaveChanges(Changes{"a": {Name: "a", Drain: true}}); err != nil {
		t.Error(err)
	}
	if cs, err := s.Changes(); err != nil || len(cs) != 0 {
		t.Errorf("%v, %v", cs, err)
	}
}
