package kernels

import (
	"context"
	"runtime"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/guest"
)

// TestKernels is the part of the matrix that every run can afford: a program that a supported kernel refuses fails here.
func TestKernels(t *testing.T) {
	needGuests(t)
	steps := quick()
	s := makeStage(t, runtime.GOARCH, steps)
	for _, k := range quickKernels(t) {
		t.Run(k, func(t *testing.T) {
			t.Parallel()
			g, err := bootGuest(t, s, k, guest.Spec{})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range steps {
				t.Run(p.name, func(t *testing.T) {
					o, err := p.try(t.Context(), g)
					if err != nil {
						t.Fatal(err)
					}
					if !o.Passed {
						t.Error(o.report())
					}
				})
			}
		})
	}
}

// needGuests skips a test where no guests can be booted.
func needGuests(t *testing.T) {
	t.Helper()
	lab.NeedRoot(t)
}

// bootGuest boots a kernel with the stage as its /srv. The guest ends with the test.
func bootGuest(t *testing.T, s stage, kernel string, spec guest.Spec) (*guest.Guest, error) {
	t.Helper()
	l := lab.New(t)
	l.Need("qemu-system-x86_64", "mmdebstrap", "mke2fs", "depmod", "busybox")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute) // a root of another architecture takes minutes
	defer cancel()
	spec.Kernel, spec.Arch, spec.Folder, spec.Packages = kernel, s.arch, s.dir, servers
	if s.arch != runtime.GOARCH {
		spec.Packages = demoServers // each package costs a minute there
	}
	return guest.Boot(ctx, l.Host("guest"), spec)
}

// tail is the end of a text.
func tail(text string, bytes int) string { return text[max(0, len(text)-bytes):] }
