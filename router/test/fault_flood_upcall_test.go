package test

import (
	"net/http"
	"testing"

	"baton/packet"
)

// TestUpcallInAFlood: a client whose request needs an upcall comes after a burst of SYNs that fills the table of SYN options: it
// must be answered in reasonable time.
func TestUpcallInAFlood(t *testing.T) {
	f := newFlooded(t)
	for range 3 {
		if err := f.syns(t.Context(), 10*fewPending, packet.Options{}.AppendMSS(1460)); err != nil {
			t.Fatal(err)
		}
		c := f.open(t, vip4)
		got, err := c.get("a.test", "/upcall")
		got.expect(t, err, "a", http.StatusOK, "a.test /upcall")
		c.Close()
	}
}
