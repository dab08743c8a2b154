package router

import (
	"flag"
	"testing"

	"baton/datapath/kerneltest"
)

var update = flag.Bool("update", false, "write what was measured to testdata")

func TestVerifierCost(t *testing.T) {
	spec, err := loadRouter()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{routerMapFlows, routerMapSplices, routerMapClients, routerMapSynOptions} {
		spec.Maps[m].MaxEntries = testSessions
	}
	kerneltest.VerifierCost(t, *update, spec)
}
