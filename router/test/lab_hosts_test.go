package test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"baton/lab"
)

// TestHostsReadAlike requests random hosts by a path routed in the kernel and by one routed in user space: both must find the
// same surrogate, and so must the proxy of a proxying VIP.
func TestHostsReadAlike(t *testing.T) {
	n := newNetwork(t)
	var routes, pools strings.Builder
	hosts := map[string]string{"a": "a.net", "b": "eight.eu", "c": "c." + strings.Repeat("x", 55) + ".net"}
	for _, name := range []string{"a", "b", "c", "rest"} {
		s := n.site(name, lab.LinkOptions{})
		serve(t, s.Host, name)
		host := ""
		if hosts[name] != "" {
			host = "host: " + hosts[name] + ", "
		}
		fmt.Fprintf(&routes, "\n      - {match: {%spath_regex: '^/upcall'}, pool: %[2]s}\n      - {match: {%[1]spath_prefix: /}, pool: %s}", host, name)
		fmt.Fprintf(&pools, "\n  %s: {legs: {min: 4, max: 400}, surrogates: [{name: %[1]s, address: %q}]}", name, s.v4)
	}
	const proxied = "10.9.9.11:80"
	n.start(fmt.Sprintf("vips:\n  - address: %q\n    interfaces: [%s]\n    routes:%s\n  - address: %q\n    mode: proxy\n    routes:%[3]s\npools:%[5]s\n",
		vip4, n.front.Name, &routes, proxied, &pools))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	met := make(map[string]int)
	for range 150 {
		host := oneOf(random, "a.net", "eight.eu", hosts["c"], "other", ".", "x.a.net", "net")
		if random.IntN(2) == 0 {
			host = strings.ToUpper(host)
		}
		host += oneOf(random, "", "", ".", ".", "..") + oneOf(random, "", "", ":80", ":8080")
		var by []string
		for _, at := range []struct{ vip, path string }{{vip4, "/kernel"}, {vip4, "/upcall"}, {proxied, "/kernel"}} {
			c := n.open(t, at.vip)
			got, err := c.get(host, at.path)
			if err != nil {
				t.Fatalf("host %q: %v", host, err)
			}
			c.Close()
			by = append(by, got.surrogate)
		}
		if by[0] != by[1] || by[0] != by[2] {
			t.Errorf("host %q: the kernel finds %q, user space %q, the proxy %q", host, by[0], by[1], by[2])
		}
		met[by[0]]++
	}
	if len(met) != 4 {
		t.Errorf("only %v were found", met)
	}
}
