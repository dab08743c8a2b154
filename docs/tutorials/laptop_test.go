package tutorials_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"baton/lab"
	"baton/lab/build"
)

// outerRoot is where a laptop has the machine's /root.
const outerRoot = "/mnt"

// laptop is a host whose page builds networks of its own on it: it has baton-lab, and the project as /root/baton.
func laptop(t *testing.T) *lab.Host {
	t.Helper()
	h := lab.New(t).Host("laptop")
	h.Interface("lo").SetUp()
	run(t, h, `mount --bind /root "$1"`, outerRoot)
	home := ownFiles(t, h)
	bin := tools(t)
	if err := installLab(); err != nil {
		t.Fatal(err)
	}
	// A lab on this host would take the folders of others for remains, as it does not see their processes, and others would take its folder for one.
	run(t, h, `mount --make-rprivate /
awk '$5 ~ "/baton-lab/baton-" { print $5 }' /proc/self/mountinfo | sort -r | xargs -r umount -l
mount -t tmpfs none "$1"
mount --make-rshared /
ln -s "$2/baton-lab" /usr/local/bin/`, filepath.Dir(h.Lab().Dir()), bin)

	clone, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(home, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	// What the machine has in /root: the project perhaps, or a Python.
	python, err := filepath.EvalSymlinks(filepath.Join(clone, "bin/faucet/bin/python"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, path := range []string{clone, python} {
		if rest, within := strings.CutPrefix(path, "/root/"); within {
			top, _, _ := strings.Cut(rest, "/")
			link(filepath.Join(outerRoot, top), top)
		}
	}
	link(clone, "baton")
	return h
}

var installLab = sync.OnceValue(func() error { return build.InstallPrograms(programs.dir, "baton-lab") })
