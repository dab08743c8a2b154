package datapath

import (
	"strings"
	"testing"
)

// TestPurgeVerdictNames: each verdict has a name of its own.
func TestPurgeVerdictNames(t *testing.T) {
	seen := make(map[string]bool)
	for v, name := range PurgeVerdicts() {
		if name == "" || name != strings.ToLower(name) || seen[name] {
			t.Errorf("verdict %d is called %q", v, name)
		}
		seen[name] = true
	}
}
