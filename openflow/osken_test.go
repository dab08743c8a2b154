package openflow_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"baton/openflow"
)

// toJSON turns values into what encoding/json makes of their JSON text, with numbers as they are written.
func toJSON(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(numbers(v))
	if err != nil {
		t.Fatal(err)
	}
	return fromJSON(t, text)
}

// numbers replaces values whose kind is a number by that number, as their methods would make texts of them.
func numbers(v any) any {
	r := reflect.ValueOf(v)
	switch {
	case v == nil:
		return nil
	case r.CanUint():
		return r.Uint()
	case r.Kind() == reflect.Slice:
		list := []any{}
		for i := range r.Len() {
			list = append(list, numbers(r.Index(i).Interface()))
		}
		return list
	case r.Kind() == reflect.Map:
		if r.IsNil() {
			return nil
		}
		m := map[string]any{}
		for _, k := range r.MapKeys() {
			m[k.String()] = numbers(r.MapIndex(k).Interface())
		}
		return m
	}
	return v
}

func fromJSON(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

// lengths are keys that follow from the rest; os-ken writes them, a description does not.
var lengths = map[string]bool{"len": true, "actions_len": true, "match_len": true}

// differs compares a description with os-ken's JSON: "" if they agree, else where they do not. Our nil stands for what has no
// description.
func differs(path string, ours, theirs any) string {
	switch o := ours.(type) {
	case nil:
		return ""
	case map[string]any:
		th, ok := theirs.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s: got an object, want %v", path, theirs)
		}
		for k, v := range th {
			mine, ok := o[k]
			if !ok && (lengths[k] || k == "length" || v == nil) {
				continue
			}
			if !ok {
				return fmt.Sprintf("%s: got no %s, want %v", path, k, v)
			}
			if mine == nil && v != nil && k != "oxm" && k != "field" {
				return fmt.Sprintf("%s.%s: got null, want %v", path, k, v)
			}
			if d := differs(path+"."+k, mine, v); d != "" {
				return d
			}
		}
		for k, v := range o {
			if _, ok := th[k]; !ok && v != nil {
				return fmt.Sprintf("%s: got %s, which is not wanted", path, k)
			}
		}
		return ""
	case []any:
		th, ok := theirs.([]any)
		if !ok || len(o) != len(th) {
			return fmt.Sprintf("%s: got %d elements, want %v", path, len(o), theirs)
		}
		for i := range o {
			if d := differs(fmt.Sprintf("%s[%d]", path, i), o[i], th[i]); d != "" {
				return d
			}
		}
		return ""
	}
	if ours != theirs {
		return fmt.Sprintf("%s: got %v, want %v", path, ours, theirs)
	}
	return ""
}

// TestOSKenFields: every golden packet has, field by field, what os-ken's golden JSON says of it.
func TestOSKenFields(t *testing.T) {
	packets := oskenPackets(t)
	dir, _ := filepath.Glob("../bin/python/lib/python3*/site-packages/os_ken/tests/unit/ofproto/json/of13")
	compared := 0
	for _, v := range packets {
		t.Run(v.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir[0], v.name+".packet.json"))
			if err != nil {
				t.Fatal(err)
			}
			ours := describe(roundTrip(t, v.bytes))
			if ours == nil || strings.HasSuffix(v.name, "packet_library") { // whose JSON tells the packet apart
				return
			}
			compared++
			if d := differs("", toJSON(t, ours), fromJSON(t, text)); d != "" {
				t.Error(d)
			}
		})
	}
	if compared < 100 {
		t.Errorf("only %d of %d packets were compared", compared, len(packets))
	}
}

// osken is os-ken's parser and serialiser, in a process of its own.
type osken struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func startOSKen(t *testing.T) *osken {
	t.Helper()
	oskenPackets(t) // skips if it is not there
	cmd := exec.Command("../bin/python/bin/python", "testdata/osken.py")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("os-ken: %v", err)
		}
	})
	o := &osken{in, bufio.NewScanner(out)}
	o.out.Buffer(nil, 1<<20)
	return o
}

func (o *osken) ask(t *testing.T, verb, text string) string {
	t.Helper()
	if _, err := fmt.Fprintf(o.in, "%s %s\n", verb, text); err != nil {
		t.Fatal(err)
	}
	if !o.out.Scan() {
		t.Fatalf("os-ken ended: %v", o.out.Err())
	}
	return o.out.Text()
}

// fromSwitch are the types that os-ken parses: what a switch says. The others it serialises.
var fromSwitch = map[openflow.Type]bool{
	openflow.TypeHello: true, openflow.TypeError: true, openflow.TypeFeaturesReply: true, openflow.TypeGetConfigReply: true,
	openflow.TypePacketIn: true, openflow.TypeFlowRemoved: true, openflow.TypePortStatus: true, openflow.TypeFlowMod: true,
	openflow.TypeMultipartReply: true, openflow.TypeQueueGetConfigReply: true, openflow.TypeRoleReply: true,
	openflow.TypeGetAsyncReply: true, openflow.TypeBarrierReply: true, openflow.TypeEchoReply: true,
	openflow.TypeExperimenter: true,
}

// TestOSKenAgrees: os-ken reads in the bytes of random messages what was put into them, and writes the same bytes for what it
// can say itself.
func TestOSKenAgrees(t *testing.T) {
	o := startOSKen(t)
	r := newRandom(t)
	for _, kind := range messages {
		for range 20 {
			m := r.message(kind)
			ours := describe(m)
			if reply, ok := m.(*openflow.MultipartReply); ok && reply.Body.Multipart() == openflow.MultipartExperimenter {
				ours = nil // os-ken takes the data for more of the same
			}
			if ours == nil {
				break
			}
			b, err := openflow.Append(nil, 7, m)
			if err != nil {
				t.Fatal(err)
			}
			if fromSwitch[m.Type()] {
				answer := o.ask(t, "parse", hex.EncodeToString(b))
				if strings.HasPrefix(answer, "error") {
					t.Fatalf("%T: os-ken: %s\n%s", m, answer, hex.Dump(b))
				}
				if d := differs("", toJSON(t, ours), fromJSON(t, []byte(answer))); d != "" {
					t.Fatalf("os-ken's parser: %s\nof %s", d, hex.Dump(b))
				}
			}
			if !fromSwitch[m.Type()] || m.Type() == openflow.TypeFlowMod {
				text, err := json.Marshal(numbers(ours))
				if err != nil {
					t.Fatal(err)
				}
				if answer := o.ask(t, "serialise", string(text)); answer != hex.EncodeToString(b) {
					t.Fatalf("os-ken's serialiser:\ngot  %s\nwant %x\nof %s", answer, b, text)
				}
			}
		}
	}
}
