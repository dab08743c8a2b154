package forwarder

import (
	"flag"
	"testing"

	"baton/datapath/kerneltest"
)

var update = flag.Bool("update", false, "write what was measured to testdata")

func TestVerifierCost(t *testing.T) {
	spec, err := loadForwarder()
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.VerifierCost(t, *update, spec)
}
