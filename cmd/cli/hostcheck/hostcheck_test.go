package hostcheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"baton/cmd/cli"
	"baton/datapath"
)

func fakeFeature(name string, kind datapath.Kind, err error) *datapath.Feature {
	return &datapath.Feature{Name: name, Kind: kind, Try: func() error { return err }, Remedy: func() string { return "buy one" }}
}

func fakeTools() []Tool {
	absent := errors.New("not there")
	there, gone := fakeFeature("there", datapath.KernelFeature, nil), fakeFeature("gone", datapath.Device, absent)
	secret, right := fakeFeature("secret", datapath.KernelFeature, unix.EPERM), fakeFeature("CAP_A", datapath.Capability, absent)
	return []Tool{
		{"well", []datapath.Need{{Feature: there}, {Feature: secret}}},
		{"weak", []datapath.Need{{Feature: there}, {Feature: gone, Without: "no X"}, {Feature: right, Without: "no X"}}},
		{"dead", []datapath.Need{{Feature: gone, For: "work"}, {Feature: right, For: "try"}}},
	}
}

// checkHost runs the command with made-up parts.
func checkHost(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	e := cli.Env{Out: &stdout, Err: &stderr}
	root := &cobra.Command{Use: "baton"}
	root.AddCommand(Command(e, "baton", fakeTools))
	return cli.Run(t.Context(), e, root, append([]string{"check-host"}, args...)), stdout.String(), stderr.String()
}

// TestCheckHost: a part works, is degraded or refused; the exit status is about those that are named.
func TestCheckHost(t *testing.T) {
	status, out, errs := checkHost(t)
	if status != 0 || errs != "" {
		t.Fatalf("status %d, %s", status, errs)
	}
	for _, want := range []string{
		"Baton needs " + datapath.MinimumKernel + " or newer\n",
		"\ngone     device      no\n", "\nthere    feature     yes\n", "\nsecret   feature     unknown\n",
		"\nwell  works\n", "\nweak  degraded  no X (without gone, CAP_A)\n", "\ndead  refused   lacks gone, CAP_A\n",
		"\n\ngone: not there: buy one\nCAP_A: buy one\ncould not be tried, for lack of rights or of something above: secret\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, tt := range []struct {
		args   string
		status int
		errs   string
	}{
		{"well weak", 0, ""},
		{"weak dead", cli.Failure, "baton: this host cannot run: dead\n"},
		{"ded", cli.Usage, "baton: \"ded\" is not a part: one of well, weak, dead\n"},
	} {
		status, out, errs := checkHost(t, strings.Fields(tt.args)...)
		if status != tt.status || errs != tt.errs || strings.Contains(tt.args, "weak") && strings.Contains(out, "\nwell") != strings.Contains(tt.args, "well") {
			t.Errorf("%s: status %d, %q; want %d, %q; %s", tt.args, status, errs, tt.status, tt.errs, out)
		}
	}
	if _, out, _ := checkHost(t, "-o", "wide"); !strings.Contains(out, "\ngone     device      no       weak, dead\n") || !strings.Contains(out, "ABOUT") {
		t.Errorf("wide:\n%s", out)
	}
}

// TestCheckHostOldKernel: an old kernel is one reason; what a newer one has, and programs that it refuses, are not reasons of their own.
func TestCheckHostOldKernel(t *testing.T) {
	absent := errors.New("not there")
	h := examineHost([]Tool{{"dead", []datapath.Need{
		{Feature: fakeFeature("Linux", datapath.KernelVersion, absent)}, {Feature: fakeFeature("tcx", datapath.KernelFeature, absent)},
		{Feature: fakeFeature("tun", datapath.Device, absent)}, {Feature: fakeFeature("programs", datapath.Programs, absent), Without: "less"},
	}}})
	var out bytes.Buffer
	h.printReasons(&out)
	if want := "\nLinux: not there: buy one\ntun: not there: buy one\ncould not be tried, for lack of rights or of something above: programs\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if p := h.Parts[0]; len(p.Refusal) != 1 || len(p.Lacks) != 3 {
		t.Errorf("%+v", p)
	}
}

// TestCheckHostJSON: programs get all that people do.
func TestCheckHostJSON(t *testing.T) {
	_, out, _ := checkHost(t, "-o", "json")
	var h HostCheck
	if err := json.Unmarshal([]byte(out), &h); err != nil {
		t.Fatal(err)
	}
	if h.Kernel != datapath.Release() || h.Minimum != datapath.MinimumKernel || len(h.Features) != 4 || len(h.Settings) == 0 || len(h.Parts) != 3 {
		t.Fatalf("%+v", h)
	}
	if d := h.Parts[2]; d.Verdict != "refused" || len(d.Lacks) != 2 || len(d.Refusal) != 2 || d.Refusal[1] != "this host lacks gone, which the dead needs to work: not there: buy one" {
		t.Errorf("%+v", d)
	}
	if w := h.Parts[1]; w.Verdict != "degraded" || len(w.Without) != 1 || len(w.Without[0].Features) != 2 || w.Without[0].Effect != "no X" {
		t.Errorf("%+v", w)
	}
}
