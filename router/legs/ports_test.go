package legs

import (
	"fmt"
	"strings"
	"testing"
)

// TestFreeBeside has ranges of ephemeral ports, and what they leave to legs.
func TestFreeBeside(t *testing.T) {
	for _, c := range []struct {
		ephemeral string
		want      PortRange // zero: refused
		why       string
	}{
		{"32768\t60999\n", PortRange{2048, 32767}, ""}, // as the kernel writes it
		{"10000 65535", PortRange{2048, 9999}, ""},
		{"2048 32767", PortRange{32768, 65535}, ""},
		{"0 30000", PortRange{30001, 65535}, ""},
		{"1 1", PortRange{2048, 65535}, ""}, // none below the lowest
		{"1 2047", PortRange{2048, 65535}, ""},
		{"65535 65535", PortRange{2048, 65534}, ""},
		{"64512 65535", PortRange{2048, 64511}, ""},
		{"64511 65535", PortRange{2048, 64510}, ""},
		{"1024 64511", PortRange{64512, 65535}, ""}, // exactly as many as are needed
		{"3072 65535", PortRange{2048, 3071}, ""},
		{"1024 64512", PortRange{}, "leaves at most 1023 ports"},
		{"3071 65535", PortRange{}, "leaves at most 1023 ports"},
		{"2048 65535", PortRange{}, "leaves at most 0 ports"},
		{"1024 65535", PortRange{}, "leaves at most 0 ports"},
		{"1024 65534", PortRange{}, "leaves at most 1 ports"},
		{"1024 65000", PortRange{}, "leaves at most 535 ports"},
		{"1 65535", PortRange{}, "leaves at most 0 ports"},
		{"0 65535", PortRange{}, "leaves at most 0 ports"},
		{"60999 32768", PortRange{}, "not a first and a last port"},
		{"32768 65536", PortRange{}, "not a first and a last port"},
		{"-1 32768", PortRange{}, "not a first and a last port"},
		{"32768 99999999999999999999", PortRange{}, "not a first and a last port"},
		{"32768", PortRange{}, "not a first and a last port"},
		{"32768 60999 7", PortRange{}, "not a first and a last port"},
		{"", PortRange{}, "not a first and a last port"},
		{"x y", PortRange{}, "not a first and a last port"},
	} {
		got, err := findFreePorts(c.ephemeral)
		if got != c.want || (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%q: %v, %v; want %v, %q", c.ephemeral, got, err, c.want, c.why)
		}
	}
}

// TestFreeBesideEveryRange looks at ranges with ends near all that matters: no leg has an ephemeral port or one below
// the lowest, and no range is refused that leaves enough.
func TestFreeBesideEveryRange(t *testing.T) {
	var ends []int
	for _, near := range []int{0, 1024, 2048, 3072, 32768, 64512, 65535} {
		for n := near - 3; n <= near+3; n++ {
			ends = append(ends, n)
		}
	}
	for _, from := range ends {
		for _, to := range ends {
			got, err := findFreePorts(fmt.Sprintf("%d\t%d\n", from, to))
			valid := from >= 0 && from <= to && to <= 65535
			enough := valid && (from-2048 >= 1024 || 65535-max(to, 2047) >= 1024)
			if (err == nil) != enough {
				t.Errorf("%d %d: %v, %v", from, to, got, err)
			}
			low, high := int(got.Low), int(got.High)
			if err == nil && (low < 2048 || high-low+1 < 1024 || low <= to && high >= from) {
				t.Errorf("%d %d: legs have %d-%d", from, to, low, high)
			}
		}
	}
}
