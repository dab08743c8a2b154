package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"baton/cmd/cli"
	"baton/cmd/cli/clitest"
)

// said runs a command inside of the test.
func said(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), cli.Env{Out: &stdout, Err: &stderr}, args)
	return status, stdout.String(), stderr.String()
}

// TestTree: every part has the same verbs with the same flags and files; what only some have is in this list.
func TestTree(t *testing.T) {
	root := tree(cli.Env{})
	own := map[string][]string{
		"router": {"backend", "decisions", "explain", "sessions"}, "relay": {"distances", "flows", "plan", "routes", "stop"},
		"anycast": {"drain", "level", "plan", "undrain"}, "forwarder": {"trace"}, "balance": nil, "purge": nil,
	}
	if len(parts()) != len(own) {
		t.Errorf("%d parts, want %d", len(parts()), len(own))
	}
	for _, p := range parts() {
		clitest.Verbs(t, root, p, own[p.Name])
	}
}

// TestHelp: every command says in a line what it does, has an example, and examples are commands that there are.
func TestHelp(t *testing.T) {
	clitest.Help(t, tree(cli.Env{}))
	for _, args := range [][]string{{"--help"}, {"router", "--help"}, {"router", "run", "--help"}, {"help", "anycast", "level"}, {"get", "--help"}} {
		if status, out, errs := said(t, args...); status != 0 || errs != "" || !strings.Contains(out, "Examples:") {
			t.Errorf("%v: status %d, %s%s", args, status, out, errs)
		}
	}
}

// TestMistakes: what is typed wrong is said in one line, with what would be right, and makes exit status 2.
func TestMistakes(t *testing.T) {
	none := t.TempDir() + "/none.yaml"
	for _, tt := range []struct{ args, want string }{
		{"", `COMMAND is missing after "baton": one of anycast, balance, `},
		{"router", `COMMAND is missing after "baton router": one of backend, check, cleanup, decisions, explain, reload, run, schema, sessions, status; for example: baton router run`},
		{"router -c r.yaml", `COMMAND is missing after "baton router"`},
		{"router --help foo", `unknown command "foo" for "baton router": one of backend, `},
		{"router foo --help", `unknown command "foo" for "baton router"`},
		{"rooter", `unknown command "rooter" for "baton": did you mean "baton router"?`},
		{"router statsu", `did you mean "baton router status"?`},
		{"router backend dran", `did you mean "baton router backend drain"?`},
		{"relay drain", `unknown command "drain" for "baton relay": did you mean `},
		{"sessions", `did you mean "baton router sessions"?`},
		{"demo", `unknown command "demo" for "baton": it is "baton-lab demo"`},
		{"lab up", `it is "baton-lab lab"`},
		{"help foo", `unknown command "foo" for "baton": one of anycast, `},
		{"help router explai", `did you mean "baton router explain"?`},
		{"router stop", `unknown command "stop" for "baton router": it is "systemctl stop baton-router"`},
		{"balance restore", `unknown command "restore" for "baton balance": did you mean "baton balance cleanup"?`},
		{"relay validate", `did you mean "baton relay check"?`},
		{"--nonsense", `unknown flag --nonsense for "baton": one of --help, --version`},
		{"router --nonsense=1", `unknown flag --nonsense for "baton router": one of --help`},
		{"router -x", `unknown flag -x for "baton router": one of --help`},
		{"router explain", "URL is missing; for example: baton router explain http://cdn.example.net/video/1.mp4"},
		{"router backend drain", "SURROGATE is missing; for example: baton router backend drain s1"},
		{"anycast level", "LEVEL is missing; for example: baton anycast level prepend-1"},
		{"anycast level a b c", `unexpected argument "c"; for example: baton anycast level prepend-1`},
		{"relay plan", "--client ADDRESS and --server ADDRESS are missing; for example: baton relay plan --client 192.0.2.7 "},
		{"relay plan --client foo --server 192.0.2.1", `--client: "foo" is not an IP address, with or without a port`},
		{"forwarder trace", "--in-port PORT is missing; for example: baton forwarder trace --in-port 1 "},
		{"router explain http://x --client foo", `--client: "foo" is not an IP address, such as 192.0.2.7`},
		{"router explain http://x --header foo", `--header: "foo" is not NAME: VALUE`},
		{"router status now", `unexpected argument "now": "baton router status" takes none`},
		{"router status --confg x", `unknown flag --confg for "baton router status": did you mean --config?`},
		{"router cleanup --name x", `unknown flag --name for "baton router cleanup": one of --config, --help, --output`},
		{"router cleanup -x", `unknown flag -x for "baton router cleanup": one of --config, --help, --output`},
		{"get --nonsense", `unknown flag --nonsense for "baton get": "baton get --help" lists them`},
		{"router run -c", "FILE is missing after --config; for example: baton router run"},
		{"router explain http://x --client", "ADDRESS is missing after --client; for example: baton router explain http://cdn.example.net/video/1.mp4"},
		{"router status -w 5s", `unexpected argument "5s": the value of --watch follows a =: --watch=5s`},
		{"router status -o jsno", `--output: "jsno" is not one of table, wide, json, yaml: did you mean json?`},
		{"router run --log-level wran", `--log-level: "wran" is not one of debug, info, warn, error: did you mean warn?`},
		{"relay plan --client 192.0.2.1 --server 192.0.2.2 --clouds al", `--clouds: "al" is not one of prefer, any, one`},
		{"completion bahs", `did you mean "baton completion bash"?`},
		{"router status -o xml", `--output: "xml" is not one of table, wide, json, yaml`},
		{"router status --watch=often", `--watch: "often" is not a time with its unit, such as 500ms, 10s or 2m`},
		{"router status -c x --control y", "--config and --control both select the daemon"},
		{"router run --log-level loud", `--log-level: "loud" is not one of debug, info, warn, error`},
		{"router run --log-format xml", `--log-format: "xml" is not one of text, json`},
		{"router run -c " + none, none + ": no such file"},
		{"balance cleanup -c " + none, none + ": no such file"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			status, out, errs := said(t, strings.Fields(tt.args)...)
			if status != cli.Usage || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 || out != "" {
				t.Errorf("status %d, output %q, errors %q; want %d and a line with %q", status, out, errs, cli.Usage, tt.want)
			}
		})
	}
}

