package tutorials_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"baton/lab"
)

// laptop is the name of a host whose pages build labs of their own on it.
const laptop = "laptop"

// outerRoot is where a laptop has the machine's /root.
const outerRoot = "/mnt"

// newLaptop is a host for such a page.
func newLaptop(t *testing.T) *lab.Host {
	t.Helper()
	h := lab.New(t).Host(laptop)
	h.Interface("lo").SetUp()
	// The host gets a /root of its own. Here the machine's stays.
	if _, err := h.Exec(t.Context(), "mount", "--bind", "/root", outerRoot); err != nil {
		t.Fatal(err)
	}
	return h
}

var buildLab = sync.OnceValue(func() error {
	out, err := exec.Command("go", "build", "-p", "1", "-o", programs.dir+"/", "baton/cmd/baton-lab").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return err
})

// nest has a shell see its own processes alone, and no folder of another lab: a lab that it builds would take those for remains and remove them.
func (w *walk) nest(m *machine) {
	w.Helper()
	dir := tools(w.T)
	if err := buildLab(); err != nil {
		w.Fatalf("build the lab: %v", err)
	}
	script := `mount --make-rprivate /
awk '$5 ~ "/baton-lab/baton-" { print $5 }' /proc/self/mountinfo | sort -r | xargs -r umount -l
ln -s ` + filepath.Join(dir, "baton-lab") + ` /usr/local/bin/
mkdir /run/tmp
export TMPDIR=/run/tmp
`
	if err := os.WriteFile(filepath.Join(m.home, ".nest"), []byte(script), 0o644); err != nil {
		w.Fatal(err)
	}
	w.expose(m, clone(w.T))
	if python, err := filepath.EvalSymlinks(filepath.Join(clone(w.T), "bin/faucet/bin/python")); err == nil {
		w.expose(m, python)
	}
	if err := os.Symlink(clone(w.T), filepath.Join(m.home, "baton")); err != nil && !errors.Is(err, fs.ErrExist) {
		w.Fatal(err)
	}
	if _, err := fmt.Fprintln(m.shell.input, "exec unshare --mount-proc bash --norc -m\n. /root/.nest </dev/null"); err != nil {
		w.Fatal(err)
	}
}

// clone is the project's folder.
func clone(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// expose has a path that is in the machine's /root be in the laptop's, too.
func (w *walk) expose(m *machine, path string) {
	w.Helper()
	rest, within := strings.CutPrefix(path, "/root/")
	if !within {
		return
	}
	top, _, _ := strings.Cut(rest, "/")
	if err := os.Symlink(filepath.Join(outerRoot, top), filepath.Join(m.home, top)); err != nil && !errors.Is(err, fs.ErrExist) {
		w.Fatal(err)
	}
}
