package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Suite is os-ken's switch tester as it is installed.
type Suite struct {
	Version string // of os-ken
	Python  string // the interpreter that has it
	Dir     string // of its cases of OpenFlow 1.3
	Cases   []Case // by file, then in the file's order
}

// Case is a case of the suite.
type Case struct {
	File     string // below Dir, without ".json": "match/11_IPV4_SRC"
	Index    int    // in the file
	Name     string // its description, unique in the file
	Features []string

	Load time.Duration // how long it sends packets continuously; 0: it sends one
	Rate int           // packets a second of the load
}

// String is the name that lists of cases and users know it by.
func (c Case) String() string { return c.File + ": " + c.Name }

// Dir is the folder of the file.
func (c Case) Dir() string { dir, _, _ := strings.Cut(c.File, "/"); return dir }

// FindPython returns the interpreter that has os-ken: the one given, or that of packaging/python.sh, below the working
// folder or beside this program.
func FindPython(given string) (string, error) {
	places := []string{given}
	if given == "" {
		places = []string{"bin/python/bin/python"}
		if self, err := os.Executable(); err == nil {
			places = append(places, filepath.Join(filepath.Dir(self), "python/bin/python"))
		}
	}
	for _, p := range places {
		path, err := filepath.Abs(p)
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find os-ken: %s does not exist: make deps brings it", places[0])
}

// where prints the version of os-ken and its folder, without importing it.
const where = `import importlib.metadata as m, importlib.util as u
print(m.version("os-ken"), u.find_spec("os_ken").submodule_search_locations[0], m.version("eventlet"))`

// OpenSuite reads the cases of the os-ken that a Python interpreter has.
func OpenSuite(python string) (*Suite, error) {
	out, err := exec.Command(python, "-c", where).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
			err = errors.New(lines[len(lines)-1])
		}
		return nil, fmt.Errorf("find os-ken with %s: %w: make deps brings it", python, err)
	}
	fields := strings.Fields(string(out))
	if len(fields) != 3 {
		return nil, fmt.Errorf("find os-ken with %s: it says %q", python, out)
	}
	s := &Suite{Version: fields[0], Python: python, Dir: filepath.Join(fields[1], "tests/switch/of13")}
	err = filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		name, err := filepath.Rel(s.Dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		cases, err := parseFile(strings.TrimSuffix(filepath.ToSlash(name), ".json"), text)
		s.Cases = append(s.Cases, cases...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the suite: %w", err)
	}
	return s, nil
}

// parseFile reads a file of the suite: an array whose texts describe the file and whose objects are its cases.
func parseFile(name string, text []byte) ([]Case, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var cases []Case
	for _, item := range items {
		if item[0] == '"' {
			continue
		}
		var described struct {
			Description  string
			Prerequisite []map[string]any
			Tests        []trial
		}
		if err := json.Unmarshal(item, &described); err != nil {
			return nil, fmt.Errorf("%s: case %d: %w", name, len(cases), err)
		}
		c := Case{File: name, Index: len(cases), Name: described.Description}
		for _, t := range described.Tests {
			if load := t.Ingress.Packets; load != nil {
				c.Load += time.Duration(load.Duration) * time.Second
				c.Rate = max(c.Rate, load.Rate)
			}
		}
		c.Features = features(described.Prerequisite, described.Tests)
		cases = append(cases, c)
	}
	return cases, nil
}

// trial is a packet, or a load of packets, and what must become of it.
type trial struct {
	Ingress  ingress
	Egress   json.RawMessage
	PacketIn json.RawMessage `json:"PACKET_IN"`
	Miss     []int           `json:"table-miss"`
}

// ingress is a packet as the calls of os-ken's packet library that make it, or a load of them.
type ingress struct {
	Packet  []string
	Packets *struct {
		Data     []string
		Rate     int `json:"pktps"`
		Duration int `json:"duration_time"` // s
	}
}

func (i *ingress) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, &i.Packet)
	}
	type load ingress
	return json.Unmarshal(b, (*load)(i))
}

// Select returns the cases of the folders or files ("match", "action/25_SET_FIELD") whose names match all patterns; without
// folders, of all. Nothing selected is an error.
func (s *Suite) Select(folders []string, patterns []string) ([]Case, error) {
	var expressions []*regexp.Regexp
	for _, p := range patterns {
		e, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("--case %q: %w", p, err)
		}
		expressions = append(expressions, e)
	}
	inside := func(c Case, folder string) bool {
		folder = strings.TrimSuffix(strings.TrimSuffix(folder, ".json"), "/")
		return c.File == folder || strings.HasPrefix(c.File, folder+"/")
	}
	for _, f := range folders {
		if !slices.ContainsFunc(s.Cases, func(c Case) bool { return inside(c, f) }) {
			return nil, fmt.Errorf("--dir %q: want action, group, match, meter or a file below: match/11_IPV4_SRC", f)
		}
	}
	var chosen []Case
	for _, c := range s.Cases {
		in := len(folders) == 0 || slices.ContainsFunc(folders, func(f string) bool { return inside(c, f) })
		for _, e := range expressions {
			in = in && e.MatchString(c.String())
		}
		if in {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("--case %s: no case of %d matches", strings.Join(patterns, " --case "), len(s.Cases))
	}
	return chosen, nil
}
