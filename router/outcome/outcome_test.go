package outcome

import (
	"os"
	"strings"
	"testing"
)

// TestGuide: the guide's row of the metric names each outcome.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/router.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, ok := strings.Cut(string(guide), "| `decision_duration_seconds` |")
	row, _, _ = strings.Cut(row, "\n")
	if !ok {
		t.Fatal("the guide has no row for decision_duration_seconds")
	}
	for _, o := range All {
		if !strings.Contains(row, string(o)) {
			t.Errorf("the guide's row does not have %q", o)
		}
	}
}
