package tutorials_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"baton/lab"
)

func (w *walk) machine(h *lab.Host) *machine {
	w.Helper()
	m := &machine{host: h, home: ownFiles(w.T, h)}
	m.shell = w.open(m, true)
	return m
}

// ownFiles gives a host files of its own, unless it has them, and returns what is /root there: what is written to these folders stays with the host,
// and goes with it. [follow] calls it; a test does if it has something to prepare.
func ownFiles(t *testing.T, h *lab.Host) (home string) {
	t.Helper()
	home = filepath.Join(h.Lab().Dir(), "home-"+h.Name())
	own := filepath.Join(h.Lab().Dir(), "own-"+h.Name())
	if _, err := os.Stat(home); err == nil {
		return home
	}
	for _, dir := range []string{home, own} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The host's hosts, resolv.conf and nsswitch.conf are mounts in /etc, which would be hidden. The lab's folder is in /run, which comes last.
	const script = `own=$1 home=$2 tools=$3
mount --bind "$home" /root
mount -t tmpfs none "$own"
for folder in etc usr/local var srv; do
	mkdir -p "$own/$folder/upper" "$own/$folder/work"
	[ $folder != etc ] || cp /etc/hosts /etc/resolv.conf /etc/nsswitch.conf "$own/etc/upper"
	mount -t overlay none -o lowerdir=/$folder,upperdir="$own/$folder/upper",workdir="$own/$folder/work" /$folder
done
rm -rf /etc/baton /var/lib/baton /usr/local/bin/baton /usr/local/bin/baton-cdn
ln -s "$tools/baton" "$tools/baton-cdn" /usr/local/bin/
mount -t tmpfs none /run
mkdir /run/lock /run/netns
mount --make-rshared /`
	run(t, h, script, own, home, tools(t))
	return home
}

// run has a host run a script, which needs no folder: that of the tests may be in /root, where the host has its own.
func run(t *testing.T, h *lab.Host, script string, args ...string) {
	t.Helper()
	p, err := h.Start(lab.Program{Path: "sh", Args: append([]string{"-euc", script, "sh"}, args...), Dir: "/", Unlogged: true})
	if err == nil {
		err = p.Wait(t.Context())
	}
	if err != nil {
		t.Fatalf("prepare %s: %v\n%s", h.Name(), err, p.Log())
	}
}

// terminal is a shell.
type terminal struct {
	process *lab.Process
	input   *os.File
	blocks  int
}

// open opens a terminal on a host. In one with jobs each program of the background is a job of its own, as in a user's.
func (w *walk) open(m *machine, jobs bool) *terminal {
	w.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { write.Close() })
	defer read.Close()
	first := "cd /root; exec 2>&1" // one stream, as in a terminal: two would arrive in any order
	if jobs {
		first += "; set -m"
	}
	// The shell is the first process of its own numbers, which programs look for in /proc. All other mounts are the host's.
	p, err := m.host.Start(lab.Program{
		Dir: "/", Path: "unshare", Args: []string{"--mount", "--propagation", "unchanged", "sh", "-euc", "mount --make-rprivate /proc; mount -t proc proc /proc; bash --norc; exit $?"}, Stdin: read, Name: "shell", Unlogged: true,
		Env: []string{"HOME=/root", "TERM=dumb", "LC_ALL=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := fmt.Fprintln(write, first); err != nil {
		w.Fatal(err)
	}
	return &terminal{process: p, input: write}
}

// begin has the terminal run commands, and returns where their output begins: with what programs in the background print before.
func (t *terminal) begin(test *testing.T, m *machine, b block) int {
	test.Helper()
	t.blocks++
	name := fmt.Sprintf(".block-%d-%d", t.process.Pid(), t.blocks)
	if err := os.WriteFile(filepath.Join(m.home, name), []byte(b.text), 0o644); err != nil {
		test.Fatal(err)
	}
	stop := "-e"
	if b.fails() {
		stop = "+e"
	}
	from := 0
	if all := marks.FindAllStringIndex(t.process.Log(), -1); len(all) > 0 {
		from = all[len(all)-1][1]
	}
	// Commands do not read what is typed later.
	if _, err := fmt.Fprintf(t.input, "set %s; . /root/%s </dev/null; printf '\\n<<block %d: %%d>>\\n' $?\n", stop, name, t.blocks); err != nil {
		test.Fatalf("the shell on %s has ended:\n%s", m.host.Name(), t.process.Log())
	}
	return from
}

var marks = regexp.MustCompile(`\n<<block (\d+): (\d+)>>\n`)

// end waits for the end of the commands, and returns the exit status of the last one.
func (t *terminal) end(timeout time.Duration) (status int, err error) {
	err = lab.Poll(timeout, func() error {
		for _, m := range marks.FindAllStringSubmatch(t.process.Log(), -1) {
			if m[1] == strconv.Itoa(t.blocks) {
				status, _ = strconv.Atoi(m[2]) // the pattern has digits
				return nil
			}
		}
		select {
		case <-t.process.Done(): // of a command's failure, or of Ctrl-C
			status = exitStatus(t.process.Wait(context.Background()))
			return nil
		default:
			return errors.New("the commands have not ended")
		}
	})
	return status, err
}

// exitStatus is as a shell has it.
func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if s := exit.Sys().(syscall.WaitStatus); s.Signaled() {
			return 128 + int(s.Signal())
		}
	}
	return lab.ExitCode(err)
}

// since is what was printed from a place on.
func (t *terminal) since(from int) string {
	text := t.process.Log()
	return strings.TrimSpace(marks.ReplaceAllString(text[min(from, len(text)):], "\n"))
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
