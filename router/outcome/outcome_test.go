package outcome

import (
	"os"
	"strings"
	"testing"
)

// TestGuide: the guide's rows of the metrics name each outcome.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/router.md")
	if err != nil {
		t.Fatal(err)
	}
	for metric, all := range map[string][]Outcome{"decision_duration_seconds": All, "proxied_connections_total": Reasons} {
		_, row, ok := strings.Cut(string(guide), "| `"+metric+"` |")
		row, _, _ = strings.Cut(row, "\n")
		if !ok {
			t.Fatalf("the guide has no row for %s", metric)
		}
		for _, o := range all {
			if !strings.Contains(row, string(o)) {
				t.Errorf("the guide's row for %s does not have %q", metric, o)
			}
		}
	}
}

func TestIsProxied(t *testing.T) {
	for _, o := range All {
		answered := o == Spliced || o == Refused || o == NoRoute || o == NoSurrogate || o == Bypass
		if o.IsProxied() == answered {
			t.Errorf("%s: proxied %v", o, o.IsProxied())
		}
	}
}
