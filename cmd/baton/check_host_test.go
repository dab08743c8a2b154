package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"baton/cmd/cli"
	"baton/cmd/cli/hostcheck"
	"baton/datapath"
	"baton/lab"
)

// TestCheckHost: where the tests run all parts work; without rights those that need some say so.
func TestCheckHost(t *testing.T) {
	lab.NeedRoot(t)
	var h hostcheck.HostCheck
	if err := json.Unmarshal([]byte(must(t, t.TempDir(), "check-host", "-o", "json")), &h); err != nil {
		t.Fatal(err)
	}
	if len(h.Parts) != len(parts())+1 {
		t.Errorf("%d parts, want %d and get", len(h.Parts), len(parts()))
	}
	for _, p := range h.Parts {
		if p.Verdict != "works" {
			t.Errorf("%+v", p)
		}
	}
	for _, f := range h.Features {
		if f.State != datapath.Present {
			t.Errorf("%+v", f)
		}
	}
}

// TestCheckHostWithoutRights names each capability once, in one line, and what a container's root can do.
func TestCheckHostWithoutRights(t *testing.T) {
	lab.NeedRoot(t)
	status, out, errs := unprivileged(t, "check-host", "router", "get")
	if status != cli.Failure || errs != "baton: this host cannot run: router\n" || !strings.Contains(out, "\nget     works\n") ||
		!strings.Contains(out, "\nCAP_NET_ADMIN, CAP_BPF, CAP_NET_RAW, CAP_PERFMON, CAP_NET_BIND_SERVICE: this root lacks rights, as in a container: give it --privileged, ") {
		t.Errorf("status %d, %s\n%s", status, errs, out)
	}
	if status, out, errs := unprivileged(t, "check-host", "--kernel"); status != 0 || out+errs != "" {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	file := t.TempDir() + "/router.yaml"
	write(t, file, "vips: [{address: \"10.9.9.9:80\", interfaces: [lo], routes: [{pool: p}]}]\npools: {p: {surrogates: [{name: s1, address: \"10.2.1.2:80\"}]}}\n")
	if status, _, errs := unprivileged(t, "router", "check", "-c", file); status != 0 || errs != "" {
		t.Errorf("who may not find out is warned: status %d: %s", status, errs)
	}
}

// TestPartsNeed: every part says what it needs, and each need without which it starts has a line for that.
func TestPartsNeed(t *testing.T) {
	for _, tool := range tools() {
		if len(tool.Needs) == 0 && tool.Name != "get" {
			t.Errorf("%s needs nothing", tool.Name)
		}
		for _, n := range tool.Needs {
			if k := n.Feature.Kind; n.For == "" && n.Without == "" && k != datapath.KernelVersion && k != datapath.Programs {
				t.Errorf("%s needs %s: what for?", tool.Name, n.Feature.Name)
			}
		}
	}
}

// unprivileged runs baton as a root without any capability.
func unprivileged(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "setpriv", append([]string{"--bounding-set", "-all", "--inh-caps", "-all", self}, args...)...)
	cmd.Env, cmd.Dir = append(os.Environ(), asBaton+"=1"), t.TempDir()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	status = lab.ExitCode(cmd.Run())
	return status, out.String(), errs.String()
}
