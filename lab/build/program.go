// Package build has Baton's programs for tests. A process builds each program once, from the source, and leaves no file behind. Tests that
// were compiled (go test -c) run where there is neither Go nor the source: the environment then names a folder with the programs.
package build

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// folderKey is the variable of the environment that names a folder with programs that are built: baton, and baton-upgraded, of the version
// "upgraded", and the others alike.
const folderKey = "BATON_PROGRAMS"

// Program returns a path that runs a program of this repository: baton, baton-cdn or baton-lab. The file may be without a name: see
// [InstallPrograms] for another user than root, another /proc, or a program that has others beside it.
func Program(name string) (path string, err error) { return ProgramOf(name, "") }

// ProgramOf is Program, of a version that it reports; "" is that of a development build.
func ProgramOf(name, version string) (path string, err error) {
	key := name
	if version != "" {
		key += "-" + version
	}
	if folder := os.Getenv(folderKey); folder != "" {
		return findFile(folder, key)
	}
	once, _ := programs.LoadOrStore(key, sync.OnceValues(func() (string, error) { return buildProgram(name, version) }))
	return once.(func() (string, error))()
}

var programs sync.Map // a sync.OnceValues for each program and version

func findFile(folder, name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(folder, name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("find the program in %s: %w", folderKey, err)
	}
	return path, nil
}

// buildProgram builds a program to a file that it unlinks, so that nothing is left however the process ends.
func buildProgram(name, version string) (string, error) {
	dir, err := os.MkdirTemp("", "baton-build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, name)
	args := []string{"build", "-p", "1", "-o", file}
	if version != "" {
		args = append(args, "-ldflags", "-X main.version="+version)
	}
	if out, err := exec.Command("go", append(args, "baton/cmd/"+name)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return keepOpen(file)
}

// keepOpen opens a file until the process ends, and returns a path to it that needs no name. The path is that of a thread which does nothing
// else: the descriptors of the process are those of its main thread, which may have a table of its own, as that of a relay's worker, and those
// of a child, /proc/self, may be replaced by the files that it is given, or closed when it executes another program.
func keepOpen(file string) (string, error) {
	var path string
	opened := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		path = fmt.Sprintf("/proc/%d/task/%d/fd/%d", os.Getpid(), unix.Gettid(), fd)
		opened <- err
		if err == nil {
			select {}
		}
	}()
	if err := <-opened; err != nil {
		return "", fmt.Errorf("open %s: %w", file, err)
	}
	return path, nil
}

// InstallPrograms puts programs into a folder, side by side, for what needs files with names.
func InstallPrograms(dir string, names ...string) error {
	for _, name := range names {
		path, err := Program(name)
		if err != nil {
			return err
		}
		// A process of its own writes the file: a child that this one starts meanwhile would have a copy of the descriptor, and the file be busy.
		out, err := exec.Command("install", "-m", "755", path, filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("install %s: %w\n%s", name, err, out)
			return errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
		}
	}
	return nil
}
