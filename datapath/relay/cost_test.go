package relay

import (
	"flag"
	"testing"

	"baton/datapath/kerneltest"
)

var relayUpdate = flag.Bool("relayUpdate", false, "write what was measured to testdata")

func TestRelayVerifierCost(t *testing.T) {
	spec, err := loadRelay()
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.VerifierCost(t, *relayUpdate, spec)
}
