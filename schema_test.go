package baton_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	anycastconfig "baton/anycast/config"
	balanceconfig "baton/balance/config"
	controllerconfig "baton/controller/config"
	"baton/document"
	forwarderconfig "baton/forwarder/config"
	nameserverconfig "baton/nameserver/config"
	policyconfig "baton/policy/config"
	purgeconfig "baton/purge/config"
	relayconfig "baton/relay/config"
	routerconfig "baton/router/config"
)

// configurations are the files of the parts: their schema and their decoder.
var configurations = map[string]struct {
	schema func() document.Schema
	parse  func(text []byte) error
}{
	"router":     {routerconfig.Schema, func(b []byte) error { _, err := routerconfig.Parse("f", b); return err }},
	"relay":      {relayconfig.Schema, func(b []byte) error { _, err := relayconfig.Parse("f", b); return err }},
	"anycast":    {anycastconfig.Schema, func(b []byte) error { _, err := anycastconfig.Parse("f", b); return err }},
	"balance":    {balanceconfig.Schema, func(b []byte) error { _, err := balanceconfig.Parse("f", b); return err }},
	"purge":      {purgeconfig.Schema, func(b []byte) error { _, err := purgeconfig.Parse("f", b); return err }},
	"forwarder":  {forwarderconfig.Schema, func(b []byte) error { _, err := forwarderconfig.Parse("f", b); return err }},
	"nameserver": {nameserverconfig.Schema, func(b []byte) error { _, err := nameserverconfig.Parse("f", b); return err }},
	"policy":     {policyconfig.Schema, func(b []byte) error { _, err := policyconfig.Parse("f", b); return err }},
	"controller": {controllerconfig.Schema, func(b []byte) error { _, err := controllerconfig.Parse("f", b); return err }},
}

// validator compiles the schema of a part.
func validator(t *testing.T, schema document.Schema) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("f.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("f.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// instance is what an editor makes of a document; false for one that is not YAML.
func instance(text string) (any, bool) {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return nil, false
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, false
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	return out, err == nil
}

// inSchema matches mistakes that a schema can tell: unknown and missing keys, kinds of values, words, numbers.
var inSchema = regexp.MustCompile(`is not a key|: is missing \(|must be a list|is not a boolean|is out of range \(a whole number|is an empty list`)

// conditional matches keys that are needed depending on others: ports without datapaths, surrogates without discover, interfaces in mode handoff, a
// default of several sites, the length of one layout of connection ids.
var conditional = regexp.MustCompile(`[:.] ?default: is missing|: ports: is missing|\.surrogates: is missing|\.interfaces: is missing|\.server_id\.length: is missing`)

// placed is how mistakes are told: the file, the place in it, what is wrong. raw is what libraries say of what people type.
var (
	placed = regexp.MustCompile(`^f(:[0-9]+:[0-9]+: .|: and [0-9]+ more mistakes$)`)
	raw    = regexp.MustCompile(`strconv\.|invalid syntax|ParseAddr|ParsePrefix|unmarshal`)
)

// compare checks that the schema takes what the decoder takes, and refuses what it refuses and a schema can tell. It returns what the decoder said.
func compare(t *testing.T, part string, schema *jsonschema.Schema, parse func([]byte) error, text string) error {
	t.Helper()
	v, ok := instance(text)
	if !ok {
		return errors.New("is not YAML")
	}
	refused, wrong := parse([]byte(text)), schema.Validate(v)
	if refused != nil {
		for line := range strings.SplitSeq(refused.Error(), "\n") {
			if !placed.MatchString(line) || raw.MatchString(line) {
				t.Errorf("%s: %q has no place, or is of a library\n%s", part, line, text)
			}
		}
	}
	if refused == nil && wrong != nil {
		t.Errorf("%s: the schema refuses what the decoder takes: %v\n%s", part, wrong, text)
	}
	if refused != nil && wrong == nil {
		for line := range strings.SplitSeq(refused.Error(), "\n") {
			if inSchema.MatchString(line) && !conditional.MatchString(line) {
				t.Errorf("%s: the schema takes what the decoder refuses: %s\n%s", part, line, text)
				break
			}
		}
	}
	return refused
}

// fixtures are the documents of the configuration's tests, the guides and the tree.
func fixtures(t *testing.T, part string) []string {
	t.Helper()
	var all []string
	files, _ := filepath.Glob(part + "/config/*_test.go")
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil && strings.Contains(s, ":") && strings.Contains(s, "\n") {
					all = append(all, s)
				}
			}
			return true
		})
	}
	guides, _ := filepath.Glob("docs/*.md")
	for _, file := range append(guides, "README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			all = append(all, m[1])
		}
	}
	for _, dir := range []string{"examples", "packaging", "experiments"} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".yaml") {
				text, err := os.ReadFile(path)
				all = append(all, string(text))
				return err
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestSchemasAgree compares the schemas with the decoders on all documents there are, and on 200 wrong ones for each file.
func TestSchemasAgree(t *testing.T) {
	for part, c := range configurations {
		t.Run(part, func(t *testing.T) {
			schema := validator(t, c.schema())
			var valid []string
			refused := 0
			for _, text := range fixtures(t, part) {
				if compare(t, part, schema, c.parse, text) == nil {
					valid = append(valid, text)
				} else {
					refused++
				}
			}
			if len(valid) == 0 || refused == 0 {
				t.Fatalf("%d valid documents, %d others", len(valid), refused)
			}
			random := rand.New(rand.NewPCG(1, 2))
			wrong := 0
			for range 5000 {
				if wrong == 200 {
					break
				}
				var v any
				if err := yaml.Unmarshal([]byte(valid[random.IntN(len(valid))]), &v); err != nil {
					t.Fatal(err)
				}
				text, err := yaml.Marshal(spoil(random, v))
				if err != nil {
					t.Fatal(err)
				}
				if compare(t, part, schema, c.parse, string(text)) != nil {
					wrong++
				}
			}
			t.Logf("%d valid documents, %d others, %d spoilt", len(valid), refused, wrong)
			if wrong < 200 {
				t.Errorf("only %d wrong documents", wrong)
			}
		})
	}
}

// TestSchemasArePublished: the files in packaging are what the commands print.
func TestSchemasArePublished(t *testing.T) {
	for part, c := range configurations {
		var want bytes.Buffer
		out := json.NewEncoder(&want)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		if err := out.Encode(c.schema()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile("packaging/schema/" + part + ".schema.json"); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("packaging/schema/%s.schema.json is not up to date: make schemas", part)
		}
	}
}

// spoil changes one value somewhere in a document.
func spoil(random *rand.Rand, v any) any {
	switch x := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(x))
		if len(keys) == 0 {
			return map[string]any{"unknown": 1}
		}
		key := keys[random.IntN(len(keys))]
		switch random.IntN(8) {
		case 0:
			x[key+"s"] = x[key]
			delete(x, key)
		case 1:
			delete(x, key)
		case 2:
			x["unknown"] = "x"
		default:
			x[key] = spoil(random, x[key])
		}
		return x
	case []any:
		if len(x) == 0 || random.IntN(6) == 0 {
			return "a text"
		}
		i := random.IntN(len(x))
		x[i] = spoil(random, x[i])
		return x
	}
	return []any{[]any{"a"}, map[string]any{"a": 1}, -7, 1 << 60, "no such word", true, "", 1.5, "none"}[random.IntN(9)]
}
