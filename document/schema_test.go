package document

import (
	"encoding/json"
	"testing"
	"time"
)

// described is a decoder with a bit of everything.
func described(d *Decoder, root *Node) *struct{} {
	d.Fields("", root, []Key{
		{Name: "name", Decode: func(path string, n *Node) { d.Label(path, n) }},
		{Name: "old", Now: "name"},
		{Name: "count", Decode: func(path string, n *Node) { d.Integer(path, n, 1, 9) }},
		{Name: "wait", Decode: func(path string, n *Node) {
			if n.Text != "none" {
				d.Between(path, n, time.Second, time.Hour)
			}
		}},
		{Name: "mode", Decode: func(path string, n *Node) {
			if n.Kind == Mapping {
				d.Fields(path, n, []Key{{Name: "on", Decode: func(path string, n *Node) { d.Boolean(path, n) }}})
				d.Require(path, n, "on")
				return
			}
			d.Choice(path, n, "is no mode", "slow", "fast")
		}},
		{Name: "pools", Decode: func(path string, n *Node) {
			d.AtMost(path, n, 3)
			d.Entries(path, n, func(path, _ string, n *Node) {
				d.Fields(path, n, []Key{{Name: "list", Decode: func(path string, n *Node) { d.NonEmptyList(path, n, func(at string, n *Node) { d.Address(at, n) }) }}})
			})
		}},
		{Name: "self", Decode: func(_ string, n *Node) { described(d, n) }},
	})
	d.Require("", root, "name", "count")
	return &struct{}{}
}

func TestSchemaOf(t *testing.T) {
	schema := SchemaOf("a test", described, "count")
	delete(schema["properties"].(Schema), "self") // which has all of it again
	got, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"$schema":"http://json-schema.org/draft-07/schema#","additionalProperties":false,"properties":{` +
		`"count":{"anyOf":[{"maximum":9,"minimum":1,"type":"integer"},{"pattern":"^[-+]?[0-9]+$","type":"string"}]},` +
		`"mode":{"anyOf":[{"enum":["slow","fast"]},{"additionalProperties":false,"properties":{"on":{"enum":[true,false,"true","false"]}},"required":["on"],"type":"object"}]},` +
		`"name":{"maxLength":63,"pattern":"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$","type":["string","number","boolean"]},` +
		`"pools":{"additionalProperties":{"anyOf":[{"additionalProperties":false,"properties":{"list":{"items":{"examples":["192.0.2.1","2001:db8::1"],"pattern":"^[0-9A-Fa-f:.]+$","type":"string"},"minItems":1,"type":"array"}},` +
		`"type":"object"},{"type":"null"}]},"maxProperties":3,"type":"object"},` +
		`"wait":{"anyOf":[{"examples":["10s","500ms"],"pattern":"^\\+?(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$","type":"string"},{"enum":["none"]}]}},` +
		`"required":["name"],"title":"a test","type":"object"}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
