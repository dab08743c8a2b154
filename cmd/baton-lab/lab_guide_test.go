package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"baton/cmd/cli"
	"baton/lab"
	"baton/lab/keeper"
	"baton/lab/topology"
)

const guide = "../../docs/lab.md"

var block = regexp.MustCompile("(?s)```(yaml|sh)\n(.*?)```")

// TestLabGuide does all that the guide shows: its topologies are files of a folder, its commands run in it.
func TestLabGuide(t *testing.T) {
	lab.NeedRoot(t)
	for _, r := range keeper.Running() {
		t.Skipf("SKIP: lab %s is up, and the guide's commands mean the only one", r.Name)
	}
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "baton-lab"), []byte("#!/bin/sh\n"+asBaton+"=1 exec "+self+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of a block that fails
		for _, r := range keeper.Running() {
			if !strings.HasPrefix(r.Name, "test-") {
				_ = keeper.Stop(r)
			}
		}
	})
	ran := 0
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		if m[1] == "yaml" {
			first, _, _ := strings.Cut(m[2], "\n")
			write(t, filepath.Join(dir, strings.TrimPrefix(first, "# ")), m[2])
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // the first virtual machine makes its root
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-eux")
		cmd.Stdin = strings.NewReader(m[2])
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		cmd.WaitDelay = time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		ran++
	}
	if ran < 5 {
		t.Errorf("only %d blocks of commands were found", ran)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.yaml"))
	for _, f := range files {
		if _, err := os.ReadFile(f); err != nil {
			t.Error(err)
		}
		must(t, dir, "lab", "up", "--check", f)
	}
}

// TestLabExamples builds each of them; the first that is said to be reached is.
func TestLabExamples(t *testing.T) {
	lab.NeedRoot(t)
	files, err := filepath.Glob("../../examples/lab/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %v only: %v", files, err)
	}
	reach := map[string][2]string{ // a host and what it pings
		"ten": {"client", "server"}, "access": {"modem", "server"}, "anycast": {"client-1", "10.9.9.9"}, "lan": {"a", "world"}, "openflow": {"a", "b"}, "full": {"client", "s1"},
	}
	for _, f := range files {
		base := strings.TrimSuffix(filepath.Base(f), ".yaml")
		t.Run(base, func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			dir, name := upLab(t, string(text))
			route, known := reach[base]
			if !known {
				t.Fatal("the test does not know what is to be reached in it")
			}
			if base == "openflow" {
				for _, s := range []string{"s1", "s2"} {
					must(t, dir, "lab", "exec", "--lab", name, s, "ovs-ofctl", "-O", "OpenFlow13", "add-flow", "br0", "actions=normal")
				}
			}
			lab.Eventually(t, long, func() error {
				if _, stderr, code := batonLab(t, dir, "lab", "exec", "--lab", name, route[0], "ping", "-4", "-c", "1", "-W", "1", route[1]); code != 0 {
					return fmt.Errorf("ping from %s to %s: exit code %d %s", route[0], route[1], code, stderr)
				}
				return nil
			})
			must(t, dir, "lab", "down", name)
		})
	}
}

// TestLabGuideHasEveryKey: the guide explains, and full.yaml shows, each key of a topology; the guide names each command.
func TestLabGuideHasEveryKey(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.ReadFile("../../examples/lab/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../lab/topology/parse.go")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, m := range regexp.MustCompile(`(?m)^\s*\{Name: "([a-z_]+)", Decode: [a-z]`).FindAllStringSubmatch(string(source), -1) {
		keys = append(keys, m[1])
	}
	if len(keys) < 25 {
		t.Fatalf("only %v were found", keys)
	}
	for _, k := range topology.ShapeKeys {
		keys = append(keys, strings.TrimPrefix(k.Name, "queue."))
	}
	for _, key := range keys {
		if !regexp.MustCompile("`" + key + "`|[{ ]" + key + ":").MatchString(string(text)) {
			t.Errorf("the guide lacks the key %s", key)
		}
		if !regexp.MustCompile(`\b` + key + `:`).MatchString(string(full)) {
			t.Errorf("full.yaml lacks the key %s", key)
		}
	}
	for _, c := range labCommand(cli.Env{}).Commands() {
		if !c.Hidden && !strings.Contains(string(text), "`baton-lab lab "+c.Name()) {
			t.Errorf("the guide lacks the command %s", c.Name())
		}
	}
}
