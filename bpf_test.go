package baton

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Of bpf/: how deep includes go below a program, and how long a function is.
const (
	mostFloors    = 7
	mostCLines    = 60
	sharedLines   = 6
	kernelHeaders = "bpf/include" // of the system, not ours
)

// longCFunctions are those that stay longer, with the reason.
var longCFunctions = map[string]string{}

var (
	include   = regexp.MustCompile(`(?m)^#include "(.*)"`)
	cFunction = regexp.MustCompile(`(?m)^[a-z_][^;{}#]*\)\n\{\n(?s:.*?)\n\}\n`)
	cName     = regexp.MustCompile(`(\w+)\(`)
	structure = regexp.MustCompile(`(?m)^struct (\w+) \{\n(?s:.*?)\n\}`)
)

func cFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"bpf/*/*.h", "bpf/*/*.c"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[path] = string(text)
		}
	}
	if len(files) < 20 {
		t.Fatalf("found %d files in bpf/", len(files))
	}
	return files
}

// longestChain returns the longest chain of includes that begins with path.
func longestChain(files map[string]string, path string, known map[string][]string) []string {
	if chain, ok := known[path]; ok {
		return chain
	}
	var below []string
	for _, m := range include.FindAllStringSubmatch(files[path], -1) {
		if chain := longestChain(files, filepath.Join(filepath.Dir(path), m[1]), known); len(chain) > len(below) {
			below = chain
		}
	}
	known[path] = append([]string{path}, below...)
	return known[path]
}

func TestBPFFloors(t *testing.T) {
	files := cFiles(t)
	known := map[string][]string{}
	for path := range files {
		if chain := longestChain(files, path, known); len(chain)-1 > mostFloors {
			t.Errorf("%d floors of includes, %d at most: %s", len(chain)-1, mostFloors, strings.Join(chain, " > "))
		}
	}
}

func TestBPFHeadersCompileAlone(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Skip("clang-19 is not installed (make deps)")
	}
	var headers []string
	for path := range cFiles(t) {
		if strings.HasSuffix(path, ".h") {
			headers = append(headers, path)
		}
	}
	slices.Sort(headers)
	for _, path := range headers {
		out, err := exec.Command("clang-19", "-target", "bpf", "-mcpu=v3", "-I"+kernelHeaders, "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
			"-Wno-unused-parameter", "-Wno-unused-function", "-Wno-unused-const-variable", "-Wno-pragma-once-outside-header",
			"-x", "c", path).CombinedOutput()
		if err != nil {
			t.Errorf("%s does not compile alone: it uses what it does not include\n%s", path, out)
		}
	}
}

func TestBPFFunctionLength(t *testing.T) {
	unused := map[string]bool{}
	for name := range longCFunctions {
		unused[name] = true
	}
	for path, text := range cFiles(t) {
		for _, f := range cFunction.FindAllString(text, -1) {
			name := cName.FindStringSubmatch(f)[1]
			if n := strings.Count(f, "\n"); n <= mostCLines {
				continue
			} else if longCFunctions[name] == "" {
				t.Errorf("%s: %s has %d lines, %d at most", path, name, n, mostCLines)
			}
			delete(unused, name)
		}
	}
	for name := range unused {
		t.Errorf("longCFunctions names %s, which is short or gone", name)
	}
}

// A struct's name means one thing in all programs.
func TestBPFStructs(t *testing.T) {
	where := map[string]string{}
	for path, text := range cFiles(t) {
		for _, m := range structure.FindAllStringSubmatch(text, -1) {
			if other := where[m[1]]; other != "" {
				t.Errorf("struct %s is in %s and in %s", m[1], other, path)
			}
			where[m[1]] = path
		}
	}
}

// struct work is for the router's entry points and what they call: functions below get the records of it that they use.
func TestBPFRecords(t *testing.T) {
	const program = "bpf/router/router.bpf.c"
	lookup, whole := regexp.MustCompile(`\bwork\(\)`), regexp.MustCompile(`\bstruct work\b`)
	files := cFiles(t)
	called := map[string]bool{}
	for _, f := range cFunction.FindAllString(files[program], -1) {
		_, body, _ := strings.Cut(f, "\n{\n")
		for _, m := range cName.FindAllStringSubmatch(body, -1) {
			called[m[1]] = true
		}
	}
	given := 0
	for path, text := range files {
		if filepath.Dir(path) != filepath.Dir(program) || path == program {
			continue
		}
		for _, f := range cFunction.FindAllString(text, -1) {
			head, body, _ := strings.Cut(f, "\n{\n")
			name := cName.FindStringSubmatch(head)[1]
			switch {
			case lookup.MatchString(body) || whole.MatchString(body):
				t.Errorf("%s: %s looks up struct work: only %s does", path, name, program)
			case whole.MatchString(head) && !called[name]:
				t.Errorf("%s: %s takes struct work, and %s does not call it: pass the records that it uses", path, name, program)
			case whole.MatchString(head):
				given++
			}
		}
	}
	if strings.Contains(files["bpf/router/work.h"], "union {") {
		t.Error("bpf/router/work.h: two members of struct work share memory")
	}
	if given == 0 {
		t.Errorf("%s passes struct work to no function: the test does not find them", program)
	}
}

// What two programs share is in bpf/wire, bpf/session or bpf/kernel.
func TestBPFDuplicates(t *testing.T) {
	first := map[string]string{}
	for path, text := range cFiles(t) {
		room := filepath.Dir(path)
		var lines []string
		for _, line := range strings.Split(text, "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#include") && !strings.Contains(line, "SPDX") {
				lines = append(lines, line)
			}
		}
		for i := 0; i+sharedLines <= len(lines); i++ {
			block := strings.Join(lines[i:i+sharedLines], "\n")
			if other, ok := first[block]; ok && filepath.Dir(other) != room {
				t.Errorf("%s and %s have the same %d lines:\n%s", other, path, sharedLines, block)
			}
			first[block] = path
		}
	}
	if len(first) == 0 {
		t.Fatal(fmt.Errorf("no lines compared"))
	}
}
