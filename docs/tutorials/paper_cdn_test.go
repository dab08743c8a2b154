package tutorials_test

import "testing"

func TestPaperCDN(t *testing.T) {
	h := laptop(t)
	h.Lab().Need("apache2", "nginx", "dig", "kdig", "jq", "pkill")
	follow(t, "paper-cdn.md", h)
}
