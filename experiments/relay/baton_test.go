package relay

import (
	"os"
	"path/filepath"
	"testing"

	"baton/lab"
	"baton/relay/config"
)

// TestConfig: what the contenders' relays read is right, and says what the settings do.
func TestConfig(t *testing.T) {
	l := lab.New(t)
	p := &Path{}
	for _, name := range []string{"relay-1", "relay-2", "relay-3"} {
		p.Relays = append(p.Relays, l.Host(name))
		p.Legs = append(p.Legs, &lab.Link{B: &lab.Interface{Name: "eth0"}})
	}
	secret := filepath.Join(l.Dir(), "relays.secret")
	if err := writeSecret(secret); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name                           string
		o                              settings
		chosen                         []int
		entries, peers, trunkListeners []int // of each relay
	}{
		{"split", split, []int{0, 2}, []int{1, 1}, []int{0, 0}, []int{0, 0}},
		{"early", early, []int{0, 2}, []int{1, 1}, []int{0, 0}, []int{0, 0}},
		{"trunks", trunks, []int{0, 2}, []int{1, 0}, []int{1, 0}, []int{0, 1}},
		{"three relays", turbo, []int{0, 1, 2}, []int{1, 0, 0}, []int{1, 1, 0}, []int{0, 1, 1}},
		{"trunks of one", usually, []int{1}, []int{1}, []int{0}, []int{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for at := range tt.chosen {
				file := filepath.Join(t.TempDir(), "relay.yaml")
				text := p.config(tt.o, tt.chosen, at, secret)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				c, err := config.Load(file)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				trunkListeners := 0
				if c.Trunks != nil {
					trunkListeners = len(c.Trunks.Listen)
				}
				if len(c.Entries) != tt.entries[at] || len(c.Peers) != tt.peers[at] || trunkListeners != tt.trunkListeners[at] {
					t.Errorf("%d entries, %d peers, %d listeners for trunks; want %d, %d, %d\n%s", len(c.Entries), len(c.Peers), trunkListeners,
						tt.entries[at], tt.peers[at], tt.trunkListeners[at], text)
				}
				for _, e := range c.Entries {
					if got := e.EarlySYN == config.Optimistic; got != tt.o.early {
						t.Errorf("early SYN %q, asked for: %v", e.EarlySYN, tt.o.early)
					}
				}
			}
		})
	}
}
