package install

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"baton/datapath/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.Main(m, prepare) }

func prepare() error {
	for _, who := range []string{"all", "default"} { // nobody but the tests is to send anything
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+who+"/disable_ipv6", []byte("1"), 0o644) // a kernel without IPv6 has no such file
	}
	return nil
}

func needKernel(t testing.TB) { t.Helper(); kerneltest.Need(t) }

func newRand(t testing.TB) *rand.Rand { t.Helper(); return kerneltest.Rand(t) }

func ip(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}
