package tutorials_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"baton/lab"
)

// laptop is the name of a host whose pages build labs of their own on it.
const laptop = "laptop"

// newLaptop is a host for such a page.
func newLaptop(t *testing.T) *lab.Host {
	t.Helper()
	h := lab.New(t).Host(laptop)
	h.Interface("lo").SetUp()
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
	if _, err := fmt.Fprintln(m.shell.input, "exec unshare --mount-proc bash --norc -m\n. /root/.nest </dev/null"); err != nil {
		w.Fatal(err)
	}
}
