package datapath

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func feature(name string, kind Kind, err error) *Feature {
	return &Feature{name, kind, func() error { return err }, say("do this")}
}

// TestLacks: a host's lacks make a line each, with the remedy; what follows from another is left out.
func TestLacks(t *testing.T) {
	absent := errors.New("not there")
	var (
		old      = Need{Feature: feature("Linux", KernelVersion, absent)}
		tcx      = Need{Feature: feature("tcx", KernelFeature, absent), For: "attach"}
		tun      = Need{Feature: feature("tun", Device, fmt.Errorf("open: %w", unix.ENOENT)), For: "talk"}
		hidden   = Need{Feature: feature("hidden", KernelFeature, fmt.Errorf("try: %w", unix.EPERM)), For: "x"}
		admin    = Need{Feature: feature("CAP_A", Capability, absent), For: "attach"}
		load     = Need{Feature: feature("CAP_B", Capability, absent), For: "load"}
		refused  = Need{Feature: feature("programs", Programs, &Refusal{Program: "p", Release: "6.12", Reason: "why"})}
		there    = Need{Feature: feature("there", KernelFeature, nil), For: "x"}
		optional = Need{Feature: feature("optional", KernelFeature, absent), Without: "less"}
	)
	const tells = "this host lacks tcx, which the router needs to attach: not there: do this"
	for _, tt := range []struct {
		name  string
		needs []Need
		want  []string
	}{
		{"nothing", []Need{there, optional}, nil},
		{"an old kernel explains all", []Need{admin, old, tcx}, []string{"this is Linux " + Release() + ", and the router needs 6.12 or newer: do this"}},
		{"each lack", []Need{tcx, tun}, []string{tells, "this host lacks tun, which the router needs to talk: open: no such file or directory: do this"}},
		{"capabilities together, and first", []Need{tcx, admin, hidden, load}, []string{"missing capability: CAP_A (to attach), CAP_B (to load): do this", tells}},
		{"what one may not find out", []Need{hidden}, nil},
		{"programs", []Need{refused}, []string{"program p is refused by Linux 6.12: why; please report this, with the log of run --log-level debug"}},
	} {
		var got []string
		for _, err := range Lacks("router", new(Trials).Examine(tt.needs)) {
			got = append(got, err.Error())
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
	if err := Require("router", []Need{refused, optional, there}); err != nil {
		t.Errorf("a start tries programs, or needs what is optional: %v", err)
	}
	if err := Require("router", Optional([]Need{tcx}, "less")); err != nil || tcx.Without != "" {
		t.Errorf("optional needs: %v", err)
	}
}

// TestProgramsNeedTheRest: what a part's programs are refused for is told, and not that they are refused.
func TestProgramsNeedTheRest(t *testing.T) {
	absent := errors.New("not there")
	loaded := 0
	programs := &Feature{"programs", Programs, func() error { loaded++; return nil }, say("")}
	missing, other := Need{Feature: feature("btf", KernelFeature, absent), For: "x"}, Need{Feature: feature("ipv6", KernelFeature, absent), Without: "IPv4 only"}
	for _, tt := range []struct {
		needs []Need
		want  State
	}{
		{[]Need{missing, {Feature: programs}}, Unknown},
		{Optional([]Need{missing, {Feature: programs}}, "less"), Unknown},
		{[]Need{{Feature: feature("Linux", KernelVersion, absent)}, {Feature: programs, Without: "less"}}, Unknown},
		{[]Need{other, {Feature: programs}}, Present},
	} {
		if found := new(Trials).Examine(tt.needs); found[1].State != tt.want {
			t.Errorf("%+v, want %s", found[1], tt.want)
		}
	}
	if loaded != 1 {
		t.Errorf("loaded %d times, want once", loaded)
	}
}

// TestTrialsOnce: what several parts need is tried once.
func TestTrialsOnce(t *testing.T) {
	tried := 0
	one := &Feature{"one", Device, func() error { tried++; return errors.New("no") }, say("")}
	var trials Trials
	for _, without := range []string{"", "less"} {
		f := trials.Examine([]Need{{Feature: one, Without: without}})[0]
		if f.State != Absent || f.Without != without || f.Prevents() != (without == "") {
			t.Errorf("%+v", f)
		}
	}
	if tried != 1 {
		t.Errorf("tried %d times", tried)
	}
}

// TestFeaturesHere: the kernel that the tests run on has all that Baton needs. Each feature that may be missing has a remedy.
func TestFeaturesHere(t *testing.T) {
	for _, f := range []*Feature{Kernel, BPF, JIT, BTF, TCX, SYNCookies, AssignTCP, SockOps, SockCreate, BPFFileSystem, Tun, CapBPF, CapNetAdmin} {
		if f.Remedy() == "" {
			t.Errorf("%s has no remedy", f.Name)
		}
		if err := f.Try(); err != nil && has(unix.CAP_BPF) {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if err := tryHelper(ebpf.SchedCLS, 100_000)(); err == nil {
		t.Error("a helper that no kernel has is there")
	}
	if err := tryFunction("baton_has_no_such_function")(); err == nil {
		t.Error("a function that no kernel has is there")
	}
}

// TestNewerKernel: the remedy is that of the distribution, and of the flavour of kernel that runs.
func TestNewerKernel(t *testing.T) {
	const (
		bookworm = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n"
		noble    = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID='24.04'\n"
	)
	for _, tt := range []struct{ os, release, arch, want string }{
		{bookworm, "6.1.0-56-amd64", "amd64", "apt install -t bookworm-backports linux-image-amd64 "},
		{bookworm, "6.1.0-56-cloud-amd64", "amd64", "apt install -t bookworm-backports linux-image-cloud-amd64 "},
		{bookworm, "6.1.0-56-arm64", "arm64", "linux-image-arm64 "},
		{bookworm, "6.6.1-own", "amd64", "linux-image-amd64 "},
		{noble, "6.8.0-45-generic", "amd64", "apt install linux-generic-hwe-24.04, then reboot"},
		{"ID=fedora\nVERSION_ID=38\n", "6.2.9", "amd64", "boot a newer kernel"},
		{"", "", "amd64", "boot a newer kernel"},
	} {
		if got := newerKernelOf(tt.os, tt.release, tt.arch); !strings.Contains(got, tt.want) {
			t.Errorf("%q, %s: %q, want %q", tt.os, tt.release, got, tt.want)
		}
	}
}

func TestSettings(t *testing.T) {
	for text, want := range map[string]string{"none [integrity] confidentiality\n": "integrity", "[none] integrity\n": "none", "": ""} {
		if got := chosen(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for own, want := range map[string]string{"0::/a\n": "v2", "4:memory:/\n0::/\n": "v1 and v2", "4:memory:/\n": "v1", "": "none"} {
		if got := cgroupVersions(own); got != want {
			t.Errorf("%q: %q, want %q", own, got, want)
		}
	}
	for _, s := range Settings() {
		if s.Name == "" || s.About == "" {
			t.Errorf("%+v", s)
		}
	}
}
