package forwarder

import (
	"flag"
	"testing"

	"baton/datapath/kerneltest"
)

var forwarderUpdate = flag.Bool("forwarderUpdate", false, "write what was measured to testdata")

func TestForwarderVerifierCost(t *testing.T) {
	spec, err := loadForwarder()
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.VerifierCost(t, *forwarderUpdate, spec)
}
