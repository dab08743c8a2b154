package router_test

import "testing"

// TestOneGrammarLong is TestOneGrammar with half a million heads.
func TestOneGrammarLong(t *testing.T) { judgeHeads(t, 500_000) }
