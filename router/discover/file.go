package discover

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"baton/document"
	"baton/router/config"
)

var rules = document.Rules{
	Bytes: 4 << 20, Nodes: 1 << 18, List: true,
	Empty: "a list of surrogates; none at all is []", Root: "a list of {name, address, weight}",
}

// Times of a watched file.
const (
	// settled is how long a file must be as it is: a list that is half written may be a valid, shorter one.
	settled = 200 * time.Millisecond
	// pollEvery is for file systems without notifications, and for links whose target changes elsewhere.
	pollEvery = 5 * time.Second
)

// ParseFile reads the content of a file with surrogates: a list, or a mapping with the list as surrogates. The error has a line for each
// mistake, with its place.
func ParseFile(name string, data []byte) (*Set, error) {
	return document.ParseAs(name, data, rules, decodeFile, func(d *document.Decoder, s *Set) {
		named := make(map[string]bool)
		for i, sg := range s.Surrogates {
			if named[sg.Name] {
				at := document.Index(listPath(d), i)
				d.Refuse(document.Join(at, "name"), fmt.Sprintf("%q is there twice", document.Clip(sg.Name)), "a name for each")
			}
			named[sg.Name] = true
		}
	})
}

func listPath(d *document.Decoder) string {
	if d.Given("surrogates") {
		return "surrogates"
	}
	return ""
}

func decodeFile(d *document.Decoder, root *document.Node) *Set {
	s := new(Set)
	list := func(path string, n *document.Node) {
		d.AtMost(path, n, config.MaxSurrogates)
		d.List(path, n, func(at string, n *document.Node) { s.Surrogates = append(s.Surrogates, decodeSurrogate(d, at, n)) })
	}
	if root.Kind == document.Sequence {
		list("", root)
		return s
	}
	d.Fields("", root, []document.Key{{Name: "surrogates", Decode: list}})
	d.Require("", root, "surrogates")
	return s
}

func decodeSurrogate(d *document.Decoder, path string, n *document.Node) Surrogate {
	s := Surrogate{Weight: 1}
	d.Fields(path, n, []document.Key{
		{Name: "name", Decode: func(path string, n *document.Node) {
			s.Name = d.Text(path, n)
			if d.Err() == nil && !config.SurrogateName.MatchString(s.Name) {
				d.WrongText(n, path, s.Name, "is not a name here", "at most 128 letters, digits and ._:/-")
			}
		}},
		{Name: "address", Decode: func(path string, n *document.Node) { s.Address = d.AddrPort(path, n) }},
		{Name: "weight", Decode: func(path string, n *document.Node) { s.Weight = d.Integer(path, n, 0, maxWeight) }},
		{Name: "priority", Decode: func(path string, n *document.Node) { s.Priority = d.Integer(path, n, 0, 65535) }},
	})
	d.Require(path, n, "name", "address")
	return s
}

// file is a source that is a file.
type file struct {
	path   string
	prefix string
	taken  [sha256.Size]byte // of the content that was reported last
	some   bool
}

// NewFile makes a source of a file.
func NewFile(of config.Discover) Source { return &file{path: of.File, prefix: of.Prefix} }

// Run reads the file when it, or its folder, changes.
func (f *file) Run(ctx context.Context, report func(Outcome)) {
	events, stop := watchFolder(filepath.Dir(f.path))
	defer stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	f.read(ctx, report)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case _, ok := <-events:
			if !ok {
				events = nil // polling goes on
			}
		}
		f.read(ctx, report)
	}
}

// watchFolder notifies of changes in a folder. A watched file itself would be lost when another one is renamed to its name.
func watchFolder(dir string) (events <-chan fsnotify.Event, stop func()) {
	w, err := fsnotify.NewBufferedWatcher(64)
	if err != nil {
		return nil, func() {}
	}
	go func() {
		for range w.Errors { // events were lost: the next poll sees what they were of
		}
	}()
	_ = w.Add(dir) // without it the file is polled
	return w.Events, func() { _ = w.Close() }
}

// read reports the content of the file once it is settled, if it is another one.
func (f *file) read(ctx context.Context, report func(Outcome)) {
	for {
		data, err := f.content()
		sum := contentSum(data, err)
		if f.some && sum == f.taken {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(settled):
		}
		again, failure := f.content()
		if contentSum(again, failure) != sum {
			continue
		}
		f.some, f.taken = true, sum
		report(f.outcome(data, err))
		return
	}
}

func contentSum(data []byte, err error) [sha256.Size]byte {
	if err != nil {
		return sha256.Sum256([]byte("error: " + err.Error()))
	}
	return sha256.Sum256(data)
}

func (f *file) content() ([]byte, error) {
	info, err := os.Stat(f.path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not an ordinary file", f.path)
	}
	if err != nil {
		return nil, err
	}
	return rules.Read(f.path)
}

func (f *file) outcome(data []byte, err error) Outcome {
	if errors.Is(err, fs.ErrNotExist) {
		return Outcome{Err: failed(Missing, "%s: there is no such file", f.path)}
	}
	if err != nil {
		return Outcome{Err: failed(Other, "%v", err)}
	}
	set, err := ParseFile(f.path, data)
	if err != nil {
		return Outcome{Err: failed(Malformed, "%v", err)}
	}
	for i := range set.Surrogates {
		set.Surrogates[i].Name = f.prefix + set.Surrogates[i].Name
	}
	set.Surrogates = sorted(set.Surrogates)
	return Outcome{Set: set}
}

// nameOf is the name of a surrogate whose source has none for it.
func nameOf(prefix string, address netip.AddrPort) string { return prefix + address.String() }
