package dashboard

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// packages installs what the lock file names, unless it is there: node_modules has a copy of the lock file that it was made from.
var packages = sync.OnceValues(func() ([]byte, error) {
	if _, err := os.Stat("web/node_modules/axe-core/axe.min.js"); err == nil {
		wanted, _ := os.ReadFile("web/package-lock.json")
		if has, err := os.ReadFile("web/node_modules/baton-lock.json"); err == nil && string(has) == string(wanted) {
			return nil, nil
		}
	}
	out, err := exec.Command("npm", "--prefix", "web", "ci").CombinedOutput()
	if err != nil {
		return out, err
	}
	wanted, err := os.ReadFile("web/package-lock.json")
	if err != nil {
		return nil, err
	}
	return out, os.WriteFile("web/node_modules/baton-lock.json", wanted, 0o644)
})

func needPackages(t *testing.T) {
	t.Helper()
	need(t, "npm")
	if out, err := packages(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
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
