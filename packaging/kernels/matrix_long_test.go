package kernels

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"baton/lab/guest"
)

var (
	update = flag.Bool("update", false, "write docs/kernels.md from what has run")
	only   = flag.String("kernels", "", "a series, such as 6.12; default: all of the archive")
)

// record is what a kernel's steps came to, as it is kept in bin/kernels.
type record struct {
	Kernel   string             `json:"kernel"`
	Date     string             `json:"date"`
	Outcomes map[string]outcome `json:"outcomes"`
}

func (r *record) path() string { return filepath.Join(results, guest.Series(r.Kernel)+".json") }

// lastRecord returns the kept record of a kernel, or nil.
func lastRecord(kernel string) *record {
	var r record
	b, err := os.ReadFile((&record{Kernel: kernel}).path())
	if err != nil || json.Unmarshal(b, &r) != nil || r.Kernel != kernel {
		return nil
	}
	return &r
}

func (r *record) save(t *testing.T) {
	t.Helper()
	r.Date = time.Now().UTC().Format(time.DateOnly)
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(results, 0o755)
	}
	if err == nil {
		err = os.WriteFile(r.path(), append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestKernelMatrix runs all steps on the newest kernel of each series, and goes on where an earlier run has ended.
func TestKernelMatrix(t *testing.T) {
	needGuests(t)
	cache, err := guest.OpenCache()
	if err != nil {
		t.Fatal(err)
	}
	kernels, err := cache.Kernels(t.Context(), runtime.GOARCH, guest.Cloud)
	if err != nil {
		t.Fatal(err)
	}
	steps := matrix()
	s := makeStage(t, steps)
	s.addPackages(t)
	for _, k := range kernels {
		if *only != "" && guest.Series(k) != *only {
			continue
		}
		t.Run(guest.Series(k), func(t *testing.T) { runMatrix(t, s, k, steps) })
	}
	if *update {
		writeTable(t, kernels, steps)
	}
}

// runMatrix runs what has not passed on a kernel, in guests that serve until a step ends them.
func runMatrix(whole *testing.T, s stage, kernel string, steps []step) {
	r := lastRecord(kernel)
	if r == nil {
		r = &record{Kernel: kernel, Outcomes: map[string]outcome{}}
	}
	guests := map[bool]*guest.Guest{}
	for _, p := range steps {
		digest := s.digest(p)
		if last := r.Outcomes[p.name]; last.Passed && last.Digest == digest {
			continue
		}
		whole.Run(p.name, func(t *testing.T) {
			g := guests[p.systemd]
			if g == nil {
				var err error
				if g, err = bootGuest(whole, s, kernel, guest.Spec{Systemd: p.systemd}); err != nil {
					t.Fatal(err)
				}
				guests[p.systemd] = g
			}
			o, err := p.try(t.Context(), g)
			if err != nil {
				o = outcome{Step: p.name, Failed: []string{err.Error()}}
				delete(guests, p.systemd)
			}
			o.Digest = digest
			r.Outcomes[p.name] = o
			r.save(t)
			if !o.Passed {
				t.Errorf("%v\n%s", o.Failed, tail(o.Output, 4000))
			}
		})
	}
}

// addPackages puts two versions of Debian's package into the stage.
func (s stage) addPackages(t *testing.T) {
	t.Helper()
	for folder, version := range map[string]string{"older": "0.1.0~test1", "newer": "0.1.0~test2"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "packaging/package.sh", filepath.Join(s.dir, "packages", folder))
		cmd.Dir = sources
		cmd.Env = append(os.Environ(), "BATON_VERSION="+version, "ARCHES="+runtime.GOARCH, "FORMATS=deb")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make the package: %v\n%s", err, out)
		}
	}
}
