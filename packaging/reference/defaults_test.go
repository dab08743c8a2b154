package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	anycast "baton/anycast/config"
	balance "baton/balance/config"
	controller "baton/controller/config"
	"baton/document"
	forwarder "baton/forwarder/config"
	nameserver "baton/nameserver/config"
	policy "baton/policy/config"
	purge "baton/purge/config"
	relay "baton/relay/config"
	router "baton/router/config"
)

// parsers decode the configurations of the parts.
var parsers = map[string]func(text []byte) (any, error){
	"router":     func(b []byte) (any, error) { return router.Parse("f", b) },
	"forwarder":  func(b []byte) (any, error) { return forwarder.Parse("f", b) },
	"relay":      func(b []byte) (any, error) { return relay.Parse("f", b) },
	"anycast":    func(b []byte) (any, error) { return anycast.Parse("f", b) },
	"purge":      func(b []byte) (any, error) { return purge.Parse("f", b) },
	"balance":    func(b []byte) (any, error) { return balance.Parse("f", b) },
	"nameserver": func(b []byte) (any, error) { return nameserver.Parse("f", b) },
	"controller": func(b []byte) (any, error) { return controller.Parse("f", b) },
	"policy":     func(b []byte) (any, error) { return policy.Parse("f", b) },
}

// late are keys whose defaults a part sets when it uses them: the configuration does not have them.
var late = regexp.MustCompile(`^(spread|query|dispersion|locate|resume|prefix)$`)

// place makes one of the same key in a value, in a list of them, and in a mapping by name.
var place = strings.NewReplacer("[]", "", ".NAME", "")

// TestDefaults: a key that is written with its default is as a key that is left out, in the examples.
func TestDefaults(t *testing.T) {
	for _, c := range configurations {
		t.Run(c.part, func(t *testing.T) {
			t.Parallel()
			d := defaults{keys: keys{part: c.part, root: c.schema()}, parse: parsers[c.part], same: make(map[string]bool)}
			d.named("", d.root)
			for _, text := range documents(t, c.part) {
				text = hexadecimal.ReplaceAll(text, []byte(`$1"$2"`))
				if _, err := d.parse(text); err == nil {
					d.document(t, text)
				}
			}
			for key, seen := range d.same {
				if !seen {
					t.Errorf("no example shows that the default of %s is right", key)
				}
			}
		})
	}
}

var (
	rawText     = regexp.MustCompile("`[^`]*:[^`]*\n[^`]*`")
	hexadecimal = regexp.MustCompile(`([ :])(0x[0-9a-f]+)`) // would be a decimal number in the end
)

// unused has keys that no other document of the tree uses.
const unused = `vips: [{address: "192.0.2.9:443", protocol: quic, interfaces: [eth0], routes: [{pool: a}]}]
pools: {a: {server_id: {offset: 0, length: 2, map: {s: "0001"}}, surrogates: [{name: s, address: "192.0.2.41:443"}]}}`

// documents are all configurations of the tree, and those of the tests of a part's configuration.
func documents(t *testing.T, part string) (all [][]byte) {
	t.Helper()
	all = append(all, []byte(unused))
	tests, _ := filepath.Glob("../../" + part + "/config/*_test.go")
	for _, file := range tests {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range rawText.FindAll(text, -1) {
			all = append(all, bytes.Trim(found, "`"))
		}
	}
	for _, dir := range []string{"../../examples", "../etc"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".yaml") {
				return err
			}
			text, err := os.ReadFile(path)
			all = append(all, text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// defaults checks those of a configuration.
type defaults struct {
	keys
	parse func(text []byte) (any, error)
	same  map[string]bool // by key: whether a document has shown that its default is right
}

// named notes all keys with a default.
func (d *defaults) named(path string, s document.Schema) {
	for _, one := range alternatives(s) {
		if d.elsewhere(one) != "" {
			continue
		}
		properties, _ := one["properties"].(document.Schema)
		for name, of := range properties {
			if of := of.(document.Schema); of["default"] != nil && !late.MatchString(name) {
				d.same[place.Replace(document.Join(path, name))] = false
			}
			d.named(document.Join(path, name), of.(document.Schema))
		}
		if items, ok := one["items"].(document.Schema); ok {
			d.named(path+"[]", items)
		}
		if entries, ok := one["additionalProperties"].(document.Schema); ok {
			d.named(document.Join(path, "NAME"), entries)
		}
	}
}

// document tries all keys with a default in all mappings of a document.
func (d *defaults) document(t *testing.T, text []byte) {
	t.Helper()
	var root any
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	var each func(path string, s document.Schema, v any)
	each = func(path string, s document.Schema, v any) {
		for _, one := range alternatives(s) {
			if d.elsewhere(one) != "" && path != "" {
				continue
			}
			switch x := v.(type) {
			case []any:
				items, _ := one["items"].(document.Schema)
				for _, e := range x {
					each(path+"[]", items, e)
				}
			case map[string]any:
				entries, _ := one["additionalProperties"].(document.Schema)
				properties, _ := one["properties"].(document.Schema)
				for _, name := range slices.Sorted(maps.Keys(x)) {
					e := x[name]
					if of, ok := properties[name].(document.Schema); ok {
						each(document.Join(path, name), of, e)
					} else if entries != nil {
						each(document.Join(path, "NAME"), entries, e)
					}
				}
				for _, name := range slices.Sorted(maps.Keys(properties)) {
					of := properties[name].(document.Schema)
					if x[name] == nil && optional(of) {
						x[name] = map[string]any{}
						each(document.Join(path, name), of, x[name])
						delete(x, name)
					}
					if of["default"] != nil && !late.MatchString(name) {
						d.key(t, root, x, path, name, standardOf(of))
					}
				}
			}
		}
	}
	each("", d.root, root)
}

// optional tells whether a value may be a mapping without keys.
func optional(s document.Schema) bool {
	return slices.ContainsFunc(alternatives(s), func(one document.Schema) bool { return one["properties"] != nil && one["required"] == nil })
}

// key compares a document without a key of a mapping in it with the same that has the default there.
func (d *defaults) key(t *testing.T, root any, in map[string]any, path, name, standard string) {
	t.Helper()
	at := place.Replace(document.Join(path, name))
	old, was := in[name]
	defer func() {
		if delete(in, name); was {
			in[name] = old
		}
	}()
	delete(in, name)
	without, err := d.parse(line(t, root))
	if err != nil {
		return // it is needed here
	}
	var value any
	if err := yaml.Unmarshal([]byte(standard), &value); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	in[name] = value
	with, err := d.parse(line(t, root))
	if err != nil {
		return // it is not for this document
	}
	if diff := cmp.Diff(without, with, compared); diff != "" {
		t.Errorf("%s: %s is not the default (-without +with):\n%s", at, standard, diff)
	}
	d.same[at] = true
}

// compared leaves out what has places in the file.
var compared = cmp.Options{
	cmp.Exporter(func(reflect.Type) bool { return true }),
	cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().Type() == reflect.TypeFor[document.Places]() || p.Last().String() == ".Warnings"
	}, cmp.Ignore()),
}

// line is a document on one line, so that the places in it are no difference.
func line(t *testing.T, root any) []byte {
	t.Helper()
	text, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
