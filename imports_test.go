package baton_test

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The folders of the module by what they may import of it. See "Layout" in the architecture document.
var (
	pure    = []string{"packet", "openflow", "splice", "api", "document", "exporter", "sockdiag"}
	parts   = []string{"forwarder", "controller", "router", "relay", "balance", "anycast", "resume", "purge", "nameserver"}
	outside = []string{"cmd", "experiments", "examples", "docs", "kubernetes"} // wire the rest together
	tables  = "packaging/reference/"                                           // writes the tables of all parts
	shared  = []string{"policy"}                                               // decisions that several parts take alike
	alone   = []string{"lab", "packaging", "bpf"}                              // import nothing of the parts
	served  = []string{"api", "exporter"}                                      // what daemon puts together for the parts
)

// forbidden says why a file may not import a package, or "" when it may. Both paths are slash-separated and relative
// to the module; an import from elsewhere is its whole path.
func forbidden(file, imported string) string {
	isTest := strings.HasSuffix(file, "_test.go")
	from, _, _ := strings.Cut(file, "/")
	if strings.HasPrefix(imported, "github.com/cilium/ebpf") && from != "datapath" {
		return "only datapath imports cilium/ebpf"
	}
	local, ours := strings.CutPrefix(imported, "baton/")
	if !ours {
		return ""
	}
	to, _, _ := strings.Cut(local, "/")
	known := slices.Concat(pure, parts, shared, outside, alone, []string{"datapath", "daemon", "rpc", "dashboard"})
	switch {
	case !strings.Contains(file, "/"):
		return "" // the root has tests only
	case !slices.Contains(known, from):
		return "the folder is not in the layout"
	case from == "datapath" && isTest && (path.Dir(file) == local || path.Base(path.Dir(file)) == to):
		return "" // tests from outside of the package compare it with the part that must decide alike
	case from == "datapath" && to == "datapath":
		return programs(file, local)
	case from == to:
		return ""
	case to == "lab":
		if isTest || from == "experiments" || strings.HasPrefix(file, "cmd/baton-lab/") {
			return ""
		}
		return "only tests, experiments and baton-lab import lab"
	case strings.HasPrefix(file, tables) && !slices.Contains(outside, to):
		return ""
	case slices.Contains(outside, to):
		if to == "experiments" && (strings.HasPrefix(file, "cmd/baton-lab/") || from == "cmd" && isTest) {
			return ""
		}
		return "nothing imports what wires the parts together"
	case slices.Contains(outside, from):
		return ""
	case from == "document":
		return "document imports nothing of ours"
	case from == "lab" && to == "document":
		return ""
	case slices.Contains(alone, from):
		return from + " knows nothing of the parts"
	case from == "sockdiag" && isTest && local == "datapath/kerneltest":
		return "" // it asks a kernel: its tests need one of their own
	case slices.Contains(pure, from) && to != "packet":
		return "pure packages import nothing of ours but packet"
	case from == "datapath" && (!slices.Contains(pure, to) || to == "document"):
		return "datapath imports packet, openflow, splice and api alone"
	case from == "daemon" && !slices.Contains(served, to):
		return "daemon imports api and exporter alone"
	case from == "rpc" && to != "api" && (to != "document" || !strings.HasPrefix(file, "rpc/settings/")):
		return "rpc imports api alone, and its settings document"
	case from == "dashboard" && to != "api":
		return "the dashboard meets the parts through api"
	case slices.Contains(shared, from) && !slices.Contains([]string{"packet", "document", "api"}, to):
		return from + " imports packet, document and api alone"
	case slices.Contains(parts, to):
		return "parts never import each other"
	}
	return ""
}

// programs says why a file of datapath may not import one of its packages: what two programs share is in datapath itself.
func programs(file, imported string) string {
	if imported == "datapath" || imported == "datapath/kerneltest" {
		return ""
	}
	if path.Dir(file) == "datapath" {
		return "datapath itself knows no program"
	}
	return "programs never import each other"
}

// alias is the one name that a program's package of datapath has where it is imported, or "" for any other package.
func alias(imported string) string {
	if program, ok := strings.CutPrefix(imported, "baton/datapath/"); ok && program != "kerneltest" {
		return "kernel"
	}
	return ""
}

