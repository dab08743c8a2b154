package purge

import (
	"flag"
	"testing"

	"baton/datapath/kerneltest"
)

var purgeUpdate = flag.Bool("purgeUpdate", false, "write what was measured to testdata")

func TestPurgeVerifierCost(t *testing.T) {
	spec, err := loadPurge()
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.VerifierCost(t, *purgeUpdate, spec)
}
