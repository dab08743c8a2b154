package packages_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"baton/lab"
)

// podman's words for a container that needs no control groups and asks for no higher limits than any machine grants. The script around it hides the
// first version of control groups, which crun does not want beside the second.
var (
	podmanRun    = []string{"run", "--rm", "--cgroups", "disabled", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"}
	podmanScript = `mount -t cgroup2 none /sys/fs/cgroup; store=$1; shift
exec podman --root "$store/root" --runroot "$store/run" --storage-driver vfs --cgroup-manager cgroupfs --events-backend none "$@"`
)

// podman runs it with a store of its own.
type podman struct {
	t     *testing.T
	store string
}

func (p podman) program(args ...string) lab.Program {
	return lab.Program{Path: "unshare", Name: "podman", Args: append([]string{"--mount", "sh", "-c", podmanScript, "sh", p.store}, args...)}
}

func (p podman) do(args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	run := p.program(args...)
	out, err := exec.CommandContext(ctx, run.Path, run.Args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("podman %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestImage runs the images with podman: the programs, checks of configurations, and a router in a lab's network, whose sessions outlive its container.
func TestImage(t *testing.T) {
	s := newNetwork(t)
	s.host.Lab().Need("podman", "crun", "unshare")
	dir := makePackages(t, older, usual)
	p := podman{t, t.TempDir()}
	const tag = "baton:0.1.0-test1"
	p.do("load", "-i", one(t, dir, "baton_*_oci.tar"))
	p.do("load", "-i", one(t, dir, "baton-cdn_*_oci.tar"))
	if out := p.do(append(podmanRun, "--network", "none", tag, "version")...); out != "baton "+older+"\n" {
		t.Errorf("version: %q", out)
	}
	etc, err := filepath.Abs("../etc")
	if err != nil {
		t.Fatal(err)
	}
	for image, part := range map[string]string{tag: "router", "baton-cdn:0.1.0-test1": "nameserver"} {
		if out := p.do(append(podmanRun, "--network", "none", "-v", etc+":/etc/baton:ro", image, part, "check")...); !strings.Contains(out, "configuration OK") {
			t.Errorf("%s: %s", part, out)
		}
	}

	router := append(podmanRun, "--network", "host", "--privileged", "-v", "/sys/fs/bpf:/sys/fs/bpf", "-v", etc+":/etc/baton:ro", tag, "router", "run")
	start := func() *lab.Process {
		run, err := s.host.Start(p.program(router...))
		if err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, 30*time.Second, func() error {
			if !strings.Contains(run.Log(), "msg=ready") {
				return fmt.Errorf("it is not ready:\n%s", run.Log())
			}
			return nil
		})
		return run
	}
	run := start()
	use := s.hold(t)
	if err := run.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	if err := use(); err != nil {
		t.Errorf("a session of the container that was killed: %v", err)
	}
	run = start()
	if err := use(); err != nil || s.get("/128") != nil {
		t.Errorf("the next container's sessions: %v\n%s", err, run.Log())
	}
	_ = run.Kill()
}

// TestBillOfMaterials: it names every library of the program with its licence, and the web page's.
func TestBillOfMaterials(t *testing.T) {
	dir := makePackages(t, older, usual)
	for program, needs := range map[string]string{"baton": "github.com/cilium/ebpf", "baton-cdn": "preact"} {
		text, err := os.ReadFile(one(t, dir, program+"_*_sbom.cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var bom struct {
			BOMFormat string `json:"bomFormat"`
			Metadata  struct {
				Component struct{ Name, Version string }
			}
			Components []struct {
				Name     string
				Licenses []json.RawMessage
			}
		}
		if err := json.Unmarshal(text, &bom); err != nil {
			t.Fatal(err)
		}
		if c := bom.Metadata.Component; bom.BOMFormat != "CycloneDX" || c.Name != program || c.Version != older {
			t.Errorf("%s: %+v", program, bom.Metadata)
		}
		named := map[string]bool{}
		for _, c := range bom.Components {
			named[c.Name] = true
			if len(c.Licenses) == 0 {
				t.Errorf("%s: %s has no licence", program, c.Name)
			}
		}
		if !named[needs] || !named["std"] || len(named) < 30 {
			t.Errorf("%s: %d components, without %s or Go's library", program, len(named), needs)
		}
	}
}
