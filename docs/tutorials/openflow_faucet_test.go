package tutorials_test

import (
	"os"
	"testing"
)

func TestOpenFlowFaucet(t *testing.T) {
	if _, err := os.Stat("../../bin/faucet/bin/faucet"); err != nil {
		t.Skip("SKIP: bin/faucet is not there: make deps brings it")
	}
	h := laptop(t)
	h.Lab().Need("ovs-ofctl")
	follow(t, "openflow-faucet.md", h)
}