func TestImportRule(t *testing.T) {
	tests := []struct {
		name, file, imported string
		allowed              bool
	}{
		{"pure to packet", "splice/a.go", "baton/packet", true},
		{"pure to pure", "splice/a.go", "baton/api", false},
		{"pure to its own", "openflow/channel/a.go", "baton/openflow", true},
		{"document to packet", "document/a.go", "baton/packet", false},
		{"pure to document", "splice/a.go", "baton/document", false},
		{"datapath to document", "datapath/a.go", "baton/document", false},
		{"part to document", "router/config/a.go", "baton/document", true},
		{"lab to document", "lab/topology/a.go", "baton/document", true},
		{"pure to datapath", "packet/a.go", "baton/datapath", false},
		{"datapath to pure", "datapath/a.go", "baton/splice", true},
		{"datapath to a part", "datapath/a.go", "baton/router", false},
		{"program to its part", "datapath/router/a.go", "baton/router/head", false},
		{"program's tests to its part", "datapath/router/a_test.go", "baton/router/head", true},
		{"program's tests to another part", "datapath/router/a_test.go", "baton/relay", false},
		{"program's tests to itself", "datapath/router/a_test.go", "baton/datapath/router", true},
		{"part to datapath", "router/a.go", "baton/datapath", true},
		{"program to the core", "datapath/relay/a.go", "baton/datapath", true},
		{"program to another", "datapath/relay/a.go", "baton/datapath/router", false},
		{"program's tests to another", "datapath/relay/a_test.go", "baton/datapath/router", false},
		{"program's tests to their kit", "datapath/relay/a_test.go", "baton/datapath/kerneltest", true},
		{"core to a program", "datapath/a.go", "baton/datapath/router", false},
		{"kit to the core", "datapath/kerneltest/a.go", "baton/datapath", true},
		{"reference to a part", "packaging/reference/a.go", "baton/router/config", true},
		{"reference to a program", "packaging/reference/a.go", "baton/cmd/baton", false},
		{"packaging to a part", "packaging/rings/a.go", "baton/router", false},
		{"part to a program", "balance/a.go", "baton/datapath/forwarder", true},
		{"pure to a program", "splice/a.go", "baton/datapath/router", false},
		{"ebpf in a program", "datapath/router/a.go", "github.com/cilium/ebpf", true},
		{"part to its own", "router/a.go", "baton/router/head", true},
		{"part to part", "router/a.go", "baton/relay", false},
		{"part to lab", "router/a.go", "baton/lab", false},
		{"test to lab", "router/a_test.go", "baton/lab/peers", true},
		{"test to another part", "router/a_test.go", "baton/relay", false},
		{"command to part", "cmd/baton/a.go", "baton/router", true},
		{"command to lab", "cmd/baton/a.go", "baton/lab", false},
		{"laboratory's command to lab", "cmd/baton-lab/lab_network.go", "baton/lab/keeper", true},
		{"laboratory's command to experiment", "cmd/baton-lab/a.go", "baton/experiments/handoff", true},
		{"command's tests to experiment", "cmd/baton/a_test.go", "baton/experiments/experimentstest", true},
		{"command to what commands share", "cmd/baton/a.go", "baton/cmd/cli", true},
		{"experiment to lab and part", "experiments/handoff/a.go", "baton/router", true},
		{"command to experiment", "cmd/baton/a.go", "baton/experiments/handoff", false},
		{"part to command", "router/a.go", "baton/cmd/baton", false},
		{"controller of Kubernetes to part", "kubernetes/translate/a.go", "baton/router/config", true},
		{"controller of Kubernetes to lab", "kubernetes/controller/a.go", "baton/lab", false},
		{"part to controller of Kubernetes", "router/a.go", "baton/kubernetes/translate", false},
		{"lab to part", "lab/a.go", "baton/packet", false},
		{"sockdiag to a part", "sockdiag/a.go", "baton/purge", false},
		{"sockdiag to datapath", "sockdiag/a.go", "baton/datapath/kerneltest", false},
		{"sockdiag's tests to a namespace of their own", "sockdiag/a_test.go", "baton/datapath/kerneltest", true},
		{"pure tests to it", "splice/a_test.go", "baton/datapath/kerneltest", false},
		{"part to daemon", "purge/a.go", "baton/daemon", true},
		{"daemon to api", "daemon/a.go", "baton/api", true},
		{"daemon to other pure", "daemon/a.go", "baton/document", false},
		{"daemon to a part", "daemon/a.go", "baton/purge", false},
		{"part to policy", "nameserver/a.go", "baton/policy", true},
		{"policy to api", "policy/a.go", "baton/api", true},
		{"policy to document", "policy/config/a.go", "baton/document", true},
		{"policy to a part", "policy/a.go", "baton/router", false},
		{"policy to daemon", "policy/a.go", "baton/daemon", false},
		{"pure to policy", "api/a.go", "baton/policy", false},
		{"datapath to policy", "datapath/a.go", "baton/policy", false},
		{"pure to daemon", "api/a.go", "baton/daemon", false},
		{"datapath to daemon", "datapath/a.go", "baton/daemon", false},
		{"part to rpc", "router/a.go", "baton/rpc", true},
		{"rpc to api", "rpc/a.go", "baton/api", true},
		{"rpc's settings to document", "rpc/settings/a.go", "baton/document", true},
		{"rpc to document", "rpc/a.go", "baton/document", false},
		{"rpc to other pure", "rpc/a.go", "baton/packet", false},
		{"rpc to a part", "rpc/a_test.go", "baton/controller/northbound", false},
		{"pure to rpc", "api/a.go", "baton/rpc", false},
		{"part to sockdiag", "purge/a.go", "baton/sockdiag", true},
		{"ebpf in datapath", "datapath/a.go", "github.com/cilium/ebpf/link", true},
		{"ebpf elsewhere", "router/a_test.go", "github.com/cilium/ebpf", false},
		{"unknown folder", "util/a.go", "baton/packet", false},
		{"standard library", "packet/a.go", "net/netip", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if why := forbidden(tt.file, tt.imported); (why == "") != tt.allowed {
				t.Errorf("forbidden: %q, want allowed %v", why, tt.allowed)
			}
		})
	}
}

