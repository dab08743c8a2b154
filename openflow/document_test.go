package openflow_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	. "baton/openflow"
)

// TestDocument: the messages in docs/openflow-handoff.md are messages, and every action of Baton's own is in them.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/openflow-handoff.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, block := range strings.Split(string(text), "```openflow\n")[1:] {
		digits, _, _ := strings.Cut(block, "```")
		m, ok := roundTrip(t, annotated(t, digits)).(*FlowMod)
		if !ok {
			t.Fatalf("%T is no flow mod", m)
		}
		if err := Check(m); err != nil {
			t.Error(err)
		}
		for _, a := range m.Instructions[0].(InstructionApplyActions).Actions {
			if a.Type() == ActionTypeExperimenter {
				seen[fmt.Sprintf("%T", a)] = true
			}
		}
	}
	if len(seen) != 8 {
		t.Errorf("got the actions %v", seen)
	}
}
