package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestChanged(t *testing.T) {
	const listen = "metrics: \"127.0.0.1:9465\"\ncontrol: /tmp/c.sock"
	tests := []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", "", "", nil},
		{"lines alone", "name:", "\n\nname:", nil},
		{"name", "name: r1", "name: r2", []string{"name"}},
		{"workers", "workers: 3\n", "", []string{"workers"}},
		{"all of listen", listen + "\n", "", []string{"metrics", "control"}},
		{"limits", "{flows: 1000, early: 100, per_source: 10, pipe: 256KiB}", "{flows: 1001, early: 101, per_source: 11, pipe: 512KiB}",
			[]string{"limits.flows", "limits.early", "limits.per_source", "limits.pipe"}},
		{"cloud", "cloud: east", "cloud: south", nil},
		{"timeouts", "stop: 7s", "stop: 8s", nil},
		{"trunks", "waiting: 8", "waiting: 9", nil},
		{"a peer", "west", "north", nil},
		{"an entry", "8443", "9443", nil},
		{"how ways are chosen", "margin: 25%", "margin: 20%", nil},
		{"allow", "10.0.0.0/8", "10.0.0.0/9", nil},
	}
	old, err := Parse("old", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(everything, tt.old) {
				t.Fatalf("%q is not in the file", tt.old)
			}
			next, err := Parse("next", []byte(strings.Replace(everything, tt.old, tt.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, Changed(old, next), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Changed (-want +got):\n%s", diff)
			}
		})
	}
}