func TestImports(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an editor's file, gone meanwhile
		}
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "node_modules" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		return checkFile(t, filepath.ToSlash(path))
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Errorf("only %d Go files were found: the test looks in the wrong place", files)
	}
}

// laboratory is in no program that users run: networks of namespaces, experiments, and what draws plots and pages.
var laboratory = []string{"baton/lab", "baton/experiments", "gonum.org/", "codeberg.org/go-pdf", "codeberg.org/go-fonts", "git.sr.ht/~sbinet",
	"golang.org/x/image", "testing"}

// TestWhatProgramsHave: baton is on every host, and has a limit in the Makefile; baton-cdn has no data path.
func TestWhatProgramsHave(t *testing.T) {
	for _, program := range []struct {
		name, has string
		without   []string
	}{
		{"baton", "baton/router", []string{"baton/nameserver", "baton/controller", "github.com/miekg/dns", "go.etcd.io/"}},
		{"baton-cdn", "baton/cmd/cli/part", []string{"baton/router", "baton/forwarder", "baton/datapath", "baton/relay", "github.com/cilium/ebpf"}},
	} {
		t.Run(program.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "baton/cmd/"+program.name).Output()
			if err != nil {
				t.Fatal(err)
			}
			packages := strings.Fields(string(out))
			if !slices.Contains(packages, program.has) {
				t.Fatalf("%d packages, and %s is not among them", len(packages), program.has)
			}
			for _, p := range packages {
				for _, no := range slices.Concat(laboratory, program.without) {
					if p == no || strings.HasPrefix(p, strings.TrimSuffix(no, "/")+"/") {
						t.Errorf("it has %s in it", p)
					}
				}
			}
		})
	}
}

func checkFile(t *testing.T, path string) error {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return fmt.Errorf("read imports: %w", err)
	}
	for _, i := range f.Imports {
		imported := strings.Trim(i.Path.Value, `"`)
		if why := forbidden(path, imported); why != "" {
			t.Errorf("%s imports %s: %s", path, imported, why)
		}
		name := ""
		if i.Name != nil {
			name = i.Name.Name
		}
		if want := alias(imported); want != "" && name != want {
			t.Errorf("%s imports %s as %q: everywhere it is %q", path, imported, name, want)
		}
	}
	return nil
}