// TestNotRunning: a daemon that does not run is named, with how to start it, and that is a failure.
func TestNotRunning(t *testing.T) {
	for _, p := range parts() {
		for _, verb := range []string{"status", "reload"} {
			socket := t.TempDir() + "/none.sock"
			status, out, errs := said(t, p.Name, verb, "--control", socket)
			want := "baton: no " + p.Noun + " is running (nothing listens on " + socket + "); to start it: systemctl start baton-" + p.Name + ", or baton " + p.Name + " run -c "
			if status != cli.Failure || !strings.HasPrefix(errs, want) || out != "" {
				t.Errorf("%s %s: status %d, %s%s; want %s", p.Name, verb, status, out, errs, want)
			}
		}
	}
}

// TestCheck: a right configuration is OK in all formats, with what it has and its warnings.
func TestCheck(t *testing.T) {
	file := t.TempDir() + "/router.yaml"
	write(t, file, `vips: [{address: "10.9.9.9:443", interfaces: [lo], routes: [{pool: p}]}]
pools:
  p: {surrogates: [{name: s1, address: "10.2.1.2:80"}, {name: s2, address: "10.2.2.2:80"}]}
`)
	const warning = "is the port of HTTPS"
	status, out, errs := said(t, "router", "check", "-c", file)
	if want := file + ": configuration OK: 1 VIP, 1 pool, 2 surrogates\n"; status != 0 || out != want || !strings.Contains(errs, "warning: "+file+":1:9: ") ||
		!strings.Contains(errs, warning) {
		t.Errorf("status %d, %q, want %q; %s", status, out, want, errs)
	}
	for format, parse := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": func(b []byte, to any) error { return yaml.Unmarshal(b, to) }} {
		var have struct {
			Config, Has string
			Warnings    []string
		}
		_, out, _ := said(t, "router", "check", "-c", file, "-o", format)
		if err := parse([]byte(out), &have); err != nil || have.Config != file || !strings.Contains(have.Has, "1 VIP") || len(have.Warnings) == 0 {
			t.Errorf("%s: %v: %+v of %s", format, err, have, out)
		}
	}
}

// TestCheckTellsThePlace: what is wrong only on this host is wrong at a place of the file, too.
func TestCheckTellsThePlace(t *testing.T) {
	file := t.TempDir() + "/balance.yaml"
	write(t, file, "links: [eth0]\nrules:\n  - {name: r, application: {user: nosuchuser}}\n")
	status, _, errs := said(t, "balance", "check", "-c", file)
	if want := "baton: " + file + `:3:35: rules[0].application.user: "nosuchuser" is not a user of this host (`; status != cli.Usage || !strings.HasPrefix(errs, want) {
		t.Errorf("status %d, %q, want %q", status, errs, want)
	}
}

// TestReference: the reference of the commands is of these commands.
func TestReference(t *testing.T) { clitest.Reference(t, tree(cli.Env{})) }
