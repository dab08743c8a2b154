package tutorials_test

import "testing"

func TestAnycastFRR(t *testing.T) {
	h := laptop(t)
	h.Lab().Need("/usr/lib/frr/zebra", "vtysh")
	follow(t, "anycast-frr.md", h)
}
