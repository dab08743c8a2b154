package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"baton/experiments/experimentstest"
	"baton/lab"
)

const balanceGuide = "../../docs/balance.md"

// TestBalanceGuide does what the guide shows first, and checks each configuration in it, on a host with these interfaces.
func TestBalanceGuide(t *testing.T) {
	lab.NeedRoot(t)
	data, err := os.ReadFile(balanceGuide)
	if err != nil {
		t.Fatal(err)
	}
	l := lab.New(t)
	host := l.Host("host")
	host.Private("/run/baton")
	for i, name := range []string{"eth0", "eth1", "wwan0"} {
		near, far := fmt.Sprintf("192.0.2.%d", 16*i+2), fmt.Sprintf("192.0.2.%d", 16*i+1)
		provider := l.Host("provider" + fmt.Sprint(i))
		l.Link(lab.End{Host: host, Name: name, Addrs: []string{near + "/28"}}, lab.End{Host: provider, Addrs: []string{far + "/28"}}, lab.LinkOptions{})
		if _, err := host.Exec(t.Context(), "ip", "route", "add", "default", "via", far, "metric", fmt.Sprint(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	name := fmt.Sprintf("g%d", os.Getpid()%1000000)
	dir := t.TempDir()
	run := func(command string, args ...string) string {
		t.Helper()
		p, err := host.Start(lab.Program{Path: experimentstest.Program(t), Args: args, Dir: dir, Unlogged: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(t.Context()); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, p.Log())
		}
		return p.Log()
	}
	configurations := 0
	for _, m := range regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```").FindAllStringSubmatch(string(data), -1) {
		configurations++
		file := filepath.Join(dir, fmt.Sprintf("%d.yaml", configurations))
		write(t, file, fmt.Sprintf("name: %s\ncontrol: %s/%d.sock\nstate: %s\n%s", name, dir, configurations, dir, m[1]))
		run(m[1], "balance", "check", "-c", file)
	}
	if configurations < 3 {
		t.Fatalf("only %d configurations were found", configurations)
	}
	if err := os.Rename(filepath.Join(dir, "1.yaml"), filepath.Join(dir, "balance.yaml")); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "1.sock")
	begin := regexp.MustCompile("(?ms)^```sh\n(baton balance.*?)^```").FindStringSubmatch(string(data))
	if begin == nil {
		t.Fatal("the guide does not begin")
	}
	var running *lab.Process
	ran := 0
	for line := range strings.Lines(begin[1]) {
		command, _, _ := strings.Cut(line, "#")
		args := strings.Fields(command)[1:]
		ran++
		if strings.TrimSpace(command) == "baton balance run -c balance.yaml" {
			var err error
			running, err = host.Start(lab.Program{Path: experimentstest.Program(t), Args: args, Dir: dir, Name: "balance"})
			if err != nil {
				t.Fatal(err)
			}
			lab.Eventually(t, long, func() error {
				if !strings.Contains(running.Log(), "msg=ready") {
					return fmt.Errorf("it is not ready:\n%s", running.Log())
				}
				return nil
			})
			continue
		}
		if running != nil {
			args = append(args, "--control", socket)
		}
		out := run(command, args...)
		if strings.Contains(command, "status") && strings.Count(out, "used") != 2 {
			t.Errorf("%s prints\n%s", command, out)
		}
	}
	if ran < 4 || running == nil {
		t.Fatalf("%d commands were found in\n%s", ran, begin[1])
	}
	if err := running.Stop(long); err != nil {
		t.Errorf("%v\n%s", err, running.Log())
	}
	for _, rule := range regexp.MustCompile("`(ip route [^`]* proto 66)`").FindAllStringSubmatch(string(data), -1) {
		args := strings.Fields(rule[1])
		if out, err := host.Exec(t.Context(), args[0], args[1:]...); err != nil || out != "" {
			t.Errorf("%s: %v, left is\n%s", rule[1], err, out)
		}
	}
}
