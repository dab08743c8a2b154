package balance_test

import (
	"path/filepath"
	"testing"

	"baton/balance/config"
)

// TestExamplesLoad: they are right, and there is nothing to warn of.
func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples, error %v", len(files), err)
	}
	for _, f := range files {
		cfg, err := config.Load(f)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, w := range cfg.Warnings {
			t.Errorf("warning: %s", w)
		}
	}
}
