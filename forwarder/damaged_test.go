package forwarder_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"baton/lab"
	of "baton/openflow"
)

// TestDamagedState: damage in the middle of the state costs what was there, and no more: entries that were added behind it are there, and those
// that were deleted behind it are gone. The log says so, once.
func TestDamagedState(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("state: " + s.path("state"))
	c := s.connect()
	flows := filepath.Join(s.path("state"), "flows")
	size := func() int64 {
		info, err := os.Stat(flows)
		must(t, err)
		return info.Size()
	}
	s.commit(c, add(10, udp(1, 5001), output(2)), add(10, udp(1, 5002), output(2)))
	from := size()
	s.commit(c, add(10, udp(1, 5003), output(2)))
	to := size()
	gone := add(10, udp(1, 5001))
	gone.Command = of.FlowDeleteStrict
	s.commit(c, gone, add(10, udp(1, 5004), output(2)))
	s.must(s.process.Kill())

	b, err := os.ReadFile(flows)
	must(t, err)
	b[(from+to)/2] ^= 0x20
	must(t, os.WriteFile(flows, b, 0o600))
	// A record that was being written when the process was killed is another matter.
	torn, err := os.OpenFile(flows, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = torn.Write(b[8:28])
	must(t, err)
	must(t, torn.Close())
	damaged, err := os.ReadFile(flows)
	must(t, err)

	s.run()
	if got, want := s.ports(), []string{"5002", "5004"}; !slices.Equal(got, want) {
		t.Errorf("entries for ports %v, want %v\n%s", got, want, s.log())
	}
	for _, want := range []string{"level=ERROR", "the state was damaged", flows + ".damaged", "places=1", fmt.Sprintf(" bytes=%d ", to-from)} {
		if !strings.Contains(s.log(), want) {
			t.Errorf("no %q in the log:\n%s", want, s.log())
		}
	}
	if kept, err := os.ReadFile(flows + ".damaged"); err != nil || !slices.Equal(kept, damaged) {
		t.Errorf("the damaged file was not kept: %v", err)
	}
	s.commit(s.connect(), add(10, udp(1, 5005), output(2)))
	s.must(s.process.Kill())
	s.run()
	if got, want := s.ports(), []string{"5002", "5004", "5005"}; !slices.Equal(got, want) || strings.Contains(s.log(), "ERROR") {
		t.Errorf("repaired: entries for ports %v, want %v\n%s", got, want, s.log())
	}
}

// TestTornState: the record that was being written when the process was killed is no damage.
func TestTornState(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("state: " + s.path("state"))
	s.commit(s.connect(), add(10, udp(1, 5001), output(2)), add(10, udp(1, 5002), output(2)))
	s.must(s.process.Kill())
	flows := filepath.Join(s.path("state"), "flows")
	info, err := os.Stat(flows)
	must(t, err)
	must(t, os.Truncate(flows, info.Size()-3))
	s.run()
	if got := s.ports(); !slices.Equal(got, []string{"5001"}) {
		t.Errorf("entries for ports %v", got)
	}
	if strings.Contains(s.log(), "ERROR") || strings.Contains(s.log(), "WARN") || !strings.Contains(s.log(), "torn_bytes=113") {
		t.Errorf("the log:\n%s", s.log())
	}
}

// ports are the UDP ports that entries are for.
func (s *stage) ports() (list []string) {
	s.t.Helper()
	for _, m := range regexp.MustCompile(`tp_dst=(\d+)`).FindAllStringSubmatch(s.ofctl("dump-flows"), -1) {
		list = append(list, m[1])
	}
	slices.Sort(list)
	return list
}
