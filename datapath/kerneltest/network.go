package kerneltest

import (
	"os"
	"os/exec"
	"testing"
)

// IP runs ip(8).
func IP(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// Forward switches routing on in the namespace of the tests.
func Forward(t testing.TB) {
	t.Helper()
	for _, f := range []string{"ipv4", "ipv6"} {
		if err := os.WriteFile("/proc/sys/net/"+f+"/conf/all/forwarding", []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
