package kernels

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/lab/guest"
)

var (
	update = flag.Bool("update", false, "write docs/kernels.md from what has run")
	only   = flag.String("kernels", "", "rows, such as 6.12,6.12-arm64; default: all")
)

// record is what a kernel's steps came to, as it is kept in bin/kernels.
type record struct {
	Kernel   string             `json:"kernel"`
	Date     string             `json:"date"`
	Outcomes map[string]outcome `json:"outcomes"`
}

func (r row) path() string { return filepath.Join(results, r.name()+".json") }

// record returns the kept record of a row's kernel, or nil.
func (r row) record() *record {
	var kept record
	b, err := os.ReadFile(r.path())
	if err != nil || json.Unmarshal(b, &kept) != nil || kept.Kernel != r.kernel {
		return nil
	}
	return &kept
}

func (r row) save(t *testing.T, kept *record) {
	t.Helper()
	kept.Date = time.Now().UTC().Format(time.DateOnly)
	b, err := json.MarshalIndent(kept, "", "  ")
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

// TestKernelMatrix runs all steps on the newest kernel of each series, and goes on where an earlier run has ended. On arm64 it runs what
// shows that the package serves there, on the oldest series.
func TestKernelMatrix(t *testing.T) {
	needGuests(t)
	cache, err := guest.OpenCache()
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for _, of := range []row{{arch: "amd64", steps: matrix()}, {arch: "arm64", steps: slices.Concat(quick(), lastSteps())}} {
		kernels, err := cache.Kernels(t.Context(), of.arch, guest.Cloud)
		if err != nil {
			t.Fatal(err)
		}
		if of.arch != "amd64" {
			kernels = kernels[:min(1, len(kernels))] // the oldest
		}
		for _, k := range kernels {
			rows = append(rows, row{kernel: k, arch: of.arch, steps: of.steps})
		}
	}
	stages := map[string]stage{}
	for _, r := range rows {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), r.name()) {
			continue
		}
		s, ok := stages[r.arch]
		if !ok {
			s = makeStage(t, r.arch, r.steps)
			s.addPackages(t)
			stages[r.arch] = s
		}
		t.Run(r.name(), func(t *testing.T) { r.run(t, s) })
	}
	if *update {
		writeTable(t, rows)
	}
}

// row is a kernel of the matrix, with what is to be seen on it.
type row struct {
	kernel, arch string
	steps        []step
}

// name is that of a row in flags and of its file: 6.12, 6.12-arm64.
func (r row) name() string {
	if r.arch == "amd64" {
		return guest.Series(r.kernel)
	}
	return guest.Series(r.kernel) + "-" + r.arch
}

// run runs what has not passed on the kernel, in guests that serve until a step ends them.
func (r row) run(whole *testing.T, s stage) {
	kept := r.record()
	if kept == nil {
		kept = &record{Kernel: r.kernel, Outcomes: map[string]outcome{}}
	}
	guests := map[bool]*guest.Guest{}
	for _, p := range r.steps {
		digest := s.digest(p)
		if last := kept.Outcomes[p.name]; last.Passed && last.Digest == digest {
			continue
		}
		whole.Run(p.name, func(t *testing.T) {
			g := guests[p.systemd]
			if g == nil {
				var err error
				if g, err = bootGuest(whole, s, r.kernel, guest.Spec{Systemd: p.systemd}); err != nil {
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
			kept.Outcomes[p.name] = o
			r.save(t, kept)
			if !o.Passed {
				t.Error(o.report())
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
		cmd.Env = append(os.Environ(), "BATON_VERSION="+version, "ARCHES="+s.arch, "FORMATS=deb")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make the package: %v\n%s", err, out)
		}
	}
}
