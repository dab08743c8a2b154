package forwarder_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"baton/lab"
)

// TestReload: a listener that is new is there and one that is gone is not, by the command and by SIGHUP; flow entries stay. What a reload cannot
// put in force it refuses, and all stays as it was.
func TestReload(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	s.crossing()
	entries := func() int { return strings.Count(s.ofctl("dump-flows"), "cookie=") }
	before := entries()
	reload := func() (string, error) {
		p := s.command("reload")
		err := p.Wait(s.within())
		return p.Log(), err
	}
	dump := func() error {
		_, err := s.exec("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", "tcp:127.0.0.1:6655")
		return err
	}
	s.configure("listen: [" + endpoint + ", tcp:127.0.0.1:6655]")
	if out, err := reload(); err != nil || !strings.Contains(out, s.file+" is in force\nlisten has changed\n") {
		t.Fatalf("%v: %s", err, out)
	}
	s.must(dump())

	s.configure("listen: [" + endpoint + "]\nfail_mode: standalone\nmetrics: 127.0.0.1:9411")
	if out, err := reload(); lab.ExitCode(err) != 2 || !strings.Contains(out, "the old one stays in force: ") ||
		!strings.Contains(out, "fail_mode, metrics: takes effect only after a restart") {
		t.Errorf("what is fixed: %v: %s", err, out)
	}
	s.must(os.WriteFile(s.file, []byte("nonsense: 1\n"), 0o600))
	if out, err := reload(); lab.ExitCode(err) != 2 || !strings.Contains(out, "nonsense") {
		t.Errorf("what is wrong: %v: %s", err, out)
	}
	s.must(dump())

	s.configure("")
	s.must(s.process.Signal(unix.SIGHUP))
	lab.Eventually(t, patience, func() error {
		if dump() == nil {
			return errors.New("the listener is there still")
		}
		return nil
	})
	if after := entries(); before == 0 || after != before {
		t.Errorf("%d flow entries, %d before", after, before)
	}
}
