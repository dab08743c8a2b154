package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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

type configuration struct {
	part, guide string
	schema      func() document.Schema
}

// configurations are those of all parts, and that of the policy, which is a section of some of them too.
var configurations = []configuration{
	{"router", "router.md", router.Schema}, {"forwarder", "forwarder.md", forwarder.Schema}, {"relay", "relay-config.md", relay.Schema},
	{"anycast", "anycast.md", anycast.Schema}, {"purge", "purge.md", purge.Schema}, {"balance", "balance.md", balance.Schema},
	{"nameserver", "nameserver.md", nameserver.Schema}, {"controller", "controller.md", controller.Schema},
	{sharedPart, "policy.md", policy.Schema},
}

// sharedPart is the configuration that others have as a section.
const sharedPart = "policy"

func keysPage(c configuration) string {
	k := keys{part: c.part, root: c.schema()}
	var b strings.Builder
	fmt.Fprintf(&b, "# Keys of %s.yaml\n\nAll keys, as the decoder has them. [The guide](../%s) explains them; %s has the same for editors.\n\n",
		c.part, c.guide, fmt.Sprintf("[%s.schema.json](../../packaging/schema/%[1]s.schema.json)", c.part))
	b.WriteString("In a key, `[]` stands for each entry of a list, and `NAME` for a name of your choice.\n\n")
	b.WriteString("| Key | Value | Default | Meaning |\n|---|---|---|---|\n")
	k.mapping("", k.root)
	b.WriteString(strings.Join(k.rows, ""))
	return b.String()
}

// keys collects the rows of a table of keys.
type keys struct {
	part string
	root document.Schema
	rows []string
}

// mapping adds the keys of a mapping at a path.
func (k *keys) mapping(path string, s document.Schema) {
	properties, _ := s["properties"].(document.Schema)
	required, _ := s["required"].([]string)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		of := properties[name].(document.Schema)
		standard := ""
		switch {
		case slices.Contains(required, name):
			standard = "required"
		case of["default"] != nil:
			standard = code(standardOf(of))
		}
		help, _ := of["description"].(string)
		at := document.Join(path, name)
		k.rows = append(k.rows, fmt.Sprintf("| %s | %s | %s | %s |\n", code(at), cell(k.value(of)), cell(standard), cell(help)))
		k.below(at, of)
	}
}

// standardOf is the default of a value as it is written; "" without one.
func standardOf(s document.Schema) string {
	switch v := s["default"].(type) {
	case nil:
		return ""
	case []string:
		return "[" + strings.Join(v, ", ") + "]"
	default:
		return fmt.Sprint(v)
	}
}

// below adds the keys of the mappings in a value.
func (k *keys) below(path string, s document.Schema) {
	all := alternatives(s)
	for _, one := range all {
		if slices.ContainsFunc(all, func(list document.Schema) bool { return fmt.Sprint(list["items"]) == fmt.Sprint(one) }) {
			continue // one may stand for a list of one
		}
		items, _ := one["items"].(document.Schema)
		entries, _ := one["additionalProperties"].(document.Schema)
		switch {
		case k.elsewhere(one) != "":
		case items != nil:
			k.below(path+"[]", items)
		case entries != nil:
			k.below(document.Join(path, "NAME"), entries)
		}
		if k.elsewhere(one) == "" {
			k.mapping(path, one)
		}
	}
}

// elsewhere says where the keys of a mapping are listed, if that is not here.
func (k *keys) elsewhere(s document.Schema) string {
	properties, _ := s["properties"].(document.Schema)
	if len(properties) == 0 {
		return ""
	}
	if k.part != sharedPart && within(properties, policy.Schema()) {
		return "mapping with [the keys of a policy](keys-policy.md)"
	}
	if within(properties, k.root) && len(properties) < len(k.root["properties"].(document.Schema)) {
		return "mapping with the keys of the file"
	}
	return ""
}

// within tells whether a mapping's keys are all of another one, with the same values.
func within(properties, other document.Schema) bool {
	of := other["properties"].(document.Schema)
	for name, value := range properties {
		if fmt.Sprint(of[name]) != fmt.Sprint(value) {
			return false
		}
	}
	return true
}

func alternatives(s document.Schema) []document.Schema {
	all, ok := s["anyOf"].([]document.Schema)
	if !ok {
		return []document.Schema{s}
	}
	var out []document.Schema
	for _, one := range all {
		out = append(out, alternatives(one)...)
	}
	return out
}

// value says what may be written.
func (k *keys) value(s document.Schema) string {
	var all []string
	for _, one := range alternatives(s) {
		if text := k.form(one); text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; or ")
}

// form says what one alternative is; "" for a number that is quoted.
func (k *keys) form(s document.Schema) string {
	if low, ok := s["minimum"].(int); ok {
		return fmt.Sprintf("%d to %d", low, s["maximum"])
	}
	if of, ok := s["examples"].([]string); ok {
		return "such as " + code(of[0])
	}
	if words := words(s); words != nil {
		return strings.Join(words, ", ")
	}
	if items, ok := s["items"].(document.Schema); ok {
		return "list of: " + k.value(items)
	}
	if there := k.elsewhere(s); there != "" {
		return there
	}
	if entries, ok := s["additionalProperties"].(document.Schema); ok {
		return "by name: " + k.value(entries)
	}
	longest, bounded := s["maxLength"].(int)
	switch {
	case s["type"] == "object":
		return "mapping"
	case s["type"] == "null" || s["type"] == "string" && s["pattern"] == "^[-+]?[0-9]+$":
		return ""
	case bounded:
		return fmt.Sprintf("name of at most %d characters", longest)
	}
	return "text"
}

// words are those of which one has to be written.
func words(s document.Schema) (out []string) {
	switch all := s["enum"].(type) {
	case []string:
		for _, w := range all {
			out = append(out, code(w))
		}
	case []any:
		for _, w := range all {
			if text := code(fmt.Sprint(w)); !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}
