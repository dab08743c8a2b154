package datapath_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"baton/datapath"
	"baton/datapath/kerneltest"
)

// refusedSpec has a program that reads behind the stack, which no verifier lets it.
func refusedSpec() *ebpf.CollectionSpec {
	return &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"reads_wild": {
		Name: "reads_wild", Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R0, 0),
			asm.LoadMem(asm.R0, asm.RFP, 8, asm.DWord),
			asm.Return(),
		},
	}}}
}

// TestRefusal: a program that the verifier refuses makes one line with its reason; its log is for those who ask for it.
func TestRefusal(t *testing.T) {
	kerneltest.Need(t)
	for _, tt := range []struct {
		level  slog.Level
		logged bool
	}{{slog.LevelInfo, false}, {slog.LevelDebug, true}} {
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: tt.level})))
		var objects struct {
			Wild *ebpf.Program `ebpf:"reads_wild"`
		}
		err := datapath.LoadObjects(refusedSpec(), &objects, nil)
		slog.SetDefault(before)
		want := regexp.MustCompile(`^program reads_wild is refused by Linux \d[^ ]*: invalid read from stack R10 off=8 size=8; please report this, ` +
			`with the log of run --log-level debug$`)
		if err == nil || !want.MatchString(err.Error()) || !errors.Is(err, unix.EACCES) {
			t.Errorf("%q, want %s", err, want)
		}
		var refusal *datapath.Refusal
		if !errors.As(err, &refusal) || len(refusal.Log) < 3 {
			t.Errorf("%#v has no log", err)
		}
		if logged := strings.Contains(log.String(), `line="0: (b7) r0 = 0`) && strings.Contains(log.String(), "invalid read from stack"); logged != tt.logged {
			t.Errorf("at %s the log has\n%s", tt.level, log.String())
		}
	}
}

// TestAllRefusals: to try programs is to name all that are refused.
func TestAllRefusals(t *testing.T) {
	kerneltest.Need(t)
	spec := refusedSpec()
	also := spec.Programs["reads_wild"].Copy()
	also.Name = "also_wild"
	spec.Programs["also_wild"] = also
	err := datapath.ProgramsOf("test", func() (*ebpf.CollectionSpec, error) { return spec, nil }).Try()
	want := regexp.MustCompile(`^program also_wild is refused by Linux .*; program reads_wild is refused by Linux .*$`)
	if err == nil || !want.MatchString(err.Error()) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestOneLoader: every program is loaded by LoadObjects, or tried by ProgramsOf, so that no verifier's log reaches a user. Probes load programs of a few instructions.
func TestOneLoader(t *testing.T) {
	other := regexp.MustCompile(`\.LoadAndAssign\(|\.NewCollection|ebpf\.NewProgram(WithOptions)?\(|load[A-Z]\w*Objects\(`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name == "kerneltest":
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_bpfel.go"),
			path == "load.go", path == "features.go":
			return nil
		}
		text, err := os.ReadFile(path)
		if m := other.Find(text); m != nil {
			t.Errorf("%s: %s: use datapath.LoadObjects", path, m)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
