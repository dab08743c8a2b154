package examples_test

import (
	"strings"
	"testing"

	kernel "baton/datapath/quic"
)

// TestGuideNamesQUIC: the guide lists each verdict of the program for QUIC.
func TestGuideNamesQUIC(t *testing.T) {
	_, text, found := strings.Cut(read(t, guide), "| Verdict of QUIC |")
	if !found {
		t.Fatal("the guide has no table of them")
	}
	text, _, _ = strings.Cut(text, "\n\n")
	for _, v := range kernel.VerdictNames() {
		if !strings.Contains(text, "`"+v+"`") {
			t.Errorf("the guide lacks the verdict %s", v)
		}
	}
}
