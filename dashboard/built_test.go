package dashboard

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// packages installs what the lock file names, once.
var packages = sync.OnceValues(func() ([]byte, error) { return exec.Command("web/packages.sh").CombinedOutput() })

func needPackages(t *testing.T) {
	t.Helper()
	need(t, "npm")
	if out, err := packages(); err != nil {
		t.Fatalf("web/packages.sh: %v\n%s", err, out)
	}
}

func TestBuiltFilesAreThoseOfTheSources(t *testing.T) {
	needPackages(t)
	folder := t.TempDir()
	if out, err := exec.Command("node", "web/build.mjs", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fresh, committed := files(t, os.DirFS(folder)), files(t, os.DirFS("built"))
	for name, content := range fresh {
		if has, ok := committed[name]; !ok || has != content {
			t.Errorf("built/%s is not what the sources give: run go generate ./dashboard", name)
		}
	}
	for name := range committed {
		if _, ok := fresh[name]; !ok {
			t.Errorf("built/%s is left over: run go generate ./dashboard", name)
		}
	}
}

func files(t *testing.T, folder fs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, path)
		all[filepath.ToSlash(path)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPureParts runs the tests of the parts that need no browser.
func TestPureParts(t *testing.T) {
	needPackages(t)
	if out, err := exec.Command("npm", "--prefix", "web", "test").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
