package relay

import (
	"testing"

	"baton/datapath"
	"baton/datapath/kerneltest"
)

func TestMain(m *testing.M) {
	kerneltest.Main(m, func() error { return datapath.SetUp("lo") })
}
