package part

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"baton/cmd/cli"
)

// TestSocket: the daemon that is asked is the named one, the configuration's, or the only one that there is.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	p := &Part{
		Name: "relay", Noun: "relay", Sockets: []string{filepath.Join(dir, "usual-*.sock")},
		Control: controlOf,
	}
	listen := func(name string) string {
		path := filepath.Join(dir, name)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return path
	}
	file := filepath.Join(dir, "r.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("control: " + dir + "/its.sock\n")
	check := func(name string, a Asked, want, problem string, users bool) {
		t.Helper()
		a.Part = p
		if a.Config == "" {
			a.Config = filepath.Join(dir, "none.yaml")
		}
		got, err := a.socket(p.Usual())
		if got != want || (err == nil) != (problem == "") || (err != nil && !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, want, problem)
		}
		var usage cli.UsageError
		if errors.As(err, &usage) != users {
			t.Errorf("%s: %v: the user's to mend? %v", name, err, users)
		}
	}
	const start = "to start it: systemctl start baton-relay, or baton relay run -c "
	check("none", Asked{}, "", "no relay is running (nothing listens on "+p.Sockets[0]+"); "+start+dir+"/none.yaml", false)
	check("none, with a default configuration", Asked{Config: file}, "", "no relay is running (nothing listens on "+dir+"/its.sock or "+p.Sockets[0]+"); "+start+file, false)
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "usual-killed.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	check("one that was killed", Asked{}, "", start, false)
	a := listen("usual-a.sock")
	check("one", Asked{}, a, "", false)
	b := listen("usual-b.sock")
	check("two", Asked{}, "", a+", "+b, true)
	check("socket", Asked{control: "/x"}, "/x", "", false)
	check("a default configuration whose daemon does not run", Asked{Config: file}, "", "2 daemons run here", true)
	check("a configuration that is named", Asked{Config: file, chosen: true}, dir+"/its.sock", "", false)
	its := listen("its.sock")
	check("a default configuration whose daemon runs", Asked{Config: file}, its, "", false)
	check("no configuration", Asked{Config: a + "x", chosen: true}, "", "--config", true)
	write("name: 1\n")
	check("a wrong configuration", Asked{Config: file, chosen: true}, "", "r.yaml:1", true)
}

// controlOf reads the one key that the configurations of these tests have.
func controlOf(file string, text []byte) (string, error) {
	for line := range strings.Lines(string(text)) {
		if socket, ok := strings.CutPrefix(line, "control: "); ok {
			return strings.TrimSpace(socket), nil
		}
	}
	return "", errors.New(file + ":1:1: control: is missing")
}
