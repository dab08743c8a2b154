package flight

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"baton/packet/quic/quictest"
)

// TestAioquic reads first flights of another client, in every order.
func TestAioquic(t *testing.T) {
	text, err := os.ReadFile("testdata/aioquic.txt")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n\n")[1:]
	if len(sections) != 4 {
		t.Fatalf("%d flights", len(sections))
	}
	for _, s := range sections {
		lines := strings.Split(strings.TrimSpace(s), "\n")
		t.Run(strings.TrimPrefix(lines[0], "# "), func(t *testing.T) {
			g := New(Defaults)
			var r Result
			var flight [][]byte
			for _, l := range lines[2:] {
				flight = append(flight, quictest.Hex(l))
				r = g.Add(from("198.51.100.7:5000"), flight[len(flight)-1], 0)
			}
			if r.Outcome != Hello {
				t.Fatalf("last of %d datagrams: %s", len(flight), r.text())
			}
			message := bytes.Clone(r.Message)
			if got, want := readByStd(t, message), strings.TrimPrefix(lines[1], "= "); got != want {
				t.Errorf("crypto/tls reads %q, want %q", got, want)
			}
			inEveryOrder(t, flight, message)
		})
	}
}
