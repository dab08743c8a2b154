package kernels

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	sources = "../.."                  // the module, from here
	results = sources + "/bin/kernels" // where stages and what passed are kept
)

// stage is a folder for a guest's /srv: the tree, with compiled tests in their packages' folders, and the programs.
//
//	tree/router/router.test …
//	programs/baton, baton-upgraded, baton-cdn, baton-lab
type stage struct {
	dir   string
	arch  string
	files map[string]string // digests, by path in the stage
}

var staging sync.Mutex

// makeStage compiles what the steps need, for an architecture.
func makeStage(t *testing.T, arch string, steps []step) stage {
	t.Helper()
	staging.Lock()
	defer staging.Unlock()
	s := stage{dir: t.TempDir(), arch: arch}
	s.copyTree(t)
	s.runGo(t, "build", "-trimpath", "-o", filepath.Join(s.dir, "programs")+"/", "./cmd/baton", "./cmd/baton-cdn", "./cmd/baton-lab")
	s.runGo(t, "build", "-trimpath", "-ldflags=-X main.version=upgraded", "-o", filepath.Join(s.dir, "programs/baton-upgraded"), "./cmd/baton")
	done := map[string]bool{}
	for _, p := range steps {
		if p.pkg == "" || done[p.pkg] {
			continue
		}
		done[p.pkg] = true
		s.runGo(t, "test", "-c", "-trimpath", "-o", filepath.Join(s.dir, p.binary()), "./"+p.pkg)
	}
	s.files = digestsOf(t, s.dir)
	return s
}

// runGo runs the go command at the root of the module, for programs that need no library of the machine that runs them.
func (s stage) runGo(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = sources
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+s.arch, "GOFLAGS=-buildvcs=false") // a commit alone changes no digest
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// copyTree copies what compiled tests read of the tree: files beside the source, examples, packaging, and the page that package.sh follows.
func (s stage) copyTree(t *testing.T) {
	t.Helper()
	script := `{ git ls-files -z | grep -zvE "\.(go|md|o)\$|^(docs|dashboard|bpf|\.ci)/|^packaging/(kernels|site|grafana|vale)/|^[^/]*\$"
		printf 'docs/install.md\0packaging/kernels/package.sh\0'; } | xargs -0 cp --parents -t "$0"`
	tree := filepath.Join(s.dir, "tree")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script, tree)
	cmd.Dir = sources
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("copy the tree: %v\n%s", err, out)
	}
}

// digestsOf returns the digest of every file of a folder, by its path there.
func digestsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	digests := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		digests[strings.TrimPrefix(path, dir+"/")] = hex.EncodeToString(sum.Sum(nil))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return digests
}

// digest is that of all that a step reads: what has passed with it passes.
func (s stage) digest(p step) string {
	sum := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		if p.reads(path) {
			fmt.Fprintln(sum, path, s.files[path])
		}
	}
	fmt.Fprintln(sum, p.tests, p.skip, p.script)
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// quickKernels are those that the file quick names.
func quickKernels(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("quick")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "#") })
}
