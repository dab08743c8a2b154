package northbound

import (
	"bytes"
	_ "embed"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// documentPage is the page of the description: text alone, made when the server starts, so that it needs no script and nothing from
// elsewhere.
//
//go:embed document.html
var documentPage string

// documented is what the page shows.
type documented struct {
	Version    string
	Operations []documentedOperation
	Calls      []documentedCall
	Topics     []documentedCall
	Schemas    []documentedSchema
}

type documentedOperation struct {
	Method, Path, Summary, Role string
	Parameters                  []documentedField
	Body, Result                string
}

type documentedCall struct{ Name, Role string }

type documentedSchema struct {
	Name   string
	Fields []documentedField
}

type documentedField struct {
	Name, Type, Doc string
	Ref             string // of the schema
	Required        bool
}

func (s *Server) document(o *huma.OpenAPI) ([]byte, error) {
	t, err := template.New("document").Parse(documentPage)
	if err != nil {
		return nil, err
	}
	d := documented{Version: s.version}
	for _, path := range slices.Sorted(maps.Keys(o.Paths)) {
		for _, op := range []*huma.Operation{o.Paths[path].Get, o.Paths[path].Patch} {
			if op != nil {
				d.Operations = append(d.Operations, documentOperation(op))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.methods)) {
		d.Calls = append(d.Calls, documentedCall{name, s.methods[name].role.String()})
	}
	for _, name := range allTopics() {
		d.Topics = append(d.Topics, documentedCall{string(name), topics[name].String()})
	}
	schemas := o.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		d.Schemas = append(d.Schemas, documentSchema(name, schemas[name]))
	}
	var out bytes.Buffer
	err = t.Execute(&out, d)
	return out.Bytes(), err
}

func documentOperation(op *huma.Operation) documentedOperation {
	role, _ := op.Metadata[metaRole].(Role)
	d := documentedOperation{Method: op.Method, Path: op.Path, Summary: op.Summary, Role: role.String()}
	for _, p := range op.Parameters {
		d.Parameters = append(d.Parameters, documentedField{Name: p.Name, Type: p.In, Doc: p.Description, Required: p.Required})
	}
	if op.RequestBody != nil {
		for _, c := range op.RequestBody.Content {
			d.Body, _ = documentType(c.Schema)
		}
	}
	if r := op.Responses["200"]; r != nil {
		for _, c := range r.Content {
			d.Result, _ = documentType(c.Schema)
		}
	}
	return d
}

func documentSchema(name string, s *huma.Schema) documentedSchema {
	d := documentedSchema{Name: name}
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[field]
		f := documentedField{Name: field, Doc: p.Description, Required: slices.Contains(s.Required, field)}
		f.Type, f.Ref = documentType(p)
		d.Fields = append(d.Fields, f)
	}
	return d
}

// documentType returns a type's name, and that of the schema in it.
func documentType(s *huma.Schema) (text, ref string) {
	switch {
	case s == nil:
		return "", ""
	case s.Ref != "":
		name := s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
		return name, name
	case s.Type == huma.TypeArray:
		text, ref = documentType(s.Items)
		return "list of " + text, ref
	case s.Format != "":
		return s.Type + " (" + s.Format + ")", ""
	}
	return s.Type, ""
}
