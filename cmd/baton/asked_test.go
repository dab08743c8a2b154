package main

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"baton/cmd/cli"
)

// TestSocket: the daemon that is asked is the named one, the configuration's, or the only one that there is.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	p := &part{
		name: "relay", noun: "relay", sockets: []string{filepath.Join(dir, "usual-*.sock")},
		control: relayPart().control,
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
	write(t, file, "name: r\ncontrol: "+dir+"/its.sock\nentries: [{listen: \"127.0.0.1:1\", destination: \"127.0.0.1:2\"}]\n")
	check := func(name string, a asked, want, problem string, users bool) {
		t.Helper()
		a.part = p
		if a.config == "" {
			a.config = filepath.Join(dir, "none.yaml")
		}
		got, err := a.socket(p.usual())
		if got != want || (err == nil) != (problem == "") || (err != nil && !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, want, problem)
		}
		var usage cli.UsageError
		if errors.As(err, &usage) != users {
			t.Errorf("%s: %v: the user's to mend? %v", name, err, users)
		}
	}
	const start = "to start it: systemctl start baton-relay, or baton relay run -c "
	check("none", asked{}, "", "no relay is running (nothing listens on "+p.sockets[0]+"); "+start+dir+"/none.yaml", false)
	check("none, with a default configuration", asked{config: file}, "", "no relay is running (nothing listens on "+dir+"/its.sock or "+p.sockets[0]+"); "+start+file, false)
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "usual-killed.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	check("one that was killed", asked{}, "", start, false)
	a := listen("usual-a.sock")
	check("one", asked{}, a, "", false)
	b := listen("usual-b.sock")
	check("two", asked{}, "", a+", "+b, true)
	check("socket", asked{control: "/x"}, "/x", "", false)
	check("a default configuration whose daemon does not run", asked{config: file}, "", "2 daemons run here", true)
	check("a configuration that is named", asked{config: file, chosen: true}, dir+"/its.sock", "", false)
	its := listen("its.sock")
	check("a default configuration whose daemon runs", asked{config: file}, its, "", false)
	check("no configuration", asked{config: a + "x", chosen: true}, "", "--config", true)
	write(t, file, "name: 1\n")
	check("a wrong configuration", asked{config: file, chosen: true}, "", "r.yaml:1", true)
}
