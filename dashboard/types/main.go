// Command types writes the types of the northbound interface as TypeScript, so that the page and the controller agree.
package main

import (
	"bytes"
	"encoding"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"baton/api"
)

// roots are what the page reads and sends; what they consist of is found from them.
var roots = []any{
	api.ControllerTopology{}, api.ControllerSession{}, api.ControllerHandoff{}, api.ControllerSurrogate{},
	api.RoutingDecision{}, api.ControllerRates{}, api.ControllerSurrogateChange{},
}

func main() {
	if err := os.WriteFile(os.Args[1], source(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "types:", err)
		os.Exit(1)
	}
}

// source is the file.
func source() []byte {
	var b bytes.Buffer
	b.WriteString("// Generated from package api by `go generate ./dashboard`; do not edit. Times are RFC 3339, durations nanoseconds.\n")
	written := map[reflect.Type]bool{}
	for _, r := range roots {
		write(&b, reflect.TypeOf(r), written)
	}
	return b.Bytes()
}

// write writes a struct behind those that it consists of.
func write(b *bytes.Buffer, t reflect.Type, written map[reflect.Type]bool) {
	if written[t] {
		return
	}
	written[t] = true
	var fields strings.Builder
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		optional := ""
		if options != "" || f.Type.Kind() == reflect.Pointer {
			optional = "?"
		}
		fmt.Fprintf(&fields, "\t%s%s: %s;\n", name, optional, typeOf(b, f.Type, written))
	}
	fmt.Fprintf(b, "\nexport interface %s {\n%s}\n", t.Name(), fields.String())
}

// typeOf names a type, and writes it first if it is a struct of ours.
func typeOf(b *bytes.Buffer, t reflect.Type, written map[reflect.Type]bool) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "number"
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "string"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Pointer:
		return typeOf(b, t.Elem(), written)
	case reflect.Slice:
		return typeOf(b, t.Elem(), written) + "[] | null"
	case reflect.Map:
		return fmt.Sprintf("Record<string, %s> | null", typeOf(b, t.Elem(), written))
	case reflect.Struct:
		write(b, t, written)
		return t.Name()
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64:
		return "number"
	}
	panic("no TypeScript for " + t.String())
}
