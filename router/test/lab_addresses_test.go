package test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"baton/api"
	"baton/lab"
)

// TestSharedAddress adds and removes VIPs that differ only in their port: the address stays until the last is removed, and one
// that the host already has is never removed.
func TestSharedAddress(t *testing.T) {
	n := newNetwork(t)
	s := n.site("s1", lab.LinkOptions{})
	serve(t, s.Host, s.name)
	n.router.Interface("lo").Address("10.9.9.8/32")
	config := func(ports ...int) string {
		var vips strings.Builder
		for _, port := range ports {
			for address, pool := range map[string]string{"10.9.9.9": "v4", "[fd09::9]": "v6"} {
				fmt.Fprintf(&vips, "  - {address: \"%s:%d\", interfaces: [%s], routes: [{pool: %s}]}\n", address, port, n.front.Name, pool)
			}
		}
		fmt.Fprintf(&vips, "  - {address: \"10.9.9.8:%d\", interfaces: [%s], routes: [{pool: v4}]}\n", ports[0], n.front.Name)
		return fmt.Sprintf("vips:\n%spools:\n  v4: {surrogates: [{name: four, address: %q}]}\n  v6: {surrogates: [{name: six, address: %q}]}\n",
			vips.String(), s.v4, s.v6)
	}
	addresses := func() string {
		out, err := n.router.Exec(deadline(t), "ip", "-o", "addr")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	r := n.start(config(80, 81, 82))
	client := api.NewClient(r.socket)
	defer client.Close()
	for _, ports := range [][]int{{81, 82}, {82, 83}, {83}} {
		if err := r.configure(config(ports...)); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, port := range ports {
			for _, address := range []string{"10.9.9.9", "[fd09::9]"} {
				got, err := n.open(t, fmt.Sprintf("%s:%d", address, port)).get("h", "/bytes/1000")
				got.expect(t, err, "s1", 200, patternText(1000))
			}
		}
		for _, address := range []string{"10.9.9.9/32", "fd09::9/128", "10.9.9.8/32"} {
			if count := strings.Count(addresses(), address); count != 1 {
				t.Errorf("ports %v: %d times %s among the addresses:\n%s", ports, count, address, addresses())
			}
		}
	}
	other := fmt.Sprintf("vips:\n  - {address: \"10.9.9.7:80\", interfaces: [%s], routes: [{pool: v4}]}\npools:\n  v4: {surrogates: [{name: four, address: %q}]}\n", n.front.Name, s.v4)
	if err := r.configure(other); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{"10.9.9.9/32": false, "fd09::9/128": false, "10.9.9.8/32": true, "10.9.9.7/32": true} {
		if got := strings.Contains(addresses(), address); got != want {
			t.Errorf("%s is an address of the host: %v, want %v", address, got, want)
		}
	}
}
