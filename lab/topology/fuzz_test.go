package topology

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

// FuzzParse: error or value, never both, never neither, never a panic; a message is one line of the file; and what is
// accepted can be built: every end is at something, every interface and address is there once.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{ten, everything, "", "a: &a {b: *a}\n<<: *a\n", "hosts: {a: , b: }\nlinks: [{a: a, b: a}]\n",
		"hosts: {a: {forward: true, addresses: [\"::2\"]}}\nbridges: {b: , c: }\nlinks: [{a: a, b: b}, {a: c, b: b}, {a: c, b: a}]\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Parse("f", data)
		if (got == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v, want one of them", got, err)
		}
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if strings.Contains(line, "\r") || !strings.HasPrefix(line, "f:") {
					t.Fatalf("message is not one line of the file: %q", line)
				}
			}
			return
		}
		interfaces, addresses := make(map[string]bool), make(map[netip.Addr]bool)
		got.ends(func(path string, k *Link, e *End) {
			at := e.Host + "/" + e.Interface
			if interfaces[at] || !interfaceName.MatchString(e.Interface) || k.Name == "" {
				t.Fatalf("accepted an impossible end: %+v of %+v", e, k)
			}
			interfaces[at] = true
			for _, p := range e.Addresses {
				if addresses[p.Addr()] || !p.IsValid() {
					t.Fatalf("accepted an impossible address: %+v", e)
				}
				addresses[p.Addr()] = true
			}
			if k.AToB.Validate() != nil || k.BToA.Validate() != nil {
				t.Fatalf("accepted an impossible link: %+v", k)
			}
		})
		for _, h := range got.Hosts {
			if !hostName.MatchString(h.Name) {
				t.Fatalf("accepted an impossible host: %+v", h)
			}
			for _, r := range h.Routes {
				if !r.To.IsValid() || !r.Via.IsValid() || addresses[r.Via] && !reached(got, h, r.Via) {
					t.Fatalf("accepted an impossible route: %+v of %+v", r, h)
				}
			}
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(got.DOT(nil), "graph") {
			t.Fatal("no graph")
		}
	})
}

func reached(t *Topology, h *Host, a netip.Addr) bool {
	for _, e := range t.At(h.Name) {
		for _, p := range e.Addresses {
			if p.Contains(a) {
				return true
			}
		}
	}
	return false
}
