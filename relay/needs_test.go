package relay

import (
	"slices"
	"testing"

	"baton/datapath"
	"baton/relay/config"
)

// TestNeeds: a relay starts without its programs, unless its configuration requires them.
func TestNeeds(t *testing.T) {
	const entry = `name: r
entries: [{listen: "127.0.0.1:8080", destination: "192.0.2.1:80"`
	for text, want := range map[string]bool{"": false, entry + "}]": false, entry + ", early_syn: optimistic, interfaces: [lo]}]": true} {
		var cfg *config.Config
		if text != "" {
			var err error
			if cfg, err = config.Parse("r.yaml", []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		must := slices.ContainsFunc(Needs(cfg), func(n datapath.Need) bool { return n.Feature == datapath.TCX && n.Without == "" })
		if must != want {
			t.Errorf("%q: tcx needed: %v", text, must)
		}
	}
}
