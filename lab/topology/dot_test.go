package topology

import (
	"encoding/xml"
	"io"
	"os/exec"
	"strings"
	"testing"
)

func TestDOT(t *testing.T) {
	got := parse(t, everything).DOT(map[string]bool{"r1-r2": true})
	for _, want := range []string{
		`"client":"wan" -- "r1":"eth0"`, `"r1":"eth2" -- "r2":"eth0" [color="#c0392b" style=dashed`, `<b>access</b>`, "to r1: 10mbit, 20ms±1ms",
		"to client: 100mbit, 20ms±1ms, ", "mtu 1400", "10.9.9.9 (anycast)", "<b>lan</b><br/>bridge", "Open vSwitch<br/>tcp:10.0.0.1:6653", "▸ web",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q in\n%s", want, got)
		}
	}
}

func TestDraw(t *testing.T) {
	if _, err := exec.LookPath("dot"); err != nil {
		t.Skip("SKIP: dot is not installed: run make deps")
	}
	svg, err := Draw(t.Context(), parse(t, everything).DOT(nil), "svg")
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("the picture is not well-formed: %v", err)
		}
	}
	for _, want := range []string{"client", "10.1.1.2/24", "loss 1%", "Open vSwitch"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if _, err := Draw(t.Context(), "graph {", "svg"); err == nil || !strings.Contains(err.Error(), "syntax error") {
		t.Errorf("error of a bad source is %v", err)
	}
}
