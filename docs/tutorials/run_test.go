// Package tutorials_test follows the tutorials beside it: it runs each block of a page as it stands, on a host of a lab.
package tutorials_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/build"
)

const (
	patience = 30 * time.Second // for what is shown to be printed, and for an interrupted program to end
	longest  = 2 * time.Minute  // that commands may take: nobody waits longer in a tutorial
)

var programs struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	status := m.Run()
	os.RemoveAll(programs.dir)
	os.Exit(status)
}

// tools installs the programs of the project once, and gives their folder: hosts have a /proc and a /run of their own.
func tools(t *testing.T) string {
	t.Helper()
	programs.once.Do(func() {
		const prefix = "baton-tutorials-"
		left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
		for _, dir := range left { // of tests that were killed
			if _, err := os.Stat("/proc/" + strings.TrimPrefix(filepath.Base(dir), prefix)); err != nil {
				os.RemoveAll(dir)
			}
		}
		programs.dir = filepath.Join(os.TempDir(), prefix+strconv.Itoa(os.Getpid()))
		if programs.err = os.MkdirAll(programs.dir, 0o755); programs.err != nil {
			return
		}
		programs.err = build.InstallPrograms(programs.dir, "baton", "baton-cdn")
	})
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return programs.dir
}

// walk is a run through a page.
type walk struct {
	*testing.T
	page  string
	hosts map[string]*machine
}

// machine is a host as its administrator sees it: a shell, and files that are the host's own.
type machine struct {
	host     *lab.Host
	home     string // /root of the host
	shell    *terminal
	terminal []*terminal // whose programs keep running
}

// follow does what a page says on hosts of the names that it uses. Each block must be run; what is started must be stopped by the page.
func follow(t *testing.T, page string, hosts ...*lab.Host) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range hosts {
		names = append(names, h.Name())
	}
	all, err := blocks(string(text), names)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	w := &walk{T: t, page: page, hosts: make(map[string]*machine)}
	for _, h := range hosts {
		w.hosts[h.Name()] = w.machine(h)
	}
	ran := 0
	for i, b := range all {
		if b.language == "text" {
			continue // looked for when the commands were run
		}
		var shown *block
		if i+1 < len(all) && all[i+1].language == "text" {
			shown = &all[i+1]
		}
		if b.language == "sh" {
			ran++
		}
		for _, name := range b.hosts {
			w.do(w.hosts[name], b, shown)
		}
	}
	if ran == 0 {
		t.Fatalf("%s: no commands are in it", page)
	}
	for name, m := range w.hosts {
		w.cleared(name, m)
	}
}

// do runs a block on a host.
func (w *walk) do(m *machine, b block, shown *block) {
	w.Helper()
	if b.file != "" {
		w.write(m, b)
		return
	}
	if b.interrupts() {
		w.interrupt(m, b)
	}
	if strings.TrimSpace(b.text) == "" && shown == nil {
		return
	}
	began := time.Now()
	term := m.shell
	if b.stays() {
		if shown == nil {
			w.Fatalf("%s:%d: what does the program print when it is ready? Show it in a block of text", w.page, b.line)
		}
		term = w.open(m, false)
		m.terminal = append(m.terminal, term)
	}
	from := term.begin(w.T, m, b)
	if !b.stays() {
		status, err := term.end(longest)
		switch {
		case err != nil:
			w.Fatalf("%s:%d: on %s: %v\n%s--- printed\n%s", w.page, b.line, m.host.Name(), err, b.text, term.since(from))
		case b.fails() && status == 0:
			w.Fatalf("%s:%d: on %s: this does not fail\n%s--- printed\n%s", w.page, b.line, m.host.Name(), b.text, term.since(from))
		case !b.fails() && status != 0:
			w.Fatalf("%s:%d: on %s: exit status %d\n%s--- printed\n%s", w.page, b.line, m.host.Name(), status, b.text, term.since(from))
		}
	}
	if shown != nil {
		if err := lab.Poll(patience, func() error { return shows(shown.text, term.since(from)) }); err != nil {
			w.Fatalf("%s:%d: on %s: %v", w.page, shown.line, m.host.Name(), err)
		}
	}
	w.Logf("%s:%d: on %s: %.1f s\n%s", w.page, b.line, m.host.Name(), time.Since(began).Seconds(), term.since(from))
}

// write makes a file of the page.
func (w *walk) write(m *machine, b block) {
	w.Helper()
	path := b.file
	if !filepath.IsAbs(path) {
		path = filepath.Join("/root", path)
	}
	p, err := m.host.Start(lab.Program{
		Dir: "/", Path: "sh", Args: []string{"-euc", `mkdir -p "$(dirname "$1")"; cat >"$1"`, "sh", path}, Stdin: strings.NewReader(b.text), Unlogged: true,
	})
	if err == nil {
		err = p.Wait(w.Context())
	}
	if err != nil {
		w.Fatalf("%s:%d: write %s on %s: %v", w.page, b.line, b.file, m.host.Name(), err)
	}
}

// interrupt presses Ctrl-C where programs of the host keep running.
func (w *walk) interrupt(m *machine, b block) {
	w.Helper()
	if len(m.terminal) == 0 {
		w.Fatalf("%s:%d: nothing runs in a second terminal of %s", w.page, b.line, m.host.Name())
	}
	for _, t := range m.terminal {
		if err := syscall.Kill(-t.process.Pid(), syscall.SIGINT); err != nil {
			w.Fatalf("%s:%d: Ctrl-C on %s: %v", w.page, b.line, m.host.Name(), err)
		}
		const interrupted = 128 + int(syscall.SIGINT)
		if status, err := t.end(patience); err != nil || status != 0 && status != interrupted {
			w.Fatalf("%s:%d: on %s: after Ctrl-C: %d, %v\n%s", w.page, b.line, m.host.Name(), status, err, t.since(0))
		}
	}
	m.terminal = nil
}

// cleared: nothing that the page has started runs on the host.
func (w *walk) cleared(name string, m *machine) {
	w.Helper()
	for _, t := range m.terminal {
		w.Errorf("%s: nobody stops what runs in a second terminal of %s:\n%s", w.page, name, t.since(0))
	}
	from := m.shell.begin(w.T, m, block{remark: "fails", text: "jobs -r; [ -z \"$(jobs -r)\" ]\n"})
	if status, err := m.shell.end(patience); err != nil || status != 0 {
		w.Errorf("%s: on %s a program still runs in the background: %v\n%s", w.page, name, err, m.shell.since(from))
	}
}
