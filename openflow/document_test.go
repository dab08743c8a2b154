package openflow_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	. "baton/openflow"
)

// TestDocument: the messages in the documents are messages, and every action of Baton's own is in them.
func TestDocument(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range []string{"../docs/openflow-handoff.md", "../docs/openflow-bind.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```openflow\n")[1:] {
			digits, _, _ := strings.Cut(block, "```")
			m := roundTrip(t, annotated(t, digits))
			if err := Check(m); err != nil {
				t.Error(err)
			}
			flow, ok := m.(*FlowMod)
			if !ok {
				continue
			}
			for _, a := range flow.Instructions[0].(InstructionApplyActions).Actions {
				if a.Type() == ActionTypeExperimenter {
					seen[fmt.Sprintf("%T", a)] = true
				}
			}
		}
	}
	if len(seen) != 8+2 {
		t.Errorf("got the actions %v", seen)
	}
}
