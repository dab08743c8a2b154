package datapath_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"baton/datapath"
	"baton/datapath/kerneltest"
)

// The loopback interface of the test's own namespace.
const loopback = 1

// A program runs no more when Detach or RemovePins returns, whatever else refers to its attachment: another process, or the kernel, which frees an
// attachment without a pin later.
func TestDetachIsDoneWhenItReturns(t *testing.T) {
	kerneltest.Need(t)
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}, License: "GPL",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, tt := range []struct {
		name   string
		detach func(l *datapath.Links, dir string) error
	}{
		{"detach", func(l *datapath.Links, _ string) error { return l.Detach(loopback) }},
		{"remove", func(l *datapath.Links, dir string) error {
			if err := l.Close(); err != nil {
				return err
			}
			return datapath.RemovePins(dir)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(datapath.BPFFS, "baton-links-test-"+tt.name)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			l := datapath.NewLinks(dir, program)
			if err := l.Attach(loopback); err != nil {
				t.Fatal(err)
			}
			other, err := link.LoadPinnedLink(filepath.Join(dir, datapath.LinkPrefix+"1"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if n := attached(t); n != 1 {
				t.Fatalf("%d programs are attached, want 1", n)
			}
			if err := tt.detach(l, dir); err != nil {
				t.Fatal(err)
			}
			if n := attached(t); n != 0 {
				t.Errorf("%d programs are attached afterwards", n)
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 || err != nil {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// attached is how many programs are attached to the ingress of loopback.
func attached(t *testing.T) int {
	t.Helper()
	all, err := link.QueryPrograms(link.QueryOptions{Target: loopback, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Fatal(err)
	}
	return len(all.Programs)
}
